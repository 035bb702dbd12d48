/* Plans of runs that are cut into tiles: what a step was planned to fetch, to change and to join is what it
 * sends, rank by rank; and what is by tiles.
 */
#include "sent_bytes.h"
#include "tile_nets.h"
#include "trainers.h"

#include <lockstep/extra/plan.h>
#include <lockstep/extra/trainer_plan.h>
#include <lockstep/parallel.h>

#include <string.h>

/* ---- what is sent ---- */

/* Calls of a rank and bytes that it gives to calls that all give as much to: of all communicators of a
 * mesh, each once. */
static sent_bytes calls_so_far(const lk_mesh *m, int64_t *calls)
{
    const lk_comm *of[LK_N_AXES + 5], *known;
    sent_bytes sum = {0, 0, 0};
    int n = 0;
    of[n++] = m->world;
    of[n++] = m->replicas;
    for (int a = 0; a < LK_N_AXES; a++)
        of[n++] = m->along[a];
    for (int d = 0; d < 3; d++)
        of[n++] = m->space_along[d];
    *calls = 0;
    for (int i = 0; i < n; i++) {
        known = of[i];
        for (int k = 0; k < i && known; k++)
            known = of[k] == of[i] ? NULL : known;
        *calls += known ? known->n_calls : 0;
        sum.all += known ? known->n_bytes : 0;
    }
    return sum;
}

/* What a plan says: calls without fetches, and bytes of each kind. */
typedef struct planned {
    int64_t calls, fetched, moved, joined;
} planned;

/* A mean over positions goes by alltoall in forward, and comes back by allgather. */
static bool is_mean(const lk_transfer *t)
{
    return strncmp(t->what, "global_avgpool", 14) == 0;
}

static planned planned_of(const lk_plan *p)
{
    planned sum = {0, 0, 0, 0};
    for (int64_t i = 0; i < p->n_transfers; i++) {
        const lk_transfer *t = &p->transfer[i];
        sum.calls += t->kind == LK_FETCHED ? 0 : t->calls;
        if (t->kind == LK_FETCHED)
            sum.fetched += t->bytes;
        else if (t->kind == LK_CHANGED || (is_mean(t) && t->when == LK_IN_FORWARD))
            sum.moved += t->bytes;
        else if (!is_mean(t))
            sum.joined += t->bytes;
    }
    return sum;
}

/* Train a step in a layout, and count. */
static void expect_sent(lk_comm *comm, const char *network, const char *const *settings)
{
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    int64_t before, calls;
    ASSERT_OK(job_of(network, comm, settings, &e, &job));
    lk_trainer *t = lk_job_trainer(job);
    ASSERT_OK(lk_trainer_step(t, NULL));
    const lk_mesh *mesh = lk_trainer_mesh(t);
    planned want = planned_of(lk_trainer_plan(t));
    int64_t joined = calls_so_far(mesh, &before).all;
    bytes_begin(comm);
    ASSERT_OK(lk_trainer_step(t, NULL));
    sent_bytes got = bytes_end(comm);
    joined = calls_so_far(mesh, &calls).all - joined;
    if (got.messages != want.fetched || got.alltoall != want.moved || joined != want.joined ||
        calls - before != want.calls)
        TEST_FAIL("%s, rank %d of %d: fetched %lld, planned %lld; changed %lld, planned %lld; "
                  "joined %lld, planned %lld; %lld calls, planned %lld",
                  settings[2], lk_comm_rank(comm), lk_comm_size(comm), (long long)got.messages,
                  (long long)want.fetched, (long long)got.alltoall, (long long)want.moved,
                  (long long)joined, (long long)want.joined, (long long)(calls - before),
                  (long long)want.calls);
    lk_job_free(job);
    lk_experiment_free(e);
}

static void expect_planned(lk_comm *comm, const char *network, const char *pieces,
                           const char *least, const struct grid *grids, const char *further)
{
    for (int i = 0; grids[i].ranks > 0; i++) {
        char spatial[64];
        if (lk_comm_size(comm) % grids[i].ranks != 0 || lk_comm_size(comm) > 8 * grids[i].ranks)
            continue; /* 8 shards */
        snprintf(spatial, sizeof spatial, "parallel.spatial=%s", grids[i].spatial);
        expect_sent(comm, network, (const char *[MAX_SETTINGS]){pieces, least, spatial, further});
    }
}

static void a_step_of_tiles_sends_what_was_planned(lk_comm *comm)
{
    static const char by_batch[] = "model.4={type: batch_norm, statistics: batch}";
    expect_planned(comm, classes, "pieces.tiles=4x3", "pieces.least_tile=0", planes, NULL);
    expect_planned(comm, classes, "pieces.tiles=4x3", "pieces.least_tile=0", planes, by_batch);
    expect_planned(comm, classes, "pieces.tiles=4x3", "pieces.least_tile=0", planes, "dtype=f64");
    expect_planned(comm, classes, "pieces.tiles=4x3", "pieces.least_tile=20", planes, by_batch);
    if (lk_comm_size(comm) <= 4) /* shards are as many as ranks, of whole samples */
        expect_planned(comm, classes, "pieces.tiles=4x3", "pieces.least_tile=0", planes,
                       "parallel.mode=fast");
    expect_planned(comm, images, "pieces.tiles=4x3", "pieces.least_tile=4", planes, NULL);
    expect_planned(comm, volumes, "pieces.tiles=3x2x2", "pieces.least_tile=1", cubes, NULL);
    expect_planned(comm, volumes, "pieces.tiles=3x2x2", "pieces.least_tile=8", cubes,
                   "parallel.update=shared");
}

/* A model that uses a parameter more than once passes shard by shard. */
static void passes_of_shards_send_what_was_planned(lk_comm *comm)
{
    expect_planned(comm, series, "pieces.tiles=4x3", "pieces.least_tile=1", few, NULL);
}

/* ---- by tiles in fact ---- */

/* Of a model whose tiles are all large enough, what is before the first layer that needs whole samples runs
 * by tiles, and nothing changes before it. */
static void layers_before_whole_samples_run_by_tiles(lk_comm *comm)
{
    static const char *const presets[] = {"experiments/mnist-lenet.yaml",
                                          "experiments/cifar10-cnn.yaml"};
    static const char *const data[] = {
        "data={type: glyphs, count: 64, test_count: 0, shape: [28, 28, 1], batch: 64, shards: 4,"
        " one_hot: true}",
        "data={type: glyphs, count: 64, test_count: 0, shape: [32, 32, 3], batch: 64, shards: 4,"
        " one_hot: true}"};
    static const int64_t sides[] = {2, 4};
    if (lk_comm_size(comm) != 1)
        return;
    for (int i = 0; i < 4; i++) {
        int64_t side = sides[i / 2];
        lk_mesh_shape shape = {.data = 1, .ndim = 2, .space = {side, side}};
        const char *settings[] = {data[i % 2], "pieces.tiles=4x4", "pieces.least_tile=1"};
        lk_experiment *e = NULL;
        lk_job *job = NULL;
        lk_plan *p = NULL;
        ASSERT_OK(lk_experiment_read(presets[i % 2], settings, 3, &e));
        ASSERT_OK(lk_job_new(e, NULL, &job));
        for (int rank = 0; rank < side * side; rank++) {
            ASSERT_OK(
                lk_trainer_plan_of(lk_job_trainer(job), &shape, (int)(side * side), rank, &p));
            int64_t first = 0, seen = 0;
            while (p->layer[first].reach != LK_REACH_SAMPLE)
                ASSERT_EQ(p->layer[first++].domain, LK_BY_TILE);
            ASSERT_TRUE(first >= 4 && p->layer[first].domain == LK_BY_SAMPLE);
            for (int64_t k = 0; k < p->n_transfers; k++)
                if (p->transfer[k].kind == LK_CHANGED) {
                    ASSERT_TRUE(strcmp(p->transfer[k].what, p->layer[first].name) == 0);
                    seen++;
                }
            ASSERT_EQ(seen, 2); /* there and back */
            lk_plan_free(p);
        }
        lk_job_free(job);
        lk_experiment_free(e);
    }
}

#define TEST_OF(name) \
    {                 \
#        name, name   \
    }
RANKS_MAIN(TEST_OF(a_step_of_tiles_sends_what_was_planned),
           TEST_OF(passes_of_shards_send_what_was_planned),
           TEST_OF(layers_before_whole_samples_run_by_tiles))
