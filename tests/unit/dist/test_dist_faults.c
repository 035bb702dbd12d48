/* Communication on the tape that is misused: an error that names it on all ranks, and no hang. */
#include "faults.h"

#include <lockstep/lockstep.h>

#include <math.h>

enum { LARGE = 5000 }; /* more elements than are buffered */

/* A tape and a leaf of `n` elements on it. */
struct side {
    lk_comm *comm;
    lk_tape *tape;
    lk_tensor *t;
    lk_var x;
};

static lk_status side_begin(lk_comm *comm, int64_t n, struct side *s)
{
    *s = (struct side){.comm = comm};
    LK_TRY(lk_comm_deadline_set(comm, 5));
    LK_TRY(lk_tape_new(&s->tape));
    LK_TRY(lk_tensor_new(LK_F64, LK_SHAPE(n), &s->t));
    LK_TRY(lk_tensor_fill_f64(s->t, 1));
    LK_TRY(lk_leaf(s->tape, s->t, NULL, &s->x));
    return LK_OK;
}

static void side_end(struct side *s)
{
    lk_tape_free(s->tape);
    lk_tensor_free(s->t);
}

typedef lk_status misuse(struct side *s, int other);

struct task {
    misuse *run;
    int64_t n;
};

static lk_status rank_runs(lk_comm *comm, void *arg)
{
    const struct task *task = arg;
    struct side s = {0};
    lk_status st;
    LK_TRY_TO(done, side_begin(comm, task->n, &s));
    LK_TRY_TO(done, task->run(&s, 1 - lk_comm_rank(comm)));
done:
    side_end(&s);
    return st;
}

/* Two ranks that both do this. */
static lk_status both(misuse *run, int64_t n)
{
    struct task task = {run, n};
    return lk_run_local(2, rank_runs, &task);
}

/* isend and irecv with the other rank. */
static lk_status begin(struct side *s, int other, lk_var *out, lk_var *in)
{
    LK_TRY(lk_dist_isend(s->comm, s->x, other, 1, "parcel", out));
    LK_TRY(lk_dist_irecv(s->tape, s->comm, other, 1, LK_F64, lk_shape_of(s->x), "parcel", in));
    return LK_OK;
}

static lk_status waits_twice(struct side *s, int other)
{
    lk_var out, in;
    LK_TRY(begin(s, other, &out, &in));
    LK_TRY(lk_dist_wait(in, NULL));
    LK_TRY(lk_dist_wait(out, NULL));
    LK_TRY(lk_dist_wait(in, NULL));
    return LK_OK;
}

static lk_status waits_for_no_handle(struct side *s, int other)
{
    (void)other;
    LK_TRY(lk_dist_wait(s->x, NULL));
    return LK_OK;
}

static lk_status waits_for_nothing(struct side *s, int other)
{
    (void)s;
    (void)other;
    LK_TRY(lk_dist_wait(LK_NO_VAR, NULL));
    return LK_OK;
}

static lk_status waits_for_any_of_the_same(struct side *s, int other)
{
    lk_var out, in;
    int which;
    LK_TRY(begin(s, other, &out, &in));
    LK_TRY(lk_dist_waitany((lk_var[]){in, out, in}, 3, &which, NULL));
    return LK_OK;
}

static lk_status forgets_to_wait(struct side *s, int other)
{
    lk_var out, in, y, sum;
    LK_TRY(begin(s, other, &out, &in));
    LK_TRY(lk_dist_wait(in, &y));
    LK_TRY(lk_sum(y, NULL, &sum));
    LK_TRY(lk_backward(s->tape, &(lk_seed){sum, NULL}, 1, 0));
    return LK_OK;
}

/* Rank 1 gets the same report in whatever it does next. */
static lk_status resets_too_early(struct side *s, int other)
{
    lk_var out, in;
    if (lk_comm_rank(s->comm) == 0) {
        LK_TRY(lk_dist_isend(s->comm, s->x, other, 1, "parcel", &out));
        lk_tape_reset(s->tape);
    } else {
        LK_TRY(lk_dist_irecv(s->tape, s->comm, other, 2, LK_F64, LK_SHAPE(1), "never", &in));
        LK_TRY(lk_dist_wait(in, NULL));
    }
    LK_TRY(lk_dist_barrier(s->tape, s->comm, "next"));
    return LK_OK;
}

static lk_status frees_the_communicator(struct side *s, int other)
{
    lk_comm *twin = NULL;
    lk_var y, sum;
    (void)other;
    LK_TRY(lk_comm_dup(s->comm, &twin));
    lk_status st = lk_dist_allreduce(twin, s->x, LK_FOLD_SUM, "weights", &y);
    lk_comm_free(twin);
    LK_TRY(st);
    LK_TRY(lk_sum(y, NULL, &sum));
    LK_TRY(lk_backward(s->tape, &(lk_seed){sum, NULL}, 1, 0));
    return LK_OK;
}

static lk_status uses_a_freed_communicator(struct side *s, int other)
{
    lk_comm *twin = NULL;
    lk_var y;
    (void)other;
    LK_TRY(lk_comm_dup(s->comm, &twin));
    lk_status st = lk_dist_barrier(s->tape, twin, "b");
    lk_comm_free(twin);
    LK_TRY(st);
    LK_TRY(lk_dist_allreduce(twin, s->x, LK_FOLD_SUM, "weights", &y));
    return LK_OK;
}

/* Rank 0's large message is under way when its communicator goes; rank 1 wants it later. */
static lk_status frees_under_way(struct side *s, int other)
{
    lk_comm *twin = NULL;
    lk_var h = LK_NO_VAR;
    lk_status st;
    LK_TRY(lk_comm_dup(s->comm, &twin));
    if (lk_comm_rank(s->comm) == 0) {
        st = lk_dist_isend(twin, s->x, other, 1, "parcel", &h);
        lk_comm_free(twin);
        LK_TRY(st);
        LK_TRY(lk_dist_wait(h, NULL));
    } else {
        LK_TRY_TO(done,
                  lk_dist_irecv(s->tape, twin, other, 1, LK_F64, lk_shape_of(s->x), "parcel", &h));
        LK_TRY_TO(done, lk_dist_wait(h, NULL));
        LK_TRY_TO(done, lk_dist_barrier(s->tape, twin, "next"));
    done:
        lk_comm_free(twin);
        LK_TRY(st);
    }
    return LK_OK;
}

/* Rank 0 sends, rank 1 receives and then goes without backward. */
static lk_status one_has_no_backward(struct side *s, int other)
{
    lk_var out, in, y, sum;
    LK_TRY(begin(s, other, &out, &in));
    LK_TRY(lk_dist_wait(in, &y));
    LK_TRY(lk_dist_wait(out, NULL));
    LK_TRY(lk_sum(y, NULL, &sum));
    if (lk_comm_rank(s->comm) == 0)
        LK_TRY(lk_backward(s->tape, &(lk_seed){sum, NULL}, 1, 0));
    return LK_OK;
}

/* Rank 0 gets a message in backward where rank 1 folds. */
static lk_status other_nodes(struct side *s, int other)
{
    lk_var out, y, sum;
    if (lk_comm_rank(s->comm) == 0) {
        LK_TRY(lk_dist_isend(s->comm, s->x, other, 1, "parcel", &out));
        LK_TRY(lk_dist_wait(out, NULL));
    } else {
        LK_TRY(lk_dist_allreduce(s->comm, s->x, LK_FOLD_SUM, "sum", &y));
        LK_TRY(lk_sum(y, NULL, &sum));
    }
    LK_TRY(lk_backward(s->tape, NULL, 0, 0));
    return LK_OK;
}

static lk_status sends_fewer(struct side *s, int other)
{
    lk_var h;
    if (lk_comm_rank(s->comm) == 0) {
        LK_TRY(lk_dist_isend(s->comm, s->x, other, 1, "parcel", &h));
    } else {
        LK_TRY(lk_dist_irecv(s->tape, s->comm, other, 1, LK_F64, LK_SHAPE(3), "parcel", &h));
    }
    LK_TRY(lk_dist_wait(h, NULL));
    return LK_OK;
}

static lk_status begins_inside(lk_tape *tape, void *arg, lk_var *out)
{
    struct side *s = arg;
    (void)tape;
    LK_TRY(lk_dist_isend(s->comm, s->x, 1 - lk_comm_rank(s->comm), 1, "parcel", out));
    return LK_OK;
}

static lk_status waits_outside_the_segment(struct side *s, int other)
{
    lk_var h;
    (void)other;
    LK_TRY(lk_recompute(s->tape, begins_inside, s, 1, &h));
    LK_TRY(lk_dist_wait(h, NULL));
    return LK_OK;
}

static lk_status sums_inside(lk_tape *tape, void *arg, lk_var *out)
{
    struct side *s = arg;
    (void)tape;
    LK_TRY(lk_dist_allreduce(s->comm, s->x, LK_FOLD_SUM, "sum", out));
    return LK_OK;
}

/* Rank 1 makes the same call once more where rank 0 runs its segment again. */
static lk_status sums_once_more(struct side *s, int other)
{
    lk_var y;
    LK_TRY(lk_recompute(s->tape, sums_inside, s, 1, &y));
    if (other == 0)
        LK_TRY(sums_inside(s->tape, s, &y));
    LK_TRY(lk_backward(s->tape, NULL, 0, 0));
    return LK_OK;
}

static lk_status sends_inside(lk_tape *tape, void *arg, lk_var *out)
{
    struct side *s = arg;
    (void)tape;
    LK_TRY(lk_dist_send(s->comm, s->x, 1, 1, "parcel", NULL));
    LK_TRY(lk_affine(s->x, 2, 0, out));
    return LK_OK;
}

static lk_status receives_outside(struct side *s, int other)
{
    lk_var y;
    LK_TRY(lk_comm_deadline_set(s->comm, 0.3));
    if (other == 1)
        LK_TRY(lk_recompute(s->tape, sends_inside, s, 1, &y));
    else
        LK_TRY(lk_dist_recv(s->tape, s->comm, 0, 1, LK_F64, lk_shape_of(s->x), "parcel", &y));
    LK_TRY(lk_backward(s->tape, NULL, 0, 0));
    return LK_OK;
}

/* Rank 2 of 3 has a tile of one row, and rank 1 wants two of them. */
static lk_status wide_halo(lk_comm *comm, void *arg)
{
    lk_status st;
    struct side s = {0};
    lk_grid g;
    lk_var y;
    int rank = lk_comm_rank(comm);
    const lk_halo h = {0, 0, 0, rank == 1 ? 2 : 1, false};
    (void)arg;
    LK_TRY_TO(done, side_begin(comm, rank == 2 ? 1 : 4, &s));
    LK_TRY_TO(done, lk_grid_make(comm, 1, (int[]){3}, NULL, &g));
    LK_TRY_TO(done, lk_dist_halo(comm, &g, s.x, &h, 1, "u", &y));
    LK_TRY_TO(done, lk_dist_barrier(s.tape, comm, "next"));
done:
    side_end(&s);
    return st;
}

/* Rank 1 has a tile of another shape across the axis. */
static lk_status other_tile(struct side *s, int other)
{
    lk_grid g;
    lk_var x, y;
    LK_TRY(lk_grid_make(s->comm, 1, (int[]){2}, NULL, &g));
    LK_TRY(lk_reshape(s->x, other == 1 ? LK_SHAPE(2, 3) : LK_SHAPE(3, 2), &x));
    LK_TRY(lk_dist_halo(s->comm, &g, x, (lk_halo[]){{0, 0, 1, 1, false}}, 1, "u", &y));
    return LK_OK;
}

static lk_status halo_with(lk_comm *comm, void *arg)
{
    lk_status st;
    struct side s = {0};
    lk_grid g;
    lk_var y;
    LK_TRY_TO(done, side_begin(comm, 3, &s));
    LK_TRY_TO(done, lk_grid_make(comm, 2, (int[]){1, 2}, NULL, &g));
    LK_TRY_TO(done, lk_dist_halo(comm, &g, s.x, arg, 2, "u", &y));
done:
    side_end(&s);
    return st;
}

static void halos_that_do_not_fit_name_both_ranks(void)
{
    ASSERT_FAILS(lk_run_local(3, wide_halo, NULL), LK_ESHAPE,
                 "halo(\"u\"): rank 1 wants 2 rows above its tile along axis 0, but its neighbour "
                 "there, rank 2, has 1, a tile [1]");
    ASSERT_FAILS(both(other_tile, 6), LK_ESHAPE, "across that axis they must be the same");
    lk_halo negative[2] = {{0, 0, -1, 1, false}};
    ASSERT_FAILS(lk_run_local(2, halo_with, negative), LK_EINVAL, "-1 and 1 rows wide");
    lk_halo twice[2] = {{0, 0, 1, 1, false}, {0, 1, 1, 1, false}};
    ASSERT_FAILS(lk_run_local(2, halo_with, twice), LK_EINVAL, "have the same axis");
    lk_halo beyond[2] = {{1, 0, 1, 1, false}};
    ASSERT_FAILS(lk_run_local(2, halo_with, beyond), LK_EINVAL, "axis 1 of a value [3]");
    ASSERT_EQ(lk_alloc_stats_get().live_blocks, 0);
}

static lk_status gathers_two_dtypes(struct side *s, int other)
{
    lk_var all[2], x = s->x;
    if (other == 0)
        LK_TRY(lk_cast(x, LK_F32, &x));
    LK_TRY(lk_dist_allgather_list(s->comm, x, "all", all));
    return LK_OK;
}

static lk_status receives_too_many(struct side *s, int other)
{
    lk_var got[1];
    lk_list list = {got, 0, 1};
    if (other == 1)
        LK_TRY(lk_dist_send_list(s->comm, (lk_var[]){s->x, s->x}, 2, other, 1, "pair", NULL));
    else
        LK_TRY(lk_dist_recv_list(s->tape, s->comm, other, 1, "pair", &list));
    return LK_OK;
}

static lk_status receives_no_list(struct side *s, int other)
{
    lk_var got[1];
    lk_list list = {got, 0, 1};
    if (other == 1)
        LK_TRY(lk_dist_send(s->comm, s->x, other, 1, "single", NULL));
    else
        LK_TRY(lk_dist_recv_list(s->tape, s->comm, other, 1, "list", &list));
    return LK_OK;
}

static void lists_that_do_not_fit_are_named(void)
{
    ASSERT_FAILS(both(gathers_two_dtypes, 1), LK_EDTYPE, "allgather_list(\"all\"): rank");
    ASSERT_FAILS(both(receives_too_many, 1), LK_EINVAL,
                 "recv_list(\"pair\"): 2 values come, and the list has room for 1");
    ASSERT_FAILS(both(receives_no_list, 1), LK_EMISMATCH, "send(\"single\", f64 x 1, tag 1)");
    ASSERT_EQ(lk_alloc_stats_get().live_blocks, 0);
}

static void handles_are_waited_for_once(void)
{
    ASSERT_FAILS(both(waits_twice, 1), LK_ESTATE, "irecv(\"parcel\") from rank");
    ASSERT_FAILS(both(waits_twice, 1), LK_ESTATE, "which was waited for before");
    ASSERT_FAILS(both(forgets_to_wait, 1), LK_ESTATE, "before isend(\"parcel\") to rank");
    ASSERT_FAILS(both(waits_for_no_handle, 1), LK_ESTATE, "is no handle");
    ASSERT_FAILS(both(waits_for_nothing, 1), LK_EINVAL, "LK_NO_VAR");
    ASSERT_FAILS(both(waits_for_any_of_the_same, 1), LK_EINVAL, "handles 0 and 2 are the same");
    ASSERT_FAILS(both(waits_outside_the_segment, 1), LK_ESTATE, "another segment");
    ASSERT_FAILS(both(sends_fewer, 2), LK_ESHAPE,
                 "irecv(\"parcel\") from rank 0 of f64[3]: it has sent f64[2]");
    ASSERT_EQ(lk_alloc_stats_get().live_blocks, 0);
}

static void segments_that_are_not_alike_are_reported(void)
{
    ASSERT_FAILS(both(sums_once_more, 2), LK_EMISMATCH,
                 "rank 0 calls allreduce(\"sum\", f64 x 2, sum, recomputed) #2 but rank 1 calls "
                 "allreduce(\"sum\", f64 x 2, sum) #2");
    ASSERT_FAILS(both(receives_outside, 1), LK_ESTALL, "recv(\"parcel.grad\") for rank 1");
    ASSERT_FAILS(both(receives_outside, LARGE), LK_ESTALL, "a circle of waits");
    ASSERT_EQ(lk_alloc_stats_get().live_blocks, 0);
}

static void a_reset_with_messages_under_way_is_told_to_all(void)
{
    for (int n = 1; n <= LARGE; n += LARGE - 1)
        ASSERT_FAILS(both(resets_too_early, n), LK_ESTATE,
                     "rank 0 has reset the tape before it has waited for isend(\"parcel\") to "
                     "rank 1");
    ASSERT_EQ(lk_alloc_stats_get().live_blocks, 0);
}

static void a_communicator_freed_too_early_is_named(void)
{
    ASSERT_FAILS(both(frees_the_communicator, 1), LK_ESTATE,
                 "backward of allreduce(\"weights\"), whose communicator was freed");
    ASSERT_FAILS(both(uses_a_freed_communicator, 1), LK_ESTATE, "the communicator was freed");
    ASSERT_FAILS(both(frees_under_way, LARGE), LK_ESTATE,
                 "isend(\"parcel\") to rank 1, whose communicator was freed");
    ASSERT_EQ(lk_alloc_stats_get().live_blocks, 0);
}

/* As many elements, but of another shape on rank 1. */
static lk_var turned(struct side *s)
{
    lk_var x = LK_NO_VAR;
    bool first = lk_comm_rank(s->comm) == 0;
    ASSERT_OK(lk_reshape(s->x, first ? LK_SHAPE(2, 3) : LK_SHAPE(3, 2), &x));
    return x;
}

static lk_status sums_other_shapes(struct side *s, int other)
{
    lk_var y;
    (void)other;
    LK_TRY(lk_dist_allreduce(s->comm, turned(s), LK_FOLD_SUM, "turned", &y));
    return LK_OK;
}

static lk_status gathers_other_shapes(struct side *s, int other)
{
    lk_var y;
    (void)other;
    LK_TRY(lk_dist_allgather(s->comm, turned(s), 0, "turned", &y));
    return LK_OK;
}

static lk_status bcasts_other_shapes(struct side *s, int other)
{
    lk_var y;
    (void)other;
    LK_TRY(lk_dist_bcast(s->comm, turned(s), 0, "turned", &y));
    return LK_OK;
}

/* Every rank has a loss of the result, which counts on the root alone. */
static lk_status seeds_a_result_elsewhere(struct side *s, int other)
{
    lk_var y, loss, gradient;
    double each;
    LK_TRY(lk_dist_reduce(s->comm, s->x, LK_FOLD_AVG, 0, "mean", &y));
    LK_TRY(lk_sum(y, NULL, &loss));
    LK_TRY(lk_grad(s->tape, &loss, NULL, 1, &s->x, 1, 0, &gradient));
    LK_TRY(lk_item(gradient, &each));
    LK_CHECK(each == 0.5 && other >= 0, LK_ESTATE, "gradient %g", each);
    LK_CHECK(lk_dist_allreduce(s->comm, s->x, LK_FOLD_SUM, "none", NULL) == LK_EINVAL, LK_ESTATE,
             "out was not refused");
    return LK_OK;
}

static void results_of_others_count_for_nothing(void)
{
    ASSERT_OK(both(seeds_a_result_elsewhere, 1));
    lk_error_clear();
}

/* Rank 0 alone has sums looked at. */
static lk_status looks_alone(struct side *s, int other)
{
    lk_var y;
    LK_TRY(lk_comm_finite_set(s->comm, other == 1));
    LK_TRY(lk_dist_allreduce(s->comm, s->x, LK_FOLD_SUM, "sum", &y));
    return LK_OK;
}

static lk_status sums_no_number(struct side *s, int other)
{
    double x = other == 1 ? 1 : (double)NAN, y;
    LK_TRY(lk_allreduce(s->comm, &x, &y, 1, LK_F64, LK_FOLD_SUM, "x"));
    return LK_OK;
}

static void the_environment_asks_for_finite_sums(void)
{
    ASSERT_OK(both(sums_no_number, 1));
    ASSERT_EQ(setenv("LK_FINITE", "1", 1), 0);
    ASSERT_FAILS(both(sums_no_number, 1), LK_ENAN,
                 "rank 1 gives nan at index 0 of allreduce(\"x\", f64 x 1, sum)");
    ASSERT_EQ(unsetenv("LK_FINITE"), 0);
    ASSERT_EQ(lk_alloc_stats_get().live_blocks, 0);
}

static void shapes_that_differ_are_shown(void)
{
    ASSERT_FAILS(both(sums_other_shapes, 6), LK_EMISMATCH, "turned[2,3]");
    ASSERT_FAILS(both(gathers_other_shapes, 6), LK_EMISMATCH, "turned[*,3]");
    ASSERT_FAILS(both(bcasts_other_shapes, 6), LK_EMISMATCH, "turned[2,3]");
    ASSERT_FAILS(both(looks_alone, 1), LK_EMISMATCH,
                 "(rank 0 looks for numbers that are not finite, rank 1 does not: ");
}

static void different_programs_end_in_a_report(void)
{
    ASSERT_FAILS(both(one_has_no_backward, 1), LK_ESTALL, "(\"parcel.grad\")");
    ASSERT_FAILS(both(other_nodes, 1), LK_ESTALL, "stall");
    ASSERT_EQ(lk_alloc_stats_get().live_blocks, 0);
}

/* Counts that do not add up, along the last axis of a value [2, 3]. */
static lk_status scatters_too_much(struct side *s, int other)
{
    lk_var x;
    (void)other;
    LK_TRY(lk_reshape(s->x, LK_SHAPE(2, 3), &x));
    LK_TRY(lk_dist_scatter(s->comm, x, 1, 2, 0, "part", &x));
    return LK_OK;
}

static lk_status reduces_too_much(struct side *s, int other)
{
    lk_var x;
    (void)other;
    LK_TRY(lk_reshape(s->x, LK_SHAPE(2, 3), &x));
    LK_TRY(lk_dist_reduce_scatter(s->comm, x, 1, 2, "part", &x));
    return LK_OK;
}

static lk_status exchanges_too_much(struct side *s, int other)
{
    lk_var x;
    int64_t n = 2;
    LK_TRY(lk_reshape(s->x, LK_SHAPE(2, 3), &x));
    LK_TRY(lk_dist_neighbour(s->comm, x, 1, &(lk_neighbours){1, &other, &n, &n, NULL}, "part", &x));
    return LK_OK;
}

/* Rank 0 sends one more than rank 1 expects. */
static lk_status expects_fewer(struct side *s, int other)
{
    lk_var x;
    int64_t send = other == 1 ? 3 : 2, receive = 2;
    LK_TRY(lk_slice(s->x, 0, 0, send, 1, &x));
    LK_TRY(lk_dist_neighbour(s->comm, x, 0, &(lk_neighbours){1, &other, &send, &receive, NULL},
                             "part", &x));
    return LK_OK;
}

static lk_status other_folds(struct side *s, int other)
{
    lk_var y;
    LK_TRY(lk_dist_allreduce(s->comm, s->x, other == 1 ? LK_FOLD_MAX : LK_FOLD_MIN, "x", &y));
    return LK_OK;
}

/* Rank 0 alone asks for pairs, with the same operator and name. */
static lk_status plain_pairs(struct side *s, int other)
{
    lk_var y;
    lk_loc pair[2] = {{{.f64 = 1}, 0}};
    if (other == 1)
        LK_TRY(lk_allreduce(s->comm, NULL, pair, 2, LK_F64, LK_FOLD_MAXLOC, "x"));
    else
        LK_TRY(lk_dist_allreduce(s->comm, s->x, LK_FOLD_MAX, "x", &y));
    return LK_OK;
}

static void counts_and_operators_are_shown_as_they_were_given(void)
{
    ASSERT_FAILS(both(scatters_too_much, 6), LK_ESHAPE,
                 "scatter: a value f64[2,3], where the counts of all ranks add up to 4 along axis "
                 "1");
    ASSERT_FAILS(both(reduces_too_much, 6), LK_ESHAPE,
                 "reduce_scatter: a value f64[2,3], where the counts of all ranks add up to 4 "
                 "along axis 1");
    ASSERT_FAILS(both(exchanges_too_much, 6), LK_ESHAPE,
                 "neighbour(\"part\"): a value f64[2,3], of which 2 along axis 1 are to be sent");
    ASSERT_FAILS(both(expects_fewer, 6), LK_EMISMATCH,
                 "neighbour(\"part\", f64, counts by rank) #1 (rank 0 sends 3 elements to rank 1, "
                 "which expects 2)");
    ASSERT_FAILS(both(other_folds, 2), LK_EMISMATCH,
                 "rank 0 calls allreduce(\"x\", f64 x 2, max) #1 but rank 1 calls allreduce(\"x\", "
                 "f64 x 2, min) #1");
    ASSERT_FAILS(both(plain_pairs, 2), LK_EMISMATCH,
                 "rank 0 calls allreduce(\"x\", f64 x 2, maxloc) #1 but rank 1 calls "
                 "allreduce(\"x\", f64 x 2, max) #1");
    ASSERT_EQ(lk_alloc_stats_get().live_blocks, 0);
}

/* A value from before the reset is refused by each call, before it communicates. */
static lk_status uses_old_values(struct side *s, int other)
{
    lk_var old, y, z, list[2], norm[3];
    lk_comm *c = s->comm;
    const int64_t one = 1;
    lk_grid g;
    lk_list values = {list, 2, 2};
    LK_TRY(lk_reshape(s->x, LK_SHAPE(1, 1), &old));
    lk_tape_reset(s->tape);
    LK_TRY(lk_full(s->tape, LK_F64, LK_SHAPE(1), 1, &y)); /* takes its place */
    list[0] = y;
    list[1] = old;
    LK_TRY(lk_grid_make(c, 1, (int[]){2}, NULL, &g));
    const lk_dist_batch batch = {.comm = c, .samples = 2};
    const lk_send_part to = {old, other, 1};
    const lk_recv_part from = {other, 1, LK_F64, LK_SHAPE(1)};
#define REFUSES(call) ASSERT_FAILS(call, LK_ESTATE, "used after lk_tape_reset()")
    REFUSES(lk_dist_allreduce(c, old, LK_FOLD_SUM, "old", &z));
    REFUSES(lk_dist_allreduce(c, old, LK_FOLD_MAX, "old", &z));
    REFUSES(lk_dist_reduce(c, old, LK_FOLD_SUM, 0, "old", &z));
    REFUSES(lk_dist_allreduce_loc(c, old, LK_NO_VAR, LK_FOLD_MAXLOC, "old", &z, &z));
    REFUSES(lk_dist_reduce_loc(c, old, LK_NO_VAR, LK_FOLD_MAXLOC, 0, "old", &z, &z));
    REFUSES(lk_dist_bcast(c, old, 0, "old", &z));
    REFUSES(lk_dist_allgather(c, old, 1, "old", &z));
    REFUSES(lk_dist_reduce_scatter(c, old, 1, 1, "old", &z));
    REFUSES(lk_dist_gather(c, old, 1, 0, "old", &z));
    REFUSES(lk_dist_scatter(c, old, 1, 1, 0, "old", &z));
    REFUSES(lk_dist_alltoall(c, old, 1, 0, 1, "old", &z));
    REFUSES(lk_dist_batch_norm(&batch, old, y, y, NULL, "old", norm));
    REFUSES(lk_dist_neighbour(c, old, 1, &(lk_neighbours){1, &other, &one, &one, NULL}, "old", &z));
    REFUSES(lk_dist_halo(c, &g, old, (lk_halo[]){{1, 0, 1, 1, false}}, 1, "old", &z));
    REFUSES(lk_dist_send(c, old, other, 1, "old", NULL));
    REFUSES(lk_dist_isend(c, old, other, 1, "old", &z));
    REFUSES(lk_dist_sendrecv(s->tape, c, &to, &from, "old", &z));
    REFUSES(lk_dist_send_list(c, list, 2, other, 1, "old", NULL));
    REFUSES(lk_dist_allreduce_list(c, list, 2, LK_FOLD_SUM, "old", norm));
    REFUSES(lk_dist_allgather_list(c, old, "old", norm));
    REFUSES(lk_dist_gather_list(c, old, 0, "old", norm));
    REFUSES(lk_dist_alltoall_list(c, list, "old", norm));
    REFUSES(lk_join(old, &y, 1, &z));
    REFUSES(lk_join_handle(old, &y, 1, &z));
    REFUSES(lk_pseudo_connect(y, &old, 1, &z));
    if (other == 1) {
        REFUSES(lk_dist_bcast_list(s->tape, c, 0, "old", &values));
        REFUSES(lk_dist_scatter_list(s->tape, c, list, 0, "old", &z));
    }
#undef REFUSES
    ASSERT_EQ(lk_dist_wait(old, NULL), LK_ESTATE);
    LK_TRY(lk_dist_barrier(s->tape, c, "still there"));
    LK_TRY(lk_backward(s->tape, NULL, 0, 0));
    return LK_OK;
}

static void values_from_before_a_reset_are_refused(void)
{
    ASSERT_OK(both(uses_old_values, 1));
    ASSERT_EQ(lk_alloc_stats_get().live_blocks, 0);
}

/* Rank 0 has no memory for what it is to receive, and comes to the next call all the same. */
static lk_status has_no_memory(struct side *s, int other)
{
    lk_var y;
    if (other == 0) {
        LK_TRY(lk_dist_send(s->comm, s->x, 0, 1, "much", NULL));
        return LK_OK;
    }
    ASSERT_FAILS(
        lk_dist_recv(s->tape, s->comm, 1, 1, LK_F64, LK_SHAPE(INT64_C(1) << 58), "much", &y),
        LK_ENOMEM, "no memory for");
    ASSERT_FAILS(lk_dist_barrier(s->tape, s->comm, "next"), LK_ECOMM,
                 "rank 0 failed: out of memory: no memory for");
    return LK_OK;
}

static void memory_that_has_run_out_is_told_to_all(void)
{
    ASSERT_FAILS(both(has_no_memory, LARGE), LK_ECOMM,
                 "rank 1: rank 0 failed: out of memory: no memory for");
    ASSERT_EQ(lk_alloc_stats_get().live_blocks, 0);
}

static lk_status exchanges(lk_tape *tape, void *arg, lk_var *y)
{
    struct side *s = arg;
    lk_var out, in;
    (void)tape;
    LK_TRY(begin(s, 1 - lk_comm_rank(s->comm), &out, &in));
    LK_TRY(lk_dist_wait(in, y));
    LK_TRY(lk_dist_wait(out, NULL));
    LK_TRY(lk_square(*y, y));
    return LK_OK;
}

static lk_status works(struct side *s, int other)
{
    lk_var y, z, g, sum;
    double one = 1, two;
    lk_request *request = NULL;
    (void)other;
    LK_TRY(lk_comm_finite_set(s->comm, true));
    LK_TRY(lk_coll_start(
        s->comm,
        &(lk_collective){
            .call = LK_CALL_ALLREDUCE, .in = &one, .out = &two, .count = 1, .dtype = LK_F64},
        &request));
    LK_TRY(lk_wait(&request, NULL));
    LK_TRY(exchanges(s->tape, s, &z));
    LK_TRY(lk_recompute(s->tape, exchanges, s, 1, &y));
    LK_TRY(lk_add(y, z, &y));
    LK_TRY(lk_sum(y, NULL, &sum));
    LK_TRY(lk_grad(s->tape, &sum, NULL, 1, &s->x, 1, LK_RECORD, &g));
    LK_TRY(lk_mul(g, s->x, &z));
    LK_TRY(lk_sum(z, NULL, &sum));
    lk_var pair[2] = {s->x, sum}, all[2];
    lk_list list = {all, 0, 2};
    LK_TRY(lk_dist_allreduce_list(s->comm, pair, 2, LK_FOLD_SUM, "pair", pair));
    LK_TRY(lk_dist_allgather_list(s->comm, pair[1], "all", all));
    list.n = 1;
    LK_TRY(lk_dist_bcast_list(s->tape, s->comm, 1, "list", &list));
    LK_TRY(lk_backward(s->tape, &(lk_seed){all[0], NULL}, 1, 0));
    return LK_OK;
}

static lk_status two_ranks_work(void)
{
    return both(works, LARGE);
}

static void every_allocation_may_fail(void)
{
    ASSERT_OK(two_ranks_work());
    ASSERT_TRUE(test_allocations_fail_but(two_ranks_work, 8) > 30);
}

TEST_MAIN(TEST(handles_are_waited_for_once), TEST(segments_that_are_not_alike_are_reported),
          TEST(a_reset_with_messages_under_way_is_told_to_all),
          TEST(halos_that_do_not_fit_name_both_ranks),
          TEST(a_communicator_freed_too_early_is_named), TEST(lists_that_do_not_fit_are_named),
          TEST(different_programs_end_in_a_report), TEST(shapes_that_differ_are_shown),
          TEST(counts_and_operators_are_shown_as_they_were_given),
          TEST(values_from_before_a_reset_are_refused),
          TEST(memory_that_has_run_out_is_told_to_all), TEST(the_environment_asks_for_finite_sums),
          TEST(results_of_others_count_for_nothing), TEST(every_allocation_may_fail))
