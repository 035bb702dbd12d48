/* idx: the format of MNIST.  A folder with MNIST's four files, or files by name. */
#include "data/arrays/idx.h"

#include "base/storage/storage.h"
#include "data/bytes.h"
#include "data/dataset.h"
#include "data/fallback.h"
#include "data/format.h"
#include "data/sink.h"

#include <lockstep/extra/alloc.h>

struct idx_options {
    const char *path, *images, *labels, *test_images, *test_labels;
    int64_t classes;
};

static const lk_option options[] = {
    LK_PATH_OPTION(struct idx_options, path,
                   "a folder with train-images-idx3-ubyte and so on, plain or .gz, or one file; "
                   "default: where Debian's dataset-fashion-mnist lies"),
    LK_PATH_OPTION(struct idx_options, images, "the file of the images, instead of path"),
    LK_PATH_OPTION(struct idx_options, labels, "the file of their labels"),
    LK_PATH_OPTION(struct idx_options, test_images, "the file of the images of the test set"),
    LK_PATH_OPTION(struct idx_options, test_labels, "the file of their labels"),
    LK_CLASSES_OPTION(struct idx_options),
    {.name = NULL},
};

/* Whether a folder has a test set. */
static lk_status has_test(const char *path, int64_t classes, bool *out)
{
    lk_dataset *test;
    LK_TRY(lk__idx_folder(path, LK_TEST, classes, &test));
    *out = test != NULL;
    lk_dataset_free(test);
    return LK_OK;
}

static lk_status idx_open(const void *given, lk_split split, lk_dataset **out)
{
    const struct idx_options *o = given;
    LK_CHECK(!o->path || !(o->images || o->test_images), LK_EINVAL,
             "idx: give either path or images");
    const char *x = split == LK_TEST ? o->test_images : o->images;
    const char *y = split == LK_TEST ? o->test_labels : o->labels;
    bool folder = !o->images && !o->test_images;
    *out = NULL;
    if (folder && o->path && !lk__path_is_folder(o->path)) {
        x = split == LK_TRAIN ? o->path : NULL;
        folder = false;
    }
    if (split == LK_VALIDATION || (!folder && !x))
        return LK_OK;
    if (!folder) {
        return LK_TRACE(lk__idx_files(x, y, o->classes, out));
    }
    char found[LK_PATH_SIZE];
    const char *path = o->path;
    if (!path) {
        LK_CHECK(lk__datasets_find("fashion-mnist", found), LK_EIO,
                 "%s: there is no such folder; install dataset-fashion-mnist, or give path", found);
        path = found;
    }
    LK_TRY(lk__idx_folder(path, split, o->classes, out));
    bool other = false;
    if (!*out)
        LK_TRY(has_test(path, o->classes, &other));
    LK_CHECK(*out || split == LK_TEST || other, LK_EIO,
             "%s: there is no train-images-idx3-ubyte, plain or .gz", path);
    return LK_OK;
}

/* ---- writing: FOLDER/train-images-idx3-ubyte and FOLDER/train-labels-idx1-ubyte, or t10k-... ---- */

static lk_status write_header(lk__sink *s, unsigned char type, int64_t count, lk_shape shape)
{
    unsigned char head[8 + 4 * LK_MAX_NDIM] = {0, 0, type, (unsigned char)(shape.ndim + 1)};
    lk__put_be(head + 4, 4, (uint64_t)count);
    for (int i = 0; i < shape.ndim; i++)
        lk__put_be(&head[8 + 4 * i], 4, (uint64_t)shape.dim[i]);
    return LK_TRACE(lk__sink_write(s, head, 8 + INT64_C(4) * shape.ndim));
}

/* The rows of field `f`; labels as bytes. */
static lk_status write_rows(lk__sink *s, const lk_dataset *ds, int f, void *const *row)
{
    const lk_dataset_info *info = lk_dataset_info_of(ds);
    void *only[LK_MAX_FIELDS] = {NULL};
    only[f] = row[f];
    int64_t bytes = lk__field_bytes(&info->field[f]);
    size_t size = lk_dtype_size(info->field[f].dtype);
    for (int64_t i = 0; i < info->count; i++) {
        LK_TRY(lk__dataset_row(ds, i, only));
        if (info->field[f].dtype == LK_I64) {
            int64_t label = *(const int64_t *)row[f];
            LK_TRY(lk__sink_write(s, &(unsigned char){(unsigned char)label}, 1));
            continue;
        }
        if (size > 1)
            lk__swap_bytes(row[f], bytes / (int64_t)size, size);
        LK_TRY(lk__sink_write(s, row[f], bytes));
    }
    return LK_OK;
}

static lk_status write_file(const lk_dataset *ds, int f, const char *folder, const char *file,
                            void *const *row)
{
    const lk_dataset_info *info = lk_dataset_info_of(ds);
    const lk_field *field = &info->field[f];
    static const unsigned char types[] = {
        [LK_F32] = 0x0d, [LK_F64] = 0x0e, [LK_I32] = 0x0c, [LK_I64] = 0x08, [LK_U8] = 0x08};
    lk_shape shape = field->shape;
    if (shape.ndim == 3 && shape.dim[2] == 1)
        shape.ndim = 2;
    char path[LK_PATH_SIZE];
    lk__sink *s;
    LK_TRY(lk__path_join(folder, file, path, sizeof path));
    LK_TRY(lk__sink_open(path, &s));
    lk_status st = write_header(s, types[field->dtype], info->count, shape);
    if (st == LK_OK)
        st = write_rows(s, ds, f, row);
    return LK_TRACE(lk__sink_end(s, st));
}

/* Whether IDX can hold it. */
static lk_status check_fields(const lk_dataset *ds, const char *folder, int x, int y)
{
    const lk_dataset_info *info = lk_dataset_info_of(ds);
    LK_CHECK(x >= 0 && info->n_fields == 1 + (y >= 0), LK_ENOTSUP,
             "%s: IDX holds the fields x and y, not those of %s", folder, info->name);
    const lk_field *field = &info->field[x];
    LK_CHECK(field->dtype <= LK_U8 && field->dtype != LK_I64, LK_ENOTSUP, "%s: IDX holds no %s",
             folder, lk_dtype_name(field->dtype));
    LK_CHECK(y < 0 || (info->classes > 0 && info->classes <= 256 && !info->field[y].shape.ndim),
             LK_ENOTSUP, "%s: IDX holds one label below 256 for each sample, %s has others", folder,
             info->name);
    bool fits = info->count <= UINT32_MAX;
    for (int i = 0; i < field->shape.ndim; i++)
        fits = fits && field->shape.dim[i] <= UINT32_MAX;
    LK_CHECK(fits, LK_ENOTSUP, "%s: %lld samples of %s are too much for IDX", folder,
             (long long)info->count, lk_shape_text(field->shape).s);
    return LK_OK;
}

static lk_status idx_write(const lk_dataset *ds, lk_split split, const void *given,
                           const char *folder)
{
    (void)given;
    bool test = split == LK_TEST;
    LK_CHECK(split != LK_VALIDATION, LK_ENOTSUP,
             "%s: a folder of IDX holds a training set and a test set, no validation set", folder);
    int x = lk_dataset_find(ds, "x"), y = lk_dataset_find(ds, "y");
    LK_TRY(check_fields(ds, folder, x, y));
    LK_TRY(lk__storage_folder(folder));
    void *row[LK_MAX_FIELDS], *block;
    LK_TRY(lk__dataset_rows_new(ds, row, &block));
    lk_status st = write_file(ds, x, folder,
                              test ? "t10k-images-idx3-ubyte" : "train-images-idx3-ubyte", row);
    if (st == LK_OK && y >= 0)
        st = write_file(ds, y, folder, test ? "t10k-labels-idx1-ubyte" : "train-labels-idx1-ubyte",
                        row);
    lk_free(block);
    return LK_TRACE(st);
}

const lk_format lk__format_idx = {
    .descriptor =
        {.name = "idx",
         .summary = "the format of MNIST, plain or packed with gzip",
         .details = "Elements are bytes, 32-bit integers, or reals of 32 or 64 bits. Images "
                    "[rows][columns] get an axis of one channel. Files are found by their "
                    "names in a folder, or named one by one.",
         .options = options,
         .options_size = sizeof(struct idx_options)},
    .open = idx_open,
    .write = idx_write,
};
