/* Margins: no value's is fetched twice.  What a step fetches is what was planned for each layer, and the bits are
 * those of one rank.
 */
#include "sent_bytes.h"
#include "trainers.h"

#include <lockstep/extra/plan.h>
#include <lockstep/extra/trainer_plan.h>

#include <string.h>

/* ---- the U-Net of docs/guide/training.md ---- */

static const char unet[] =
    "data: {type: fractal, count: 4, test_count: 0, shape: [16, 16, 16, 1], batch: 4, shards: 4}\n"
    "model:\n"
    "  - {type: conv, filters: 6, kernel: 3, padding: 1}\n"
    "  - relu\n"
    "  - type: residual\n"
    "    join: concat\n"
    "    layers:\n"
    "      - {type: maxpool, size: 2}\n"
    "      - {type: conv, filters: 12, kernel: 3, padding: 1}\n"
    "      - relu\n"
    "      - type: residual\n"
    "        join: concat\n"
    "        layers:\n"
    "          - {type: maxpool, size: 2}\n"
    "          - {type: conv, filters: 16, kernel: 3, padding: 1}\n"
    "          - relu\n"
    "          - {type: conv_transpose, filters: 12, kernel: 2, stride: 2}\n"
    "      - {type: conv, filters: 12, kernel: 3, padding: 1}\n"
    "      - relu\n"
    "      - {type: conv_transpose, filters: 6, kernel: 2, stride: 2}\n"
    "  - {type: conv, filters: 8, kernel: 3, padding: 1}\n"
    "  - relu\n"
    "  - {type: conv, filters: 2, kernel: 1}\n"
    "loss: softmax_cross_entropy\n"
    "optimizer: {type: adam, rate: 0.01}\n"
    "pieces: {tiles: 2x2, least_tile: 1}\n";

/* Bytes that a rank of 2x2 gives for a margin of one position: along a border of `n` x `depth` positions on both
 * sides, and at the corner. */
static int64_t given(int64_t n, int64_t depth, int64_t channels)
{
    return 4 * (2 * n + 1) * depth * channels * (int64_t)sizeof(float); /* of four samples */
}

/* Boxes of all ranks are not kept for each layer.  It is the first test: a peak is that of the process. */
RANKS_TEST(a_plan_of_thousands_of_ranks_is_small)
{
    char net[4096] = "data: {type: shapes, count: 4, test_count: 2, shape: [64, 64, 1], batch: 2,\n"
                     "       shards: 2, prefetch: 0}\n"
                     "model: [";
    static const char layer[] = "{type: conv, filters: 2, kernel: 3, padding: 1}, relu, ",
                      rest[] = "global_avgpool, {type: linear, units: 2}]\n"
                               "pieces: {tiles: 64x64, least_tile: 1}\n"
                               "loss: softmax_cross_entropy\n"
                               "optimizer: sgd\n";
    lk_mesh_shape shape = {.data = 1, .ndim = 2, .space = {64, 64}};
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    lk_plan *plan = NULL;
    if (lk_comm_size(comm) > 1 || strcmp(lk_comm_transport(comm), "mpi") == 0)
        return;
    for (int i = 0; i < 20; i++)
        strcat(net, layer);
    strcat(net, rest);
    ASSERT_OK(job_of(net, NULL, (const char *[MAX_SETTINGS]){NULL}, &e, &job));
    lk_alloc_stats before = lk_alloc_stats_now();
    ASSERT_TRUE(before.peak_bytes - before.live_bytes < 1 << 20);
    ASSERT_OK(lk_trainer_plan_of(lk_job_trainer(job), &shape, 4096, 77, &plan));
    ASSERT_TRUE(lk_alloc_stats_now().peak_bytes - before.live_bytes < 2 << 20);
    lk_plan_free(plan);
    job_end(job, e);
}

/* Convolutions of three positions fetch, each what it reads, but for the first, whose margin the loader has
 * read; pools and transposed convolutions of two positions lie in tiles, and a skip is fetched where it is
 * joined. */
RANKS_TEST(a_unet_fetches_each_margin_once)
{
    const struct {
        lk_step_phase when;
        const char *layer;
        int64_t bytes;
    } want[] = {{LK_IN_FORWARD, "residual1.conv1", given(4, 8, 6)},
                {LK_IN_FORWARD, "residual1.residual1.conv1", given(2, 4, 12)},
                {LK_IN_FORWARD, "residual1.conv2", given(4, 8, 24)},
                {LK_IN_FORWARD, "conv2", given(8, 16, 12)},
                {LK_IN_BACKWARD, "conv2", given(8, 16, 8)},
                {LK_IN_BACKWARD, "residual1.conv2", given(4, 8, 12)},
                {LK_IN_BACKWARD, "residual1.residual1.conv1", given(2, 4, 16)},
                {LK_IN_BACKWARD, "residual1.conv1", given(4, 8, 12)}};
    const lk_mesh_shape shape = {.data = 1, .ndim = 2, .space = {2, 2}};
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    if (lk_comm_size(comm) != 1)
        return;
    ASSERT_OK(job_of(unet, NULL, (const char *[MAX_SETTINGS]){NULL}, &e, &job));
    for (int rank = 0; rank < 4; rank++) {
        lk_plan *p = NULL;
        size_t n = 0;
        ASSERT_OK(lk_trainer_plan_of(lk_job_trainer(job), &shape, 4, rank, &p));
        for (int64_t i = 0; i < p->n_transfers; i++) {
            const lk_transfer *t = &p->transfer[i];
            if (t->kind != LK_FETCHED)
                continue;
            ASSERT_TRUE(n < sizeof want / sizeof want[0] && t->when == want[n].when);
            ASSERT_EQ(strcmp(t->what, want[n].layer), 0);
            ASSERT_EQ(t->bytes, want[n++].bytes);
        }
        ASSERT_EQ(n, sizeof want / sizeof want[0]);
        lk_plan_free(p);
    }
    job_end(job, e);
}

/* ---- values that several layers read ---- */

#define CONV(kernel, padding) "{type: conv, filters: 3, kernel: " kernel ", padding: " padding "}"
#define BLOCK(layers, shortcut) "{type: residual, layers: [" layers "], shortcut: [" shortcut "]}"

static const char head[] =
    "data: {type: shapes, count: 16, test_count: 0, shape: [13, 11, 2], batch: 8, shards: 8}\n"
    "loss: softmax_cross_entropy\n"
    "optimizer: {type: adam, rate: 0.01}\n"
    "pieces: {tiles: 4x3, least_tile: 0}\n";

/* Some layers behind a convolution, and how many of them fetch in forward. */
static const struct {
    const char *layers;
    int fetches;
} readers[] = {
    {BLOCK(CONV("3", "1") ", tanh", CONV("5", "2")), 1}, /* the first for both */
    {BLOCK(CONV("5", "2") ", tanh", CONV("3", "1")), 1},
    {BLOCK(BLOCK(CONV("3", "1"), CONV("5", "2")), CONV("7", "3")), 1},
    {BLOCK(BLOCK(CONV("3", "1"), CONV("7", "3")), CONV("5", "2")), 1},
    {BLOCK(CONV("[1, 3]", "[0, 1]"), CONV("[3, 1]", "[1, 0]")), 2}, /* neither has the other's */
    {BLOCK(CONV("3", "1"), "relu, " CONV("5", "2")), 2},            /* of another value */
    {BLOCK("relu, " CONV("3", "1"), CONV("5", "2")), 2},
    {BLOCK(CONV("5", "2"), "relu, " CONV("3", "1")), 1}}; /* relu leaves right what was */

static void model_of(int i, char *out, size_t size)
{
    int n = snprintf(out, size, "model=[%s, %s, flatten, {type: linear, units: 2}]", CONV("3", "1"),
                     readers[i].layers);
    ASSERT_TRUE(n >= 0 && (size_t)n < size);
}

/* Two steps, the second of which is counted where there are several ranks. */
static uint64_t state_after(lk_comm *comm, const char *model, const char *spatial, int fetches)
{
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    ASSERT_OK(job_of(head, comm, (const char *[MAX_SETTINGS]){model, spatial}, &e, &job));
    lk_trainer *t = lk_job_trainer(job);
    const lk_plan *p = lk_trainer_plan(t);
    ASSERT_OK(lk_trainer_step(t, NULL));
    if (comm)
        bytes_begin(comm);
    ASSERT_OK(lk_trainer_step(t, NULL));
    if (comm) {
        int64_t planned = 0, got = bytes_end(comm).messages;
        int forward = 0;
        for (int64_t i = 0; i < p->n_transfers; i++)
            if (p->transfer[i].kind == LK_FETCHED) {
                planned += p->transfer[i].bytes;
                forward += p->transfer[i].when == LK_IN_FORWARD;
            }
        if (planned != got || forward != fetches)
            TEST_FAIL("%s, %s: %lld bytes of margins for %lld, %d fetches for %d", model, spatial,
                      (long long)got, (long long)planned, forward, fetches);
    }
    uint64_t state = state_of(t);
    job_end(job, e);
    return state;
}

RANKS_TEST(a_value_that_two_layers_read_is_fetched_once)
{
    static const char *const grid[] = {NULL, NULL, NULL, NULL, "2x2", NULL, "3x2"};
    int size = lk_comm_size(comm);
    for (int i = 0; i < (int)(sizeof readers / sizeof readers[0]); i++) {
        char model[1024], spatial[64];
        if (size > 6 || !grid[size])
            return;
        model_of(i, model, sizeof model);
        snprintf(spatial, sizeof spatial, "parallel.spatial=%s", grid[size]);
        uint64_t together = state_after(comm, model, spatial, readers[i].fetches);
        ASSERT_EQ(together, state_after(NULL, model, NULL, 0));
    }
}
