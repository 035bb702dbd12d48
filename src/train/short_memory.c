/* Where memory runs out in a step: what the rank had planned for, and what takes less; and where it does so
 * before the first step, who can hold a part of the model.
 *
 * The message of the failure says which layer asked for how much.  Passes and reading call this on the
 * trainer's thread, before the failure goes to other ranks: it works in the message's own room.
 */
#include "base/failure.h"
#include "train/pass.h"

#include <stdio.h>
#include <string.h>

/* "2x2x2": twice the ranks along each axis of a sample that has positions for them; false: it has none. */
static bool grid_text(const lk_trainer *t, char out[64])
{
    const lk_tiling *tiling = t->plan->tiling;
    int field = lk_dataset_find(lk_loader_dataset(t->spec.train), "x");
    lk_shape x = {0};
    bool finer = false;
    size_t n = 0;
    if (field >= 0)
        x = lk_loader_field(t->spec.train, field).shape; /* of this rank's box */
    for (int d = 0; d < x.ndim - 1 && d < LK_TILE_AXES; d++) {
        int64_t ranks = tiling && d < tiling->ndim ? tiling->grid.dim[d] : 1;
        bool can = x.dim[d] >= 2;
        finer = finer || can;
        n += (size_t)snprintf(out + n, 64 - n, "%s%lld", d > 0 ? "x" : "",
                              (long long)(can ? 2 * ranks : ranks));
    }
    return finer;
}

/* What computes values again instead of keeping them, or more of it; stages have their own. */
static void recompute_text(const lk_trainer *t, char out[48])
{
    int64_t segments = t->spec.recompute > 1 ? 2 * t->spec.recompute : 4;
    if (t->plan->stages > 1 && !t->plan->spec.recompute_stages)
        snprintf(out, 48, "parallel.recompute true");
    else
        snprintf(out, 48, "train.recompute %lld", (long long)segments);
}

void lk__report_fitting_size(const lk_trainer *t)
{
    lk__failure f;
    char grid[64], batch[48] = "", spatial[96] = "", recompute[48];
    lk__failure_get(&f);
    if (!t->plan)
        return;
    const lk_plan *p = t->plan;
    int ranks, rank = lk__plan_rank(p, &ranks);
    if (grid_text(t, grid))
        snprintf(spatial, sizeof spatial, "parallel.spatial %s, ", grid);
    if (p->spec.batch > 1)
        snprintf(batch, sizeof batch, "data.batch %lld, ", (long long)(p->spec.batch / 2));
    recompute_text(t, recompute);
    size_t n = strlen(f.message);
    snprintf(f.message + n, sizeof f.message - n,
             "; rank %d of %d has planned %lld bytes or more: %s%sor %s may take less, "
             "`lockstep plan FILE --memory SIZE` says what fits",
             rank, ranks, (long long)lk_plan_memory_sum(&p->memory), spatial, batch, recompute);
    lk__failure_set(&f);
}

void lk__report_memory_use(void)
{
    lk__failure f;
    lk__failure_get(&f);
    size_t n = strlen(f.message);
    snprintf(f.message + n, sizeof f.message - n,
             "; with parallel.stages, or with parallel.features and pieces.blocks, a rank holds a "
             "part of the model: `lockstep plan FILE --memory SIZE` says what fits");
    lk__failure_set(&f);
}
