/* dropout: y = x / keep where a draw is below `keep`, 0 elsewhere.
 *
 *   y[i][e] = u < T ? x[i][e] * s : 0      s = 1 / keep, T = keep * 2^32, rounded
 *   dx      = the same of dy
 *
 * With two inputs s and x, as a residual block joins them, y = s + that, in one pass; ds = dy.  s comes first,
 * as its gradient does where the two are ops of their own.
 *
 * u is the 32 bits at (step, first + i, e) of the stream: a pure function of the sample and the
 * element, so that neither the cut of the batch nor the threads matter, and nothing is saved.  Of a
 * box of each sample, e counts the elements of the whole one.
 */
#include "base/fpenv.h"
#include "kernel/runtime/parallel.h"
#include "ops/common/ops.h"
#include "tensor/tensor.h"

#include <lockstep/extra/map.h>

#include <stdatomic.h>

enum { RUN = 512 };

typedef struct dropout_job {
    const lk_dropout_attr *attr;
    lk_dtype dtype;
    int64_t n, per_sample; /* elements */
    int64_t stretch;       /* elements that lie side by side in the whole sample too */
    uint64_t below;
    double scale;
    bool first;        /* y = 0 + the result */
    const char *x, *s; /* s NULL: nothing is added */
    char *y;
    _Atomic int failed; /* the status of a draw that failed */
} dropout_job;

/* Whether x is the box that the attributes name. */
static lk_status box_check(const lk_dropout_attr *a, const lk_tensor *x)
{
    int64_t elements;
    lk_shape held = {.ndim = a->of.ndim + 1};
    if (a->of.ndim == 0)
        return LK_OK;
    LK_CHECK(a->of.ndim > 0 && a->of.ndim < LK_MAX_NDIM && a->box.ndim == a->of.ndim, LK_EINVAL,
             "dropout of a box of %d axes of samples that have %d", a->box.ndim, a->of.ndim);
    LK_TRY(lk_shape_count(a->of, &elements));
    LK_CHECK(lk_box_is_within(&a->box, a->of.dim), LK_EINVAL,
             "dropout of %s: the box does not lie in samples of %s", lk_tensor_text(x).s,
             lk_shape_text(a->of).s);
    held.dim[0] = x->shape.ndim > 0 ? x->shape.dim[0] : 1;
    memcpy(&held.dim[1], a->box.n, (size_t)a->box.ndim * sizeof held.dim[0]);
    LK_CHECK(lk_shape_is_equal(x->shape, held), LK_ESHAPE, "dropout of %s, where the box has %s",
             lk_tensor_text(x).s, lk_shape_text(held).s);
    return LK_OK;
}

/* What elements are dropped of. */
static const lk_tensor *x_of(const lk_call *c)
{
    return c->x[c->n_in - 1];
}

static lk_status dropout_infer(lk_call *c, lk_output_spec *out)
{
    const lk_dropout_attr *a = c->attr;
    const lk_tensor *x = x_of(c);
    LK_TRY(lk__same_infer(c, out));
    LK_CHECK(x->dtype == out->dtype, LK_EDTYPE, "dropout of %s, added to %s: lk_cast() one of them",
             lk_tensor_text(x).s, lk_tensor_text(c->x[0]).s);
    LK_CHECK(lk_shape_is_equal(x->shape, out->shape), LK_ESHAPE,
             "dropout of %s, added to %s, which must have its shape", lk_tensor_text(x).s,
             lk_tensor_text(c->x[0]).s);
    LK_CHECK(a->keep > 0 && a->keep <= 1, LK_EINVAL,
             "dropout keeps with probability %g, which must be above 0 and at most 1", a->keep);
    int64_t samples = out->shape.ndim > 0 ? out->shape.dim[0] : 1;
    LK_CHECK(a->step >= 0 && a->step <= UINT32_MAX, LK_EINVAL,
             "dropout in step %lld, which is not in [0, 2^32)", (long long)a->step);
    LK_CHECK(a->first >= 0 && samples <= (INT64_C(1) << 48) - a->first, LK_EINVAL,
             "dropout of %s from sample %lld on: samples must be in [0, 2^48)", lk_tensor_text(x).s,
             (long long)a->first);
    return LK_TRACE(box_check(a, x));
}

/* The number that element e of what is held of a sample has in the whole one. */
static int64_t element_number(const lk_dropout_attr *a, int64_t e)
{
    int64_t number = 0, step = 1;
    if (a->of.ndim == 0)
        return e;
    for (int d = a->of.ndim - 1; d >= 0; d--) {
        number += (a->box.first[d] + e % a->box.n[d]) * step;
        e /= a->box.n[d];
        step *= a->of.dim[d];
    }
    return number;
}

/* Signed numbers in the order of the unsigned ones: those are what SSE2 compares. */
static inline int32_t signed_order(uint32_t u)
{
    return (int32_t)(u ^ 0x80000000u);
}

/* The product's bits, masked: compilers make a branch of a choice, and half of them are wrong.  To add -0
 * changes nothing. */
#define DROPOUT_RUN(type, word)                                        \
    {                                                                  \
        const type *x = (const type *)(const void *)j->x + at;         \
        type *restrict y = (type *)(void *)j->y + at;                  \
        const type scale = (type)j->scale;                             \
        const type zero = (type)(j->first ? 0 : -0.0);                 \
        for (int64_t i = 0; i < n; i++) {                              \
            type kept = x[i] * scale;                                  \
            word w;                                                    \
            memcpy(&w, &kept, sizeof w);                               \
            w &= (word)0 - (word)(signed_order(bits[i]) <= last_kept); \
            memcpy(&kept, &w, sizeof w);                               \
            y[i] = kept + zero;                                        \
        }                                                              \
        const type *s = (const type *)(const void *)j->s;              \
        for (int64_t i = 0; s && i < n; i++)                           \
            y[i] = y[i] + s[at + i];                                   \
    }

/* Runs [first, last) of elements, in row-major order. */
static void dropout_task(void *arg, int64_t first, int64_t last)
{
    dropout_job *j = arg;
    const int64_t end = last * RUN < j->n ? last * RUN : j->n;
    uint32_t bits[RUN];
    const int32_t last_kept = signed_order((uint32_t)(j->below - 1));
    for (int64_t at = first * RUN, n; at < end; at += n) {
        lk_rng_at place = {.step = j->attr->step,
                           .sample = j->attr->first + at / j->per_sample,
                           .element = element_number(j->attr, at % j->per_sample)};
        n = j->stretch - at % j->stretch;
        n = n < end - at ? n : end - at;
        n = n < RUN ? n : RUN;
        lk_status st = lk_rng_bits(j->attr->stream, place, n, bits);
        if (st != LK_OK) {
            j->failed = st;
            return;
        }
        if (j->dtype == LK_F32)
            DROPOUT_RUN(float, uint32_t)
        else
            DROPOUT_RUN(double, uint64_t)
    }
}

static lk_status dropout_forward(lk_call *c)
{
    const lk_dropout_attr *a = c->attr;
    const lk_tensor *x = x_of(c);
    dropout_job j = {.attr = a,
                     .dtype = x->dtype,
                     .n = x->count,
                     .below = (uint64_t)(a->keep * 0x1p32 + 0.5),
                     .scale = 1 / a->keep,
                     .first = c->overwrite,
                     .x = lk__tensor_start(x),
                     .s = c->n_in > 1 ? lk__tensor_start(c->x[0]) : NULL,
                     .y = lk__tensor_start(c->y[0])};
    LK_TRY(lk__fp_check());
    if (x->count == 0)
        return LK_OK;
    if (j.below == 0) {
        memset(j.y, 0, (size_t)x->count * lk_dtype_size(x->dtype));
        if (j.s)
            LK_TRY(lk_map2(x->dtype, LK_MAP2_ADD, 0, x->count, j.y, j.s, j.y));
        return LK_OK;
    }
    j.per_sample = j.stretch = x->shape.ndim > 0 ? x->count / x->shape.dim[0] : 1;
    if (a->of.ndim > 0) {
        lk_box_walk walk = lk_box_start(&a->box, a->of.dim);
        (void)lk_box_next(&walk);
        j.stretch = walk.n;
    }
    LK_TRY(lk__parallel(lk__tasks_functions((j.n + RUN - 1) / RUN, RUN), dropout_task, &j));
    LK_CHECK(j.failed == LK_OK, (lk_status)j.failed,
             "dropout of %s: an element has no place in the stream", lk_tensor_text(x).s);
    return LK_OK;
}

static lk_status dropout_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    int x = c->n_in - 1;
    if (x > 0)
        din[0] = dout[0];
    if (lk_call_needs_grad(c, x))
        LK_TRY(lk_apply_gradient(c, x, c->op, dout, 1, c->attr, &din[x]));
    return LK_OK;
}

static const lk_dropout_attr sample_box = {
    .keep = 0.5, .of = LK_DIMS(4, 5, 2), .box = {3, {1, 2, 0}, {2, 3, 2}}};

static const lk_op_sample samples[] = {
    {.n_in = 1, .in = {LK_IN(3, 2, 4)}, .attr = &(const lk_dropout_attr){.keep = 0.5}},
    {.n_in = 1,
     .in = {LK_IN(7)},
     .attr = &(const lk_dropout_attr){{{1, 2}}, .step = 3, .first = 5, .keep = 0.8}},
    {.n_in = 1, .in = {LK_IN(2, 3)}, .attr = &(const lk_dropout_attr){.keep = 1}},
    {.n_in = 1, .in = {LK_IN(2, 2, 3, 2)}, .attr = &sample_box},
    {.n_in = 2, .in = {LK_IN(3, 5), LK_IN(3, 5)}, .attr = &(const lk_dropout_attr){.keep = 0.6}},
    {0}};

const lk_op lk__op_dropout = {
    .name = "dropout",
    .summary =
        "x / keep with probability keep, otherwise 0; drawn by sample and element; or s plus that",
    .min_in = 1,
    .max_in = 2,
    .n_out = 1,
    .flags = LK_OP_LINEAR | LK_OP_OVERWRITES,
    .attr_size = sizeof(lk_dropout_attr),
    .infer = dropout_infer,
    .forward = dropout_forward,
    .backward = dropout_backward,
    .samples = samples,
};

lk_status lk_dropout(lk_var x, const lk_dropout_attr *attr, lk_var *out)
{
    return LK_TRACE(lk_apply(x.tape, &lk__op_dropout, &x, 1, attr, out));
}

lk_status lk_dropout_add(lk_var x, const lk_dropout_attr *attr, lk_var s, lk_var *out)
{
    return LK_TRACE(lk_apply(x.tape, &lk__op_dropout, (lk_var[]){s, x}, 2, attr, out));
}
