/* Which layouts a training can have: what each way to cut the work does not go with, and how many ranks
 * it needs. lk_trainer_new() asks before it makes anything, on each rank, and lk_trainer_plan_of() for
 * layouts that are only planned, so that both refuse the same in the same words.  It is arithmetic on
 * what the trainer was given.
 */
#include "nn/model.h"
#include "parallel/chain/chain.h"
#include "train/trainer.h"

#include <stdio.h>

/* Ranks along space. */
static int64_t space_of(const lk_trainer_spec *s)
{
    const lk_option_ints *grid = &s->parallel.spatial;
    int64_t space = 1;
    for (int i = 0; i < grid->n && i < 3; i++)
        space *= grid->item[i];
    return space;
}

static int64_t stages_of(const lk_trainer_spec *s)
{
    return s->parallel.stages > 1 ? s->parallel.stages : 1;
}

static int64_t features_of(const lk_trainer_spec *s)
{
    return s->parallel.features > 1 ? s->parallel.features : 1;
}

/* What ranks that have `parts` of the model each, by parallel.`axis`, cannot have, or have no use for. */
static lk_status parts_check(const lk_parallel_options *p, const char *axis, const char *parts)
{
    LK_CHECK(p->mode != LK_REDUCTION_FAST, LK_ENOTSUP,
             "parallel.%s costs nothing for the same bits: leave out parallel.mode=fast", axis);
    LK_CHECK(!p->double_buffering, LK_ENOTSUP,
             "parallel.double_buffering is for ranks that share the batch alone: leave out "
             "parallel.%s",
             axis);
    LK_CHECK(p->update != LK_UPDATE_SHARED, LK_ENOTSUP,
             "parallel.%s: each rank updates the %s that it has; leave out parallel.update=shared",
             axis, parts);
    return LK_OK;
}

/* What blocks of features cannot have, or have no use for. */
static lk_status blocks_check(const lk_trainer_spec *s)
{
    const lk_pieces *cut = &s->pieces;
    LK_CHECK(!s->parallel_model || cut->blocks <= 1, LK_ENOTSUP,
             "a model on several devices is not cut into blocks: leave out parallel.devices, or "
             "pieces.blocks and parallel.features");
    LK_CHECK(!s->chain || cut->blocks <= 1, LK_ENOTSUP,
             "a chain is not cut into blocks, its components have whole layers: leave out "
             "pieces.blocks and parallel.features");
    if (s->model)
        LK_CHECK(s->model->net->spec.pieces.blocks == (cut->blocks > 1 ? cut->blocks : 1),
                 LK_EINVAL,
                 "the run has %lld blocks of features, and the model was built with %lld: give "
                 "lk_model_spec.pieces the same",
                 (long long)(cut->blocks > 1 ? cut->blocks : 1),
                 (long long)s->model->net->spec.pieces.blocks);
    if (features_of(s) == 1)
        return LK_OK;
    return LK_TRACE(parts_check(&s->parallel, "features", "parts of layers"));
}

/* What a pipeline cannot have yet, or has no use for. */
static lk_status stages_check(const lk_trainer_spec *s)
{
    if (stages_of(s) == 1)
        return LK_OK;
    LK_CHECK(
        !s->chain, LK_ENOTSUP,
        "parallel.stages cuts a model, and a chain list says itself who has what: leave it out");
    LK_CHECK(!s->parallel_model, LK_ENOTSUP,
             "a model on several devices is not cut into stages: leave out parallel.devices, or "
             "parallel.stages");
    return LK_TRACE(parts_check(&s->parallel, "stages", "layers"));
}

/* What tiles cannot have. */
static lk_status tiles_check(const lk_trainer_spec *s)
{
    const lk_pieces *cut = &s->pieces;
    bool tiles = space_of(s) > 1 || cut->tile[0] > 1 || cut->tile[1] > 1 || cut->tile[2] > 1;
    LK_CHECK(!s->parallel_model || !tiles, LK_ENOTSUP,
             "a model on several devices is not cut into tiles: leave out parallel.devices, or "
             "pieces.tiles and parallel.spatial");
    LK_CHECK(!s->chain || !tiles, LK_ENOTSUP,
             "a chain is not cut into tiles, its ranks have whole samples: leave out pieces.tiles "
             "and parallel.spatial");
    return LK_OK;
}

/* What travels during the next step must not meet what others wait for in it. */
static lk_status double_buffering_check(const lk_trainer_spec *s)
{
    const lk_parallel_options *p = &s->parallel;
    LK_CHECK(!s->chain, LK_ENOTSUP,
             "parallel.double_buffering: the ranks of a chain exchange no gradients; leave it out");
    LK_CHECK(space_of(s) == 1, LK_ENOTSUP,
             "parallel.double_buffering is for ranks that share the batch alone: leave out "
             "parallel.spatial");
    LK_CHECK(!lk_model_needs_batch_sync(s->model), LK_ENOTSUP,
             "parallel.double_buffering: a layer takes statistics of the whole batch, for which "
             "ranks wait in each pass; use statistics: shard");
    LK_CHECK(p->update != LK_UPDATE_SHARED, LK_ENOTSUP,
             "parallel.double_buffering: each rank updates its own copy; leave out "
             "parallel.update=shared");
    LK_CHECK(p->overlap != LK_OVERLAP_YES, LK_ENOTSUP,
             "parallel.double_buffering: gradients travel during the next step already; leave out "
             "parallel.overlap=yes");
    return LK_OK;
}

/* Whether gradients can travel as the options say. */
static lk_status exchange_check(const lk_trainer_spec *s)
{
    const lk_parallel_options *p = &s->parallel;
    if (p->double_buffering)
        LK_TRY(double_buffering_check(s));
    const char *wire = lk_wire_name((lk_wire)p->wire);
    if (p->wire == LK_WIRE_DTYPE)
        return LK_OK;
    LK_CHECK(!s->chain, LK_ENOTSUP,
             "parallel.wire=%s: the ranks of a chain exchange no gradients; leave it out", wire);
    LK_CHECK(p->mode == LK_REDUCTION_FAST, LK_EINVAL,
             "parallel.wire=%s rounds what each rank has added up, so that bits depend on the "
             "number of ranks: give parallel.mode=fast as well",
             wire);
    LK_CHECK(space_of(s) == 1, LK_ENOTSUP,
             "parallel.wire=%s is for ranks that share the batch alone: leave out parallel.spatial",
             wire);
    lk_dtype dtype = s->model->net->spec.dtype;
    LK_CHECK(dtype == LK_F32, LK_EDTYPE,
             "parallel.wire=%s: gradients are %s, and only f32 can "
             "travel so",
             wire, lk_dtype_name(dtype));
    return LK_OK;
}

/* Several devices of a rank are of its model, and sums over the batch are over them or over ranks. */
static lk_status devices_check(const lk_trainer_spec *s, int ranks)
{
    const lk_parallel_model *p = s->parallel_model;
    if (!p)
        return LK_OK;
    LK_CHECK(lk_parallel_model_serial(p) == s->model, LK_EINVAL,
             "the parallel model is made of another model than that which is trained");
    int n = lk_parallel_model_devices(p);
    LK_CHECK(
        n < 2 || (int64_t)n * ranks <= lk_loader_shards(s->train), LK_EINVAL,
        "a batch has %lld shards for %d devices%s, so some would have none: take at least %lld "
        "(data.shards), or fewer devices",
        (long long)lk_loader_shards(s->train), n, ranks > 1 ? " of each rank" : "",
        (long long)n * ranks);
    LK_CHECK(
        !lk_model_needs_batch_sync(s->model) || lk_parallel_model_is_serial(p) || ranks == 1,
        LK_ENOTSUP,
        "a layer takes statistics of the whole batch (statistics: batch), which are taken "
        "over ranks or over the devices of one: use more ranks, or parallel.devices, not both");
    return LK_OK;
}

lk_status lk__trainer_layout_check(const lk_trainer_spec *s, int ranks)
{
    LK_TRY(stages_check(s));
    LK_TRY(blocks_check(s));
    LK_TRY(tiles_check(s));
    LK_TRY(exchange_check(s));
    return LK_TRACE(devices_check(s, ranks));
}

lk_status lk__trainer_ranks_check(const lk_trainer_spec *s, int size)
{
    const lk_parallel_options *p = &s->parallel;
    int64_t space = space_of(s) * stages_of(s) * features_of(s);
    for (int i = 0; i < p->spatial.n; i++)
        LK_CHECK(p->spatial.item[i] >= 1 && i < 3, LK_EINVAL,
                 "parallel.spatial: %lld parts along axis %d; a grid has up to three axes of at "
                 "least one part",
                 (long long)p->spatial.item[i], i);
    char ranks[48], grid[128] = "";
    snprintf(ranks, sizeof ranks, "there %s %d rank%s", size == 1 ? "is" : "are", size,
             size == 1 ? "" : "s");
    int at = 0;
    for (int i = 0; space_of(s) > 1 && i < p->spatial.n && i < 3; i++)
        at += snprintf(grid + at, sizeof grid - (size_t)at, "%s%lld", i ? "x" : "parallel.spatial ",
                       (long long)p->spatial.item[i]);
    if (features_of(s) > 1)
        at += snprintf(grid + at, sizeof grid - (size_t)at, "%sparallel.features %lld",
                       at > 0 ? " and " : "", (long long)features_of(s));
    if (stages_of(s) > 1)
        snprintf(grid + at, sizeof grid - (size_t)at, "%sparallel.stages %lld",
                 at > 0 ? " and " : "", (long long)stages_of(s));
    LK_CHECK(p->data > 0 || size % space == 0, LK_EINVAL,
             "%s has %lld parts, but %s: start %lld, or a multiple of it (lockstep run -n %lld -- "
             "...)",
             grid, (long long)space, ranks, (long long)space,
             (long long)((size / space + 1) * space));
    LK_CHECK(p->data == 0 || p->data * space == size, LK_EINVAL,
             "parallel.data is %lld%s%s, but %s: start %lld (lockstep run -n %lld -- ...), or "
             "leave it out",
             (long long)p->data, space > 1 ? " and " : "", grid, ranks,
             (long long)(p->data * space), (long long)(p->data * space));
    return LK_OK;
}
