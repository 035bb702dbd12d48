/* Opening tensors; measuring and comparing them, in f64. */
#include "ckpt/tensors.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

lk_status checkpoint_open(const char *path, lk_checkpoint **out)
{
    LK_TRY(lk_checkpoint_read(path, out));
    for (const char *line = (*out)->messages; *line; line += strcspn(line, "\n") + 1)
        fprintf(stderr, "warning: left out: %.*s\n", (int)strcspn(line, "\n"), line);
    return LK_OK;
}

lk_status tensors_open(const char *path, lk_tensors **out)
{
    lk_checkpoint *checkpoint;
    *out = NULL;
    if (!lk_checkpoint_exists(path))
        return lk_tensors_load(path, out);
    LK_TRY(checkpoint_open(path, &checkpoint));
    lk_status st = lk_tensors_load(checkpoint->path, out);
    lk_checkpoint_free(checkpoint);
    return LK_TRACE(st);
}

const char *tensors_metadata(const lk_tensors *t, const char *name)
{
    for (int64_t i = 0; i < t->n_metadata; i++)
        if (strcmp(t->metadata[i].name, name) == 0)
            return t->metadata[i].text;
    return NULL;
}

/* ---- in numbers ---- */

lk_status numbers_of(const lk_tensor *t, numbers *out)
{
    lk_tensor *copy;
    LK_TRY(lk_tensor_clone(t, LK_F64, &copy));
    const double *v = lk_tensor_data(copy);
    int64_t n = lk_tensor_count(copy), finite = 0;
    *out = (numbers){.min = (double)NAN, .max = (double)NAN};
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(v[i]))
            continue;
        finite++;
        out->min = fmin(out->min, v[i]); /* of a NaN and a number, the number */
        out->max = fmax(out->max, v[i]);
        out->mean += (v[i] - out->mean) / (double)finite;
    }
    if (finite == 0)
        out->mean = (double)NAN;
    out->not_finite = n - finite;
    lk_tensor_free(copy);
    return LK_OK;
}

/* Element i of a contiguous tensor as bytes. */
static const void *bits(const lk_tensor *t, int64_t i)
{
    return (const char *)lk_tensor_data(t) + i * (int64_t)lk_dtype_size(lk_tensor_dtype(t));
}

/* Elements of one dtype are the same if their bits are: a NaN equals itself, and -0 is another
 * value than 0.  Of two dtypes, values are compared. */
static void compare(const lk_tensor *a, const lk_tensor *b, const double *x, const double *y,
                    difference *out)
{
    bool same_dtype = lk_tensor_dtype(a) == lk_tensor_dtype(b);
    size_t bytes = lk_dtype_size(lk_tensor_dtype(a));
    for (int64_t i = 0; i < lk_tensor_count(a); i++) {
        if (same_dtype ? memcmp(bits(a, i), bits(b, i), bytes) == 0
                       : x[i] == y[i] || (isnan(x[i]) && isnan(y[i])))
            continue;
        bool finite = isfinite(x[i]) && isfinite(y[i]);
        double size = fmax(fabs(x[i]), fabs(y[i])), d = fabs(x[i] - y[i]);
        out->elements++;
        out->absolute = fmax(out->absolute, finite ? d : HUGE_VAL);
        out->relative = fmax(out->relative, finite ? (size > 0 ? d / size : 0) : HUGE_VAL);
    }
}

lk_status numbers_compare(const lk_tensor *a, const lk_tensor *b, difference *out)
{
    lk_tensor *x = NULL, *y = NULL;
    *out = (difference){0};
    lk_status st = lk_tensor_clone(a, LK_F64, &x);
    if (st == LK_OK)
        st = lk_tensor_clone(b, LK_F64, &y);
    if (st == LK_OK)
        compare(a, b, lk_tensor_data(x), lk_tensor_data(y), out);
    lk_tensor_free(x);
    lk_tensor_free(y);
    return st;
}
