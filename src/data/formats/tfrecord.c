/* tfrecord: records of tf.train.Example, in one file or many: values, their shape, a label or targets. */
#include "data/records/tfrecord.h"

#include "data/files.h"
#include "data/format.h"
#include "data/records/records.h"

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

static const char suffix[] = ".tfrecord";

static const lk_option options[] = {
    LK_PATHS_OPTION(struct tfrecord_options, path,
                    "the files of the training set: a file, a folder, a pattern such as "
                    "train-*.tfrecord, or several with commas between them"),
    LK_PATHS_OPTION(struct tfrecord_options, test,
                    "the files of the test set, as path; default: those of path, if it is a folder "
                    "with files of both"),
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
    {.name = "stream",
     .type = LK_OPTION_FLAG,
     .offset = RECORDS(stream),
     .help =
         "read the files from their beginning to their end, packed or not, without an index and "
         "without unpacking them elsewhere; samples are shuffled in a buffer (shuffle_buffer)"},
    {.name = "damaged",
     .type = LK_OPTION_CHOICE,
     .offset = RECORDS(damaged),
     .def = "error",
     .choices = "error skip",
     .help = "what damaged records are: an error when they are read; or left out and counted, for "
             "which all are read when the set is opened"},
    {.name = NULL},
};

static lk_status sources_open(const lk__files *files, lk__source **source)
{
    for (int64_t i = 0; i < files->n; i++)
        LK_TRY(lk__source_open_packed(files->path[i], &source[i]));
    return LK_OK;
}

static lk_status set_open(const char *path, lk_split split, const lk__record_options *o,
                          lk_arena *arena, lk_dataset **out)
{
    lk__files files;
    lk__source **source;
    LK_TRY(lk__files_find(path, suffix, split, arena, &files));
    LK_TRY(lk_arena_alloc(arena, &source, files.n, sizeof *source));
    lk_status st = sources_open(&files, source);
    for (int64_t i = 0; st != LK_OK && i < files.n; i++)
        lk__source_free(source[i]);
    LK_TRY(st);
    return LK_TRACE(
        lk__records_dataset(files.n == 1 ? files.path[0] : path, source, files.n, o, out));
}

static lk_status tfrecord_open(const void *given, lk_split split, lk_dataset **out)
{
    const struct tfrecord_options *o = given;
    *out = NULL;
    const char *path = split == LK_TRAIN ? o->path : split == LK_TEST ? o->test : NULL;
    bool has = path != NULL;
    LK_CHECK(o->path || o->test, LK_EINVAL, "tfrecord: give path, the files to read");
    lk_arena *arena;
    LK_TRY(lk_arena_new(&arena));
    lk_status st = LK_OK;
    if (!has && split != LK_TRAIN && o->path) {
        path = o->path;
        LK_TRY_TO(done, lk__files_has_split(path, suffix, split, arena, &has));
    }
    if (has)
        LK_TRY_TO(done, set_open(path, split, &o->records, arena, out));
done:
    lk_arena_free(arena);
    return st;
}

/* ---- writing ---- */

static const lk_option write_options[] = {
    {.name = "files",
     .type = LK_OPTION_INT,
     .offset = offsetof(lk__records_writing, files),
     .value = "N",
     .def = "1",
     .min = 1,
     .max = 99999,
     .help = "how many files to write, each with a range of the samples"},
    {.name = "gzip",
     .type = LK_OPTION_FLAG,
     .offset = offsetof(lk__records_writing, gzip),
     .help = "pack them by gzip"},
    {.name = NULL},
};

static const lk_descriptor writing = {
    .name = "tfrecord", .options = write_options, .options_size = sizeof(lk__records_writing)};

static lk_status tfrecord_write(const lk_dataset *ds, lk_split split, const void *given,
                                const char *path)
{
    (void)split; /* the files hold one */
    return LK_TRACE(lk__records_write(ds, given, path));
}

static lk_status tfrecord_written(const void *given, const char *path, lk_arena *arena,
                                  const char **out)
{
    return LK_TRACE(lk__records_written(given, path, arena, out));
}

const lk_format lk__format_tfrecord = {
    .descriptor =
        {.name = "tfrecord",
         .summary = "TFRecord files of tf.train.Example: values, their shape, a label or targets",
         .details = "Files are read one after the other, those of a folder or pattern in the order "
                    "of their names. Those of a folder end in .tfrecord or .tfrecords, with or "
                    "without .gz; where their names say train, val and test, each set has its own. "
                    "Of each record the features that are named here are read, others are passed "
                    "over. The shape of a sample comes from the features of its size, or from "
                    "shape; without either it is one axis. All records must have the same.",
         .options = options,
         .options_size = sizeof(struct tfrecord_options)},
    .open = tfrecord_open,
    .write = tfrecord_write,
    .writing = &writing,
    .written = tfrecord_written,
    .suffix = suffix,
    .many = true,
};
