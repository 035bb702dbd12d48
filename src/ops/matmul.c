/* matmul: c = op(a) op(b), the matrices of the last two axes, for each of the leading axes.
 *
 *   c[..., i, j] = sum over k of op(a)[..., i, k] op(b)[..., k, j]      op: transposed or not
 *   da = dc op(b)' and db = op(a)' dc, transposed back, summed over the axes they were repeated along
 *
 * Each element is one chain of lk_gemm_run().  Where the sum runs over the first axis of both a and
 * b, which is the batch (two axes, a transposed, b not), it is cut into pieces of the tape.
 */
#include "ops/common/ops.h"
#include "ops/common/products.h"
#include "tensor/tensor.h"

#include <lockstep/extra/gemm.h>

extern const lk_op lk__op_matmul;

/* The sizes of a product: rows and columns of op(a) and op(b). */
typedef struct matmul_size {
    int64_t m, k, k_b, n;
} matmul_size;

static matmul_size size_of(const lk_matmul_attr *t, const lk_shape *a, const lk_shape *b)
{
    const int64_t *p = &a->dim[a->ndim - 2], *q = &b->dim[b->ndim - 2];
    return (matmul_size){p[t->trans_a], p[!t->trans_a], q[t->trans_b], q[!t->trans_b]};
}

static lk_status matmul_infer(lk_call *c, lk_output_spec *out)
{
    const lk_matmul_attr *t = c->attr;
    const lk_tensor *a = c->x[0], *b = c->x[1];
    const lk_short_string ta = lk_tensor_text(a), tb = lk_tensor_text(b);
    LK_TRY(lk__same_infer(c, out));
    LK_CHECK(a->dtype == b->dtype, LK_EDTYPE, "matmul of %s and %s: lk_cast() one of them", ta.s,
             tb.s);
    LK_CHECK(a->shape.ndim >= 2 && b->shape.ndim >= 2, LK_ESHAPE,
             "matmul of %s and %s: both need two axes or more; lk_reshape() a vector to a matrix",
             ta.s, tb.s);
    matmul_size s = size_of(t, &a->shape, &b->shape);
    LK_CHECK(s.k == s.k_b, LK_ESHAPE, "matmul of %s%s and %s%s: sums over %lld and %lld elements",
             ta.s, t->trans_a ? " transposed" : "", tb.s, t->trans_b ? " transposed" : "",
             (long long)s.k, (long long)s.k_b);
    const lk_shape *wide = a->shape.ndim >= b->shape.ndim ? &a->shape : &b->shape,
                   *other = wide == &a->shape ? &b->shape : &a->shape;
    int skip = wide->ndim - other->ndim;
    out->shape = *wide;
    for (int d = skip; d < wide->ndim - 2; d++) {
        int64_t p = wide->dim[d], q = other->dim[d - skip];
        LK_CHECK(p == q || p == 1 || q == 1, LK_ESHAPE,
                 "matmul of %s and %s: leading axes are matched from the last one, and must be "
                 "equal or 1",
                 ta.s, tb.s);
        out->shape.dim[d] = p == 1 ? q : p;
    }
    out->shape.dim[wide->ndim - 2] = s.m;
    out->shape.dim[wide->ndim - 1] = s.n;
    return LK_OK;
}

/* Leading axes that are left after neighbours with regular steps are joined, the innermost first. */
typedef struct matmul_axes {
    int ndim;
    int64_t dim[LK_MAX_NDIM], a[LK_MAX_NDIM], b[LK_MAX_NDIM];
} matmul_axes;

/* Elements from one index of the output's axis `d` to the next: 0 where it is repeated. */
static int64_t step_of(const lk_tensor *x, const lk_tensor *y, int d)
{
    int own = d - (y->shape.ndim - x->shape.ndim);
    return own < 0 || x->shape.dim[own] == 1 ? 0 : x->stride[own];
}

static matmul_axes axes_of(const lk_call *c)
{
    const lk_tensor *y = c->y[0];
    matmul_axes l = {0};
    for (int d = y->shape.ndim - 3; d >= 0; d--) {
        int64_t n = y->shape.dim[d], a = step_of(c->x[0], y, d), b = step_of(c->x[1], y, d);
        int i = l.ndim - 1;
        if (n == 1)
            continue;
        if (i >= 0 && a == l.dim[i] * l.a[i] && b == l.dim[i] * l.b[i]) {
            l.dim[i] *= n;
            continue;
        }
        l.dim[l.ndim] = n;
        l.a[l.ndim] = a;
        l.b[l.ndim++] = b;
    }
    return l;
}

/* Matrices that are multiplied by one and the same are the rows of a larger one. */
static void join_rows(lk_gemm *g, matmul_axes *l)
{
    if (l->ndim == 0 || g->trans_a || l->b[0] != 0 || l->a[0] != g->m * g->k)
        return;
    g->m *= l->dim[0];
    l->dim[0] = 1;
    l->a[0] = 0;
}

static lk_status matmul_forward(lk_call *c)
{
    const lk_matmul_attr *t = c->attr;
    const lk_tensor *a = c->x[0], *b = c->x[1], *y = c->y[0];
    const int64_t elem = (int64_t)lk_dtype_size(y->dtype);
    if (y->count == 0)
        return LK_OK;
    matmul_size s = size_of(t, &a->shape, &b->shape);
    lk_gemm g = {.dtype = y->dtype,
                 .trans_a = t->trans_a,
                 .trans_b = t->trans_b,
                 .m = s.m,
                 .n = s.n,
                 .k = s.k,
                 .lda = t->trans_a ? s.m : s.k,
                 .ldb = t->trans_b ? s.k : s.n,
                 .ldc = s.n};
    if (t->trans_a && !t->trans_b && a->shape.ndim == 2 && b->shape.ndim == 2)
        g.piece = lk_tape_shard_size(c->tape);
    matmul_axes l = axes_of(c);
    join_rows(&g, &l);
    lk_gemm_batch batch = {1, 0, 0, g.m * g.n};
    if (l.ndim > 0)
        batch = (lk_gemm_batch){l.dim[0], l.a[0], l.b[0], g.m * g.n};
    const char *pa = lk__tensor_start(a), *pb = lk__tensor_start(b);
    char *pc = lk__tensor_start(y);
    for (int64_t i = 0; i < y->count / (batch.count * g.m * g.n); i++) {
        int64_t at_a = 0, at_b = 0, rest = i;
        for (int d = 1; d < l.ndim; d++) {
            at_a += rest % l.dim[d] * l.a[d];
            at_b += rest % l.dim[d] * l.b[d];
            rest /= l.dim[d];
        }
        LK_TRY(lk_gemm_run_batched(&g, &batch, pa + at_a * elem, pb + at_b * elem, NULL,
                                   pc + i * batch.count * batch.stride_c * elem));
    }
    return LK_OK;
}

/* The gradient of input `i` is a product, summed over the axes that the input was repeated along. */
static lk_status grad_product(const lk_call *c, int i, const lk_var *factors, bool trans_a,
                              bool trans_b, lk_var *out)
{
    lk_shape to = lk_shape_of(c->in[i]), dc = lk_shape_of(c->out[0]);
    lk_matmul_attr attr = {trans_a, trans_b};
    memcpy(&dc.dim[dc.ndim - 2], &to.dim[to.ndim - 2], 2 * sizeof dc.dim[0]);
    if (lk_shape_is_equal(to, dc)) {
        return LK_TRACE(lk_apply_gradient(c, i, &lk__op_matmul, factors, 2, &attr, out));
    }
    LK_TRY(lk_matmul_trans(factors[0], factors[1], trans_a, trans_b, out));
    return LK_TRACE(lk_sum_to(*out, to, out));
}

static lk_status grad_of_a(lk_call *c, lk_var dc, lk_var *out)
{
    const lk_matmul_attr *t = c->attr;
    if (t->trans_a)
        LK_TRY(grad_product(c, 0, (lk_var[]){c->in[1], dc}, t->trans_b, true, out));
    else
        LK_TRY(grad_product(c, 0, (lk_var[]){dc, c->in[1]}, false, !t->trans_b, out));
    return LK_OK;
}

static lk_status grad_of_b(lk_call *c, lk_var dc, lk_var *out)
{
    const lk_matmul_attr *t = c->attr;
    lk_var a = c->in[0], factors[] = {t->trans_b ? dc : a, t->trans_b ? a : dc};
    if (lk_shape_of(c->in[1]).ndim == 2 && !t->trans_a) /* one sum over all rows of a */
        LK_TRY(lk_apply_gradient(c, 1, &lk__op_linear_weights, factors, 2, NULL, out));
    else if (t->trans_b)
        LK_TRY(grad_product(c, 1, factors, true, t->trans_a, out));
    else
        LK_TRY(grad_product(c, 1, factors, !t->trans_a, false, out));
    return LK_OK;
}

static lk_status matmul_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    if (lk_call_needs_grad(c, 0))
        LK_TRY(grad_of_a(c, dout[0], &din[0]));
    if (lk_call_needs_grad(c, 1))
        LK_TRY(grad_of_b(c, dout[0], &din[1]));
    return LK_OK;
}

lk_status lk_matmul_trans(lk_var a, lk_var b, bool trans_a, bool trans_b, lk_var *out)
{
    lk_matmul_attr attr = {trans_a, trans_b};
    return LK_TRACE(lk_apply(a.tape, &lk__op_matmul, (lk_var[]){a, b}, 2, &attr, out));
}

lk_status lk_matmul(lk_var a, lk_var b, lk_var *out)
{
    return LK_TRACE(lk_matmul_trans(a, b, false, false, out));
}

#define ATTR(a, b) (&(const lk_matmul_attr){a, b})

const lk_op lk__op_matmul = {
    .name = "matmul",
    .summary = "op(a) op(b), products of matrices, either transposed or not",
    LK_ARITY(2, 1),
    .attr_size = sizeof(lk_matmul_attr),
    .saves_in = 3,
    .infer = matmul_infer,
    .forward = matmul_forward,
    .backward = matmul_backward,
    .samples =
        (const lk_op_sample
             []){{.n_in = 2, .in = {LK_IN(2, 3), LK_IN(3, 4)}, .attr = ATTR(false, false)},
                 {.n_in = 2,
                  .in = {LK_IN(5, 2), LK_IN(5, 3)},
                  .attr = ATTR(true, false),
                  .shard_size = 2},
                 {.n_in = 2, .in = {LK_IN(2, 3), LK_IN(4, 3)}, .attr = ATTR(false, true)},
                 {.n_in = 2, .in = {LK_IN(3, 2), LK_IN(1, 3)}, .attr = ATTR(true, true)},
                 {.n_in = 2,
                  .in = {LK_IN(3, 2, 4), LK_IN(4, 2)},
                  .attr = ATTR(false, false),
                  .shard_size = 2},
                 {.n_in = 2, .in = {LK_IN(3, 2, 4), LK_IN(2, 4)}, .attr = ATTR(false, true)},
                 {.n_in = 2,
                  .in = {LK_IN(2, 4), LK_IN(3, 2, 3)},
                  .attr = ATTR(true, false),
                  .shard_size = 1},
                 {.n_in = 2, .in = {LK_IN(2, 1, 2, 3), LK_IN(3, 3, 2)}, .attr = ATTR(false, false)},
                 {.n_in = 2, .in = {LK_IN(2, 3, 2), LK_IN(2, 1, 2, 3)}, .attr = ATTR(true, true)},
                 {0}},
};
