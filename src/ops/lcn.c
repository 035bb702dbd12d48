/* lcn: local contrast normalisation of images x [samples][rows][columns][channels].  With A the
 * sum over a Gaussian window (common/gauss.h), and sums over the channels,
 *
 *   v = x - A sum x,  s = sqrt(A sum v^2), or 1 where that is 0,  y = v / s
 *
 *   dv = dy / s + v A q,  q = (ds - sum (dy y) / s) / s
 *   dx = dv - A sum dv
 *
 * This is the true derivative also where v is 0.  Where s is 1 for want of contrast it counts as a
 * constant: v, and with it y, is 0 in the whole window.  Backward takes v as y s.  The recorded
 * backward is made of other ops and has the same bits.
 */
#include "ops/common/norm/lcn.h"

#include "base/fpenv.h"
#include "kernel/runtime/parallel.h"
#include "ops/common/norm/gauss.h"
#include "ops/common/ops.h"
#include "tensor/tensor.h"

#include <math.h>

static lk__gauss window_of(const lk_lcn_attr *a, int64_t channels)
{
    return (lk__gauss){{a->window[0], a->window[1]}, channels > 0 ? channels : 1};
}

lk_status lk__lcn_infer(lk_call *c, const lk_lcn_attr *a, lk_output_spec *out)
{
    const int64_t limit = 1 << 15;
    LK_TRY(lk__same_infer(c, out));
    LK_CHECK(out->shape.ndim == 4, LK_ESHAPE,
             "%s of %s, which is not [samples][rows][columns][channels]", c->op->name,
             lk_tensor_text(c->x[0]).s);
    for (int i = 0; i < 2; i++)
        LK_CHECK(a->window[i] > 0 && a->window[i] < limit && a->window[i] % 2 == 1, LK_EINVAL,
                 "%s with a window of %lld x %lld: both must be odd, positive and below %lld",
                 c->op->name, (long long)a->window[0], (long long)a->window[1], (long long)limit);
    out[1].dtype = out[0].dtype;
    out[1].shape = out[0].shape;
    out[1].shape.dim[3] = 1;
    return LK_OK;
}

static lk_status lcn_infer(lk_call *c, lk_output_spec *out)
{
    return LK_TRACE(lk__lcn_infer(c, c->attr, out));
}

/* ---- by pixels: values [pixels][channels] and numbers [pixels] ---- */

typedef struct pixels {
    lk_dtype dtype;
    int64_t n, channels;
    const void *a, *b; /* values */
    const void *p, *q; /* numbers */
    void *y;           /* values */
} pixels;

/* Define `name`, a task on pixels that writes `expr` of their a, b, p, q, and o, what was there. */
#define PIXEL_MAP(name, expr)                                \
    static void name(void *arg, int64_t first, int64_t last) \
    {                                                        \
        const pixels *s = arg;                               \
        if (s->dtype == LK_F32)                              \
            PIXEL_LOOP(float, expr)                          \
        else                                                 \
            PIXEL_LOOP(double, expr)                         \
    }

#define PIXEL_LOOP(type, expr)                                                   \
    {                                                                            \
        typedef type real;                                                       \
        for (int64_t i = first; i < last; i++) {                                 \
            const real *xa = (const real *)s->a + i * s->channels;               \
            const real *xb = (const real *)s->b + i * s->channels;               \
            const real p = ((const real *)s->p)[i], q = ((const real *)s->q)[i]; \
            real *y = (real *)s->y + i * s->channels;                            \
            (void)p, (void)q;                                                    \
            for (int64_t k = 0; k < s->channels; k++) {                          \
                const real a = xa[k], b = xb[k], o = y[k];                       \
                (void)a, (void)b, (void)o;                                       \
                y[k] = (real)(expr);                                             \
            }                                                                    \
        }                                                                        \
    }

PIXEL_MAP(subtract, a - p)
PIXEL_MAP(divide, o / p)
PIXEL_MAP(deviation, a == 0 ? 1 : sqrt((double)a))
PIXEL_MAP(product, a *b)
PIXEL_MAP(share, (b - a / p) / p)
PIXEL_MAP(quotient_rule, a / p + b * p * q)
PIXEL_MAP(subtract_from, o - p)

/* Run a map.  Missing operands are others, which it does not use. */
static lk_status pixel_map(pixels s, lk__task_fn *map)
{
    s.b = s.b ? s.b : s.a;
    s.p = s.p ? s.p : s.a;
    s.q = s.q ? s.q : s.p;
    return LK_TRACE(lk__parallel(lk__tasks_functions(s.n, s.channels), map, &s));
}

/* What forward and backward have in common. */
typedef struct lcn_job {
    lk__gauss window;
    lk__gauss_shape shape;
    pixels s;               /* dtype and sizes */
    void *sum, *window_sum; /* numbers */
} lcn_job;

static lk_status job_make(lk_call *c, const lk__lcn_shape *of, lcn_job *j)
{
    *j = (lcn_job){.window = window_of(&of->attr, of->channels)};
    j->shape = (lk__gauss_shape){.dtype = of->dtype,
                                 .n = of->samples,
                                 .rows = of->rows,
                                 .columns = of->columns,
                                 .window = &j->window};
    j->s = (pixels){
        .dtype = of->dtype, .n = of->samples * of->rows * of->columns, .channels = of->channels};
    int64_t bytes = j->s.n * (int64_t)lk_dtype_size(of->dtype);
    LK_TRY(lk__fp_check());
    LK_TRY(lk__gauss_make(c, &j->window, &j->shape.g));
    LK_TRY(lk_call_scratch(c, bytes, &j->sum));
    return LK_TRACE(lk_call_scratch(c, bytes, &j->window_sum));
}

/* j->sum = values reduced over the channels. */
static lk_status reduce_channels(lcn_job *j, lk_reduce_axis_op op, const void *values)
{
    lk_reduce_axis_shape s = {.outer = j->s.n, .n = j->s.channels, .inner = 1};
    return LK_TRACE(lk_reduce_axis(j->s.dtype, op, &s, values, j->sum));
}

/* j->window_sum = the same, summed over the window. */
static lk_status sum_window(lcn_job *j)
{
    return LK_TRACE(lk__gauss_sum(&j->shape, j->sum, j->window_sum));
}

lk_status lk__lcn_values(lk_call *c, const lk__lcn_shape *of, const void *x, void *y, void *s)
{
    lcn_job j;
    if (of->samples * of->rows * of->columns == 0)
        return LK_OK;
    LK_TRY(job_make(c, of, &j));
    pixels values = j.s, numbers = j.s;
    LK_TRY(reduce_channels(&j, LK_REDUCE_AXIS_SUM, x));
    LK_TRY(sum_window(&j));
    values.a = x;
    values.p = j.window_sum;
    values.y = y;
    LK_TRY(pixel_map(values, subtract));
    LK_TRY(reduce_channels(&j, LK_REDUCE_AXIS_SUMSQ, y));
    LK_TRY(sum_window(&j));
    numbers.channels = 1;
    numbers.a = j.window_sum;
    numbers.y = s;
    LK_TRY(pixel_map(numbers, deviation));
    values.p = s;
    return LK_TRACE(pixel_map(values, divide));
}

/* Images as input 0 has them. */
static lk__lcn_shape shape_of(const lk_call *c)
{
    const lk_tensor *x = c->x[0];
    const int64_t *dim = x->shape.dim;
    return (lk__lcn_shape){x->dtype, dim[0], dim[1], dim[2], dim[3], *(const lk_lcn_attr *)c->attr};
}

static lk_status lcn_forward(lk_call *c)
{
    lk__lcn_shape of = shape_of(c);
    return LK_TRACE(lk__lcn_values(c, &of, lk__tensor_start(c->x[0]), lk__tensor_start(c->y[0]),
                                   lk__tensor_start(c->y[1])));
}

/* ---- lcn_grad: dx of y, s, dy and ds, for a backward that is not recorded ---- */

lk_status lk__lcn_gradient(lk_call *c, const lk__lcn_shape *of, const lk__lcn_grad *in, void *dx)
{
    lcn_job j;
    if (of->samples * of->rows * of->columns * of->channels == 0)
        return LK_OK;
    LK_TRY(job_make(c, of, &j));
    pixels values = j.s, numbers = j.s;
    values.a = in->dy;
    values.b = in->y;
    values.y = dx;
    LK_TRY(pixel_map(values, product));
    LK_TRY(reduce_channels(&j, LK_REDUCE_AXIS_SUM, dx));
    numbers.channels = 1;
    numbers.a = j.sum;
    numbers.b = in->ds;
    numbers.p = in->s;
    numbers.y = j.sum;
    LK_TRY(pixel_map(numbers, share));
    LK_TRY(sum_window(&j));
    values.p = in->s;
    values.q = j.window_sum;
    LK_TRY(pixel_map(values, quotient_rule));
    LK_TRY(reduce_channels(&j, LK_REDUCE_AXIS_SUM, dx));
    LK_TRY(sum_window(&j));
    values.p = j.window_sum;
    return LK_TRACE(pixel_map(values, subtract_from));
}

static lk_status grad_forward(lk_call *c)
{
    lk__lcn_shape of = shape_of(c);
    lk__lcn_grad in = {lk__tensor_start(c->x[0]), lk__tensor_start(c->x[1]),
                       lk__tensor_start(c->x[2]), lk__tensor_start(c->x[3])};
    return LK_TRACE(lk__lcn_gradient(c, &of, &in, lk__tensor_start(c->y[0])));
}

static const lk_op lcn_grad = {
    .name = "lcn_grad",
    .summary = "the gradient of x",
    LK_ARITY(4, 1),
    .attr_size = sizeof(lk_lcn_attr),
    .infer = lk__same_infer,
    .forward = grad_forward,
};

/* ---- of other ops ---- */

/* *out = A sum x. */
static lk_status window_sum_of(const lk_call *c, lk_var x, lk_var *out)
{
    lk_shape shape = lk_shape_of(x);
    lk__gauss w = window_of(c->attr, lk_shape_of(c->in[0]).dim[3]);
    shape.dim[3] = 1;
    LK_TRY(lk_sum_to(x, shape, out));
    return LK_TRACE(lk__gauss_apply(*out, &w, out));
}

static lk_status compose(const lk_call *c, lk_var dy, lk_var ds, lk_var *dx)
{
    lk_var y = c->out[0], s = c->out[1], q, v;
    lk_shape shape = lk_shape_of(s);
    LK_TRY(lk_mul(dy, y, &q));
    LK_TRY(lk_sum_to(q, shape, &q));
    LK_TRY(lk_div(q, s, &q));
    LK_TRY(lk_sub(ds, q, &q));
    LK_TRY(lk_div(q, s, &q));
    LK_TRY(window_sum_of(c, q, &q));
    LK_TRY(lk_mul(y, s, &v));
    LK_TRY(lk_mul(v, q, &v));
    LK_TRY(lk_div(dy, s, &q));
    LK_TRY(lk_add(q, v, &v));
    LK_TRY(window_sum_of(c, v, &q));
    return LK_TRACE(lk_sub(v, q, dx));
}

static lk_status lcn_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_var d[2];
    for (int j = 0; j < 2; j++) {
        d[j] = dout[j];
        if (!lk_is_var(d[j]))
            LK_TRY(lk_zeros_like(c->out[j], &d[j]));
    }
    if (lk_tape_is_recording(c->tape)) {
        return LK_TRACE(compose(c, d[0], d[1], &din[0]));
    }
    lk_var in[] = {c->out[0], c->out[1], d[0], d[1]};
    return LK_TRACE(lk_apply(c->tape, &lcn_grad, in, 4, c->attr, &din[0]));
}

const lk_op lk__op_lcn = {
    .name = "lcn",
    .summary = "local contrast normalisation: less the local mean, by the local deviation",
    LK_ARITY(1, 2),
    .attr_size = sizeof(lk_lcn_attr),
    .infer = lcn_infer,
    .forward = lcn_forward,
    .backward = lcn_backward,
    .samples =
        (const lk_op_sample[]){
            {.n_in = 1, .in = {LK_IN(1, 4, 5, 2)}, .attr = &(const lk_lcn_attr){{3, 3}}},
            {.n_in = 1, .in = {LK_IN(2, 3, 4, 1)}, .attr = &(const lk_lcn_attr){{1, 5}}},
            {.n_in = 1, .in = {LK_IN(2, 2, 1, 3)}, .attr = &(const lk_lcn_attr){{5, 3}}},
            {.n_in = 1, .in = {LK_IN(2, 2, 1, 3)}, .attr = &(const lk_lcn_attr){{1, 1}}},
            {0}},
};

lk_status lk_lcn(lk_var x, int64_t rows, int64_t columns, lk_var *out)
{
    lk_lcn_attr attr = {{rows, columns}};
    lk_var y[2] = {LK_NO_VAR, LK_NO_VAR};
    LK_CHECK(out, LK_EINVAL, "out is NULL");
    lk_status st = lk_apply(x.tape, &lk__op_lcn, &x, 1, &attr, y);
    *out = y[0];
    return LK_TRACE(st);
}
