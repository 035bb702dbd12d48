/* allreduce: every algorithm gives the bits of the fixed tree, for any ranks, counts and pieces. */
#include "collectives.h"

#include <lockstep/extra/reduce.h>

/* The tree over pieces [first, first + n), as reduce.h says. */
static void tree_of(int64_t first, int64_t n, int64_t count, float *out)
{
    lk_tree *t;
    float *piece;
    ASSERT_OK(lk_tree_new(LK_F32, count, &t));
    ASSERT_OK(lk_alloc(&piece, count, sizeof *piece));
    for (int64_t p = first; p < first + n; p++) {
        for (int64_t i = 0; i < count; i++)
            piece[i] = real_of(p, i);
        ASSERT_OK(lk_tree_push(t, piece));
    }
    ASSERT_OK(lk_tree_finish(t, out));
    lk_tree_free(t);
    lk_free(piece);
}

/* Every rank gives its nodes and gets the tree over all, as lk_tree has it. */
static void check_pieces(lk_comm *comm, int64_t pieces, int64_t count)
{
    float *in = input_of(comm, LK_REDUCE_SUM, LK_F32, pieces, count), *out, *want;
    ASSERT_OK(lk_alloc(&out, count, sizeof *out));
    ASSERT_OK(lk_alloc(&want, count, sizeof *want));
    tree_of(0, pieces, count, want);
    lk_collective c = {.call = LK_CALL_ALLREDUCE,
                       .name = "pieces",
                       .in = in,
                       .out = out,
                       .count = count,
                       .dtype = LK_F32,
                       .pieces = pieces};
    FOR_EACH_ALGORITHM(comm, &c)
    {
        ASSERT_OK(lk_coll_run(comm, &c));
        ASSERT_SAME_BITS(out, want, count * 4);
    }
    lk_free(in);
    lk_free(out);
    lk_free(want);
}

RANKS_TEST(pieces_give_the_same_bits_on_any_ranks)
{
    static const int64_t pieces[] = {1, 2, 5, 8, 13, 64, 100};
    for (size_t p = 0; p < sizeof pieces / sizeof pieces[0]; p++)
        check_pieces(comm, pieces[p], 101);
    check_pieces(comm, 16, 20011);
}

RANKS_TEST(uneven_runs_change_nothing)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    enum { PIECES = 21, COUNT = 33 };
    int64_t first[9] = {0}; /* all but the last piece on the first rank; middle ones have none */
    for (int r = 1; r <= size; r++)
        first[r] = r == size ? PIECES : PIECES - 1;
    lk_range node[LK_MAX_SUBTREES];
    int n = lk_range_subtrees(PIECES, (lk_range){first[rank], first[rank + 1] - first[rank]}, node);
    float in[LK_MAX_SUBTREES * COUNT], out[COUNT], want[COUNT];
    for (int k = 0; k < n; k++)
        tree_of(node[k].first, node[k].n, COUNT, in + k * COUNT);
    tree_of(0, PIECES, COUNT, want);
    lk_collective c = {.call = LK_CALL_ALLREDUCE,
                       .in = in,
                       .out = out,
                       .count = COUNT,
                       .dtype = LK_F32,
                       .pieces = PIECES,
                       .first = first};
    FOR_EACH_ALGORITHM(comm, &c)
    {
        ASSERT_OK(lk_coll_run(comm, &c));
        ASSERT_SAME_BITS(out, want, sizeof want);
    }
}

RANKS_TEST(operators_work_on_every_dtype)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    int64_t x = rank + 1, sum, product = 1, low, all, any, odd, parity = 0;
    for (int r = 1; r <= size; r++) {
        product *= r;
        parity ^= r;
    }
    ASSERT_OK(lk_allreduce(comm, &x, &sum, 1, LK_I64, LK_REDUCE_SUM, "sum"));
    ASSERT_EQ(sum, size * (size + 1) / 2);
    ASSERT_OK(lk_allreduce(comm, &x, &sum, 1, LK_I64, LK_REDUCE_PROD, "prod"));
    ASSERT_EQ(sum, product);
    ASSERT_OK(lk_allreduce(comm, &x, &low, 1, LK_I64, LK_REDUCE_MIN, "min"));
    ASSERT_EQ(low, 1);
    ASSERT_OK(lk_allreduce(comm, &x, &all, 1, LK_I64, LK_REDUCE_MAX, "max"));
    ASSERT_EQ(all, size);
    ASSERT_OK(lk_allreduce(comm, &x, &any, 1, LK_I64, LK_REDUCE_AND, "and"));
    ASSERT_EQ(any, size == 1 ? 1 : 0);
    ASSERT_OK(lk_allreduce(comm, &x, &odd, 1, LK_I64, LK_REDUCE_XOR, "xor"));
    ASSERT_EQ(odd, parity);
    double y = rank, mean;
    ASSERT_OK(lk_allreduce(comm, &y, &mean, 1, LK_F64, LK_REDUCE_AVG, "avg"));
    ASSERT_TRUE(mean == (double)(size - 1) / 2);
    uint8_t small = 200, wrapped;
    ASSERT_OK(lk_allreduce(comm, &small, &wrapped, 1, LK_U8, LK_REDUCE_SUM, "wraps"));
    ASSERT_EQ(wrapped, 200 * size % 256);
    int32_t in_place = rank;
    ASSERT_OK(lk_allreduce(comm, NULL, &in_place, 1, LK_I32, LK_REDUCE_OR, "in place"));
    ASSERT_EQ(in_place, size == 1 ? 0 : size == 2 ? 1 : size <= 4 ? 3 : 7);
}

RANKS_TEST(several_at_once_may_be_waited_for_in_any_order)
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

RANKS_TEST(bad_arguments_are_refused)
{
    float x = 1;
    lk_collective c = {.call = LK_CALL_ALLREDUCE, .out = &x, .count = 1, .dtype = LK_F32};
    lk_collective bad = c;
    bad.algorithm = "nope";
    ASSERT_FAILS(lk_coll_run(comm, &bad), LK_EINVAL,
                 "no allreduce algorithm named \"nope\"; the names are");
    bad = c, bad.op = LK_REDUCE_XOR;
    ASSERT_FAILS(lk_coll_run(comm, &bad), LK_EDTYPE, "no xor of f32");
    bad = c, bad.count = -1;
    ASSERT_FAILS(lk_coll_run(comm, &bad), LK_EINVAL, "-1 elements");
    bad = c, bad.out = NULL;
    ASSERT_FAILS(lk_coll_run(comm, &bad), LK_EINVAL, "NULL");
    bad = c, bad.count = 0, bad.stride = -3;
    ASSERT_FAILS(lk_coll_run(comm, &bad), LK_EINVAL, "a stride of -3 for vectors of 0 elements");
    bad = c, bad.stride = INT64_MAX / 2;
    ASSERT_FAILS(lk_coll_run(comm, &bad), LK_EOVERFLOW, "");
    bad = c, bad.call = LK_CALL_REDUCE_SCATTER, bad.stride = 1;
    if (lk_comm_size(comm) > 1)
        ASSERT_FAILS(lk_coll_run(comm, &bad), LK_EINVAL, "a stride of 1 for vectors of");
    bad = c, bad.call = LK_CALL_BCAST, bad.stride = 1;
    ASSERT_FAILS(lk_coll_run(comm, &bad), LK_EINVAL, "where nothing is reduced");
    bad = c, bad.pieces = -2;
    ASSERT_FAILS(lk_coll_run(comm, &bad), LK_EINVAL, "-2 pieces");
    bad = c, bad.pieces = 3 * lk_comm_size(comm);
    if (lk_comm_rank(comm) == 0 && lk_comm_size(comm) > 1)
        ASSERT_FAILS(lk_coll_run(comm, &bad), LK_EINVAL, "cannot be in place");
}

/* ChainerMN's kinds of communicators are names of algorithms. */
RANKS_TEST(kinds_are_known_by_name)
{
    static const struct {
        const char *kind, *algorithm;
    } kinds[] = {{"naive", "tree"},
                 {"flat", "direct"},
                 {"hierarchical", "hierarchical"},
                 {"two_dimensional", "tiers"},
                 {"non_cuda_aware", "hierarchical"},
                 {"dummy", "dummy"}};
    int32_t x = lk_comm_rank(comm), y = -1;
    lk_collective c = {.call = LK_CALL_ALLREDUCE, .in = &x, .out = &y, .count = 1, .dtype = LK_I32};
    const char *choice;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        c.algorithm = kinds[i].kind;
        ASSERT_OK(lk_coll_selected(comm, &c, &choice));
        ASSERT_TRUE(strcmp(choice, kinds[i].algorithm) == 0);
        ASSERT_OK(lk_coll_run(comm, &c));
        int size = lk_comm_size(comm);
        ASSERT_EQ(y, strcmp(kinds[i].kind, "dummy") == 0 ? x : size * (size - 1) / 2);
    }
    c.algorithm = "single_node";
    ASSERT_EQ(lk_coll_selected(comm, &c, &choice), lk_comm_nodes(comm) == 1 ? LK_OK : LK_ENOTSUP);
    lk_error_clear();
    const char *cheapest;
    c.algorithm = NULL;
    ASSERT_OK(lk_coll_selected(comm, &c, &cheapest));
    c.algorithm = "pure_nccl";
    ASSERT_OK(lk_coll_selected(comm, &c, &choice));
    ASSERT_TRUE(strcmp(choice, cheapest) == 0);
}

RANKS_TEST(another_name_in_the_same_place_is_read)
{
    char name[16] = "direct";
    int32_t y = 1;
    lk_collective c = {
        .call = LK_CALL_ALLREDUCE, .out = &y, .count = 1, .dtype = LK_I32, .algorithm = name};
    const char *choice;
    ASSERT_OK(lk_coll_run(comm, &c));
    snprintf(name, sizeof name, "naive");
    ASSERT_OK(lk_coll_selected(comm, &c, &choice));
    ASSERT_TRUE(strcmp(choice, "tree") == 0);
    ASSERT_OK(lk_coll_run(comm, &c));
    snprintf(name, sizeof name, "nope");
    ASSERT_FAILS(lk_coll_run(comm, &c), LK_EINVAL, "no allreduce algorithm named \"nope\"");
}
