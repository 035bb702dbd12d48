/* tfrecord: records of tf.train.Example, in one file or many: values, their shape, a label or targets. */
#include "data/tfrecord.h"

#include "data/dataset.h"
#include "data/example.h"
#include "data/files.h"
#include "data/format.h"
#include "data/records.h"

#include <lockstep/extra/alloc.h>

#include <stdlib.h>
#include <string.h>

struct tfrecord_options {
    const char *path, *test;
    lk__record_options records;
};

#define RECORDS(member) offsetof(struct tfrecord_options, records.member)

#define NAME_OPTION(field, as, text)                                                       \
    {                                                                                      \
        .name = #field, .type = LK_OPTION_TEXT, .offset = RECORDS(field), .value = "NAME", \
        .def = as, .help = text                                                            \
    }
#define DTYPE_OPTION(field, text)                                                          \
    {                                                                                      \
        .name = #field, .type = LK_OPTION_CHOICE, .offset = RECORDS(field), .def = "auto", \
        .choices = LK_RECORD_DTYPES, .help = text                                          \
    }

static const char what[] =
    "it is a file, a folder, a pattern such as train-*.tfrecord, or several with commas between "
    "them";

static const lk_option options[] = {
    LK_PATHS_OPTION(struct tfrecord_options, path,
                    "the files of the training set: a file, a folder, a pattern such as "
                    "train-*.tfrecord, or several with commas between them"),
    LK_PATHS_OPTION(struct tfrecord_options, test, "the files of the test set, as path"),
    NAME_OPTION(image, "image_raw", "the feature with the values: bytes, floats or integers"),
    DTYPE_OPTION(dtype, "how elements lie in the bytes of image, little-endian; auto: as the "
                        "records say, or bytes"),
    {.name = "shape",
     .type = LK_OPTION_INTS,
     .offset = RECORDS(shape),
     .value = "N,N,...",
     .min = 1,
     .max = 1e9,
     .help = "the shape of a sample, such as 28,28,1; default: as the records say"},
    NAME_OPTION(height, "height", "the feature with the rows of the image"),
    NAME_OPTION(width, "width", "the feature with its columns"),
    NAME_OPTION(depth, "depth", "the feature with its channels"),
    NAME_OPTION(label, "label",
                "the feature with the label, an integer, or with real targets, floats"),
    DTYPE_OPTION(label_dtype, "how elements lie in the bytes of label: integers are classes, "
                              "others targets"),
    {.name = "label_shape",
     .type = LK_OPTION_INTS,
     .offset = RECORDS(label_shape),
     .value = "N,N,...",
     .min = 1,
     .max = 1e9,
     .help = "the shape of the labels of a sample; default: one label, or one axis of targets"},
    {.name = "label_one_hot",
     .type = LK_OPTION_FLAG,
     .offset = RECORDS(label_one_hot),
     .help = "label is a row that is 1 at the class and 0 elsewhere"},
    {.name = "classes",
     .type = LK_OPTION_INT,
     .offset = RECORDS(classes),
     .value = "N",
     .def = "0",
     .min = 0,
     .max = LK_MAX_CLASSES,
     .help = "how many classes there are; 0: as the records say, or one more than the largest "
             "label, for which all are read"},
    {.name = "fields",
     .type = LK_OPTION_NAMES,
     .offset = RECORDS(fields),
     .value = "NAME,...",
     .help = "features that become further fields of a sample: NAME, NAME:DTYPE or "
             "NAME:DTYPE:NxN, such as mask:u8:28x28",
     .flags = LK_OPTION_ONCE},
    {.name = NULL},
};

static lk_status sources_open(const lk__files *files, lk__source **source)
{
    for (int64_t i = 0; i < files->n; i++) {
        lk__packing how;
        LK_TRY(lk__source_open_packed(files->path[i], &source[i]));
        LK_TRY(lk__tfrecord_packing(source[i], &how));
        if (how != LK_PACKED_NOT)
            LK_TRY(lk__source_unpack(&source[i], how, NULL));
    }
    return LK_OK;
}

static lk_status set_open(const char *path, const lk__record_options *o, lk_arena *arena,
                          lk_dataset **out)
{
    lk__files files;
    lk__source **source;
    LK_TRY(lk__files_find(path, ".tfrecord", what, arena, &files));
    LK_TRY(lk_arena_alloc(arena, &source, files.n, sizeof *source));
    lk_status st = sources_open(&files, source);
    for (int64_t i = 0; st != LK_OK && i < files.n; i++)
        lk__source_free(source[i]);
    LK_TRY(st);
    LK_TRY(lk__records_dataset(files.n == 1 ? files.path[0] : path, source, files.n, o, out));
    return LK_OK;
}

static lk_status tfrecord_open(const void *given, lk_split split, lk_dataset **out)
{
    const struct tfrecord_options *o = given;
    *out = NULL;
    const char *path = split == LK_TRAIN ? o->path : split == LK_TEST ? o->test : NULL;
    LK_CHECK(o->path || o->test, LK_EINVAL, "tfrecord: give path, the files to read");
    if (!path)
        return LK_OK;
    lk_arena *arena;
    LK_TRY(lk_arena_new(&arena));
    lk_status st = set_open(path, &o->records, arena, out);
    lk_arena_free(arena);
    LK_TRY(st);
    return LK_OK;
}

/* ---- writing ---- */

enum { MOST = LK_MAX_FIELDS + 4 }; /* features of a record */

/* A record of one sample after the other. */
struct writing {
    void *row[LK_MAX_FIELDS], *block;
    char note[LK_RECORD_TEXT];
    lk__feature_out feature[MOST]; /* of these rows, in the order of names */
    int n;
    void *record;
    int64_t room;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const lk__feature_out *)a)->name, ((const lk__feature_out *)b)->name);
}

/* Elements of other dtypes lie as bytes, and the note says what they are. */
static lk__feature_out feature_of(const char *name, const lk_field *field, const void *row)
{
    int64_t bytes = lk__field_bytes(field), n = bytes / (int64_t)lk_dtype_size(field->dtype);
    if (field->dtype == LK_F32)
        return (lk__feature_out){name, LK_FEATURE_FLOATS, row, n};
    if (field->dtype == LK_I64)
        return (lk__feature_out){name, LK_FEATURE_INTS, row, n};
    return (lk__feature_out){name, LK_FEATURE_BYTES, row, bytes};
}

static lk_status writing_start(const lk_dataset *ds, const char *path, struct writing *w)
{
    static const char *const own[] = {"image_raw", "label", "height",
                                      "width",     "depth", LK_RECORD_NOTE};
    const lk_dataset_info *info = lk_dataset_info_of(ds);
    int x = lk_dataset_find(ds, "x"), y = lk_dataset_find(ds, "y");
    LK_CHECK(x >= 0, LK_ENOTSUP, "%s: records hold a field x, which %s has not", path, info->name);
    LK_TRY(lk__record_note(info, w->note));
    LK_TRY(lk__dataset_rows_new(ds, w->row, &w->block));
    for (int f = 0; f < info->n_fields; f++) {
        const lk_field *field = &info->field[f];
        const char *name = f == x ? "image_raw" : f == y ? "label" : field->name;
        for (size_t i = 0; f != x && f != y && i < sizeof own / sizeof own[0]; i++)
            LK_CHECK(strcmp(name, own[i]) != 0, LK_ENOTSUP,
                     "%s: the field \"%s\" of %s has the name of another feature", path, name,
                     info->name);
        w->feature[w->n++] = feature_of(name, field, w->row[f]);
    }
    const lk_shape *shape = &info->field[x].shape;
    static const char *const size[] = {"height", "width", "depth"};
    for (int i = 0; shape->ndim == 3 && i < 3; i++)
        w->feature[w->n++] = (lk__feature_out){size[i], LK_FEATURE_INTS, &shape->dim[i], 1};
    w->feature[w->n++] = (lk__feature_out){LK_RECORD_NOTE, LK_FEATURE_BYTES, w->note,
                                           (int64_t)strlen(w->note)};
    qsort(w->feature, (size_t)w->n, sizeof w->feature[0], by_name);
    return LK_OK;
}

static void writing_end(struct writing *w)
{
    lk_free(w->block);
    lk_free(w->record);
}

static lk_status write_sample(lk__sink *s, const lk_dataset *ds, int64_t i, struct writing *w)
{
    LK_TRY(lk__dataset_row(ds, i, w->row));
    int64_t size = lk__example_size(w->feature, w->n);
    LK_CHECK(size <= LK_TFRECORD_MAX, LK_ENOTSUP, "a record of %lld bytes", (long long)size);
    if (size > w->room) {
        lk_free(w->record);
        w->record = NULL;
        w->room = 0;
        LK_TRY(lk_alloc(&w->record, size, 1));
        w->room = size;
    }
    lk__example_write(w->feature, w->n, w->record);
    LK_TRY(lk__tfrecord_write(s, w->record, size));
    return LK_OK;
}

static lk_status tfrecord_write(const lk_dataset *ds, lk_split split, const char *path)
{
    (void)split; /* the file holds one */
    struct writing w = {.n = 0};
    lk__sink *s;
    lk_status st = writing_start(ds, path, &w);
    if (st == LK_OK)
        st = lk__sink_open(path, &s);
    if (st == LK_OK) {
        for (int64_t i = 0; st == LK_OK && i < lk_dataset_info_of(ds)->count; i++)
            st = write_sample(s, ds, i, &w);
        st = lk__sink_end(s, st);
    }
    writing_end(&w);
    LK_TRY(st);
    return LK_OK;
}

const lk_format lk__format_tfrecord = {
    .descriptor =
        {.name = "tfrecord",
         .summary = "TFRecord files of tf.train.Example: values, their shape, a label or targets",
         .details = "Files are read one after the other, those of a folder or pattern in the order "
                    "of their names. Of each record the features that are named here are read, "
                    "others are passed over. The shape of a sample comes from the features of its "
                    "size, or from shape; without either it is one axis. All records must have "
                    "the same.",
         .options = options,
         .options_size = sizeof(struct tfrecord_options)},
    .open = tfrecord_open,
    .write = tfrecord_write,
    .suffix = ".tfrecord",
    .many = true,
};
