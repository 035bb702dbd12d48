/* What collective calls of a step on tiles send: rank by rank, the formula of the algorithm that was chosen,
 * for the calls and sizes that were planned.  What fetches send: what windows reach beyond tiles, no more.
 *
 * Started with LK_LOCAL_NODES, each rank is on a node of its own and all goes by messages; without it, the
 * ranks of one node send nothing for these calls but alltoall.
 */
#include "made_calls.h"
#include "planned_bytes.h"
#include "tile_nets.h"
#include "trainers.h"

#include <lockstep/extra/trainer_plan.h>

/* The calls are those that were planned, and each sent what its formula says. */
static void calls_compare(const lk_comm *comm, const char *what, const planned *want, int n,
                          const sent_bytes *got)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    int64_t joined = 0, sent = got->messages;
    for (int i = 0; i < n; i++) {
        const formula_call *c = &made[i].as;
        joined += c->call == LK_CALL_ALLREDUCE ? c->count * c->elem : 0;
        sent += made[i].sent;
        if (!made_as_formula(&made[i]))
            TEST_FAIL("%s, rank %d of %d: %s %s of %lld elements on %d ranks sent %lld bytes, by "
                      "its formula %lld",
                      what, rank, size, lk_comm_call_name(c->call),
                      c->algorithm ? c->algorithm : "in shared memory", (long long)c->count,
                      c->size, (long long)made[i].sent, (long long)formula_bytes(c, true, false));
    }
    if (n != want->calls || joined != want->joined || sent != got->all)
        TEST_FAIL("%s, rank %d of %d: %d calls, planned %lld; %lld bytes joined, planned %lld; "
                  "%lld bytes sent, %lld by calls and fetches",
                  what, rank, size, n, (long long)want->calls, (long long)joined,
                  (long long)want->joined, (long long)got->all, (long long)sent);
}

static void expect_formulas(lk_comm *comm, const char *network, const char *const *settings)
{
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    sent_bytes got;
    ASSERT_OK(job_of(network, comm, settings, &e, &job));
    lk_trainer *t = lk_job_trainer(job);
    ASSERT_OK(lk_trainer_step(t, NULL)); /* the first measures links */
    planned want = planned_of(lk_trainer_plan(t));
    made_begin(comm);
    lk_status st = lk_trainer_step(t, NULL);
    int n = made_end(comm, &got);
    ASSERT_OK(st);
    calls_compare(comm, settings[2], &want, n, &got);
    job_end(job, e);
}

/* Communicators that are made from now on take the allreduce of this name; NULL: by cost. */
static void allreduce_name(lk_comm *comm, const char *name)
{
    ASSERT_OK(lk_barrier(comm, "before"));
    if (lk_comm_rank(comm) == 0 || strcmp(lk_comm_transport(comm), "mpi") == 0)
        ASSERT_EQ(name ? setenv("LK_ALLREDUCE", name, 1) : unsetenv("LK_ALLREDUCE"), 0);
    ASSERT_OK(lk_barrier(comm, "behind"));
}

static void expect_named(lk_comm *comm, const char *algorithm, const char *network,
                         const char *pieces, const struct grid *grids, const char *further)
{
    allreduce_name(comm, algorithm);
    for (int i = 0; grids[i].ranks > 0; i++) {
        char spatial[64];
        lk_comm *own = NULL;
        if (lk_comm_size(comm) % grids[i].ranks != 0 || lk_comm_size(comm) > 8)
            continue;
        snprintf(spatial, sizeof spatial, "parallel.spatial=%s", grids[i].spatial);
        ASSERT_OK(lk_comm_dup(comm, &own));
        expect_formulas(
            own, network,
            (const char *[MAX_SETTINGS]){pieces, "pieces.least_tile=0", spatial, further});
        lk_comm_close(own);
    }
    allreduce_name(comm, NULL);
}

RANKS_TEST(calls_send_what_the_chosen_algorithm_says)
{
    static const char by_batch[] = "model.4={type: batch_norm, statistics: batch}";
    expect_named(comm, NULL, classes, "pieces.tiles=4x3", planes, NULL);
    expect_named(comm, NULL, classes, "pieces.tiles=4x4", planes, by_batch);
    expect_named(comm, NULL, images, "pieces.tiles=4x3", planes, "dtype=f64");
    expect_named(comm, NULL, volumes, "pieces.tiles=3x2x2", cubes, NULL);
}

static const char *const any_tree[] = {"tree", "direct", "ring", "hierarchical", "tiers"};
static const char *const powers[] = {"doubling", "halving"};

static bool one_a_node(lk_comm *comm)
{
    return lk_comm_size(comm) > 1 && lk_comm_nodes(comm) == lk_comm_size(comm);
}

/* Also uneven tiles, of which a rank's are several subtrees. */
RANKS_TEST(named_algorithms_send_what_they_say)
{
    static const struct grid some[] = {{2, "1x2"}, {3, "3x1"}, {4, "2x2"}, {0, NULL}};
    for (int i = 0; one_a_node(comm) && i < 5; i++)
        expect_named(comm, any_tree[i], classes, "pieces.tiles=4x3", some, NULL);
}

RANKS_TEST(halves_send_what_they_say)
{
    static const struct grid some[] = {{2, "2x1"}, {4, "2x2"}, {4, "4x1"}, {0, NULL}};
    int size = lk_comm_size(comm);
    for (int i = 0; one_a_node(comm) && (size & (size - 1)) == 0 && i < 2; i++)
        expect_named(comm, powers[i], classes, "pieces.tiles=4x4", some, NULL);
}

/* ---- fetches ---- */

/* Square convolutions of 16x16 images, one behind the other. */
static const struct conv {
    int64_t channels, filters, kernel, stride, padding;
} stack[] = {{2, 3, 3, 1, 1}, {3, 4, 5, 1, 2}, {4, 5, 3, 2, 1}, {5, 3, 2, 1, 0}, {3, 2, 7, 2, 3}};

enum { SIDE = 16, CONVS = sizeof stack / sizeof stack[0], SAMPLES = 4 };

/* Tiles of n rows begin at ceil(t n / tiles). */
static lk_range tile_rows(int64_t n, int64_t t, int64_t tiles)
{
    int64_t first = (t * n + tiles - 1) / tiles;
    return (lk_range){first, ((t + 1) * n + tiles - 1) / tiles - first};
}

/* Rows that a rank has, with those that windows reach: of x for its part of y, or of y for its part of x. */
static int64_t rows_of(const struct conv *c, int64_t n, bool of_x, int64_t place, int64_t places)
{
    int64_t out = (n + 2 * c->padding - c->kernel) / c->stride + 1, rows = 0;
    lk_range x = tile_rows(n, place, places), y = tile_rows(out, place, places);
    for (int64_t i = 0; i < (of_x ? n : out); i++) {
        lk_range own = of_x ? x : y, other = of_x ? y : x;
        bool has = i >= own.first && i < own.first + own.n;
        for (int64_t j = other.first; !has && j < other.first + other.n; j++) {
            int64_t at = of_x ? i + c->padding - j * c->stride : j + c->padding - i * c->stride;
            has = at >= 0 && at < c->kernel;
        }
        rows += has;
    }
    return rows;
}

/* Positions that rank [a, b] of a grid gets before forward, or before backward. */
static int64_t reached(const struct conv *c, int64_t n, bool of_x, const int64_t *grid, int64_t r)
{
    int64_t of = of_x ? n : (n + 2 * c->padding - c->kernel) / c->stride + 1;
    int64_t a = r / grid[1], b = r % grid[1];
    return rows_of(c, n, of_x, a, grid[0]) * rows_of(c, n, of_x, b, grid[1]) -
           tile_rows(of, a, grid[0]).n * tile_rows(of, b, grid[1]).n;
}

/* Bytes of a step that all ranks get: not of the first x, whose margin the loader reads, nor of its
 * gradient, for which nobody asks. */
static int64_t stack_fetches(const int64_t *grid)
{
    int64_t n = SIDE, sum = 0;
    for (int i = 0; i < CONVS; i++) {
        const struct conv *c = &stack[i];
        for (int64_t r = 0; i > 0 && r < grid[0] * grid[1]; r++)
            sum += reached(c, n, true, grid, r) * c->channels +
                   reached(c, n, false, grid, r) * c->filters;
        n = (n + 2 * c->padding - c->kernel) / c->stride + 1;
    }
    return sum * SAMPLES * (int64_t)sizeof(float);
}

static void expect_fetches(lk_comm *comm, const int64_t *grid)
{
    char network[2048], spatial[64], pieces[64];
    int at = snprintf(network, sizeof network,
                      "data: {type: glyphs, count: %d, test_count: 0, shape: [%d, %d, 2], batch: "
                      "%d, shards: 4}\nmodel:\n",
                      SAMPLES, SIDE, SIDE, SAMPLES);
    for (int i = 0; i < CONVS; i++)
        at += snprintf(network + at, sizeof network - (size_t)at,
                       "  - {type: conv, filters: %d, kernel: %d, stride: %d, padding: %d}\n",
                       (int)stack[i].filters, (int)stack[i].kernel, (int)stack[i].stride,
                       (int)stack[i].padding);
    snprintf(network + at, sizeof network - (size_t)at,
             "  - flatten\n  - {type: linear, units: 10}\nloss: softmax_cross_entropy\n"
             "optimizer: sgd\ntrain: {epochs: 4}\n");
    snprintf(spatial, sizeof spatial, "parallel.spatial=%dx%d", (int)grid[0], (int)grid[1]);
    snprintf(pieces, sizeof pieces, "pieces.tiles=%dx%d", (int)grid[0], (int)grid[1]);
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    ASSERT_OK(job_of(network, comm,
                     (const char *[MAX_SETTINGS]){pieces, "pieces.least_tile=0", spatial, NULL}, &e,
                     &job));
    bytes_begin(comm);
    lk_status st = lk_trainer_step(lk_job_trainer(job), NULL);
    int64_t sent = bytes_end(comm).messages;
    ASSERT_OK(st);
    ASSERT_OK(lk_allreduce(comm, NULL, &sent, 1, LK_I64, LK_REDUCE_SUM, "sent"));
    ASSERT_EQ(sent, stack_fetches(grid));
    job_end(job, e);
}

RANKS_TEST(fetches_are_as_deep_as_windows_reach)
{
    int64_t size = lk_comm_size(comm);
    if (size > 4)
        return;
    expect_fetches(comm, (const int64_t[]){size, 1});
    expect_fetches(comm, (const int64_t[]){1, size});
    if (size == 4)
        expect_fetches(comm, (const int64_t[]){2, 2});
}
