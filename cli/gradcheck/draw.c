/* gradcheck_draw(): all products of ranks along the axes in a random order, and of these the first that a plan
 * can be made for. */
#include "gradcheck/draw.h"

#include "layout.h"

#include <lockstep/extra/trainer_plan.h>
#include <lockstep/rng.h>

#include <stdio.h>

static int64_t most_of(int64_t pieces)
{
    return pieces < 1 ? 1 : pieces > GRADCHECK_RANKS ? GRADCHECK_RANKS : pieces;
}

/* Ranks along an axis, 1 to `most`; *number is divided by that. */
static int64_t digit(int64_t *number, int64_t most)
{
    int64_t n = 1 + *number % most;
    *number /= most;
    return n;
}

/* Product number `number`, and how many there are. */
static int64_t shape_at(const lk_job *job, int64_t number, lk_mesh_shape *out)
{
    const lk_experiment *e = lk_job_experiment(job);
    const lk_pieces *cut = &e->pieces.cut;
    int64_t shards = most_of(lk_loader_options_shards(&e->loader));
    int64_t blocks = most_of(cut->blocks), total = shards * blocks * GRADCHECK_RANKS;
    *out = (lk_mesh_shape){.ndim = 0};
    out->data = digit(&number, shards);
    out->features = digit(&number, blocks);
    out->stages = digit(&number, GRADCHECK_RANKS);
    int64_t space = 1;
    for (int i = 0; i < 3; i++) {
        int64_t tiles = most_of(cut->tile[i]);
        total *= tiles;
        out->space[i] = digit(&number, tiles);
        space *= out->space[i];
        if (tiles > 1)
            out->ndim = i + 1;
    }
    if (space == 1)
        out->ndim = 0;
    return total;
}

/* Whether the model can be cut so. */
static lk_status is_possible(const lk_job *job, const lk_mesh_shape *shape, int ranks, bool *out)
{
    lk_plan *plan = NULL;
    lk_status st = lk_trainer_plan_of(lk_job_trainer(job), shape, ranks, 0, &plan);
    lk_plan_free(plan);
    *out = st == LK_OK;
    if (st == LK_ENOMEM)
        LK_TRY(st);
    if (st != LK_OK)
        lk_error_clear();
    return LK_OK;
}

static lk_status schedule_draw(lk_rng rng, int64_t number, gradcheck_layout *l)
{
    static const char *const schedules[] = {"1f1b", "gpipe", "zb1p"};
    static const char *const lags[] = {"auto", "full", "1"};
    static const int64_t micro_batches[] = {0, 1, 2, 4};
    int64_t v[4];
    for (int i = 0; i < 4; i++)
        LK_TRY(lk_rng_below(rng, (lk_rng_at){0, number, i}, i == 1 ? 4 : 3, 1, &v[i]));
    l->schedule = schedules[v[0]];
    l->micro_batch = micro_batches[v[1]];
    l->lag = v[0] == 2 ? lags[v[2]] : NULL;
    l->recompute = v[3] == 0;
    return LK_OK;
}

static void parallel_write(gradcheck_layout *l)
{
    char grid[LAYOUT_GRID];
    const lk_mesh_shape *s = &l->shape;
    int n = snprintf(l->parallel, sizeof l->parallel, "{data: %lld", (long long)s->data);
    size_t at = (size_t)n, size = sizeof l->parallel;
    if (s->ndim > 0)
        at += (size_t)snprintf(l->parallel + at, size - at, ", spatial: %s",
                               layout_grid_text(s->ndim, s->space, grid));
    if (s->features > 1)
        at += (size_t)snprintf(l->parallel + at, size - at, ", features: %lld",
                               (long long)s->features);
    if (s->stages > 1)
        at += (size_t)snprintf(l->parallel + at, size - at,
                               ", stages: %lld, schedule: %s, lag: %s, micro_batch: %lld, "
                               "recompute: %s",
                               (long long)s->stages, l->schedule, l->lag ? l->lag : "auto",
                               (long long)l->micro_batch, l->recompute ? "true" : "false");
    snprintf(l->parallel + at, size - at, "}");
}

lk_status gradcheck_draw(const lk_job *job, int64_t seed, const char *name, int64_t n,
                         gradcheck_layout *out, int64_t *found)
{
    lk_rng rng = lk_rng_start(seed, name, "layouts");
    lk_mesh_shape shape;
    int64_t total = shape_at(job, 0, &shape);
    *found = 0;
    for (int64_t i = 0; i < total && *found < n; i++) {
        int64_t number;
        bool possible;
        LK_TRY(lk_rng_permute(rng, 0, total, i, 1, &number));
        (void)shape_at(job, number, &shape);
        int64_t ranks = layout_ranks(&shape);
        if (ranks == 1 || ranks > GRADCHECK_RANKS)
            continue;
        LK_TRY(is_possible(job, &shape, (int)ranks, &possible));
        if (!possible)
            continue;
        gradcheck_layout *l = &out[(*found)++];
        *l = (gradcheck_layout){.shape = shape, .ranks = (int)ranks};
        lk_mesh_shape_text(&shape, l->word);
        if (shape.stages > 1)
            LK_TRY(schedule_draw(rng, number, l));
        parallel_write(l);
    }
    return LK_OK;
}
