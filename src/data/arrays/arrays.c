/* Datasets of .npy arrays: each array is a field, alone or from an archive.  For formats/npy.c and
 * npz.c.
 */
#include "data/arrays/arrays.h"

#include "data/arrays/npz.h"
#include "data/dataset.h"
#include "data/format.h"

#include <lockstep/extra/alloc.h>

#include <string.h>

/* The samples of an array: all axes but the first. */
static lk_status rows_of(const lk__source *s, const lk__npy *a, lk__layout_in *in)
{
    if (a->shape.ndim == 0)
        return LK_DAMAGED(s, a->offset, "%s", "an array without axes holds no samples");
    *in = (lk__layout_in){.source = s,
                          .offset = a->offset,
                          .dtype = a->dtype,
                          .swap = a->swap,
                          .shape = {.ndim = a->shape.ndim - 1}};
    memcpy(in->shape.dim, a->shape.dim + 1, (size_t)in->shape.ndim * sizeof in->shape.dim[0]);
    return LK_OK;
}

lk_status lk__arrays_x(lk__table *t, const lk__source *s, const lk__npy *a,
                       const lk_option_ints *shape)
{
    lk__layout_in in;
    LK_TRY(rows_of(s, a, &in));
    t->info.count = a->shape.dim[0];
    LK_TRY(lk__shape_given(shape, in.shape, lk__source_name(s), &in.shape));
    return LK_TRACE(lk__table_rows(t, "x", &in));
}

lk_status lk__arrays_y(lk__table *t, const lk__source *s, const lk__npy *a)
{
    lk__layout_in in;
    LK_TRY(rows_of(s, a, &in));
    LK_CHECK(a->shape.dim[0] == t->info.count, LK_EIO,
             "%s: y has %lld samples, x of the same set %lld", lk__source_name(s),
             (long long)a->shape.dim[0], (long long)t->info.count);
    /* A column of labels is a list of labels. */
    if (in.shape.ndim == 1 && in.shape.dim[0] == 1)
        in.shape.ndim = 0;
    return LK_TRACE(lk__table_targets(t, &in));
}

/* The array `name` of an archive, unpacked if it has to be; `*found` is NULL if it is not there. */
static lk_status find_array(lk__table *t, const lk__zip *z, const char *name,
                            const lk__source **found, lk__npy *out)
{
    char member[LK_ZIP_NAME];
    *found = NULL;
    LK_TRY(lk__npz_member(name, member));
    const lk__zip_member *m = lk__zip_find(z, member);
    if (!m)
        return LK_OK;
    int64_t offset;
    lk__source *unpacked;
    LK_TRY(lk__zip_load(z, m, &offset, &unpacked));
    *found = unpacked ? unpacked : z->source;
    if (unpacked)
        LK_TRY(lk__table_own(t, unpacked));
    return LK_TRACE(lk__npy_read(*found, name, offset, m->size, out));
}

static lk_status add_arrays(lk__table *t, const lk__zip *z, const char *x, const char *y,
                            const lk_option_ints *shape)
{
    const lk__source *at;
    lk__npy a;
    LK_TRY(find_array(t, z, x, &at, &a));
    LK_CHECK(at, LK_EIO, "%s: there is no array \"%s\" in it", t->info.name, x);
    LK_TRY(lk__arrays_x(t, at, &a, shape));
    LK_TRY(find_array(t, z, y, &at, &a));
    if (at)
        LK_TRY(lk__arrays_y(t, at, &a));
    else
        t->info.classes = 0;
    return LK_OK;
}

lk_status lk__arrays_npz(lk__table *t, const lk__source *s, const char *x, const char *y,
                         const lk_option_ints *shape, lk_dataset **out)
{
    lk__zip z;
    t->info.name = lk__source_name(s);
    lk_status st = lk__zip_open(s, &z);
    if (st == LK_OK)
        st = add_arrays(t, &z, x, y, shape);
    lk__zip_close(&z);
    LK_TRY(st);
    return LK_TRACE(lk__table_finish(t, out));
}

static lk_status write_rows(const lk_dataset *ds, int f, void *const *row, lk__put_fn *put,
                            void *context)
{
    const lk_dataset_info *info = lk_dataset_info_of(ds);
    const lk_field *field = &info->field[f];
    char head[LK_NPY_HEADER_ROOM];
    int64_t n;
    lk_shape shape = {.ndim = field->shape.ndim + 1, .dim = {info->count}};
    memcpy(shape.dim + 1, field->shape.dim, (size_t)field->shape.ndim * sizeof shape.dim[0]);
    LK_TRY(lk__npy_header(field->dtype, shape, head, &n));
    LK_TRY(put(context, head, n));
    void *only[LK_MAX_FIELDS] = {NULL};
    only[f] = row[f];
    for (int64_t i = 0; i < info->count; i++) {
        LK_TRY(lk__dataset_row(ds, i, only));
        LK_TRY(put(context, row[f], lk__field_bytes(field)));
    }
    return LK_OK;
}

lk_status lk__arrays_write(const lk_dataset *ds, int f, lk__put_fn *put, void *context)
{
    void *row[LK_MAX_FIELDS], *block;
    LK_TRY(lk__dataset_rows_new(ds, row, &block));
    lk_status st = write_rows(ds, f, row, put, context);
    lk_free(block);
    return LK_TRACE(st);
}
