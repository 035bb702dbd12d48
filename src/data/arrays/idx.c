/* Reading IDX files, alone and as MNIST's four files: for formats/idx.c and mnist.c. */
#include "data/arrays/idx.h"

#include "data/bytes.h"

#include <lockstep/extra/checked.h>

static bool idx_dtype(unsigned char code, lk_dtype *out)
{
    switch (code) {
    case 0x08: *out = LK_U8; return true;
    case 0x0c: *out = LK_I32; return true;
    case 0x0d: *out = LK_F32; return true;
    case 0x0e: *out = LK_F64; return true;
    default: return false;
    }
}

lk_status lk__idx_read(const lk__source *s, int64_t *count, lk__layout_in *out)
{
    unsigned char head[4 + 4 * LK_MAX_NDIM];
    LK_TRY(lk__source_read(s, 0, head, 4, "the header"));
    if (head[0] != 0 || head[1] != 0)
        return LK_DAMAGED(s, 0, "%s", "this is no IDX file: it does not begin with two zeros");
    lk_dtype dtype;
    if (!idx_dtype(head[2], &dtype))
        return LK_DAMAGED(s, 2, "elements of type 0x%02x are not known", head[2]);
    int ndim = head[3];
    if (ndim < 1 || ndim > LK_MAX_NDIM)
        return LK_DAMAGED(s, 3, "%d axes, there must be 1 to %d", ndim, LK_MAX_NDIM);
    LK_TRY(lk__source_read(s, 4, head + 4, INT64_C(4) * ndim, "the sizes"));
    *out = (lk__layout_in){.source = s,
                           .offset = 4 + INT64_C(4) * ndim,
                           .dtype = dtype,
                           .swap = dtype != LK_U8,
                           .shape = {.ndim = ndim - 1}};
    *count = (int64_t)lk__get_be(head + 4, 4);
    for (int i = 1; i < ndim; i++)
        out->shape.dim[i - 1] = (int64_t)lk__get_be(&head[4 + 4 * i], 4);
    int64_t bytes;
    if (lk_shape_count(out->shape, &bytes) != LK_OK || lk_mul_i64(bytes, *count, &bytes) != LK_OK ||
        lk_mul_i64(bytes, (int64_t)lk_dtype_size(dtype), &bytes) != LK_OK)
        return LK_DAMAGED(s, 4, "%lld samples of %s%s are more bytes than can be counted",
                          (long long)*count, lk_dtype_name(dtype), lk_shape_text(out->shape).s);
    if (bytes != lk__source_size(s) - out->offset)
        return LK_DAMAGED(s, out->offset, "%lld samples of %s%s are %lld bytes, but %lld follow",
                          (long long)*count, lk_dtype_name(dtype), lk_shape_text(out->shape).s,
                          (long long)bytes, (long long)(lk__source_size(s) - out->offset));
    return LK_OK;
}

lk_status lk__idx_dataset(lk__table *t, const lk__source *images, const lk__source *labels,
                          int64_t classes, lk_dataset **out)
{
    lk__layout_in x, y;
    int64_t n_labels;
    t->info.name = lk__source_name(images);
    t->info.classes = labels ? classes : 0;
    LK_TRY(lk__idx_read(images, &t->info.count, &x));
    if (x.shape.ndim == 2)
        x.shape.dim[x.shape.ndim++] = 1;
    LK_TRY(lk__table_rows(t, "x", &x));
    if (labels) {
        LK_TRY(lk__idx_read(labels, &n_labels, &y));
        LK_CHECK(n_labels == t->info.count && y.shape.ndim == 0, LK_EIO,
                 "%s: %lld labels of shape %s for the %lld samples of %s", lk__source_name(labels),
                 (long long)n_labels, lk_shape_text(y.shape).s, (long long)t->info.count,
                 lk__source_name(images));
        LK_TRY(lk__table_labels(t, &y));
    }
    return LK_TRACE(lk__table_finish(t, out));
}

lk_status lk__idx_files(const char *x, const char *y, int64_t classes, lk_dataset **out)
{
    lk__table *t;
    const lk__source *images, *labels = NULL;
    *out = NULL;
    LK_TRY(lk__table_new(&t));
    lk_status st = LK_OK;
    LK_TRY_TO(fail, lk__table_open(t, x, &images));
    if (y)
        LK_TRY_TO(fail, lk__table_open(t, y, &labels));
    LK_TRY_TO(fail, lk__idx_dataset(t, images, labels, classes, out));
    return LK_OK;
fail:
    lk__table_free(t);
    return st;
}

/* The file of MNIST's name `file` in `folder`, as it is or packed; "" if it is not there. */
static lk_status find_file(const char *folder, const char *file, char *path)
{
    char name[64];
    for (int packed = 0; packed < 2; packed++) {
        snprintf(name, sizeof name, "%s%s", file, packed ? ".gz" : "");
        LK_TRY(lk__path_join(folder, name, path, LK_PATH_SIZE));
        if (lk__path_exists(path))
            return LK_OK;
    }
    path[0] = '\0';
    return LK_OK;
}

lk_status lk__idx_folder(const char *folder, lk_split split, int64_t classes, lk_dataset **out)
{
    *out = NULL;
    if (split == LK_VALIDATION)
        return LK_OK;
    char x[LK_PATH_SIZE], y[LK_PATH_SIZE];
    bool test = split == LK_TEST;
    LK_TRY(find_file(folder, test ? "t10k-images-idx3-ubyte" : "train-images-idx3-ubyte", x));
    LK_TRY(find_file(folder, test ? "t10k-labels-idx1-ubyte" : "train-labels-idx1-ubyte", y));
    if (!x[0])
        return LK_OK;
    return LK_TRACE(lk__idx_files(x, y[0] ? y : NULL, classes, out));
}
