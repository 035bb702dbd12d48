/* The arguments of matrix multiplication. */
#include "kernel/conv/shape.h"
#include "kernel/gemm/gemm.h"

typedef long long ll;

/* A stored matrix, `count` of them `stride` elements apart. */
struct matrix {
    const char *name, *ld_name;
    const void *data;
    int64_t rows, cols, ld;
    int64_t count, stride;
};

/* The bytes from the first element to behind the last. */
static lk_status matrix_bytes(const struct matrix *x, int64_t elem, int64_t *bytes)
{
    int64_t rows, products, all;
    *bytes = 0;
    if (x->rows == 0 || x->cols == 0 || x->count == 0)
        return LK_OK;
    LK_CHECK(!__builtin_mul_overflow(x->rows - 1, x->ld, &rows) &&
                 !__builtin_mul_overflow(x->count - 1, x->stride, &products) &&
                 !__builtin_add_overflow(rows, products, &all) &&
                 !__builtin_add_overflow(all, x->cols, &all) &&
                 !__builtin_mul_overflow(all, elem, bytes),
             LK_EOVERFLOW,
             "%s: %lld rows of %s %lld, %lld products of stride %lld do not fit in 64 bits",
             x->name, (ll)x->rows, x->ld_name, (ll)x->ld, (ll)x->count, (ll)x->stride);
    return LK_OK;
}

static lk_status matrix_operand(const struct matrix *x, int64_t elem, lk__conv_operand *out)
{
    LK_CHECK(x->ld >= x->cols, LK_ESHAPE, "%s is %lld, below the %lld columns of a row of %s",
             x->ld_name, (ll)x->ld, (ll)x->cols, x->name);
    LK_CHECK(x->stride >= 0, LK_EINVAL, "the stride of %s is %lld, must be at least 0", x->name,
             (ll)x->stride);
    *out = (lk__conv_operand){.name = x->name, .data = x->data};
    LK_TRY(matrix_bytes(x, elem, &out->extent));
    if (out->extent == 0)
        return LK_OK;
    out->run = x->cols * elem;
    out->unit = x->rows > 1 ? x->ld * elem : 0;
    for (int64_t step = x->count > 1 ? x->stride * elem : 0; step != 0;) {
        const int64_t rest = out->unit % step;
        out->unit = step;
        step = rest;
    }
    return LK_OK;
}

/* Rows of different products must not meet: the products lie behind each other, or each within the
 * gaps that the others' rows leave. */
static lk_status products_apart(const struct matrix *c, int64_t bytes)
{
    if (c->count <= 1 || bytes == 0)
        return LK_OK;
    const int64_t one = (c->rows - 1) * c->ld + c->cols;
    const int64_t all = (c->count - 1) * c->stride;
    LK_CHECK(c->stride >= one || (c->stride >= c->cols && all + c->cols <= c->ld), LK_EOVERLAP,
             "%lld products of stride_c %lld overlap: each is %lld rows of ldc %lld", (ll)c->count,
             (ll)c->stride, (ll)c->rows, (ll)c->ld);
    return LK_OK;
}

static lk_status check_numbers(const lk_gemm *g, const lk_gemm_batch *batch, const void *bias)
{
    LK_CHECK(lk_dtype_is_real(g->dtype), LK_EDTYPE, "dtype is %s, must be f32 or f64",
             lk_dtype_name(g->dtype));
    LK_CHECK((unsigned)g->act < LK_N_ACTS, LK_EINVAL, "act is %d, must be below %d", (int)g->act,
             LK_N_ACTS);
    LK_CHECK(g->m >= 0 && g->n >= 0 && g->k >= 0, LK_EINVAL,
             "m is %lld, n is %lld, k is %lld, must be at least 0", (ll)g->m, (ll)g->n, (ll)g->k);
    LK_CHECK(g->piece >= 0, LK_EINVAL, "piece is %lld, must be at least 0", (ll)g->piece);
    LK_CHECK(batch->count >= 0, LK_EINVAL, "count is %lld, must be at least 0", (ll)batch->count);
    LK_CHECK(!(g->accumulate && bias), LK_EINVAL,
             "accumulate and a bias of %lld values: a chain has one start", (ll)g->n);
    return LK_OK;
}

lk_status lk__gemm_check(const lk_gemm *g, const lk_gemm_batch *batch, const void *const in[3],
                         const void *c)
{
    LK_TRY(check_numbers(g, batch, in[2]));
    const int64_t elem = (int64_t)lk_dtype_size(g->dtype);
    const struct matrix matrices[] = {
        {"c", "ldc", c, g->m, g->n, g->ldc, batch->count, batch->stride_c},
        {"a", "lda", in[0], g->trans_a ? g->k : g->m, g->trans_a ? g->m : g->k, g->lda,
         batch->count, batch->stride_a},
        {"b", "ldb", in[1], g->trans_b ? g->n : g->k, g->trans_b ? g->k : g->n, g->ldb,
         batch->count, batch->stride_b},
        {"bias", "ld", in[2], in[2] ? 1 : 0, g->n, g->n, 1, 0}};
    lk__conv_operand operands[4];
    for (int i = 0; i < 4; i++)
        LK_TRY(matrix_operand(&matrices[i], elem, &operands[i]));
    LK_TRY(products_apart(&matrices[0], operands[0].extent));
    return LK_TRACE(lk__conv_operands_check(operands, 4));
}
