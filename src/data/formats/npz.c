/* npz: NumPy archives with arrays x and y, or x_train, y_train, x_test and y_test. */
#include "data/arrays/npz.h"

#include "data/arrays/arrays.h"
#include "data/dataset.h"
#include "data/format.h"
#include "data/packed/crc32.h"

#include <lockstep/extra/alloc.h>

struct npz_options {
    const char *path, *test, *x, *y;
    int64_t classes;
    lk_option_ints shape;
};

static const lk_option options[] = {
    LK_PATH_OPTION(struct npz_options, path, "the archive"),
    LK_PATH_OPTION(struct npz_options, test,
                   "the archive of the test set; default: arrays x_test and y_test of path"),
    {.name = "x",
     .type = LK_OPTION_TEXT,
     .offset = offsetof(struct npz_options, x),
     .value = "NAME",
     .help = "the array of the samples; default: x_train or x"},
    {.name = "y",
     .type = LK_OPTION_TEXT,
     .offset = offsetof(struct npz_options, y),
     .value = "NAME",
     .help = "the array of their labels or targets; default: y_train or y"},
    LK_CLASSES_OPTION(struct npz_options),
    LK_SHAPE_OPTION(struct npz_options),
    {.name = NULL},
};

/* Which arrays to read: those of the options, or by their usual names. */
static lk_status choose(const lk__source *s, const struct npz_options *o, lk_split split,
                        const char **x, const char **y)
{
    lk__zip z;
    lk_status st = lk__zip_open(s, &z);
    bool one = split == LK_TRAIN || o->test; /* the archive is all of one set */
    bool split_names = split == LK_TRAIN && lk__zip_find(&z, "x_train.npy");
    *x = o->x && one ? o->x : !one ? "x_test" : split_names ? "x_train" : "x";
    *y = o->y && one ? o->y : !one ? "y_test" : split_names ? "y_train" : "y";
    char member[LK_ZIP_NAME];
    if (st == LK_OK)
        st = lk__npz_member(*x, member);
    if (st == LK_OK && !one && !lk__zip_find(&z, member))
        *x = NULL; /* there is no test set */
    lk__zip_close(&z);
    return LK_TRACE(st);
}

static lk_status fill(lk__table *t, const char *path, const struct npz_options *o, lk_split split,
                      lk_dataset **out)
{
    const lk__source *s;
    const char *x, *y;
    LK_TRY(lk__table_open(t, path, &s));
    LK_TRY(choose(s, o, split, &x, &y));
    t->info.classes = o->classes;
    if (x)
        LK_TRY(lk__arrays_npz(t, s, x, y, &o->shape, out));
    else
        lk__table_free(t);
    return LK_OK;
}

static lk_status npz_open(const void *given, lk_split split, lk_dataset **out)
{
    const struct npz_options *o = given;
    *out = NULL;
    const char *path = split == LK_TEST && o->test ? o->test : o->path;
    LK_CHECK(o->path || o->test, LK_EINVAL, "npz: give path, the archive to read");
    if (split == LK_VALIDATION || !path)
        return LK_OK;
    lk__table *t;
    LK_TRY(lk__table_new(&t));
    lk_status st = LK_OK;
    LK_TRY_TO(fail, fill(t, path, o, split, out));
    return LK_OK;
fail:
    lk__table_free(t);
    return st;
}

/* ---- writing: once through the samples for size and checksum, once for the bytes ---- */

struct sum {
    int64_t bytes;
    uint32_t crc;
};

static lk_status put_sum(void *context, const void *bytes, int64_t n)
{
    struct sum *s = context;
    s->bytes += n;
    s->crc = lk__crc32(s->crc, bytes, (size_t)n);
    return LK_OK;
}

static lk_status put_member(void *context, const void *bytes, int64_t n)
{
    return lk__zip_write(context, bytes, n);
}

static lk_status write_fields(const lk_dataset *ds, lk__zip_out *z)
{
    const lk_dataset_info *info = lk_dataset_info_of(ds);
    for (int f = 0; f < info->n_fields; f++) {
        char member[LK_ZIP_NAME];
        struct sum sum = {0, 0};
        LK_TRY(lk__npz_member(info->field[f].name, member));
        LK_TRY(lk__arrays_write(ds, f, put_sum, &sum));
        LK_TRY(lk__zip_begin(z, member, sum.bytes, sum.crc));
        LK_TRY(lk__arrays_write(ds, f, put_member, z));
    }
    return LK_OK;
}

static lk_status npz_write(const lk_dataset *ds, lk_split split, const void *given,
                           const char *path)
{
    (void)split, (void)given; /* the file holds one */
    lk__zip_out *z;
    LK_TRY(lk__zip_create(path, &z));
    return LK_TRACE(lk__zip_end(z, write_fields(ds, z)));
}

const lk_format lk__format_npz = {
    .descriptor =
        {.name = "npz",
         .summary = "NumPy archives with arrays x and y, or x_train and so on",
         .details = "As npy, but several arrays in one file, plain or compressed. Arrays x_test "
                    "and y_test of the same archive are the test set.",
         .options = options,
         .options_size = sizeof(struct npz_options)},
    .open = npz_open,
    .write = npz_write,
    .suffix = ".npz",
};
