/* lk_model_constrain(): parameters are brought back to what their layers have declared of them.  The caller
 * of an update calls it, on its thread: the trainer in each step, before a pass reads them again.
 * What is declared is looked at when a layer is built.
 *
 *   unit rows   w [outer][n][inner]: w[o][j][i] = w[o][j][i] / sqrt(s[o][i]),
 *               s[o][i] = sum over j of w[o][j][i]^2, a lane sum of fma (numerics.md)
 *
 * What is frozen stays.  A row whose s is 0, or not finite, stays as it is.  A row is never cut over ranks,
 * so a rank that holds some rows needs none of others.
 */
#include "base/fpenv.h"
#include "kernel/runtime/parallel.h"
#include "nn/model.h"

#include <lockstep/extra/checked.h>
#include <lockstep/extra/reduce.h>

#include <math.h>

lk_status lk__unit_declare(const lk_param *param, const char *name, lk__param_start *start)
{
    int64_t elements, row;
    if (param->unit.n == 0)
        return LK_OK;
    LK_TRY(lk_shape_count(param->shape, &elements));
    LK_CHECK(param->unit.n > 0 && param->unit.inner > 0 &&
                 lk_mul_i64(param->unit.n, param->unit.inner, &row) == LK_OK && elements % row == 0,
             LK_ESHAPE, "%s %s is not [...][%lld][%lld]", name, lk_shape_text(param->shape).s,
             (long long)param->unit.n, (long long)param->unit.inner);
    start->unit = param->unit;
    return LK_OK;
}

bool lk_model_has_constraints(const lk_model *model)
{
    for (int64_t i = 0; i < model->net->n_params; i++)
        if (model->net->start[i].unit.n > 0)
            return true;
    return false;
}

/* What is held of a parameter, as rows. */
typedef struct rows {
    lk_dtype dtype;
    int64_t n, inner;
    void *w, *sum; /* [outer][n][inner] and [outer][inner] */
} rows;

static void divide_f32(const rows *r, int64_t o)
{
    float *w = (float *)r->w + o * r->n * r->inner, *s = (float *)r->sum + o * r->inner;
    for (int64_t i = 0; i < r->inner; i++)
        s[i] = s[i] > 0 && isfinite(s[i]) ? sqrtf(s[i]) : 1;
    for (int64_t j = 0; j < r->n; j++)
        for (int64_t i = 0; i < r->inner; i++)
            w[j * r->inner + i] /= s[i];
}

static void divide_f64(const rows *r, int64_t o)
{
    double *w = (double *)r->w + o * r->n * r->inner, *s = (double *)r->sum + o * r->inner;
    for (int64_t i = 0; i < r->inner; i++)
        s[i] = s[i] > 0 && isfinite(s[i]) ? sqrt(s[i]) : 1;
    for (int64_t j = 0; j < r->n; j++)
        for (int64_t i = 0; i < r->inner; i++)
            w[j * r->inner + i] /= s[i];
}

static void divide(void *arg, int64_t first, int64_t last)
{
    const rows *r = arg;
    for (int64_t o = first; o < last; o++)
        if (r->dtype == LK_F32)
            divide_f32(r, o);
        else
            divide_f64(r, o);
}

/* Room for the sums of all rows of the parameter that has the most of them. */
static lk_status sums_room(lk__net *net)
{
    int64_t most = 0;
    for (int64_t i = 0; i < net->n_params && !net->row_sums; i++) {
        int64_t n = net->start[i].unit.n, sums = n > 0 ? lk_tensor_count(net->param[i]) / n : 0;
        most = sums > most ? sums : most;
    }
    if (most > 0)
        LK_TRY(lk_alloc(&net->row_sums, most, lk_dtype_size(net->spec.dtype)));
    return LK_OK;
}

/* Whether no row of what is held is cut: the last axes, which are rows, are whole. */
static bool rows_are_whole(const lk_slab_slice *slice, lk_cut unit)
{
    bool whole = true;
    int64_t behind = 1;
    for (int d = slice->box_of.ndim - 1; d >= 0 && behind < unit.n * unit.inner; d--) {
        whole = whole && slice->box.n[d] == slice->box_of.dim[d];
        behind *= slice->box_of.dim[d];
    }
    return whole;
}

static lk_status rows_normalise(const lk__net *net, int64_t param)
{
    lk_cut unit = net->start[param].unit;
    lk_tensor *w = net->param[param];
    lk_slab_slice slice;
    int64_t held = lk_tensor_count(w);
    rows r = {.dtype = lk_tensor_dtype(w), .n = unit.n, .inner = unit.inner, .sum = net->row_sums};
    if (unit.n == 0 || held == 0)
        return LK_OK;
    LK_TRY(lk_slab_layout_slice(lk_slab_layout_of(net->params), param, &slice));
    LK_CHECK(rows_are_whole(&slice, unit), LK_ENOTSUP,
             "%s has rows of norm 1, but of %s the model holds a part of them: hold all blocks",
             slice.name, lk_slab_slice_text(&slice).s);
    LK_TRY(lk_tensor_writable_data(w, &r.w));
    lk_reduce_axis_shape shape = {
        .outer = held / (unit.n * unit.inner), .n = unit.n, .inner = unit.inner};
    LK_TRY(lk_reduce_axis(r.dtype, LK_REDUCE_AXIS_SUMSQ, &shape, r.w, r.sum));
    return LK_TRACE(lk__parallel(
        lk__tasks_bytes(shape.outer, held / shape.outer * (int64_t)lk_dtype_size(r.dtype)), divide,
        &r));
}

lk_status lk_model_constrain(lk_model *model)
{
    LK_FP_GUARD();
    LK_TRY(lk__model_check_held(model));
    LK_TRY(sums_room(model->net));
    for (int64_t i = 0; i < model->net->n_params; i++)
        if (!model->net->start[i].frozen)
            LK_TRY(rows_normalise(model->net, i));
    return LK_OK;
}
