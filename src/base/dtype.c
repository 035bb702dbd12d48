/* Names and sizes of element types, from the one table in dtype.h. */
#include <lockstep/dtype.h>

#include <string.h>

static const struct {
    const char *name;
    size_t bytes;
} dtypes[LK_N_DTYPES] = {
#define X(code, name, bytes) [LK_##code] = {name, bytes},
    LK_DTYPE_MAP(X)
#undef X
};

const char *lk_dtype_name(lk_dtype t)
{
    return (unsigned)t < LK_N_DTYPES ? dtypes[t].name : "?";
}

size_t lk_dtype_size(lk_dtype t)
{
    return (unsigned)t < LK_N_DTYPES ? dtypes[t].bytes : 0;
}

bool lk_dtype_is_real(lk_dtype t)
{
    return t == LK_F32 || t == LK_F64;
}

lk_status lk_dtype_find(const char *name, lk_dtype *out)
{
    LK_CHECK(name, LK_EINVAL, "the name of a dtype is NULL");
    for (int i = 0; i < LK_N_DTYPES; i++)
        if (strcmp(dtypes[i].name, name) == 0) {
            *out = (lk_dtype)i;
            return LK_OK;
        }
#define X(code, known, bytes) " " known
    return LK_RAISE(LK_EINVAL, "no dtype named \"%s\"; known are" LK_DTYPE_MAP(X), name);
#undef X
}
