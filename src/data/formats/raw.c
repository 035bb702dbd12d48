/* raw: elements one after the other, such as volumes of a simulation. */
#include "data/arrays/raw.h"

#include "data/format.h"

struct raw_options {
    const char *path, *labels, *test, *test_labels;
    lk__raw_layout x, y;
    int64_t classes;
};

static const lk_option options[] = {
    LK_PATH_OPTION(struct raw_options, path, "the file of the samples"),
    LK_PATH_OPTION(struct raw_options, labels, "the file of their labels or targets"),
    LK_PATH_OPTION(struct raw_options, test, "the file of the samples of the test set"),
    LK_PATH_OPTION(struct raw_options, test_labels, "the file of their labels"),
    {.name = "dtype",
     .type = LK_OPTION_CHOICE,
     .offset = offsetof(struct raw_options, x.dtype),
     .def = "f32",
     .choices = LK_RAW_DTYPES,
     .help = "the type of the elements"},
    {.name = "shape",
     .type = LK_OPTION_INTS,
     .offset = offsetof(struct raw_options, x.shape),
     .value = "N,N,...",
     .min = 1,
     .max = 1e9,
     .help = "the shape of a sample, such as 64,64,64,1",
     .flags = LK_OPTION_REQUIRED},
    {.name = "order",
     .type = LK_OPTION_CHOICE,
     .offset = offsetof(struct raw_options, x.big),
     .def = "little",
     .choices = "little big",
     .help = "the byte that comes first in an element of the samples"},
    {.name = "offset",
     .type = LK_OPTION_INT,
     .offset = offsetof(struct raw_options, x.offset),
     .def = "0",
     .min = 0,
     .max = 1e15,
     .help = "bytes before the first sample"},
    {.name = "label_dtype",
     .type = LK_OPTION_CHOICE,
     .offset = offsetof(struct raw_options, y.dtype),
     .def = "u8",
     .choices = LK_RAW_DTYPES,
     .help = "the type of the labels: integers are classes, others targets"},
    {.name = "label_shape",
     .type = LK_OPTION_INTS,
     .offset = offsetof(struct raw_options, y.shape),
     .value = "N,N,...",
     .min = 1,
     .max = 1e9,
     .help = "the shape of the labels of a sample; default: one label"},
    {.name = "label_order",
     .type = LK_OPTION_CHOICE,
     .offset = offsetof(struct raw_options, y.big),
     .def = "little",
     .choices = "little big",
     .help = "the byte that comes first in a label"},
    {.name = "label_offset",
     .type = LK_OPTION_INT,
     .offset = offsetof(struct raw_options, y.offset),
     .def = "0",
     .min = 0,
     .max = 1e15,
     .help = "bytes before the first label"},
    LK_CLASSES_OPTION(struct raw_options),
    {.name = NULL},
};

static lk_status raw_open(const void *given, lk_split split, lk_dataset **out)
{
    const struct raw_options *o = given;
    *out = NULL;
    const char *x = split == LK_TRAIN ? o->path : split == LK_TEST ? o->test : NULL;
    const char *y = split == LK_TRAIN ? o->labels : o->test_labels;
    LK_CHECK(o->path || o->test, LK_EINVAL, "raw: give path, the file to read");
    if (!x)
        return LK_OK;
    lk__table *t;
    const lk__source *samples, *labels = NULL;
    LK_TRY(lk__table_new(&t));
    lk_status st = LK_OK;
    LK_TRY_TO(fail, lk__table_open(t, x, &samples));
    if (y)
        LK_TRY_TO(fail, lk__table_open(t, y, &labels));
    t->info.classes = o->classes;
    LK_TRY_TO(fail, lk__raw_dataset(t, samples, &o->x, labels, &o->y, out));
    return LK_OK;
fail:
    lk__table_free(t);
    return st;
}

const lk_format lk__format_raw = {
    .descriptor =
        {.name = "raw",
         .summary = "elements one after the other: volumes of a simulation",
         .details = "The file holds a whole number of samples of the given type and shape, from "
                    "the offset to its end.",
         .options = options,
         .options_size = sizeof(struct raw_options)},
    .open = raw_open,
};
