/* Datasets of the command line: how they are chosen, and what their values are like. */
#include "dataset.h"

#include <lockstep/lockstep.h>

#include <math.h>
#include <string.h>

lk_status dataset_choose(const dataset_choice *c, const char *path, lk_arena *arena, lk_choice *out)
{
    LK_CHECK(path || c->type, LK_EINVAL, "name a file or folder, or a --type that needs none");
    lk_choice guess = {0};
    const char *type = c->type;
    if (!type) {
        LK_TRY(lk_format_guess(path, arena, &guess));
        type = guess.entry->name;
    }
    LK_TRY(lk_choice_make(&lk_kind_format, type, c->options, arena, out));
    if (!path)
        return LK_OK;
    const lk_option *option = lk_option_find(out->entry->options, "path");
    LK_CHECK(option, LK_EINVAL, "the format \"%s\" reads no file", type);
    LK_TRY(lk_option_set(option, out->options, path, arena));
    return LK_OK;
}

enum { ROWS = 64 };

/* Go on with the values of `t`. */
static lk_status take_values(lk_tensor *t, dataset_range *r)
{
    lk_tensor *values;
    LK_TRY(lk_tensor_clone(t, LK_F64, &values));
    const double *v = lk_tensor_data(values);
    for (int64_t i = 0; i < lk_tensor_count(values); i++) {
        r->min = v[i] < r->min ? v[i] : r->min;
        r->max = v[i] > r->max ? v[i] : r->max;
        r->mean += v[i];
    }
    lk_tensor_free(values);
    return LK_OK;
}

/* Samples `first` to `first` + n - 1. */
static lk_status take_rows(const lk_dataset *ds, int f, int64_t first, int64_t n, dataset_range *r)
{
    const lk_field *field = &lk_dataset_get_info(ds)->field[f];
    lk_shape shape = {.ndim = field->shape.ndim + 1, .dim = {n}};
    memcpy(shape.dim + 1, field->shape.dim, (size_t)field->shape.ndim * sizeof shape.dim[0]);
    lk_tensor *tensor[LK_MAX_FIELDS] = {NULL};
    int64_t index[ROWS];
    for (int64_t i = 0; i < n; i++)
        index[i] = first + i;
    LK_TRY(lk_tensor_new(field->dtype, shape, &tensor[f]));
    lk_status st = lk_dataset_read(ds, index, n, tensor);
    if (st == LK_OK)
        st = take_values(tensor[f], r);
    lk_tensor_free(tensor[f]);
    return st;
}

lk_status dataset_measure(const lk_dataset *ds, int f, dataset_range *out)
{
    const lk_dataset_info *info = lk_dataset_get_info(ds);
    int64_t values;
    *out = (dataset_range){(double)INFINITY, (double)-INFINITY, 0};
    for (int64_t i = 0; i < info->count; i += ROWS)
        LK_TRY(take_rows(ds, f, i, info->count - i < ROWS ? info->count - i : ROWS, out));
    LK_TRY(lk_shape_count(info->field[f].shape, &values));
    if (values * info->count == 0)
        *out = (dataset_range){0, 0, 0};
    else
        out->mean /= (double)values * (double)info->count;
    return LK_OK;
}
