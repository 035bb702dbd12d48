/* Which layers run by tiles and which by samples: values change from one to the other as rarely as can be, a
 * step changes them as often as was planned, and the bits are those of one rank.
 */
#include "nn/model.h"
#include "real.h"
#include "sent_bytes.h"
#include "trainers.h"

#include <lockstep/extra/plan.h>
#include <lockstep/extra/trainer_plan.h>

#include <string.h>

enum { MOST_FREE = 12 }; /* layers that have a choice, of a net whose ways are all tried */

/* ---- plans and steps ---- */

/* How often values change in forward. */
static int changes_of(const lk_plan *p)
{
    int n = 0;
    for (int64_t i = 0; p->part && i < p->n_layers; i++)
        n += (p->part[i].before != LK_STAY) + (p->part[i].after != LK_STAY);
    return n;
}

/* Train a step that is counted: each change is an alltoall in forward and one in backward, each a message
 * to all others. */
static void expect_changes(lk_comm *comm, lk_trainer *t, int want)
{
    const lk_plan *p = lk_trainer_plan(t);
    int64_t planned = 0, others = lk_comm_size(comm) - 1;
    for (int64_t i = 0; i < p->n_transfers; i++)
        planned += p->transfer[i].kind == LK_CHANGED ? p->transfer[i].calls : 0;
    bytes_begin(comm);
    ASSERT_OK(lk_trainer_step(t, NULL));
    sent_bytes got = bytes_end(comm);
    if (changes_of(p) != want || planned != (int64_t)2 * want || got.alltoalls != planned * others)
        TEST_FAIL("rank %d of %d: %d changes for %d, %lld planned, %lld messages to %lld others",
                  lk_comm_rank(comm), lk_comm_size(comm), changes_of(p), want, (long long)planned,
                  (long long)got.alltoalls, (long long)others);
}

static const char *grid_of(lk_comm *comm)
{
    return lk_comm_size(comm) == 4 ? "parallel.spatial=2x2" : "parallel.spatial=2x1";
}

static bool has_grid(lk_comm *comm)
{
    return lk_comm_size(comm) == 2 || lk_comm_size(comm) == 4;
}

/* ---- the preset ---- */

/* Of ResNet-20 on tiles 4x4 the levels of 16x16 and of 8x8 are too small: x changes once, before the first
 * block of the second level, and with its gradient that is twice. */
RANKS_TEST(a_resnet_leaves_the_tiles_once)
{
    const char *settings[] = {"data={type: glyphs, count: 8, test_count: 0, batch: 8, shards: 4,"
                              " shape: [32, 32, 3]}",
                              "pieces={tiles: 4x4}", grid_of(comm)};
    uint64_t state[2];
    if (!has_grid(comm) || ranks_brief())
        return;
    for (int alone = 0; alone < 2; alone++) {
        lk_experiment *e = NULL;
        lk_job *job = NULL;
        ASSERT_OK(
            lk_experiment_read("experiments/cifar10-resnet.yaml", settings, alone ? 2 : 3, &e));
        ASSERT_OK(lk_job_new(e, alone ? NULL : comm, &job));
        lk_trainer *t = lk_job_trainer(job);
        if (alone)
            ASSERT_OK(lk_trainer_step(t, NULL));
        else
            expect_changes(comm, t, 1);
        state[alone] = state_of(t);
        job_end(job, e);
    }
    ASSERT_EQ(state[0], state[1]);
}

/* ---- nets of layers that keep 16x16 positions ---- */

#define TILED "{type: conv, filters: 2, kernel: 3, padding: 1}"
#define WHOLE "{type: layer_norm, axes: 2}" /* over some of the positions */

static const char head[] =
    "data: {type: shapes, count: 16, test_count: 0, shape: [16, 16, 2], batch: 8, shards: 8}\n"
    "loss: softmax_cross_entropy\n"
    "optimizer: {type: adam, rate: 0.01}\n"
    "pieces: {tiles: 4x4, least_tile: 16}\n";

/* Two steps on all ranks and on one; the second is counted. */
static void expect_same(lk_comm *comm, const char *layers, int want)
{
    char model[2048];
    uint64_t state[2];
    int n = snprintf(model, sizeof model, "model=[%s, flatten, {type: linear, units: 2}]", layers);
    ASSERT_TRUE(n < (int)sizeof model);
    for (int alone = 0; alone < 2; alone++) {
        lk_experiment *e = NULL;
        lk_job *job = NULL;
        const char *settings[MAX_SETTINGS] = {model, alone ? NULL : grid_of(comm)};
        ASSERT_OK(job_of(head, alone ? NULL : comm, settings, &e, &job));
        lk_trainer *t = lk_job_trainer(job);
        ASSERT_OK(lk_trainer_step(t, NULL));
        if (alone)
            ASSERT_OK(lk_trainer_step(t, NULL));
        else
            expect_changes(comm, t, want);
        state[alone] = state_of(t);
        job_end(job, e);
    }
    if (state[0] != state[1])
        TEST_FAIL("%s on %d ranks: another state than on one", layers, lk_comm_size(comm));
}

/* Counted by hand.  Behind these layers is `flatten`, by samples; a list ends as it began, and cannot where
 * what it gives has no positions. */
RANKS_TEST(values_change_where_they_must)
{
    static const struct {
        const char *layers;
        int changes;
    } nets[] = {
        {TILED ", relu, {type: dropout, rate: 0.1}", 1},
        {WHOLE ", relu, {type: maxpool, size: 2}, tanh", 0},
        {"relu, " WHOLE ", relu, " WHOLE, 1},
        {TILED ", " WHOLE ", relu, {type: maxpool, size: 3, stride: 1, padding: 1}, " WHOLE, 1},
        {TILED ", {type: residual, layers: [" WHOLE ", tanh]}, relu, {type: dropout, rate: 0.2},"
               " {type: residual, layers: [relu, " WHOLE "], shortcut: [" WHOLE "]}, tanh, " TILED,
         3},
        {TILED ", {type: residual, layers: [tanh, " TILED ", relu]}, softmax, " TILED, 1},
        {TILED ", {type: residual, join: concat, layers: [" TILED ", relu, {type: residual,"
               " layers: [relu, " WHOLE "]}, {type: dropout, rate: 0.1}, " TILED "]}",
         3},
        {TILED ", {type: residual, layers: [relu, flatten], shortcut: [flatten]}", 1},
        {"{type: residual, layers: [flatten], shortcut: [tanh, flatten]}", 1},
        {TILED ", {type: residual, layers: [" TILED ", flatten], shortcut: [" TILED ", flatten]}",
         5}};
    for (size_t i = 0; has_grid(comm) && i < sizeof nets / sizeof nets[0]; i++)
        expect_same(comm, nets[i].layers, nets[i].changes);
}

/* Of ways with as many changes, that of the fewest bytes: small values change. */
RANKS_TEST(small_values_change)
{
    static const char layers[] = "model=[" TILED ", {type: maxpool, size: 4}, relu, " WHOLE
                                 ", tanh, {type: repeat, size: 4}, " TILED
                                 ", flatten, {type: linear, units: 2}]";
    static const struct {
        const char *layer;
        lk_domain domain;
    } want[] = {{"maxpool1", LK_BY_TILE}, {"relu1", LK_BY_TILE},   {"layer_norm1", LK_BY_SAMPLE},
                {"tanh1", LK_BY_SAMPLE},  {"repeat1", LK_BY_TILE}, {"conv2", LK_BY_TILE}};
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    if (!has_grid(comm))
        return;
    ASSERT_OK(job_of(head, comm, (const char *[MAX_SETTINGS]){layers, grid_of(comm)}, &e, &job));
    const lk_plan *p = lk_trainer_plan(lk_job_trainer(job));
    for (size_t k = 0, seen; k < sizeof want / sizeof want[0]; k++) {
        seen = 0;
        for (int64_t i = 0; i < p->n_layers; i++)
            if (strcmp(p->layer[i].name, want[k].layer) == 0) {
                ASSERT_EQ(p->layer[i].domain, want[k].domain);
                seen++;
            }
        ASSERT_EQ(seen, 1);
    }
    ASSERT_EQ(changes_of(p), 3);
    job_end(job, e);
}

/* ---- all ways ---- */

static int below(uint64_t *random, int n)
{
    return (int)(real_random(random) % (uint32_t)n);
}

/* Some layers, with blocks among them; the same on all ranks. */
static void layers_invent(uint64_t *random, char *out, size_t size, int n, int depth)
{
    static const char *const some[] = {TILED, WHOLE, "relu", "tanh",
                                       "{type: maxpool, size: 3, stride: 1, padding: 1}"};
    out[0] = 0;
    for (int i = 0; i < n; i++) {
        char within[768], shortcut[256] = "", item[1200];
        bool block = depth > 0 && below(random, 3) == 0;
        if (block) {
            layers_invent(random, within, sizeof within, 1 + below(random, 3), depth - 1);
            if (below(random, 2) == 0)
                layers_invent(random, shortcut, sizeof shortcut, 1 + below(random, 2), 0);
            snprintf(item, sizeof item, "{type: residual, layers: [%s], shortcut: [%s]}", within,
                     shortcut);
        } else {
            snprintf(item, sizeof item, "%s", some[below(random, 5)]);
        }
        size_t used = strlen(out);
        int more = snprintf(out + used, size - used, "%s%s", i > 0 ? ", " : "", item);
        ASSERT_TRUE(more >= 0 && (size_t)more < size - used);
    }
}

/* Changes of a list whose layers run where `domain` says. */
static int changes_along(const lk__net *net, const lk_domain *domain, int64_t list, lk_domain at,
                         lk_domain end)
{
    const lk__list *layers = &net->list[list];
    int n = 0;
    for (int64_t i = 0; i < layers->n; i++) {
        int64_t number = layers->instance[i];
        const lk_layer_instance *l = &net->instance[number];
        n += at != domain[number];
        at = domain[number];
        for (int k = 0; k < l->n_lists; k++)
            n += changes_along(net, domain, l->list[k], at, at);
    }
    return n + (at != end);
}

/* The fewest changes of all ways, or -1 if there are too many of these. */
static int fewest_changes(const lk__net *net, const lk_plan *p)
{
    lk_domain domain[64];
    int64_t may[MOST_FREE];
    int n = 0, fewest = INT32_MAX;
    ASSERT_TRUE(p->n_layers <= 64);
    for (int64_t i = 0; i < p->n_layers; i++) {
        const lk_layer_instance *l = &net->instance[i];
        bool chooses = l->reach != LK_REACH_SAMPLE && l->n_params == 0;
        domain[i] = p->layer[i].tiled ? LK_BY_TILE : LK_BY_SAMPLE;
        if (chooses && n == MOST_FREE)
            return -1;
        if (chooses)
            may[n++] = i;
    }
    for (int way = 0; way < 1 << n; way++) {
        for (int k = 0; k < n; k++)
            domain[may[k]] = way >> k & 1 ? LK_BY_TILE : LK_BY_SAMPLE;
        int changes = changes_along(net, domain, 0, p->in, p->out);
        fewest = changes < fewest ? changes : fewest;
    }
    return fewest;
}

/* All ways through random nets are tried, and some of the nets are trained. */
RANKS_TEST(no_way_has_fewer_changes)
{
    int nets = test_whole() ? 400 : ranks_brief() ? 10 : 60, tried = 0;
    uint64_t random = 1;
    if (!has_grid(comm))
        return;
    for (int i = 0; i < nets; i++) {
        char layers[1600], model[2048];
        lk_experiment *e = NULL;
        lk_job *job = NULL;
        layers_invent(&random, layers, sizeof layers, 2 + i % 5, 2);
        snprintf(model, sizeof model, "model=[%s, flatten, {type: linear, units: 2}]", layers);
        ASSERT_OK(job_of(head, comm, (const char *[MAX_SETTINGS]){model, grid_of(comm)}, &e, &job));
        const lk_trainer *t = lk_job_trainer(job);
        const lk_plan *p = lk_trainer_plan(t);
        int planned = changes_of(p), fewest = fewest_changes(lk_trainer_model(t)->net, p);
        if (fewest >= 0 && fewest != planned)
            TEST_FAIL("%d changes, where %d are enough: %s", planned, fewest, model);
        tried += fewest >= 0;
        job_end(job, e);
        if (i % 10 == 4)
            expect_same(comm, layers, planned);
    }
    ASSERT_TRUE(tried > nets / 2);
}
