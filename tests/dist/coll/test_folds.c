/* reduce, allreduce and reduce_scatter: every algorithm and operator on every dtype gives the bits of
 * the definition, for any number of ranks, counts and pieces. */
#include "collectives.h"

/* allreduce by every algorithm, blocking and begun, in place where that is possible. */
static void check_allreduce(lk_comm *comm, lk_collective c)
{
    int64_t bytes = c.count * element_size(c.op, c.dtype);
    int64_t pieces = c.pieces ? c.pieces : lk_comm_size(comm);
    void *in = input_apart(comm, &c, pieces, c.count), *out, *want;
    ASSERT_OK(lk_alloc(&out, bytes, 1));
    ASSERT_OK(lk_alloc(&want, bytes, 1));
    fold_put(c.op, c.dtype, pieces, 0, c.count, want);
    c.call = LK_CALL_ALLREDUCE;
    c.in = in;
    c.out = out;
    FOR_EACH_ALGORITHM(comm, &c)
    {
        bool in_place = pieces == lk_comm_size(comm) && alg_n % 2;
        c.in = in_place ? NULL : in;
        memset(out, 0xee, (size_t)bytes);
        if (in_place && bytes > 0)
            memcpy(out, in, (size_t)bytes);
        run_or_start(comm, &c, alg_n % 3 == 2);
        ASSERT_SAME_BITS(out, want, bytes);
    }
    lk_free(in);
    lk_free(out);
    lk_free(want);
}

static void check_reduce(lk_comm *comm, lk_collective c)
{
    int64_t bytes = c.count * element_size(c.op, c.dtype);
    int64_t pieces = c.pieces ? c.pieces : lk_comm_size(comm);
    void *in = input_apart(comm, &c, pieces, c.count), *out, *want;
    ASSERT_OK(lk_alloc(&out, bytes, 1));
    ASSERT_OK(lk_alloc(&want, bytes, 1));
    fold_put(c.op, c.dtype, pieces, 0, c.count, want);
    c.call = LK_CALL_REDUCE;
    c.in = in;
    c.out = out;
    FOR_EACH_ALGORITHM(comm, &c)
    {
        c.root = alg_n % lk_comm_size(comm);
        bool root = c.root == lk_comm_rank(comm);
        c.out = root ? out : NULL;
        run_or_start(comm, &c, alg_n % 2);
        c.out = out;
        if (root)
            ASSERT_SAME_BITS(out, want, bytes);
    }
    lk_free(in);
    lk_free(out);
    lk_free(want);
}

/* Rank r gets r elements more than the last one in ragged calls. */
static void check_reduce_scatter(lk_comm *comm, lk_collective c, bool ragged)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    int64_t counts[8], elem = element_size(c.op, c.dtype), total = 0, before = 0;
    for (int r = 0; r < size; r++) {
        counts[r] = ragged ? c.count + (r + 1) % size : c.count;
        before += r < rank ? counts[r] : 0;
        total += counts[r];
    }
    int64_t pieces = c.pieces ? c.pieces : size, bytes = counts[rank] * elem;
    void *in = input_apart(comm, &c, pieces, total), *out, *want;
    ASSERT_OK(lk_alloc(&out, total * elem, 1));
    ASSERT_OK(lk_alloc(&want, bytes, 1));
    fold_put(c.op, c.dtype, pieces, before, counts[rank], want);
    c.call = LK_CALL_REDUCE_SCATTER;
    c.in = in;
    c.out = out;
    c.counts = ragged ? counts : NULL;
    FOR_EACH_ALGORITHM(comm, &c)
    {
        bool in_place = pieces == size && alg_n % 2;
        c.in = in_place ? NULL : in;
        memset(out, 0xee, (size_t)(total * elem));
        if (in_place && total > 0)
            memcpy(out, in, (size_t)(total * elem));
        run_or_start(comm, &c, alg_n % 2);
        ASSERT_SAME_BITS(out, want, bytes);
    }
    lk_free(in);
    lk_free(out);
    lk_free(want);
}

RANKS_TEST(sums_have_the_bits_of_the_tree)
{
    int size = lk_comm_size(comm);
    const int64_t counts[] = {0, 1, size - 1, size, size + 1, 331};
    static const int64_t pieces[] = {0, 1, 13, 32};
    warm(comm);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        for (size_t p = 0; p < sizeof pieces / sizeof pieces[0]; p++) {
            lk_collective c = {.name = "sum",
                               .count = counts[i],
                               .dtype = LK_F32,
                               .op = LK_REDUCE_SUM,
                               .pieces = pieces[p]};
            check_allreduce(comm, c);
            check_reduce(comm, c);
            check_reduce_scatter(comm, c, p % 2);
        }
}

/* Vectors that are ranges of longer ones, which of rank 0 are longer still. */
RANKS_TEST(vectors_may_lie_apart)
{
    static const int64_t pieces[] = {0, 7, 24}, counts[] = {1, 33, 4001};
    static const lk_dtype dtypes[] = {LK_F32, LK_BF16};
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    warm(comm);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        for (size_t p = 0; p < sizeof pieces / sizeof pieces[0]; p++) {
            lk_collective c = {.name = "apart",
                               .count = counts[i],
                               .stride = counts[i] * size + size * size + (rank == 0 ? 9 : 0),
                               .dtype = dtypes[(i + p) % 2],
                               .pieces = pieces[p]};
            check_allreduce(comm, c);
            check_reduce(comm, c);
            check_reduce_scatter(comm, c, p % 2);
        }
}

RANKS_TEST(every_operator_works_on_every_dtype)
{
    float x = 1;
    warm(comm);
    for (int fold = 0; fold < LK_N_REDUCE_OPS; fold++)
        for (int dtype = 0; dtype < LK_N_DTYPES; dtype++) {
            lk_collective c = {.call = LK_CALL_ALLREDUCE,
                               .name = lk_reduce_op_name((lk_reduce_op)fold),
                               .out = &x,
                               .dtype = (lk_dtype)dtype,
                               .op = (lk_reduce_op)fold};
            const char *choice;
            lk_status st = lk_coll_selected(comm, &c, &choice);
            if (st != LK_OK) { /* it is no such operator */
                ASSERT_EQ(st, LK_EDTYPE);
                lk_error_clear();
                continue;
            }
            c.count = lk_comm_size(comm) + 1;
            check_allreduce(comm, c);
            check_reduce_scatter(comm, c, false);
            c.pieces = 11;
            c.count = 37;
            check_allreduce(comm, c);
            check_reduce(comm, c);
        }
}

/* Large enough for messages that go apart, segments and stages. */
RANKS_TEST(long_vectors_have_the_same_bits)
{
    warm(comm);
    lk_collective c = {.name = "long", .count = 4001, .dtype = LK_F32, .op = LK_REDUCE_SUM};
    check_allreduce(comm, c);
    check_reduce_scatter(comm, c, true);
    c.count = 140009; /* more than one segment */
    check_allreduce(comm, c);
    check_reduce_scatter(comm, c, true);
    c.count = 5003;
    c.dtype = LK_BF16;
    c.op = LK_REDUCE_AVG;
    check_allreduce(comm, c);
}

/* Buffers in memory that the ranks share, at other offsets on each rank; some in place, some not; and
 * on one rank not shared at all. */
RANKS_TEST(shared_buffers_give_the_same_bits)
{
    enum { COUNT = 20011 };
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    int64_t bytes = COUNT * 4;
    float *input = input_of(comm, LK_REDUCE_SUM, LK_F32, size, COUNT), *want;
    lk_shm *shared;
    warm(comm);
    ASSERT_OK(lk_shm_open(comm, 3 * bytes + 4096, "buffers", &shared));
    ASSERT_OK(lk_alloc(&want, COUNT, sizeof *want));
    fold_put(LK_REDUCE_SUM, LK_F32, size, 0, COUNT, want);
    char *mine = (char *)lk_shm_data(shared, lk_comm_node_rank(comm)) + 64 * rank;
    for (int form = 0; form < 4; form++) {
        bool in_place = form == 0 || (form == 1 && rank == 0);
        float *out = (float *)(void *)(mine + bytes), *in = in_place ? out : (float *)(void *)mine;
        if (form == 3 && rank == size - 1)
            in = input;
        lk_collective c = {.call = LK_CALL_ALLREDUCE,
                           .in = in == out ? NULL : in,
                           .out = out,
                           .count = COUNT,
                           .dtype = LK_F32};
        FOR_EACH_ALGORITHM(comm, &c)
        {
            memset(out, 0xee, (size_t)bytes);
            if (in != input)
                memcpy(in, input, (size_t)bytes);
            run_or_start(comm, &c, alg_n > 4);
            ASSERT_SAME_BITS(out, want, bytes);
            if (in != out)
                ASSERT_SAME_BITS(in, input, bytes);
        }
    }
    ASSERT_OK(lk_barrier(comm, "all have ended"));
    lk_shm_close(shared);
    lk_free(input);
    lk_free(want);
}

/* How the parts of a reduce_scatter lie, and what is not as usual. */
enum form { PLAIN, IN_PLACE, AT_ITS_PART, OTHER_OFFSETS, ONE_PRIVATE, N_FORMS };

/* The parts of each rank, with gaps between them, in one vector of `*extent` elements. */
static void parts_make(int size, bool shifted, int64_t pieces, int64_t *counts, int64_t *offsets,
                       int64_t *extent)
{
    enum { GAP = 5 };
    *extent = 3;
    for (int r = 0; r < size; r++) {
        offsets[r] = *extent + shifted;
        counts[r] = (r + pieces) % 3 == 0 ? 3000 + r : 17 * r;
        *extent += counts[r] + GAP;
    }
}

/* Vectors in memory that the ranks share, with gaps between them too; the sum goes elsewhere, to the
 * part where it belongs, or in place. */
static void check_parts(lk_comm *comm, lk_shm *shared, int64_t pieces, enum form form)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    int64_t counts[8], offsets[8], extent, before = 0;
    parts_make(size, form == OTHER_OFFSETS && rank == 1, pieces, counts, offsets, &extent);
    lk_collective c = {.call = LK_CALL_REDUCE_SCATTER,
                       .name = "parts",
                       .counts = counts,
                       .offsets = offsets,
                       .stride = extent + 16 * rank + 7,
                       .pieces = pieces};
    lk_range node[LK_MAX_SUBTREES];
    int n = lk_range_subtrees(pieces, lk_range_split(pieces, rank, size), node);
    int64_t bytes = n * c.stride * 4;
    float *in = lk_shm_data(shared, lk_comm_node_rank(comm)), *out, *given, *want;
    ASSERT_TRUE(bytes + 64 * size <= lk_shm_bytes(shared, lk_comm_node_rank(comm)));
    ASSERT_OK(lk_alloc(&out, counts[rank], sizeof *out));
    ASSERT_OK(lk_alloc(&given, bytes, 1));
    ASSERT_OK(lk_alloc(&want, counts[rank], sizeof *want));
    memset(given, 0xff, (size_t)bytes);
    for (int r = 0; r < size; before += counts[r++]) {
        for (int v = 0; v < n; v++)
            node_put(c.op, c.dtype, node[v], before, counts[r], given + v * c.stride + offsets[r]);
        if (r == rank)
            fold_put(c.op, c.dtype, pieces, before, counts[r], want);
    }
    in = form == ONE_PRIVATE && rank == 0 ? given : in + 16 * rank;
    bool in_place = form == IN_PLACE && n == 1;
    c.in = in_place ? NULL : in;
    c.out = in_place ? in : form == AT_ITS_PART && n > 0 ? in + offsets[rank] : out;
    FOR_EACH_ALGORITHM(comm, &c)
    {
        if (in != given && bytes > 0)
            memcpy(in, given, (size_t)bytes);
        run_or_start(comm, &c, alg_n % 2);
        ASSERT_SAME_BITS(c.out, want, counts[rank] * 4);
        if (c.out == out)
            ASSERT_SAME_BITS(in, given, bytes);
    }
    ASSERT_OK(lk_barrier(comm, "all have ended"));
    lk_free(out);
    lk_free(given);
    lk_free(want);
}

RANKS_TEST(parts_are_folded_where_they_lie)
{
    static const int64_t pieces[] = {0, 1, 5, 12};
    lk_shm *shared;
    warm(comm);
    ASSERT_OK(lk_shm_open(comm, 1 << 20, "vectors", &shared));
    for (size_t p = 0; p < sizeof pieces / sizeof pieces[0]; p++)
        for (int form = 0; form < N_FORMS; form++)
            check_parts(comm, shared, pieces[p] ? pieces[p] : lk_comm_size(comm), (enum form)form);
    lk_shm_close(shared);
}

/* More than are ever under way in the arena at once, of all kinds, ended in another order. */
RANKS_TEST(many_at_once_keep_apart)
{
    enum { N = 9, COUNT = 3001 };
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    static const int64_t counts[] = {1, COUNT, 40, 7, COUNT, COUNT, 2, 300, COUNT};
    int32_t *x[N];
    lk_request *r[N];
    warm(comm);
    for (int i = 0; i < N; i++) {
        ASSERT_OK(lk_alloc(&x[i], COUNT, sizeof **x));
        for (int64_t k = 0; k < counts[i]; k++)
            x[i][k] = (int32_t)(rank * 1000 + i * 100 + k % 7);
        lk_collective c = {.call = LK_CALL_ALLREDUCE,
                           .out = x[i],
                           .count = counts[i],
                           .dtype = LK_I32,
                           .op = LK_REDUCE_SUM};
        ASSERT_OK(lk_coll_start(comm, &c, &r[i]));
    }
    for (int i = 0; i < N; i++) {
        int at = rank % 2 ? i : N - 1 - i;
        ASSERT_OK(lk_wait(&r[at], NULL));
        for (int64_t k = 0; k < counts[at]; k++)
            ASSERT_EQ(x[at][k], size * (size - 1) / 2 * 1000 + size * (at * 100 + k % 7));
        lk_free(x[at]);
    }
}
