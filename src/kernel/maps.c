/* Element-wise maps: check the operands, then run the loop of the instruction set in use over
 * blocks of the elements. */
#include "kernel/maps.h"

#include "base/fpenv.h"
#include "kernel/runtime/parallel.h"

enum { RUN = 512 }; /* elements of a task: whole lines of the cache */

static const struct {
    const char *name, *formula;
} map1s[LK_N_MAP1] =
    {
#define X(code, name, formula) [LK_MAP1_##code] = {name, formula},
        LK_MAP1_MAP(X)
#undef X
},
  map2s[LK_N_MAP2] = {
#define X(code, name, formula) [LK_MAP2_##code] = {name, formula},
      LK_MAP2_MAP(X)
#undef X
};

const char *lk_map1_name(lk_map1_op op)
{
    return (unsigned)op < LK_N_MAP1 ? map1s[op].name : "?";
}

const char *lk_map1_formula(lk_map1_op op)
{
    return (unsigned)op < LK_N_MAP1 ? map1s[op].formula : "?";
}

const char *lk_map2_name(lk_map2_op op)
{
    return (unsigned)op < LK_N_MAP2 ? map2s[op].name : "?";
}

const char *lk_map2_formula(lk_map2_op op)
{
    return (unsigned)op < LK_N_MAP2 ? map2s[op].formula : "?";
}

lk_status lk__act_get(lk_dtype dtype, lk_act act, lk__act_fn **out)
{
    const lk__maps1_table *t = NULL;
    LK_CHECK(lk_dtype_is_real(dtype), LK_EDTYPE, "dtype is %s, an activation needs f32 or f64",
             lk_dtype_name(dtype));
    LK_CHECK((unsigned)act < LK_N_ACTS, LK_EINVAL, "act is %d, must be below %d", (int)act,
             LK_N_ACTS);
    LK_TRY(lk__maps1_get(&t));
    *out = t->act[dtype][act];
    return LK_OK;
}

static lk_status check_count(lk_dtype dtype, int64_t n)
{
    LK_CHECK(lk_dtype_is_real(dtype), LK_EDTYPE, "dtype is %s, a map needs f32 or f64",
             lk_dtype_name(dtype));
    LK_CHECK(n >= 0, LK_EINVAL, "n is %lld, must not be negative", (long long)n);
    LK_CHECK(n <= INT64_MAX / (int64_t)lk_dtype_size(dtype), LK_EOVERFLOW,
             "n is %lld: elements of %zu bytes do not fit into memory", (long long)n,
             lk_dtype_size(dtype));
    return LK_OK;
}

/* The output may be the input itself or lie apart, nothing between. */
static lk_status check_operand(const char *in_name, const void *in, const char *out_name,
                               const void *out, int64_t bytes)
{
    LK_CHECK(in && out, LK_EINVAL, "%s is NULL", in ? out_name : in_name);
    uintptr_t a = (uintptr_t)in, b = (uintptr_t)out;
    uintptr_t distance = a < b ? b - a : a - b;
    LK_CHECK(distance == 0 || distance >= (uintptr_t)bytes, LK_EOVERLAP,
             "%s and %s are %llu bytes apart, but %lld bytes long", in_name, out_name,
             (unsigned long long)distance, (long long)bytes);
    return LK_OK;
}

struct map_job {
    lk__loop_fn *loop;
    double p;
    size_t size;
    int64_t n;
    const char *x, *y; /* y: NULL with one argument */
    char *out;
};

static void map_run(void *arg, int64_t first, int64_t last)
{
    const struct map_job *j = arg;
    const size_t at = (size_t)(first * RUN) * j->size;
    const int64_t end = last * RUN < j->n ? last * RUN : j->n;
    j->loop(&(lk__operands){.n = end - first * RUN,
                            .x = {j->x + at, j->y ? j->y + at : NULL},
                            .y = j->out + at,
                            .p = {j->p}});
}

static lk_status map_share(struct map_job *j)
{
    return LK_TRACE(
        lk__parallel(lk__tasks_bytes((j->n + RUN - 1) / RUN, RUN * (int64_t)j->size), map_run, j));
}

lk_status lk_map1(lk_dtype dtype, lk_map1_op op, double p, int64_t n, const void *x, void *y)
{
    const lk__maps1_table *t = NULL;
    LK_FP_GUARD();
    LK_TRY(LK_FP_CHECK());
    LK_TRY(check_count(dtype, n));
    LK_CHECK((unsigned)op < LK_N_MAP1, LK_EINVAL, "op is %d, must be below %d", (int)op, LK_N_MAP1);
    if (n == 0)
        return LK_OK;
    size_t size = lk_dtype_size(dtype);
    LK_TRY(check_operand("x", x, "y", y, n * (int64_t)size));
    LK_TRY(lk__maps1_get(&t));
    struct map_job job = {
        .loop = t->map[dtype][op], .p = p, .size = size, .n = n, .x = x, .out = y};
    return LK_TRACE(map_share(&job));
}

lk_status lk_map2(lk_dtype dtype, lk_map2_op op, double p, int64_t n, const void *x, const void *y,
                  void *z)
{
    const lk__maps2_table *t = NULL;
    LK_FP_GUARD();
    LK_TRY(LK_FP_CHECK());
    LK_TRY(check_count(dtype, n));
    LK_CHECK((unsigned)op < LK_N_MAP2, LK_EINVAL, "op is %d, must be below %d", (int)op, LK_N_MAP2);
    if (n == 0)
        return LK_OK;
    size_t size = lk_dtype_size(dtype);
    LK_TRY(check_operand("x", x, "z", z, n * (int64_t)size));
    LK_TRY(check_operand("y", y, "z", z, n * (int64_t)size));
    LK_TRY(lk__maps2_get(&t));
    struct map_job job = {
        .loop = t->map[dtype][op], .p = p, .size = size, .n = n, .x = x, .y = y, .out = z};
    return LK_TRACE(map_share(&job));
}
