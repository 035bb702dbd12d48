/* feature_places: where the label's number comes among those of its row, the largest first, of x [...][classes]
 * whose classes are cut over ranks, with labels k [...]; for each row
 *
 *   y = how many classes come before class k (lk__comes_before()), i64, without a gradient
 *
 * Two vectors of a number for each row are joined: x[k] by OR on the bits, for one rank alone has it, and what
 * each rank counts among its classes, by sums.  Made by lk_dist_feature_places(), run on the thread of the
 * tape.
 */
#include "ops/common/places.h"

#include "base/memory/rehearsal.h"
#include "dist/common/features.h"
#include "ops/common/index.h"
#include "ops/common/ops.h"

#include <string.h>

static lk_status places_infer(lk_call *c, lk_output_spec *out)
{
    const lk__feature_node *a = c->attr;
    const lk_tensor *x = c->x[0], *k = c->x[1];
    lk_shape rows = x->shape;
    LK_TRY(lk__feature_check(c, "x", x, lk__feature_held(a->split, a->n)));
    rows.ndim--;
    LK_CHECK(lk__is_index(k->dtype) && lk_shape_is_equal(k->shape, rows), LK_ESHAPE,
             "%s of %s and %s: labels are i64 or i32 and have the axes of x but the last",
             c->op->name, lk_tensor_text(x).s, lk_tensor_text(k).s);
    *out = (lk_output_spec){.dtype = LK_I64, .shape = rows};
    return LK_OK;
}

static double at(lk_dtype dtype, const void *x, int64_t i)
{
    return dtype == LK_F32 ? (double)((const float *)x)[i] : ((const double *)x)[i];
}

/* Numbers of labels that this rank has, of `elem` bytes; zeros for the others. */
static void labels_copy(const lk_call *c, lk_range own, size_t elem, char *of)
{
    const lk_tensor *k = c->x[1];
    const char *x = lk__tensor_start(c->x[0]);
    memset(of, 0, (size_t)k->count * elem);
    for (int64_t i = 0; i < k->count; i++) {
        int64_t label = lk__index_at(k, i) - own.first;
        if (label >= 0 && label < own.n)
            memcpy(of + (size_t)i * elem, x + (size_t)(i * own.n + label) * elem, elem);
    }
}

/* What comes before each label among the classes of this rank. */
static void places_count(const lk_call *c, lk_range own, const void *of, int64_t *place)
{
    const lk_tensor *x = c->x[0], *k = c->x[1];
    const void *from = lk__tensor_start(x);
    for (int64_t i = 0; i < k->count; i++) {
        int64_t label = lk__index_at(k, i);
        double value = at(x->dtype, of, i);
        place[i] = 0;
        for (int64_t n = 0; n < own.n; n++)
            place[i] += lk__comes_before(at(x->dtype, from, i * own.n + n), own.first + n, value,
                                         label);
    }
}

static lk_status rows_join(lk_call *c, lk_reduce_op op, lk_dtype dtype, void *v)
{
    const lk__feature_node *a = c->attr;
    int64_t rows = c->x[1]->count;
    lk_collective call = {
        .call = LK_CALL_ALLREDUCE, .out = v, .count = rows, .dtype = dtype, .op = op};
    if (lk__feature_travels(a->split, a->n))
        LK_TRY(lk__feature_run(c, a, &call, rows * (int64_t)lk_dtype_size(dtype)));
    return LK_OK;
}

static lk_status places_forward(lk_call *c)
{
    const lk__feature_node *a = c->attr;
    const lk_tensor *x = c->x[0], *k = c->x[1];
    size_t elem = lk_dtype_size(x->dtype);
    lk_range own = lk_feature_range(a->split, a->split->rank, a->n);
    void *of = NULL, *place = lk__tensor_start(c->y[0]);
    LK_TRY(lk__index_check(k, a->n, "feature_places: label"));
    LK_TRY(lk_call_scratch(c, k->count * (int64_t)elem, &of));
    if (!lk__rehearses())
        labels_copy(c, own, elem, of);
    LK_TRY(rows_join(c, LK_REDUCE_OR, x->dtype == LK_F32 ? LK_I32 : LK_I64, of));
    if (!lk__rehearses())
        places_count(c, own, of, place);
    return LK_TRACE(rows_join(c, LK_REDUCE_SUM, LK_I64, place));
}

static const lk_op places = {.name = "feature_places",
                             .summary = "how many classes come before the label, over ranks",
                             LK_ARITY(2, 1),
                             .flags = LK_OP_COLLECTIVE,
                             .attr_size = sizeof(lk__feature_node),
                             .infer = places_infer,
                             .forward = places_forward};

lk_status lk_dist_feature_places(const lk_feature_split *split, int64_t classes, lk_var x,
                                 lk_var label, const char *name, lk_var *out)
{
    LK_TRY(lk__feature_begin(split, places.name, x, out));
    LK_CHECK(classes >= 0, LK_EINVAL, "%s: %lld classes", places.name, (long long)classes);
    lk__feature_node a = lk__feature_of(split, classes, 0, name);
    LK_TRY_DIST(split->comm, lk_apply(x.tape, &places, (lk_var[]){x, label}, 2, &a, out));
    return LK_OK;
}
