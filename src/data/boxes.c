/* The fields of a dataset and boxes of them: checking a box, cutting it out of a row, and
 * lk_dataset_read_box(), which a loader or the program calls on any thread. */
#include "base/fpenv.h"
#include "data/dataset.h"

#include <lockstep/extra/alloc.h>

#include <string.h>

int64_t lk__field_bytes(const lk_field *f)
{
    int64_t count = 1;
    for (int i = 0; i < f->shape.ndim; i++)
        if (f->shape.dim[i] == 0)
            return 0; /* however large the others are */
    for (int i = 0; i < f->shape.ndim; i++)
        count *= f->shape.dim[i];
    return count * (int64_t)lk_dtype_size(f->dtype);
}

lk_field lk__field(const char *name, lk_dtype dtype, lk_shape shape)
{
    lk_field f = {.dtype = dtype, .shape = shape};
    snprintf(f.name, sizeof f.name, "%s", name);
    return f;
}

lk_box lk__field_whole(const lk_field *field)
{
    return lk_box_whole(field->shape.ndim, field->shape.dim);
}

/* The numbers of one axis after the other, as a shape is written. */
static lk_short_string numbers(int n, const int64_t *of)
{
    lk_shape shape = {.ndim = n};
    memcpy(shape.dim, of, (size_t)n * sizeof shape.dim[0]);
    return lk_shape_text(shape);
}

lk_status lk__box_check(const lk_dataset *ds, int f, const lk_box *box)
{
    const lk_dataset_info *info = lk_dataset_info_of(ds);
    const char *title = lk__dataset_title(ds);
    LK_CHECK(f >= 0 && f < info->n_fields, LK_EINVAL, "dataset %s: a box of field %d, it has %d",
             title, f, info->n_fields);
    const lk_field *field = &info->field[f];
    LK_CHECK(box->ndim == field->shape.ndim, LK_EINVAL,
             "dataset %s: field \"%s\" has %d axes, a box of it %d", title, field->name,
             field->shape.ndim, box->ndim);
    LK_CHECK(lk_box_is_within(box, field->shape.dim), LK_EINVAL,
             "dataset %s: field \"%s\" is %s, the box of %s from %s on does not lie in it", title,
             field->name, lk_shape_text(field->shape).s, numbers(box->ndim, box->n).s,
             numbers(box->ndim, box->first).s);
    return LK_OK;
}

int64_t lk__box_bytes(const lk_field *field, const lk_box *box)
{
    for (int i = 0; i < box->ndim; i++)
        if (box->n[i] == 0)
            return 0; /* however large the others are */
    return lk_box_count(box) * (int64_t)lk_dtype_size(field->dtype);
}

void lk__box_cut(const lk_field *field, const void *row, const lk_box *box, void *out)
{
    int64_t size = (int64_t)lk_dtype_size(field->dtype);
    if (lk__box_bytes(field, box) == 0)
        return;
    lk_box_walk walk = lk_box_start(box, field->shape.dim);
    while (lk_box_next(&walk))
        memcpy((char *)out + walk.at * size, (const char *)row + walk.place * size,
               (size_t)(walk.n * size));
}

int64_t lk__box_last(const lk_shape *shape, const lk_box *box)
{
    int64_t place = 0;
    for (int i = 0; i < box->ndim; i++)
        place = place * shape->dim[i] + box->first[i] + box->n[i] - 1;
    return place;
}

int64_t lk__box_place(const lk_field *field, const lk_box *box, int64_t i)
{
    int64_t place = 0, step = 1;
    for (int a = box->ndim - 1; a >= 0; a--) {
        place += (box->first[a] + i % box->n[a]) * step;
        i /= box->n[a];
        step *= field->shape.dim[a];
    }
    return place;
}

/* Of a set that gives rows only. */
static lk_status read_cut(const lk_dataset *ds, int f, const lk_box *box, const int64_t *index,
                          int64_t n, char *data)
{
    const lk_field *field = &lk_dataset_info_of(ds)->field[f];
    void *row[LK_MAX_FIELDS] = {NULL};
    lk_status st = LK_OK;
    LK_TRY(lk_alloc(&row[f], lk__field_bytes(field), 1));
    for (int64_t i = 0; i < n; i++) {
        LK_TRY_TO(done, lk__dataset_row(ds, index[i], row));
        lk__box_cut(field, row[f], box, data + i * lk__box_bytes(field, box));
    }
done:
    lk_free(row[f]);
    return st;
}

lk_status lk_dataset_read_box(const lk_dataset *ds, int f, const lk_box *box, const int64_t *index,
                              int64_t n, lk_tensor *tensor)
{
    LK_FP_GUARD();
    LK_TRY(lk__box_check(ds, f, box));
    LK_CHECK(n >= 0 && (index || n == 0), LK_EINVAL, "dataset %s: boxes of %lld samples%s",
             lk__dataset_title(ds), (long long)n, index ? "" : " of no index");
    char *data;
    LK_TRY(lk__dataset_check_target(ds, f, box, n, tensor, &data));
    if (!lk__dataset_has_boxes(ds)) {
        return LK_TRACE(read_cut(ds, f, box, index, n, data));
    }
    int64_t bytes = lk__box_bytes(&lk_dataset_info_of(ds)->field[f], box);
    for (int64_t i = 0; i < n; i++)
        LK_TRY(lk__dataset_box(ds, index[i], f, box, data + i * bytes));
    return LK_OK;
}
