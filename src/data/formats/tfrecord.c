/* tfrecord: records of tf.train.Example with an image, its size and a label. */
#include "data/tfrecord.h"

#include "data/dataset.h"
#include "data/example.h"
#include "data/format.h"
#include "data/records.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/checked.h>

#include <string.h>

struct tfrecord_options {
    const char *path, *test;
    lk__record_names names;
    int64_t classes;
    lk_option_ints shape;
};

#define NAME_OPTION(field, as, text)                                                          \
    {                                                                                         \
        .name = #field, .type = LK_OPTION_TEXT,                                               \
        .offset = offsetof(struct tfrecord_options, names.field), .value = "NAME", .def = as, \
        .help = text                                                                          \
    }

static const lk_option options[] = {
    LK_PATH_OPTION(struct tfrecord_options, path, "the file of the training set"),
    LK_PATH_OPTION(struct tfrecord_options, test, "the file of the test set"),
    NAME_OPTION(image, "image_raw", "the feature with the values: bytes, floats or integers"),
    NAME_OPTION(label, "label",
                "the feature with the label, an integer, or with real targets, floats"),
    NAME_OPTION(height, "height", "the feature with the rows of the image"),
    NAME_OPTION(width, "width", "the feature with its columns"),
    NAME_OPTION(depth, "depth", "the feature with its channels"),
    LK_CLASSES_OPTION(struct tfrecord_options),
    LK_SHAPE_OPTION(struct tfrecord_options),
    {.name = NULL},
};

static lk_status tfrecord_open(const void *given, lk_split split, lk_dataset **out)
{
    const struct tfrecord_options *o = given;
    *out = NULL;
    const char *path = split == LK_TRAIN ? o->path : split == LK_TEST ? o->test : NULL;
    LK_CHECK(o->path || o->test, LK_EINVAL, "tfrecord: give path, the file to read");
    if (!path)
        return LK_OK;
    lk__source *s;
    LK_TRY(lk__source_open(path, &s));
    LK_TRY(lk__records_dataset(s, &o->names, o->classes, &o->shape, out));
    return LK_OK;
}

/* ---- writing ---- */

static lk__feature_kind kind_of(lk_dtype dtype)
{
    return dtype == LK_U8    ? LK_FEATURE_BYTES
           : dtype == LK_F32 ? LK_FEATURE_FLOATS
           : dtype == LK_I64 ? LK_FEATURE_INTS
                             : LK_FEATURE_NONE;
}

static int64_t elements(const lk_field *f)
{
    return lk__field_bytes(f) / (int64_t)lk_dtype_size(f->dtype);
}

/* One sample as an Example in `*buffer`, grown to `*room` where it must. */
static lk_status write_sample(lk__sink *s, const lk_dataset_info *info, int x, int y,
                              void *const *row, void **buffer, int64_t *room)
{
    const lk_shape *shape = &info->field[x].shape;
    bool image = shape->ndim == 3;
    lk__feature_kind kind = kind_of(info->field[x].dtype);
    int64_t n = elements(&info->field[x]);
    lk__feature_out f[5];
    int k = 0;
    if (image) { /* in the order of names, as deterministic writers do */
        f[k++] = (lk__feature_out){"depth", LK_FEATURE_INTS, &shape->dim[2], 1};
        f[k++] = (lk__feature_out){"height", LK_FEATURE_INTS, &shape->dim[0], 1};
    }
    f[k++] = (lk__feature_out){"image_raw", kind, row[x], n};
    if (y >= 0)
        f[k++] = (lk__feature_out){"label", kind_of(info->field[y].dtype), row[y],
                                   elements(&info->field[y])};
    if (image)
        f[k++] = (lk__feature_out){"width", LK_FEATURE_INTS, &shape->dim[1], 1};
    int64_t size = lk__example_size(f, k);
    LK_CHECK(size <= LK_TFRECORD_MAX, LK_ENOTSUP, "a record of %lld bytes", (long long)size);
    if (size > *room) {
        lk_free(*buffer);
        *room = 0;
        LK_TRY(lk_alloc(buffer, size, 1));
        *room = size;
    }
    lk__example_write(f, k, *buffer);
    LK_TRY(lk__tfrecord_write(s, *buffer, size));
    return LK_OK;
}

static lk_status tfrecord_write(const lk_dataset *ds, lk_split split, const char *path)
{
    (void)split; /* the file holds one */
    const lk_dataset_info *info = lk_dataset_info_of(ds);
    int x = lk_dataset_find(ds, "x"), y = lk_dataset_find(ds, "y");
    LK_CHECK(x >= 0 && info->n_fields == 1 + (y >= 0) && kind_of(info->field[x].dtype), LK_ENOTSUP,
             "%s: records hold a field x of u8, f32 or i64, and y, not those of %s", path,
             info->name);
    LK_CHECK(
        y < 0 || (info->classes > 0 && info->field[y].shape.ndim == 0) ||
            (info->classes == 0 && info->field[y].dtype == LK_F32 &&
             info->field[y].shape.ndim <= 1),
        LK_ENOTSUP,
        "%s: records hold one label for each sample, or a row of f32 as targets, %s has others",
        path, info->name);
    void *row[LK_MAX_FIELDS], *block, *buffer = NULL;
    int64_t room = 0;
    lk__sink *s;
    LK_TRY(lk__dataset_rows_new(ds, row, &block));
    lk_status st = lk__sink_open(path, &s);
    if (st == LK_OK) {
        for (int64_t i = 0; st == LK_OK && i < info->count; i++) {
            st = lk__dataset_row(ds, i, row);
            if (st == LK_OK)
                st = write_sample(s, info, x, y, row, &buffer, &room);
        }
        st = lk__sink_end(s, st);
    }
    lk_free(buffer);
    lk_free(block);
    LK_TRY(st);
    return LK_OK;
}

const lk_format lk__format_tfrecord = {
    .descriptor =
        {.name = "tfrecord",
         .summary = "TFRecord files of tf.train.Example: values, their shape, a label or targets",
         .details = "The shape of a sample comes from the features of its size, or from shape; "
                    "without either it is one axis. All records must have the same.",
         .options = options,
         .options_size = sizeof(struct tfrecord_options)},
    .open = tfrecord_open,
    .write = tfrecord_write,
    .suffix = ".tfrecord",
};
