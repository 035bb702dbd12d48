/* Sums that are refused where a rank gives a NaN or an infinity: lk_comm_set_finite_check(). */
#include "ranks.h"

#include <lockstep/ddl.h>
#include <lockstep/extra/algorithms.h>
#include <lockstep/extra/half.h>
#include <lockstep/lockstep.h>

#include <math.h>
#include <string.h>
#include <unistd.h>

enum { MOST_RANKS = 16, COUNT = 6, MESSAGE = 200 };

/* How the call is made, and ended. */
enum way { RUN, IN_PLACE, WAIT, TEST_LOOP, WAITALL, WAITANY, N_WAYS };

static void put(lk_dtype dtype, void *data, int64_t i, double value)
{
    switch (dtype) {
    case LK_F16: ((uint16_t *)data)[i] = lk_f16_encode((float)value); break;
    case LK_BF16: ((uint16_t *)data)[i] = lk_bf16_encode((float)value); break;
    case LK_F32: ((float *)data)[i] = (float)value; break;
    default: ((double *)data)[i] = value; break;
    }
}

/* All ranks have the same message. */
static void expect_same_everywhere(lk_comm *comm, const char *message)
{
    char mine[MESSAGE] = "", all[MOST_RANKS][MESSAGE];
    snprintf(mine, sizeof mine, "%.*s", MESSAGE - 1, message);
    ASSERT_OK(lk_allgather(comm, mine, all, MESSAGE, LK_U8, "messages"));
    for (int r = 0; r < lk_comm_size(comm); r++)
        ASSERT_TRUE(strcmp(all[r], mine) == 0);
}

/* Begin the call and end it in the way that is asked for. */
static lk_status begin_and_end(lk_comm *comm, const lk_collective *c, enum way way)
{
    lk_request *r[2] = {NULL, NULL};
    bool done = false;
    int64_t which;
    LK_TRY(lk_coll_start(comm, c, &r[1]));
    if (way == WAIT)
        LK_TRY(lk_wait(&r[1], NULL));
    while (way == TEST_LOOP && !done) {
        LK_TRY(lk_test(&r[1], &done, NULL));
        usleep(done ? 0 : 50); /* others may need the core */
    }
    if (way == WAITALL)
        LK_TRY(lk_waitall(2, r));
    if (way == WAITANY)
        LK_TRY(lk_waitany(2, r, &which, NULL));
    ASSERT_TRUE(!r[1]);
    return LK_OK;
}

struct given {
    lk_comm_call call;
    lk_dtype dtype;
    const char *algorithm;
    enum way way;
    int bad; /* ranks from this one on give `value` at the index of their number */
    double value;
};

static lk_status sum_up(lk_comm *comm, const struct given *g)
{
    double in[COUNT * MOST_RANKS], out[COUNT * MOST_RANKS];
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    int64_t n = g->call == LK_CALL_REDUCE_SCATTER ? COUNT * size : COUNT;
    memset(out, 0, sizeof out);
    for (int64_t i = 0; i < n; i++)
        put(g->dtype, in, i, 1);
    if (rank >= g->bad)
        put(g->dtype, in, rank % COUNT, g->value);
    lk_collective c = {.call = g->call,
                       .name = "layer.grad",
                       .algorithm = g->algorithm,
                       .in = in,
                       .out = out,
                       .count = COUNT,
                       .dtype = g->dtype,
                       .op = LK_REDUCE_SUM,
                       .root = size - 1};
    if (g->way == IN_PLACE)
        c.in = NULL, c.out = in;
    if (g->way == RUN || g->way == IN_PLACE)
        LK_TRY(lk_coll_run(comm, &c));
    else
        LK_TRY(begin_and_end(comm, &c, g->way));
    return LK_OK;
}

static void expect_refused(lk_comm *comm, const struct given *g)
{
    char want[MESSAGE];
    snprintf(want, sizeof want, "rank %d gives %s at index %d of %s(\"layer.grad\", %s x %d, sum)",
             g->bad, isnan(g->value) ? "nan" : "inf", g->bad % COUNT, lk_comm_call_name(g->call),
             lk_dtype_name(g->dtype), COUNT);
    ASSERT_FAILS(sum_up(comm, g), LK_ENAN, want);
    expect_same_everywhere(comm, lk_error_message());
}

RANKS_TEST(the_lowest_rank_is_named_on_all)
{
    static const lk_comm_call calls[] = {LK_CALL_ALLREDUCE, LK_CALL_REDUCE, LK_CALL_REDUCE_SCATTER};
    static const lk_dtype dtypes[] = {LK_F16, LK_BF16, LK_F32, LK_F64};
    static const double values[] = {(double)NAN, (double)INFINITY, -(double)INFINITY};
    int size = lk_comm_size(comm);
    ASSERT_OK(lk_comm_set_finite_check(comm, true));
    for (int i = 0; i < 3 * 4 * N_WAYS; i++) {
        struct given g = {.call = calls[i % 3],
                          .dtype = dtypes[i / 3 % 4],
                          .way = (enum way)(i / 12),
                          .bad = i % 2 ? size - 1 : 0,
                          .value = values[i % 3 == 0 ? 0 : 1 + i % 2]};
        expect_refused(comm, &g);
        g.bad = size; /* and the next call is as any other */
        ASSERT_OK(sum_up(comm, &g));
    }
}

RANKS_TEST(every_algorithm_is_watched)
{
    lk_coll_info about;
    int n = 0;
    ASSERT_OK(lk_comm_set_finite_check(comm, true));
    for (int i = 0; lk_coll_list(i, &about); i++) {
        struct given g = {.call = strcmp(about.call, "reduce") == 0      ? LK_CALL_REDUCE
                                  : strcmp(about.call, "allreduce") == 0 ? LK_CALL_ALLREDUCE
                                                                         : LK_CALL_REDUCE_SCATTER,
                          .dtype = LK_F32,
                          .algorithm = about.name,
                          .bad = lk_comm_size(comm),
                          .value = (double)NAN};
        if (strcmp(about.call, lk_comm_call_name(g.call)) != 0 || about.alias ||
            about.benchmark_only || sum_up(comm, &g) == LK_ENOTSUP)
            continue;
        g.bad = lk_comm_size(comm) / 2;
        expect_refused(comm, &g);
        n++;
    }
    ASSERT_TRUE(n >= 3);
}

/* Of several vectors, which a rank gives for its pieces, and of parts with gaps. */
RANKS_TEST(nodes_and_parts_are_watched)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    float in[3 * MOST_RANKS * 4] = {0}, out[3 * MOST_RANKS];
    int64_t counts[MOST_RANKS], offsets[MOST_RANKS];
    ASSERT_OK(lk_comm_set_finite_check(comm, true));
    lk_collective c = {.call = LK_CALL_ALLREDUCE,
                       .name = "pieces",
                       .in = in,
                       .out = out,
                       .count = 3,
                       .dtype = LK_F32,
                       .pieces = 3 * size,
                       .stride = 4};
    in[3] = NAN; /* between the vectors */
    ASSERT_OK(lk_coll_run(comm, &c));
    int last = lk_range_subtrees(3 * size, lk_range_split(3 * size, 0, size), NULL) - 1;
    in[4 * last + 1] = rank == 0 ? INFINITY : 0;
    ASSERT_FAILS(lk_coll_run(comm, &c), LK_ENAN,
                 "rank 0 gives inf at index 1 of allreduce(\"pieces\"");
    for (int r = 0; r < size; r++) {
        counts[r] = 2;
        offsets[r] = 3 * r;
    }
    memset(in, 0, sizeof in);
    c = (lk_collective){.call = LK_CALL_REDUCE_SCATTER,
                        .name = "parts",
                        .in = in,
                        .out = out,
                        .counts = counts,
                        .offsets = offsets,
                        .dtype = LK_F32};
    in[2] = NAN; /* between the parts */
    ASSERT_OK(lk_coll_run(comm, &c));
    in[3 * (size - 1) + 1] = rank == size - 1 ? NAN : 0;
    char want[MESSAGE];
    snprintf(want, sizeof want, "rank %d gives nan at index %d of reduce_scatter(\"parts\"",
             size - 1, 3 * (size - 1) + 1);
    ASSERT_FAILS(lk_coll_run(comm, &c), LK_ENAN, want);
}

/* Several under way, of which one fails: the others are complete. */
RANKS_TEST(of_several_requests_one_fails)
{
    double in[3] = {1, 2, 3}, out[3] = {0};
    lk_request *r[3];
    ASSERT_OK(lk_comm_set_finite_check(comm, true));
    in[1] = lk_comm_rank(comm) == 0 ? (double)NAN : 2;
    for (int i = 0; i < 3; i++)
        ASSERT_OK(lk_coll_start(comm,
                                &(lk_collective){.call = LK_CALL_ALLREDUCE,
                                                 .name = "one of three",
                                                 .in = &in[i],
                                                 .out = &out[i],
                                                 .count = 1,
                                                 .dtype = LK_F64},
                                &r[i]));
    ASSERT_FAILS(lk_waitall(3, r), LK_ENAN, "rank 0 gives nan at index 0 of");
    ASSERT_TRUE(!r[0] && !r[1] && !r[2]);
    ASSERT_TRUE(out[0] == lk_comm_size(comm) && out[2] == 3 * lk_comm_size(comm));
}

/* Off unless asked for; and other operators and integers are nobody's business. */
RANKS_TEST(what_is_not_asked_for_passes)
{
    float x = NAN, y = 0;
    int64_t k = INT64_MAX, m = 0;
    lk_comm *own;
    ASSERT_OK(lk_allreduce(comm, &x, &y, 1, LK_F32, LK_REDUCE_SUM, "off"));
    ASSERT_TRUE(isnan(y));
    ASSERT_OK(lk_comm_set_finite_check(comm, true));
    ASSERT_OK(lk_comm_dup(comm, &own)); /* as the one it is made from */
    ASSERT_OK(lk_allreduce(own, &x, &y, 1, LK_F32, LK_REDUCE_MAX, "max"));
    ASSERT_OK(lk_allreduce(own, &k, &m, 1, LK_I64, LK_REDUCE_SUM, "integers"));
    ASSERT_FAILS(lk_allreduce(own, &x, &y, 1, LK_F32, LK_REDUCE_AVG, "on"), LK_ENAN,
                 "rank 0 gives nan at index 0 of allreduce(\"on\", f32 x 1, avg): it has diverged");
    ASSERT_OK(lk_comm_set_finite_check(own, false));
    ASSERT_OK(lk_allreduce(own, &x, &y, 1, LK_F32, LK_REDUCE_AVG, "off"));
    lk_comm_close(own);
    ASSERT_FAILS(lk_comm_set_finite_check(NULL, true), LK_EINVAL, "comm is NULL");
}

RANKS_TEST(ddl_is_watched)
{
    bool mpi = strcmp(lk_comm_transport(comm), "mpi") == 0;
    float x[2][4];
    ASSERT_OK(lk_comm_set_finite_check(comm, true));
    lk_ddl *d;
    ASSERT_OK(lk_ddl_init(comm, 0, "", &d));
    for (int by_mpi = 0; by_mpi <= mpi; by_mpi++) {
        memset(x, 0, sizeof x);
        if (lk_comm_rank(comm) == 0)
            x[0][2] = NAN;
        const lk_ddl_allreduce_options how = {.mpi = by_mpi};
        const lk_ddl_tensor t[2] = {{.name = "w", .out = x[0], .count = 4, .dtype = LK_F32},
                                    {.name = "v", .out = x[1], .count = 4, .dtype = LK_F32}};
        ASSERT_FAILS(lk_ddl_allreduce(d, t, &how), LK_ENAN,
                     "rank 0 gives nan at index 2 of allreduce(\"w\"");
        ASSERT_OK(lk_ddl_allreduce(d, t + 1, &how));
    }
    lk_ddl_free(d);
}

/* Forward, and in backward, where the name says that it is a gradient. */
RANKS_TEST(the_tape_is_watched)
{
    int rank = lk_comm_rank(comm);
    lk_tape *tape;
    lk_tensor *t, *grad;
    lk_var x, y;
    ASSERT_OK(lk_comm_set_finite_check(comm, true));
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_tensor_new(LK_F64, LK_SHAPE(1), &t));
    ASSERT_OK(lk_tensor_new(LK_F64, LK_SHAPE(1), &grad));
    ASSERT_OK(lk_tensor_fill_f64(t, 1));
    ASSERT_OK(lk_tensor_fill_f64(grad, rank == 0 ? (double)NAN : 1));
    ASSERT_OK(lk_leaf(tape, t, NULL, &x));
    ASSERT_OK(lk_dist_allreduce(comm, x, LK_REDUCE_SUM, "x", &y));
    ASSERT_FAILS(lk_backward(tape, &(lk_seed){y, grad}, 1, 0), LK_ENAN,
                 "rank 0 gives nan at index 0 of allreduce(\"x.grad\"");
    lk_tape_reset(tape);
    ASSERT_OK(lk_leaf(tape, grad, NULL, &x));
    ASSERT_FAILS(lk_dist_allreduce(comm, x, LK_REDUCE_SUM, "x", &y), LK_ENAN,
                 "rank 0 gives nan at index 0 of allreduce(\"x\"");
    ASSERT_OK(lk_barrier(comm, "still there"));
    lk_tape_free(tape);
    lk_tensor_free(t);
    lk_tensor_free(grad);
}
