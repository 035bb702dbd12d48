/* The search for the extreme of each group, also as an op for backward. */
#include "ops/common/axes/extreme.h"

#include "base/fpenv.h"
#include "base/integer.h"
#include "kernel/runtime/parallel.h"
#include "ops/common/axes/axes.h"
#include "ops/common/ops.h"
#include "ops/common/parts.h"
#include "tensor/tensor.h"

/* ---- groups: the elements of a row-major tensor that a reduction makes one output of ---- */

/* Axes of one kind, kept or reduced, from the last to the first, neighbours joined. */
typedef struct group_axes {
    int ndim;
    int64_t dim[LK_MAX_NDIM], stride[LK_MAX_NDIM];
} group_axes;

typedef struct reduction_groups {
    group_axes kept, reduced;
    int64_t n; /* elements of a group */
} reduction_groups;

/* Elements from the first to number `i`, counted in row-major order along `axes`.  Element p of
 * group k is at offset(kept, k) + offset(reduced, p). */
static int64_t group_offset(const group_axes *axes, int64_t i)
{
    int64_t at = 0;
    for (int d = 0; d < axes->ndim; d++) {
        at += i % axes->dim[d] * axes->stride[d];
        i /= axes->dim[d];
    }
    return at;
}

/* The groups of a tensor of `shape` that is reduced over the axes of `bits`. */
static reduction_groups groups_of(lk_shape shape, unsigned bits)
{
    reduction_groups g = {.n = lk__axes_count(shape, bits)};
    int64_t stride = 1;
    for (int d = shape.ndim - 1; d >= 0; d--) {
        group_axes *a = bits >> d & 1 ? &g.reduced : &g.kept;
        int last = a->ndim - 1;
        if (last >= 0 && lk__times(a->stride[last], a->dim[last]) == stride) {
            a->dim[last] = lk__times(a->dim[last], shape.dim[d]);
        } else {
            a->dim[a->ndim] = shape.dim[d];
            a->stride[a->ndim++] = stride;
        }
        stride = lk__times(stride, shape.dim[d]);
    }
    return g;
}

/* ---- the search ----
 *
 * What is looked for is the largest `sign` * v.  Stretches of neighbours are first compared without
 * a branch; only where one beats what was found, or is a NaN, they are looked at one by one.
 */

enum { STRETCH = 32 };

typedef struct extreme_job {
    reduction_groups g;
    int64_t row, step; /* elements of the last reduced axis */
    int64_t n, task;   /* groups in all, and of a task */
    int64_t side;      /* neighbours among them */
    int sign;          /* -1 to find the smallest */
    const char *x;
    int64_t *at;
} extreme_job;

/* rows_type: at[0] = the position of the extreme of the group at x, row by row.
 * columns_type: those of `n` groups, at most STRETCH, whose elements are neighbours. */
#define FIND_DEFINE(real, type)                                                                 \
    static bool better_##type(real v, real best)                                                \
    {                                                                                           \
        return v > best || (v != v && best == best);                                            \
    }                                                                                           \
                                                                                                \
    static void rows_##type(const extreme_job *j, const real *group, int64_t *at)               \
    {                                                                                           \
        const real sign = (real)j->sign;                                                        \
        real best = sign * group[0];                                                            \
        *at = 0;                                                                                \
        for (int64_t p = 0; p < j->g.n; p += j->row) {                                          \
            const real *r = group + group_offset(&j->g.reduced, p);                             \
            for (int64_t first = 0; first < j->row && best == best; first += STRETCH) {         \
                int64_t last = lk__min(first + STRETCH, j->row);                                \
                int any = j->step != 1;                                                         \
                for (int64_t i = first; j->step == 1 && i < last; i++)                          \
                    any |= !(sign * r[i] <= best);                                              \
                for (int64_t i = first; any && i < last; i++)                                   \
                    if (better_##type(sign * r[i * j->step], best)) {                           \
                        best = sign * r[i * j->step];                                           \
                        *at = p + i;                                                            \
                    }                                                                           \
            }                                                                                   \
        }                                                                                       \
    }                                                                                           \
                                                                                                \
    static void columns_##type(const extreme_job *j, const real *group, int64_t n, int64_t *at) \
    {                                                                                           \
        const real sign = (real)j->sign;                                                        \
        real best[STRETCH];                                                                     \
        for (int64_t k = 0; k < n; k++) {                                                       \
            best[k] = sign * group[k];                                                          \
            at[k] = 0;                                                                          \
        }                                                                                       \
        for (int64_t p = 1; p < j->g.n; p++) {                                                  \
            const real *r = group + group_offset(&j->g.reduced, p);                             \
            int any = 0;                                                                        \
            for (int64_t k = 0; k < n; k++)                                                     \
                any |= !(sign * r[k] <= best[k]);                                               \
            for (int64_t k = 0; any && k < n; k++)                                              \
                if (better_##type(sign * r[k], best[k])) {                                      \
                    best[k] = sign * r[k];                                                      \
                    at[k] = p;                                                                  \
                }                                                                               \
        }                                                                                       \
    }                                                                                           \
                                                                                                \
    /* Tasks are `task` groups each. */                                                         \
    static void groups_##type(void *arg, int64_t first, int64_t last)                           \
    {                                                                                           \
        const extreme_job *j = arg;                                                             \
        const int64_t end = lk__min(last * j->task, j->n);                                      \
        for (int64_t k = first * j->task, n; k < end; k += n) {                                 \
            const real *group = (const real *)(const void *)j->x + group_offset(&j->g.kept, k); \
            n = lk__min(lk__min(j->side - k % j->side, STRETCH), end - k);                      \
            if (n > 1)                                                                          \
                columns_##type(j, group, n, j->at + k);                                         \
            else                                                                                \
                rows_##type(j, group, j->at + k);                                               \
        }                                                                                       \
    }

FIND_DEFINE(float, f32)
FIND_DEFINE(double, f64)

lk_status lk__extreme_find(lk_call *c, bool smallest)
{
    const lk_tensor *x = c->x[0], *y = c->y[0];
    extreme_job j = {.g = groups_of(x->shape, lk__axes_bits(c->attr, x->shape.ndim)),
                     .row = 1,
                     .n = y->count,
                     .task = 1,
                     .side = 1,
                     .sign = smallest ? -1 : 1,
                     .x = lk__tensor_start(x),
                     .at = (int64_t *)(void *)lk__tensor_start(y)};
    LK_CHECK(j.g.n > 0 || y->count == 0, LK_ESHAPE, "%s of %s: there is no element to find",
             c->op->name, lk_tensor_text(x).s);
    if (y->count == 0)
        return LK_OK;
    if (j.g.reduced.ndim > 0) {
        j.row = j.g.reduced.dim[0];
        j.step = j.g.reduced.stride[0];
    }
    if (j.g.kept.ndim > 0 && j.g.kept.stride[0] == 1) {
        j.side = j.g.kept.dim[0];
        j.task = lk__min(j.side, STRETCH);
    }
    int64_t bytes = j.task * j.g.n * (int64_t)lk_dtype_size(x->dtype);
    return LK_TRACE(lk__parallel(lk__tasks_bytes((j.n - 1) / j.task + 1, bytes),
                                 x->dtype == LK_F32 ? groups_f32 : groups_f64, &j));
}

typedef struct where_attr {
    lk_axes axes;
    bool smallest;
} where_attr;

lk_status lk__extreme_infer(lk_call *c, lk_output_spec *out)
{
    LK_TRY(lk__axes_infer(c, out));
    out->dtype = LK_I64;
    return LK_OK;
}

static lk_status where_forward(lk_call *c)
{
    return LK_TRACE(lk__extreme_find(c, ((const where_attr *)c->attr)->smallest));
}

static const lk_op extreme_where = {
    .name = "extreme_where",
    .summary = "the position of the extreme of each group",
    LK_ARITY(1, 1),
    .attr_size = sizeof(where_attr),
    .infer = lk__extreme_infer,
    .forward = where_forward,
};

/* ---- place and pick: one element of each group, moved into zeros or out of it; a pair of adjoint ops ----
 *
 *   place   y = zeros, but y[group k][at[k]] = x[k]        dx = pick of dy
 *   pick    y[k] = x[group k][at[k]]                       dx = place of dy
 */

static const lk_op pick;

typedef struct pick_attr {
    lk_axes axes;
    lk_shape shape; /* of the tensor with groups */
} pick_attr;

typedef struct pick_job {
    reduction_groups g;
    size_t size;
    const int64_t *at;
    bool into;  /* the groups: place */
    bool first; /* with 0 added */
    const char *x;
    char *y;
} pick_job;

/* Tasks are groups. */
static void pick_groups(void *arg, int64_t first, int64_t last)
{
    const pick_job *j = arg;
    int64_t size = (int64_t)j->size;
    for (int64_t k = first; k < last; k++) {
        int64_t in_groups = group_offset(&j->g.kept, k) + group_offset(&j->g.reduced, j->at[k]);
        int64_t from = j->into ? k : in_groups, to = j->into ? in_groups : k;
        char *y = memcpy(j->y + to * size, j->x + from * size, j->size);
        if (j->first && size == sizeof(float))
            *(float *)(void *)y += 0;
        else if (j->first)
            *(double *)(void *)y += 0;
    }
}

static lk_status pick_run(lk_call *c, bool into)
{
    const pick_attr *a = c->attr;
    pick_job j = {.g = groups_of(a->shape, lk__axes_bits(&a->axes, a->shape.ndim)),
                  .size = lk_dtype_size(c->x[0]->dtype),
                  .at = (const int64_t *)(void *)lk__tensor_start(c->x[1]),
                  .into = into,
                  .first = c->overwrite,
                  .x = lk__tensor_start(c->x[0]),
                  .y = lk__tensor_start(c->y[0])};
    return LK_TRACE(lk__parallel(lk__tasks_functions(c->x[1]->count, 1), pick_groups, &j));
}

static lk_status place_infer(lk_call *c, lk_output_spec *out)
{
    out->dtype = c->x[0]->dtype;
    out->shape = ((const pick_attr *)c->attr)->shape;
    return LK_OK;
}

static lk_status place_forward(lk_call *c)
{
    if (c->overwrite)
        LK_TRY(lk__fp_check());
    LK_TRY(lk__fill(c->y[0], 0));
    return LK_TRACE(pick_run(c, true));
}

static lk_status place_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    return LK_TRACE(lk_apply(c->tape, &pick, (lk_var[]){dout[0], c->in[1]}, 2, c->attr, &din[0]));
}

static const lk_op place = {
    .name = "place",
    .summary = "zeros with one element of each group given",
    LK_ARITY(2, 1),
    .flags = LK_OP_LINEAR | LK_OP_OVERWRITES,
    .attr_size = sizeof(pick_attr),
    .saves_in = 2,
    .infer = place_infer,
    .forward = place_forward,
    .backward = place_backward,
};

static lk_status pick_infer(lk_call *c, lk_output_spec *out)
{
    out->dtype = c->x[0]->dtype;
    out->shape = c->x[1]->shape;
    return LK_OK;
}

static lk_status pick_forward(lk_call *c)
{
    return LK_TRACE(pick_run(c, false));
}

static lk_status pick_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    return LK_TRACE(lk_apply(c->tape, &place, (lk_var[]){dout[0], c->in[1]}, 2, c->attr, &din[0]));
}

static const lk_op pick = {
    .name = "pick",
    .summary = "one element of each group",
    LK_ARITY(2, 1),
    .flags = LK_OP_LINEAR,
    .attr_size = sizeof(pick_attr),
    .saves_in = 2,
    .infer = pick_infer,
    .forward = pick_forward,
    .backward = pick_backward,
};

lk_status lk__extreme_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    const lk_reduce_axis_op *op = c->op->data;
    where_attr a = {*(const lk_axes *)c->attr, *op == LK_REDUCE_AXIS_MIN};
    lk_shape x = lk_shape_of(c->in[0]);
    lk_var at;
    if (lk__axes_count(x, ~0u) == 0) {
        return LK_TRACE(lk_zeros_like(c->in[0], din));
    }
    LK_TRY(lk_apply(c->tape, &extreme_where, c->in, 1, &a, &at));
    return LK_TRACE(
        lk_apply_gradient(c, 0, &place, (lk_var[]){dout[0], at}, 2, &(pick_attr){a.axes, x}, din));
}
