/* Softmax and log-softmax by rows: check the operands, then run rows on the pool's threads. */
#include "base/fpenv.h"
#include "kernel/maps.h"
#include "kernel/runtime/parallel.h"

#include <lockstep/extra/checked.h>

/* Elements that one thread takes at a time, in whole rows. */

struct softmax_job {
    lk__softmax_fn *row;
    int64_t cols, step_x, step_y; /* steps in bytes */
    const char *x;
    char *y;
};

static void softmax_run(void *arg, int64_t first, int64_t last)
{
    const struct softmax_job *j = arg;
    for (int64_t r = first; r < last; r++)
        j->row(j->cols, j->x + r * j->step_x, j->y + r * j->step_y);
}

/* Bytes from the first to behind the last element. */
static lk_status extent_of(int64_t rows, int64_t cols, int64_t ld, int64_t size, int64_t *bytes)
{
    int64_t n;
    LK_TRY(lk_mul_i64(rows - 1, ld, &n));
    LK_TRY(lk_add_i64(n, cols, &n));
    return LK_TRACE(lk_mul_i64(n, size, bytes));
}

static lk_status check_shape(lk_dtype dtype, const lk_rows *s)
{
    LK_CHECK(lk_dtype_is_real(dtype), LK_EDTYPE, "dtype is %s, softmax needs f32 or f64",
             lk_dtype_name(dtype));
    LK_CHECK(s, LK_EINVAL, "shape is NULL");
    LK_CHECK(s->rows >= 0 && s->cols >= 0, LK_EINVAL,
             "shape is %lld rows x %lld cols, must not be negative", (long long)s->rows,
             (long long)s->cols);
    LK_CHECK(s->ld_x >= s->cols && s->ld_y >= s->cols, LK_EINVAL,
             "ld_x is %lld and ld_y %lld, must be at least cols = %lld", (long long)s->ld_x,
             (long long)s->ld_y, (long long)s->cols);
    return LK_OK;
}

/* x and y may be the same matrix, lie apart, or be columns side by side in one matrix. */
static lk_status check_operands(lk_dtype dtype, const lk_rows *s, const void *x, const void *y)
{
    LK_CHECK(x && y, LK_EINVAL, "%s is NULL", x ? "y" : "x");
    int64_t size = (int64_t)lk_dtype_size(dtype), bytes_x, bytes_y;
    LK_TRY(extent_of(s->rows, s->cols, s->ld_x, size, &bytes_x));
    LK_TRY(extent_of(s->rows, s->cols, s->ld_y, size, &bytes_y));
    uintptr_t a = (uintptr_t)x, b = (uintptr_t)y;
    uintptr_t distance = a < b ? b - a : a - b;
    bool fine = distance >= (uintptr_t)(a < b ? bytes_x : bytes_y);
    if (s->rows == 1)
        fine = fine || distance == 0;
    else if (s->ld_x == s->ld_y) {
        uintptr_t row = (uintptr_t)(s->cols * size), step = (uintptr_t)(s->ld_x * size);
        uintptr_t column = distance % step;
        fine = fine || distance == 0 || (column >= row && step - column >= row);
    }
    LK_CHECK(fine, LK_EOVERLAP,
             "x and y overlap: they are %llu bytes apart, %lld x %lld of %s with ld_x %lld, ld_y "
             "%lld",
             (unsigned long long)distance, (long long)s->rows, (long long)s->cols,
             lk_dtype_name(dtype), (long long)s->ld_x, (long long)s->ld_y);
    return LK_OK;
}

static lk_status softmax_rows(bool log, lk_dtype dtype, const lk_rows *s, const void *x, void *y)
{
    const lk__softmax_table *t = NULL;
    LK_FP_GUARD();
    LK_TRY(LK_FP_CHECK());
    LK_TRY(check_shape(dtype, s));
    if (s->rows == 0 || s->cols == 0)
        return LK_OK;
    LK_TRY(check_operands(dtype, s, x, y));
    LK_TRY(lk__softmax_get(&t));
    int64_t size = (int64_t)lk_dtype_size(dtype);
    struct softmax_job job = {
        .row = log ? t->log_softmax[dtype] : t->softmax[dtype],
        .cols = s->cols,
        .step_x = s->rows > 1 ? s->ld_x * size : 0,
        .step_y = s->rows > 1 ? s->ld_y * size : 0,
        .x = x,
        .y = y,
    };
    return LK_TRACE(lk__parallel(lk__tasks_functions(s->rows, s->cols), softmax_run, &job));
}

lk_status lk_softmax_rows(lk_dtype dtype, const lk_rows *shape, const void *x, void *y)
{
    return LK_TRACE(softmax_rows(false, dtype, shape, x, y));
}

lk_status lk_log_softmax_rows(lk_dtype dtype, const lk_rows *shape, const void *x, void *y)
{
    return LK_TRACE(softmax_rows(true, dtype, shape, x, y));
}
