/* XXH64 as a stream.
 *
 * XXH64 rather than the faster XXH3: its state is 88 bytes that may lie anywhere, and it already
 * hashes as fast as one core reads memory.
 */
#include <lockstep/extra/checked.h>
#include <lockstep/hash.h>

#include <inttypes.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

_Static_assert(sizeof(XXH64_state_t) == sizeof(lk_hash), "lk_hash holds the state of XXH64");
_Static_assert(_Alignof(XXH64_state_t) <= _Alignof(lk_hash), "lk_hash is aligned for XXH64");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "arrays are hashed as little-endian numbers; a big-endian machine must swap");

lk_hash lk_hash_start(void)
{
    lk_hash h;
    XXH64_state_t s;
    XXH64_reset(&s, 0);
    memcpy(&h, &s, sizeof h);
    return h;
}

void lk_hash_add_bytes(lk_hash *h, const void *bytes, size_t n)
{
    if (n == 0)
        return;
    XXH64_state_t s; /* a copy, since the caller's object has another type */
    memcpy(&s, h, sizeof s);
    XXH64_update(&s, bytes, n);
    memcpy(h, &s, sizeof s);
}

void lk_hash_add_i64(lk_hash *h, int64_t value)
{
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)((uint64_t)value >> (8 * i));
    lk_hash_add_bytes(h, bytes, sizeof bytes);
}

void lk_hash_add_text(lk_hash *h, const char *text)
{
    size_t n = text ? strlen(text) : 0;
    lk_hash_add_i64(h, (int64_t)n);
    lk_hash_add_bytes(h, text, n);
}

void lk_hash_add_header(lk_hash *h, const char *name, lk_dtype dtype, int ndim, const int64_t *dim)
{
    lk_hash_add_text(h, name);
    lk_hash_add_text(h, lk_dtype_name(dtype));
    lk_hash_add_i64(h, ndim);
    for (int i = 0; i < ndim; i++)
        lk_hash_add_i64(h, dim[i]);
}

void lk_hash_add_tensor(lk_hash *h, const char *name, lk_dtype dtype, int ndim, const int64_t *dim,
                        uint64_t sum)
{
    lk_hash_add_header(h, name, dtype, ndim, dim);
    lk_hash_add_i64(h, (int64_t)sum);
}

lk_status lk_hash_add_array(lk_hash *h, const char *name, lk_dtype dtype, int ndim,
                            const int64_t *dim, const void *data)
{
    LK_CHECK(lk_dtype_size(dtype) > 0, LK_EDTYPE, "array \"%s\" has dtype number %d",
             name ? name : "", (int)dtype);
    int64_t count, bytes;
    LK_TRY(lk_product_i64(ndim, dim, &count));
    LK_TRY(lk_mul_i64(count, (int64_t)lk_dtype_size(dtype), &bytes));
    LK_CHECK(data || count == 0, LK_EINVAL, "array \"%s\" has %lld elements, but data is NULL",
             name ? name : "", (long long)count);
    lk_hash_add_tensor(h, name, dtype, ndim, dim, lk_hash_sum(dtype, count, data, 0));
    return LK_OK;
}

uint64_t lk_hash_value(const lk_hash *h)
{
    XXH64_state_t s;
    memcpy(&s, h, sizeof s);
    return XXH64_digest(&s);
}

const char *lk_hash_text(uint64_t value, char *buf)
{
    snprintf(buf, LK_HASH_TEXT, "%016" PRIx64, value);
    return buf;
}
