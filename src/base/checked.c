/* Sums and products of counts that fail with LK_EOVERFLOW instead of wrapping around.  All rooms
 * compute sizes and offsets with them; any thread. */
#include <lockstep/extra/checked.h>

lk_status lk_add_i64(int64_t a, int64_t b, int64_t *out)
{
    int64_t sum;
    LK_CHECK(!__builtin_add_overflow(a, b, &sum), LK_EOVERFLOW, "%lld + %lld", (long long)a,
             (long long)b);
    *out = sum;
    return LK_OK;
}

lk_status lk_mul_i64(int64_t a, int64_t b, int64_t *out)
{
    int64_t product;
    LK_CHECK(!__builtin_mul_overflow(a, b, &product), LK_EOVERFLOW, "%lld * %lld", (long long)a,
             (long long)b);
    *out = product;
    return LK_OK;
}

lk_status lk_round_up_i64(int64_t a, int64_t unit, int64_t *out)
{
    LK_CHECK(a >= 0 && unit >= 1, LK_EINVAL, "%lld rounded up to a multiple of %lld", (long long)a,
             (long long)unit);
    int64_t missing = (unit - a % unit) % unit;
    return LK_TRACE(lk_add_i64(a, missing, out));
}

/* "2 x 3 x ..." of the factors that fit. */
static const char *factors_text(int n, const int64_t *v, char *buf, size_t size)
{
    size_t len = 0;
    for (int i = 0; i < n && len < size; i++) {
        int more = snprintf(buf + len, size - len, i ? " x %lld" : "%lld", (long long)v[i]);
        len += (size_t)more;
    }
    return buf;
}

/* Apart: the text would be room on the stack of every product. */
LK_COLD static lk_status overflow_raise(int n, const int64_t *v)
{
    char buf[256];
    return LK_RAISE(LK_EOVERFLOW, "%s", factors_text(n, v, buf, sizeof buf));
}

lk_status lk_product_i64(int n, const int64_t *v, int64_t *out)
{
    LK_CHECK(n >= 0 && (v || n == 0), LK_EINVAL, "a product of %d factors%s", n,
             v ? "" : ", which are NULL");
    int64_t product = 1;
    int zero = 0, fits = 1;
    for (int i = 0; i < n; i++) {
        LK_CHECK(v[i] >= 0, LK_EINVAL, "size %d is %lld", i, (long long)v[i]);
        zero |= v[i] == 0;
        fits &= !__builtin_mul_overflow(product, v[i], &product);
    }
    if (!zero && !fits)
        return overflow_raise(n, v);
    *out = zero ? 0 : product;
    return LK_OK;
}
