/* bcast, gather, allgather, scatter, alltoall, neighbour: every algorithm moves the right elements,
 * even and ragged, in place and not, and touches no others. */
#include "collectives.h"

#include <stdatomic.h>

enum { GUARD = -77 };

/* What rank `from` has for rank `to` at place i. */
static int64_t value_of(int from, int to, int64_t i)
{
    return (from * 100 + to) * 1000000 + i;
}

/* Parts of all ranks with a gap of `gap` elements before each. */
struct parts {
    int64_t counts[8], offsets[8], extent;
    int size;
};

static struct parts parts_of(int size, int64_t count, bool ragged, int64_t gap)
{
    struct parts p = {.size = size};
    for (int r = 0; r < size; r++) {
        p.counts[r] = ragged ? (count + 3 * r) % (count + 2) : count;
        p.offsets[r] = p.extent + gap;
        p.extent = p.offsets[r] + p.counts[r];
    }
    return p;
}

static int64_t *vector(int64_t n)
{
    int64_t *x;
    ASSERT_OK(lk_alloc(&x, n, sizeof *x));
    for (int64_t i = 0; i < n; i++)
        x[i] = GUARD;
    return x;
}

static void fill(int64_t *x, int64_t n, int from, int to)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = value_of(from, to, i);
}

/* Every part is from its rank to `to` (-1: to this one alike), and the gaps are untouched. */
static void check_parts(const int64_t *x, const struct parts *p, int to)
{
    int64_t at = 0;
    for (int r = 0; r < p->size; r++) {
        for (; at < p->offsets[r]; at++)
            ASSERT_EQ(x[at], GUARD);
        for (int64_t i = 0; i < p->counts[r]; i++, at++)
            ASSERT_EQ(x[at], value_of(r, to, i));
    }
    ASSERT_EQ(at, p->extent);
}

static void reset(int64_t *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = GUARD;
}

/* gather and allgather. */
static void check_gather(lk_comm *comm, lk_comm_call call, int64_t count, bool ragged, int64_t gap)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    struct parts p = parts_of(size, count, ragged, gap);
    int64_t *in = vector(p.counts[rank]), *out = vector(p.extent);
    fill(in, p.counts[rank], rank, 0);
    lk_collective c = {.call = call,
                       .in = in,
                       .out = out,
                       .count = count,
                       .counts = ragged ? p.counts : NULL,
                       .offsets = gap ? p.offsets : NULL,
                       .dtype = LK_I64};
    FOR_EACH_ALGORITHM(comm, &c)
    {
        c.root = call == LK_CALL_GATHER ? alg_n % size : 0;
        bool receives = call == LK_CALL_ALLGATHER || rank == c.root;
        bool in_place = receives && alg_n % 2;
        reset(out, p.extent);
        if (in_place)
            fill(out + p.offsets[rank], p.counts[rank], rank, 0);
        c.in = in_place ? NULL : in;
        run_or_start(comm, &c, alg_n % 2);
        c.in = in;
        if (receives)
            check_parts(out, &p, 0);
    }
    lk_free(in);
    lk_free(out);
}

static void check_scatter(lk_comm *comm, int64_t count, bool ragged, int64_t gap)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    struct parts p = parts_of(size, count, ragged, gap);
    int64_t *in = vector(p.extent), *out = vector(p.extent);
    lk_collective c = {.call = LK_CALL_SCATTER,
                       .in = in,
                       .out = out,
                       .count = count,
                       .counts = ragged ? p.counts : NULL,
                       .offsets = gap ? p.offsets : NULL,
                       .dtype = LK_I64};
    FOR_EACH_ALGORITHM(comm, &c)
    {
        c.root = (alg_n + 1) % size;
        bool in_place = rank == c.root && alg_n % 2;
        reset(out, p.extent);
        for (int r = 0; rank == c.root && r < size; r++)
            fill((in_place ? out : in) + p.offsets[r], p.counts[r], c.root, r);
        c.in = rank != c.root || in_place ? NULL : in;
        run_or_start(comm, &c, alg_n % 2);
        const int64_t *part = out + (in_place ? p.offsets[rank] : 0);
        for (int64_t i = 0; i < p.counts[rank]; i++)
            ASSERT_EQ(part[i], value_of(c.root, rank, i));
    }
    lk_free(in);
    lk_free(out);
}

/* Rank a sends rank b count + (a + b) % 3 elements, or `count`. */
static void check_alltoall(lk_comm *comm, int64_t count, bool ragged, int64_t gap)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    struct parts p = {.size = size};
    for (int r = 0; r < size; r++) {
        p.counts[r] = count + (ragged ? (rank + r) % 3 : 0);
        p.offsets[r] = p.extent + gap;
        p.extent = p.offsets[r] + p.counts[r];
    }
    int64_t *in = vector(p.extent), *out = vector(p.extent);
    for (int r = 0; r < size; r++)
        fill(in + p.offsets[r], p.counts[r], rank, r);
    lk_collective c = {.call = LK_CALL_ALLTOALL,
                       .in = in,
                       .out = out,
                       .count = count,
                       .counts = ragged ? p.counts : NULL,
                       .offsets = gap ? p.offsets : NULL,
                       .in_counts = ragged ? p.counts : NULL,
                       .in_offsets = gap ? p.offsets : NULL,
                       .dtype = LK_I64};
    FOR_EACH_ALGORITHM(comm, &c)
    {
        lk_collective d = c;
        reset(out, p.extent);
        if (alg_n % 2) { /* in place */
            memcpy(out, in, (size_t)p.extent * sizeof *out);
            d.in = NULL;
            d.in_counts = d.in_offsets = NULL;
        }
        run_or_start(comm, &d, alg_n % 2);
        check_parts(out, &p, rank);
    }
    lk_free(in);
    lk_free(out);
}

RANKS_TEST(parts_arrive_where_they_belong)
{
    warm(comm);
    int size = lk_comm_size(comm);
    const int64_t counts[] = {0, 1, size - 1, size, size + 1, 1009};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        for (int form = 0; form < 3; form++) {
            bool ragged = form > 0;
            int64_t gap = form == 2 ? 3 : 0;
            check_gather(comm, LK_CALL_GATHER, counts[i], ragged, gap);
            check_gather(comm, LK_CALL_ALLGATHER, counts[i], ragged, gap);
            check_scatter(comm, counts[i], ragged, gap);
            check_alltoall(comm, counts[i], ragged, gap);
        }
    check_gather(comm, LK_CALL_ALLGATHER, 5003, false, 0);
    check_alltoall(comm, 5003, true, 0);
}

RANKS_TEST(bcast_reaches_all_from_any_root)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    const int64_t counts[] = {0, 1, size - 1, size, size + 1, 1009, 5003};
    for (int root = 0; root < size; root++)
        for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++) {
            int64_t *x = vector(counts[k]);
            lk_collective c = {.call = LK_CALL_BCAST,
                               .name = "bcast",
                               .out = x,
                               .count = counts[k],
                               .dtype = LK_I64,
                               .root = root};
            FOR_EACH_ALGORITHM(comm, &c)
            {
                reset(x, counts[k]);
                if (rank == root)
                    fill(x, counts[k], root, alg_n);
                run_or_start(comm, &c, alg_n % 2);
                for (int64_t i = 0; i < counts[k]; i++)
                    ASSERT_EQ(x[i], value_of(root, alg_n, i));
            }
            lk_free(x);
        }
}

/* Several stages long, from every root, private and where all ranks see it, with barriers between. */
RANKS_TEST(bcast_passes_through_shared_memory)
{
    enum { LONG = 3 * 256 * 1024 / 8 + 77 };
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    if (size < 2 || lk_comm_nodes(comm) > 1)
        return;
    lk_shm *s = NULL;
    ASSERT_OK(lk_shm_open(comm, LONG * 8, "vectors", &s));
    int64_t *memory = vector(LONG), *x[] = {memory, lk_shm_data(s, rank)};
    const int64_t counts[] = {3, 700, 2048, 2049, LONG};
    for (int root = 0; root < size; root++)
        for (int k = 0; k < 10; k++) {
            int64_t n = counts[k / 2];
            reset(x[k % 2], n);
            if (rank == root)
                fill(x[k % 2], n, root, k);
            ASSERT_OK(lk_coll_run(comm, &(lk_collective){.call = LK_CALL_BCAST,
                                                         .name = "bcast",
                                                         .algorithm = "shared",
                                                         .out = x[k % 2],
                                                         .count = n,
                                                         .dtype = LK_I64,
                                                         .root = root}));
            for (int64_t i = 0; i < n; i++)
                ASSERT_EQ(x[k % 2][i], value_of(root, k, i));
            if (k % 3 == 0)
                ASSERT_OK(lk_barrier(comm, "between"));
        }
    lk_free(memory);
    lk_shm_close(s);
}

/* Nobody leaves a barrier before all have come, by any algorithm. */
RANKS_TEST(barriers_wait_for_all)
{
    int size = lk_comm_size(comm);
    lk_shm *s = NULL;
    if (lk_comm_nodes(comm) > 1)
        return;
    ASSERT_OK(lk_shm_open(comm, sizeof(int64_t), "counters", &s));
    _Atomic int64_t *mine = lk_shm_data(s, lk_comm_node_rank(comm));
    lk_collective c = {.call = LK_CALL_BARRIER, .name = "barrier"};
    int64_t rounds = 0;
    FOR_EACH_ALGORITHM(comm, &c)
    {
        for (int k = 0; k < 20; k++) {
            atomic_store(mine, ++rounds);
            ASSERT_OK(lk_coll_run(comm, &c));
            for (int r = 0; r < size; r++)
                ASSERT_TRUE(atomic_load((_Atomic int64_t *)lk_shm_data(s, r)) >= rounds);
        }
    }
    lk_shm_close(s);
}

/* A periodic line: what goes down arrives from above, on a ring of two and of one too. */
RANKS_TEST(neighbours_on_a_ring_get_the_right_side)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    int side[] = {(rank + size - 1) % size, (rank + 1) % size};
    int64_t in[2][3], out[2][3];
    for (int i = 0; i < 3; i++) {
        in[0][i] = rank * 10 + i;       /* for the lower one */
        in[1][i] = rank * 10 + i + 500; /* for the upper one */
    }
    lk_collective c = {.call = LK_CALL_NEIGHBOUR,
                       .name = "halo",
                       .in = in,
                       .out = out,
                       .count = 3,
                       .dtype = LK_I64,
                       .neighbours = side,
                       .n_neighbours = 2,
                       .peer_slot = (int[]){1, 0}};
    FOR_EACH_ALGORITHM(comm, &c)
    {
        memset(out, 0, sizeof out);
        run_or_start(comm, &c, alg_n % 2);
        for (int i = 0; i < 3; i++) {
            ASSERT_EQ(out[0][i], side[0] * 10 + i + 500);
            ASSERT_EQ(out[1][i], side[1] * 10 + i);
        }
    }
}

/* A line with ends, of which the halos have different sizes. */
RANKS_TEST(borders_are_left_alone)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    int side[] = {rank - 1, rank + 1 < size ? rank + 1 : -1};
    int64_t in[5] = {rank, rank, 100 + rank, 100 + rank, 100 + rank};
    int64_t out[5] = {GUARD, GUARD, GUARD, GUARD, GUARD};
    ASSERT_OK(lk_coll_run(comm, &(lk_collective){.call = LK_CALL_NEIGHBOUR,
                                                 .in = in,
                                                 .out = out,
                                                 .in_counts = (int64_t[]){2, 3},
                                                 .counts = (int64_t[]){3, 2},
                                                 .dtype = LK_I64,
                                                 .neighbours = side,
                                                 .n_neighbours = 2}));
    for (int i = 0; i < 5; i++) {
        int64_t below = rank > 0 ? 100 + rank - 1 : GUARD;
        int64_t above = rank + 1 < size ? rank + 1 : GUARD;
        ASSERT_EQ(out[i], i < 3 ? below : above);
    }
    int64_t one[2] = {rank, -rank}, got[2] = {GUARD, GUARD};
    ASSERT_OK(lk_neighbor_alltoall(comm, 2, side, one, got, 1, LK_I64, "short"));
    ASSERT_EQ(got[0], rank > 0 ? -(rank - 1) : GUARD);
    ASSERT_EQ(got[1], rank + 1 < size ? rank + 1 : GUARD);
}

RANKS_TEST(the_short_calls_do_the_same)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    int32_t mine[8], all[8], two[2] = {rank, rank + 50}, got[16];
    for (int r = 0; r < size; r++)
        mine[r] = rank * 10 + r;
    ASSERT_OK(lk_alltoall(comm, mine, all, 1, LK_I32, "alltoall"));
    for (int r = 0; r < size; r++)
        ASSERT_EQ(all[r], r * 10 + rank);
    ASSERT_OK(lk_allgather(comm, two, got, 2, LK_I32, "allgather"));
    for (int r = 0; r < size; r++)
        ASSERT_TRUE(got[2 * r] == r && got[2 * r + 1] == r + 50);
    int root = size - 1, back[2] = {-1, -1};
    ASSERT_OK(lk_gather(comm, two, got, 2, LK_I32, root, "gather"));
    ASSERT_OK(lk_scatter(comm, got, back, 2, LK_I32, root, "scatter"));
    ASSERT_TRUE(back[0] == rank && back[1] == rank + 50);
    ASSERT_OK(lk_reduce_scatter(comm, mine, back, 1, LK_I32, LK_REDUCE_SUM, "reduce_scatter"));
    ASSERT_EQ(back[0], 10 * size * (size - 1) / 2 + size * rank);
    ASSERT_OK(lk_reduce(comm, &rank, back, 1, LK_I32, LK_REDUCE_MAX, root, "reduce"));
    if (rank == root)
        ASSERT_EQ(back[0], size - 1);
    int64_t counts[8], ones[8];
    for (int r = 0; r < size; r++) {
        counts[r] = r < 2 ? r : 0; /* only rank 1 has something */
        ones[r] = 1;
    }
    got[0] = GUARD;
    ASSERT_OK(lk_allgatherv(comm, two, got, counts, LK_I32, "allgatherv"));
    ASSERT_EQ(got[0], size > 1 ? 1 : GUARD);
    ASSERT_OK(lk_alltoallv(comm, mine, ones, all, ones, LK_I32, "alltoallv"));
    ASSERT_EQ(all[size - 1], (size - 1) * 10 + rank);
    ASSERT_OK(lk_gatherv(comm, two, got, ones, LK_I32, root, "gatherv"));
    ASSERT_OK(lk_scatterv(comm, got, back, ones, LK_I32, root, "scatterv"));
    ASSERT_EQ(back[0], rank);
    ASSERT_OK(lk_barrier(comm, "end"));
}

RANKS_TEST(bad_arguments_are_refused)
{
    int size = lk_comm_size(comm);
    int64_t x[16], counts[8] = {0}, huge[8] = {0};
    lk_collective c = {
        .call = LK_CALL_ALLGATHER, .in = x, .out = x + 8, .count = 1, .dtype = LK_I64};
    lk_collective bad = c;
    counts[size - 1] = -2;
    bad.counts = counts;
    ASSERT_FAILS(lk_coll_run(comm, &bad), LK_EINVAL, "counts[");
    bad = c, bad.offsets = counts;
    ASSERT_FAILS(lk_coll_run(comm, &bad), LK_EINVAL, "offsets[");
    huge[0] = INT64_MAX / 2;
    bad = c, bad.counts = huge;
    ASSERT_FAILS(lk_coll_run(comm, &bad), LK_EOVERFLOW, "");
    bad = c, bad.out = NULL;
    ASSERT_FAILS(lk_coll_run(comm, &bad), LK_EINVAL, "NULL");
    bad = c, bad.call = LK_CALL_BCAST, bad.root = size;
    ASSERT_FAILS(lk_coll_run(comm, &bad), LK_EINVAL, "bcast: root");
    bad.root = 0;
    ASSERT_FAILS(lk_coll_run(comm, &bad), LK_EINVAL, "bcast: in is given");
    bad = c, bad.call = LK_CALL_NEIGHBOUR, bad.n_neighbours = 1, bad.neighbours = &size;
    ASSERT_FAILS(lk_coll_run(comm, &bad), LK_EINVAL, "neighbours[0] is");
    bad = c, bad.call = LK_CALL_ALLTOALL, bad.in = NULL, bad.in_counts = counts;
    ASSERT_FAILS(lk_coll_run(comm, &bad), LK_EINVAL, "in place");
    bad = c, bad.call = LK_CALL_SPLIT;
    ASSERT_FAILS(lk_coll_run(comm, &bad), LK_EINVAL, "no collective call");
}
