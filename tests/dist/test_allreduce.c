/* allreduce: every algorithm gives the bits of the fixed tree, for any ranks, counts and pieces. */
#include "ranks.h"

#include <lockstep/coll.h>
#include <lockstep/reduce.h>

/* Values whose sum depends on the order, by piece and element. */
static float value_of(int64_t piece, int64_t i)
{
    uint32_t x = (uint32_t)(piece * 7919 + i) * 2654435761U;
    x ^= x >> 15;
    return (float)((double)x / 4294967296.0 - 0.5) * (float)(1 << x % 13);
}

/* The tree over pieces [first, first + n), as reduce.h says. */
static void tree_of(int64_t first, int64_t n, int64_t count, float *out)
{
    lk_tree *t;
    float *piece;
    ASSERT_OK(lk_tree_new(LK_F32, count, &t));
    ASSERT_OK(lk_alloc(&piece, count, sizeof *piece));
    for (int64_t p = first; p < first + n; p++) {
        for (int64_t i = 0; i < count; i++)
            piece[i] = value_of(p, i);
        ASSERT_OK(lk_tree_push(t, piece));
    }
    ASSERT_OK(lk_tree_finish(t, out));
    lk_tree_free(t);
    lk_free(piece);
}

/* Every rank gives its nodes and gets the tree over all. */
static void check_pieces(lk_comm *comm, const char *algorithm, int64_t pieces, int64_t count)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    lk_node node[LK_MAX_NODES];
    int n = lk_run_nodes(lk_run_of(pieces, rank, size), node);
    float *in, *out, *want;
    ASSERT_OK(lk_alloc(&in, n * count, sizeof *in));
    ASSERT_OK(lk_alloc(&out, count, sizeof *out));
    ASSERT_OK(lk_alloc(&want, count, sizeof *want));
    for (int k = 0; k < n; k++)
        tree_of(node[k].first, node[k].n, count, in + k * count);
    tree_of(0, pieces, count, want);
    ASSERT_OK(lk_coll_run(comm, &(lk_collective){.call = LK_CALL_ALLREDUCE,
                                                 .name = "pieces",
                                                 .algorithm = algorithm,
                                                 .in = in,
                                                 .out = out,
                                                 .count = count,
                                                 .dtype = LK_F32,
                                                 .fold = LK_FOLD_SUM,
                                                 .pieces = pieces}));
    ASSERT_SAME_BITS(out, want, count * 4);
    lk_free(in);
    lk_free(out);
    lk_free(want);
}

/* Call `check` for every allreduce algorithm. */
#define FOR_EACH_ALGORITHM(about)                                         \
    lk_coll_about about;                                                  \
    for (int about##_i = 0; lk_coll_list(about##_i, &about); about##_i++) \
        if (strcmp(about.call, "allreduce") == 0)

static void pieces_give_the_same_bits_on_any_ranks(lk_comm *comm)
{
    int size = lk_comm_size(comm);
    const int64_t counts[] = {0, 1, size - 1, size, size + 1, 1009};
    static const int64_t pieces[] = {1, 2, 5, 8, 13, 64, 100};
    FOR_EACH_ALGORITHM(a)
    {
        for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++)
            for (size_t p = 0; p < sizeof pieces / sizeof pieces[0]; p++)
                check_pieces(comm, a.name, pieces[p], counts[c]);
        check_pieces(comm, a.name, 16, 20011);
    }
}

static void uneven_runs_change_nothing(lk_comm *comm)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    enum { PIECES = 21, COUNT = 33 };
    int64_t first[9] = {0}; /* all but the last piece on the first rank; middle ones have none */
    for (int r = 1; r <= size; r++)
        first[r] = r == size ? PIECES : PIECES - 1;
    lk_node node[LK_MAX_NODES];
    int n = lk_run_nodes((lk_run){PIECES, first[rank], first[rank + 1] - first[rank]}, node);
    float in[LK_MAX_NODES * COUNT], out[COUNT], want[COUNT];
    for (int k = 0; k < n; k++)
        tree_of(node[k].first, node[k].n, COUNT, in + k * COUNT);
    tree_of(0, PIECES, COUNT, want);
    FOR_EACH_ALGORITHM(a)
    {
        ASSERT_OK(lk_coll_run(comm, &(lk_collective){.call = LK_CALL_ALLREDUCE,
                                                     .algorithm = a.name,
                                                     .in = in,
                                                     .out = out,
                                                     .count = COUNT,
                                                     .dtype = LK_F32,
                                                     .pieces = PIECES,
                                                     .first = first}));
        ASSERT_SAME_BITS(out, want, sizeof want);
    }
}

static void operators_work_on_every_dtype(lk_comm *comm)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    int64_t x = rank + 1, sum, product = 1, low, all, any, odd, parity = 0;
    for (int r = 1; r <= size; r++) {
        product *= r;
        parity ^= r;
    }
    ASSERT_OK(lk_allreduce(comm, &x, &sum, 1, LK_I64, LK_FOLD_SUM, "sum"));
    ASSERT_EQ(sum, size * (size + 1) / 2);
    ASSERT_OK(lk_allreduce(comm, &x, &sum, 1, LK_I64, LK_FOLD_PROD, "prod"));
    ASSERT_EQ(sum, product);
    ASSERT_OK(lk_allreduce(comm, &x, &low, 1, LK_I64, LK_FOLD_MIN, "min"));
    ASSERT_EQ(low, 1);
    ASSERT_OK(lk_allreduce(comm, &x, &all, 1, LK_I64, LK_FOLD_MAX, "max"));
    ASSERT_EQ(all, size);
    ASSERT_OK(lk_allreduce(comm, &x, &any, 1, LK_I64, LK_FOLD_AND, "and"));
    ASSERT_EQ(any, size == 1 ? 1 : 0);
    ASSERT_OK(lk_allreduce(comm, &x, &odd, 1, LK_I64, LK_FOLD_XOR, "xor"));
    ASSERT_EQ(odd, parity);
    double y = rank, mean;
    ASSERT_OK(lk_allreduce(comm, &y, &mean, 1, LK_F64, LK_FOLD_AVG, "avg"));
    ASSERT_TRUE(mean == (double)(size - 1) / 2);
    uint8_t small = 200, wrapped;
    ASSERT_OK(lk_allreduce(comm, &small, &wrapped, 1, LK_U8, LK_FOLD_SUM, "wraps"));
    ASSERT_EQ(wrapped, 200 * size % 256);
    int32_t in_place = rank;
    ASSERT_OK(lk_allreduce(comm, NULL, &in_place, 1, LK_I32, LK_FOLD_OR, "in place"));
    ASSERT_EQ(in_place, size == 1 ? 0 : size == 2 ? 1 : size <= 4 ? 3 : 7);
}

static void several_at_once_may_be_waited_for_in_any_order(lk_comm *comm)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    enum { N = 6 };
    int64_t x[N], y[N];
    lk_request *r[N];
    for (int i = 0; i < N; i++) {
        x[i] = rank + i;
        ASSERT_OK(lk_coll_start(
            comm,
            &(lk_collective){
                .call = LK_CALL_ALLREDUCE, .in = &x[i], .out = &y[i], .count = 1, .dtype = LK_I64},
            &r[i]));
    }
    for (int i = 0; i < N; i++) {
        int k = rank % 2 ? i : N - 1 - i;
        ASSERT_OK(lk_wait(&r[k], NULL));
        ASSERT_EQ(y[k], size * (size - 1) / 2 + size * k);
    }
    ASSERT_OK(lk_barrier(comm, "end"));
}

static void bcast_reaches_all_from_any_root(lk_comm *comm)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    for (int root = 0; root < size; root++) {
        int64_t x[1009];
        for (int i = 0; i < 1009; i++)
            x[i] = rank == root ? root * 10000 + i : -1;
        ASSERT_OK(lk_bcast(comm, x, 1009, LK_I64, root, "bcast"));
        for (int i = 0; i < 1009; i++)
            ASSERT_EQ(x[i], root * 10000 + i);
    }
}

static void bad_arguments_are_refused(lk_comm *comm)
{
    float x = 1;
    lk_collective c = {.call = LK_CALL_ALLREDUCE, .out = &x, .count = 1, .dtype = LK_F32};
    lk_collective bad = c;
    bad.algorithm = "nope";
    ASSERT_FAILS(lk_coll_run(comm, &bad), LK_EINVAL,
                 "no allreduce algorithm named \"nope\"; the names are");
    bad = c, bad.fold = LK_FOLD_XOR;
    ASSERT_FAILS(lk_coll_run(comm, &bad), LK_EDTYPE, "no xor of f32");
    bad = c, bad.count = -1;
    ASSERT_FAILS(lk_coll_run(comm, &bad), LK_EINVAL, "-1 elements");
    bad = c, bad.out = NULL;
    ASSERT_FAILS(lk_coll_run(comm, &bad), LK_EINVAL, "NULL");
    bad = c, bad.pieces = -2;
    ASSERT_FAILS(lk_coll_run(comm, &bad), LK_EINVAL, "-2 pieces");
    bad = c, bad.pieces = 3 * lk_comm_size(comm);
    if (lk_comm_rank(comm) == 0 && lk_comm_size(comm) > 1)
        ASSERT_FAILS(lk_coll_run(comm, &bad), LK_EINVAL, "cannot be in place");
}

RANKS_MAIN(TEST(pieces_give_the_same_bits_on_any_ranks), TEST(uneven_runs_change_nothing),
           TEST(operators_work_on_every_dtype),
           TEST(several_at_once_may_be_waited_for_in_any_order),
           TEST(bcast_reaches_all_from_any_root), TEST(bad_arguments_are_refused))
