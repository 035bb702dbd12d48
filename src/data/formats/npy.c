/* npy: one NumPy array of the samples, and one of their labels or targets. */
#include "data/arrays/arrays.h"
#include "data/dataset.h"
#include "data/format.h"

struct npy_options {
    const char *path, *labels, *test, *test_labels;
    int64_t classes;
    lk_option_ints shape;
};

static const lk_option options[] = {
    LK_PATH_OPTION(struct npy_options, path, "the array of the samples"),
    LK_PATH_OPTION(struct npy_options, labels, "the array of their labels, or of real targets"),
    LK_PATH_OPTION(struct npy_options, test, "the array of the samples of the test set"),
    LK_PATH_OPTION(struct npy_options, test_labels, "the array of their labels"),
    LK_CLASSES_OPTION(struct npy_options),
    LK_SHAPE_OPTION(struct npy_options),
    {.name = NULL},
};

/* Open a file into the table and read its header. */
static lk_status open_array(lk__table *t, const char *path, const lk__source **s, lk__npy *a)
{
    LK_TRY(lk__table_open(t, path, s));
    return LK_TRACE(lk__npy_read(*s, NULL, 0, lk__source_size(*s), a));
}

static lk_status fill(lk__table *t, const char *x, const char *y, const struct npy_options *o,
                      lk_dataset **out)
{
    const lk__source *s;
    lk__npy a;
    LK_TRY(open_array(t, x, &s, &a));
    t->info.name = lk__source_name(s);
    LK_TRY(lk__arrays_x(t, s, &a, &o->shape));
    if (y) {
        t->info.classes = o->classes;
        LK_TRY(open_array(t, y, &s, &a));
        LK_TRY(lk__arrays_y(t, s, &a));
    }
    return LK_TRACE(lk__table_finish(t, out));
}

static lk_status npy_open(const void *given, lk_split split, lk_dataset **out)
{
    const struct npy_options *o = given;
    *out = NULL;
    const char *x = split == LK_TRAIN ? o->path : split == LK_TEST ? o->test : NULL;
    const char *y = split == LK_TRAIN ? o->labels : o->test_labels;
    LK_CHECK(o->path || o->test, LK_EINVAL, "npy: give path, the file to read");
    if (!x)
        return LK_OK;
    lk__table *t;
    LK_TRY(lk__table_new(&t));
    lk_status st = LK_OK;
    LK_TRY_TO(fail, fill(t, x, y, o, out));
    return LK_OK;
fail:
    lk__table_free(t);
    return st;
}

static lk_status put_sink(void *context, const void *bytes, int64_t n)
{
    return lk__sink_write(context, bytes, n);
}

static lk_status npy_write(const lk_dataset *ds, lk_split split, const void *given,
                           const char *path)
{
    (void)split, (void)given; /* the file holds one */
    const lk_dataset_info *info = lk_dataset_info_of(ds);
    LK_CHECK(info->n_fields == 1, LK_ENOTSUP, "%s: .npy holds one field, %s has %d: write .npz",
             path, info->name, info->n_fields);
    lk__sink *s;
    LK_TRY(lk__sink_open(path, &s));
    return LK_TRACE(lk__sink_end(s, lk__arrays_write(ds, 0, put_sink, s)));
}

const lk_format lk__format_npy = {
    .descriptor =
        {.name = "npy",
         .summary = "NumPy arrays, the first axis counting the samples",
         .details = "Arrays are in C order and of type u1, b1, i4, i8, f2, f4 or f8. Labels of "
                    "an integer type are classes, others are targets.",
         .options = options,
         .options_size = sizeof(struct npy_options)},
    .open = npy_open,
    .write = npy_write,
    .suffix = ".npy",
};
