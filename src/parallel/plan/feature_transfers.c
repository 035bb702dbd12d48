/* What a layer sends along features in a pass, of which transfers.c makes the plan's transfers.
 *
 *     gather, take back           an allgather: the features that this rank has
 *     copy back, join             an allreduce: all of the value
 *     gather_sum, scattered back  a reduce_scatter: all of the value
 *     recurrent layers            the same between each two times, of the state
 *
 * lk_plan_new() calls it by way of transfers.c, on each rank; it is arithmetic.
 */
#include "nn/model.h"
#include "parallel/plan/features.h"

static int64_t last_of(lk_tensor_type type)
{
    return type.shape.ndim > 0 ? type.shape.dim[type.shape.ndim - 1] : 1;
}

/* Rows of a sample that a rank has of a value: its positions, or those of the held box. */
static int64_t rows_of(lk_tensor_type type, const lk_box *box)
{
    int64_t rows = 1;
    for (int d = 0; d < type.shape.ndim - 1; d++)
        rows *= box && d < box->ndim ? box->n[d] : type.shape.dim[d];
    return rows;
}

/* What is counted: the plan's rank, a layer, and one sample. */
typedef struct count {
    const lk_plan *plan;
    const lk_layer_instance *layer;
    lk__feature_calls *out;
} count;

static void gathered(const count *c, int64_t rows, lk_tensor_type type, int64_t n)
{
    lk_range own = lk_feature_range(c->plan->split, c->plan->split->rank, n);
    c->out->gathers++;
    c->out->gather_bytes += rows * own.n * (int64_t)lk_dtype_size(type.dtype);
}

static void joined(const count *c, int64_t rows, lk_tensor_type type, int64_t n)
{
    c->out->joins++;
    c->out->join_bytes += rows * n * (int64_t)lk_dtype_size(type.dtype);
}

/* The state of a recurrent layer, between each two times. */
static void times_count(const count *c, bool forward)
{
    const lk_layer_instance *l = c->layer;
    for (int64_t t = 1; t < l->in.shape.dim[0]; t++)
        if (forward)
            gathered(c, 1, l->in, last_of(l->out));
        else
            joined(c, 1, l->in, last_of(l->out));
}

static void forward_count(const count *c, const lk_feature_part *f, int64_t x_rows, int64_t y_rows)
{
    const lk_layer_instance *l = c->layer;
    if (f->before == LK_FEATURES_GATHER || f->before == LK_FEATURES_GATHER_SUM ||
        (f->kind == LK_FEATURES_OUT && f->sum == LK_FEATURE_SCATTERED))
        gathered(c, x_rows, l->in, last_of(l->in));
    if (f->kind == LK_FEATURES_OUT && l->n_carries > 0)
        times_count(c, true);
    if (f->kind == LK_FEATURES_IN)
        joined(c, y_rows, l->out, last_of(l->out));
    if (f->after == LK_FEATURES_GATHER)
        gathered(c, y_rows, l->out, last_of(l->out));
}

/* `needs`: x has a gradient. */
static void backward_count(const count *c, const lk_feature_part *f, bool needs, int64_t x_rows)
{
    const lk_layer_instance *l = c->layer;
    if (f->kind == LK_FEATURES_OUT && l->n_carries > 0)
        times_count(c, false);
    bool sums = f->kind == LK_FEATURES_OUT && lk_dtype_is_real(l->in.dtype) &&
                f->sum != LK_FEATURE_PARTIAL;
    if (needs && (sums || f->before == LK_FEATURES_COPY || f->before == LK_FEATURES_GATHER_SUM))
        joined(c, x_rows, l->in, last_of(l->in));
    if (needs && f->before == LK_FEATURES_TAKE)
        gathered(c, x_rows, l->in, last_of(l->in));
}

lk__feature_calls lk__feature_calls_of(const lk_plan *p, const lk_model *model, int64_t layer,
                                       bool forward, bool needs)
{
    lk__feature_calls out = {0};
    const lk_layer_instance *l = &model->net->instance[layer];
    if (!p->split || p->split->size == 1)
        return out;
    const lk_layer_part *part = &p->part[layer];
    const lk_tile *tile = part->by_tile ? part->tile : NULL;
    count c = {p, l, &out};
    int64_t x_rows = rows_of(l->in, tile ? &tile->x.box : NULL),
            y_rows = rows_of(l->out, tile ? &tile->y.box : NULL);
    if (forward)
        forward_count(&c, &part->features, x_rows, y_rows);
    else
        backward_count(&c, &part->features, needs, x_rows);
    return out;
}

static void loss_count(const count *c, int64_t rows, lk_tensor_type type)
{
    for (int i = 0; i < 3; i++) /* the largest, the sum, and that of the label */
        joined(c, rows, type, 1);
}

static void metrics_count(const count *c, int64_t rows, lk_tensor_type type)
{
    if (c->plan->spec.places) { /* the number of the label, and how many come before it */
        joined(c, rows, type, 1);
        joined(c, rows, (lk_tensor_type){.dtype = LK_I64}, 1);
    }
    if (c->plan->spec.measures)
        gathered(c, rows, type, last_of(type));
}

/* A tile at a time where it is tiled. */
lk__feature_calls lk__feature_out_calls(const lk_plan *p, const lk_model *model, bool metrics)
{
    lk__feature_calls out = {0};
    lk_tensor_type type = lk_model_out(model);
    const lk_tile *tile = p->out == LK_BY_TILE ? p->loss : NULL;
    int64_t rows = rows_of(type, tile ? &tile->x.tile : NULL);
    int64_t leaves = p->loss_tiled ? lk_tiling_leaves(p->tiling) : 1;
    if (!p->out_cut || p->split->size == 1)
        return out;
    (metrics ? metrics_count : loss_count)(&(count){p, NULL, &out}, rows, type);
    out.joins *= leaves;
    out.gathers *= leaves;
    return out;
}
