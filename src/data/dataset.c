/* lk_dataset: samples by number, from functions that a format or the program gives, with the checks
 * around them.  Counted references; loaders read it on any thread. */
#include "data/dataset.h"

#include "base/fpenv.h"
#include "data/content.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/checked.h>
#include <lockstep/version.h>

#include <stdatomic.h>
#include <string.h>

struct lk_dataset {
    _Atomic int64_t holders;
    lk_dataset_info info;
    int64_t bytes[LK_MAX_FIELDS];     /* of one sample */
    const char *start[LK_MAX_FIELDS]; /* where the samples lie one after the other, or NULL */
    lk_dataset_row_fn *row;           /* NULL: rows are boxes, too */
    lk_dataset_box_fn *box;           /* or NULL */
    lk_release_fn *release;
    void *context;
    _Atomic uint64_t hash;
    _Atomic bool hashed;
    _Atomic bool compared; /* with those of other ranks */
    uint64_t files, stamp; /* of what it is made from, and with the options; 0: not known */
    lk_split split;        /* LK_N_SPLITS: not known */
    const int64_t *run;    /* where its runs begin */
    int64_t n_runs;
    char *title; /* the name, and which set it is where that is known */
    char name[]; /* info.name; the title behind it */
};

enum { SET_ROOM = sizeof ", validation set" };

static int find_field(const lk_dataset_info *info, const char *name)
{
    for (int f = 0; f < info->n_fields; f++)
        if (strcmp(info->field[f].name, name) == 0)
            return f;
    return -1;
}

/* The field is sound, and so is the number of bytes of all samples. */
static lk_status check_field(const lk_dataset_info *info, int f)
{
    const lk_field *field = &info->field[f];
    LK_CHECK(field->name[0] && memchr(field->name, '\0', sizeof field->name), LK_EINVAL,
             "dataset %s: field %d has no name, or one of more than %d bytes", info->name, f,
             LK_FIELD_NAME - 1);
    LK_CHECK(find_field(info, field->name) == f, LK_EINVAL,
             "dataset %s: two fields have the name \"%s\"", info->name, field->name);
    LK_CHECK(lk_dtype_size(field->dtype) > 0, LK_EDTYPE, "dataset %s: field \"%s\" has no dtype",
             info->name, field->name);
    LK_CHECK(field->shape.ndim < LK_MAX_NDIM, LK_EINVAL,
             "dataset %s: field \"%s\" has %d axes, at most %d are possible", info->name,
             field->name, field->shape.ndim, LK_MAX_NDIM - 1);
    int64_t count;
    LK_TRY(lk_shape_count(field->shape, &count));
    LK_TRY(lk_mul_i64(count, (int64_t)lk_dtype_size(field->dtype), &count));
    return LK_TRACE(lk_mul_i64(count, info->count, &count));
}

static lk_status check_info(const lk_dataset_info *info)
{
    LK_CHECK(info->count >= 0 && info->classes >= 0, LK_EINVAL,
             "dataset %s: %lld samples and %lld classes", info->name, (long long)info->count,
             (long long)info->classes);
    LK_CHECK(info->skipped >= 0 && info->gaps >= 0, LK_EINVAL,
             "dataset %s: %lld records and %lld places are left out", info->name,
             (long long)info->skipped, (long long)info->gaps);
    for (int f = 0; f < info->n_fields; f++)
        LK_TRY(check_field(info, f));
    int y = find_field(info, "y");
    LK_CHECK(info->classes == 0 || (y >= 0 && info->field[y].dtype == LK_I64), LK_EINVAL,
             "dataset %s: it has %lld classes, but no field \"y\" of dtype i64", info->name,
             (long long)info->classes);
    return LK_OK;
}

lk_status lk_dataset_new(const lk_dataset_info *info, lk_dataset_row_fn *row,
                         lk_release_fn *release, void *context, lk_dataset **out)
{
    return LK_TRACE(lk_dataset_new_boxes(info, row, NULL, release, context, out));
}

lk_status lk_dataset_new_boxes(const lk_dataset_info *info, lk_dataset_row_fn *row,
                               lk_dataset_box_fn *box, lk_release_fn *release, void *context,
                               lk_dataset **out)
{
    *out = NULL;
    LK_CHECK(info->name, LK_EINVAL, "a dataset needs a name for messages");
    LK_CHECK(info->n_fields >= 1 && info->n_fields <= LK_MAX_FIELDS, LK_EINVAL,
             "dataset %s: %d fields, there must be 1 to %d; one without fields is made by "
             "lk_dataset_new_empty_like() or the format \"empty\"",
             info->name, info->n_fields, LK_MAX_FIELDS);
    LK_CHECK(row || box, LK_EINVAL, "dataset %s: there is no function that writes its samples",
             info->name);
    return LK_TRACE(lk__dataset_new_any(info, row, box, release, context, out));
}

lk_status lk__dataset_new_any(const lk_dataset_info *info, lk_dataset_row_fn *row,
                              lk_dataset_box_fn *box, lk_release_fn *release, void *context,
                              lk_dataset **out)
{
    *out = NULL;
    LK_TRY(check_info(info));
    lk_dataset *ds;
    size_t length = strlen(info->name) + 1;
    LK_TRY(lk_alloc_zero(&ds, 1, sizeof *ds + 2 * length + SET_ROOM));
    atomic_init(&ds->holders, 1);
    ds->info = *info;
    memcpy(ds->name, info->name, length);
    ds->info.name = ds->name;
    ds->title = ds->name + length;
    memcpy(ds->title, info->name, length);
    for (int f = 0; f < info->n_fields; f++)
        ds->bytes[f] = lk__field_bytes(&info->field[f]);
    ds->split = LK_N_SPLITS;
    ds->row = row;
    ds->box = box;
    ds->release = release;
    ds->context = context;
    *out = ds;
    return LK_OK;
}

void lk__dataset_set_split(lk_dataset *ds, lk_split split)
{
    size_t length = strlen(ds->name);
    ds->split = split;
    snprintf(ds->title, length + SET_ROOM, "%s, %s set", ds->name, lk_split_name(split));
}

void lk__dataset_set_runs(lk_dataset *ds, const int64_t *first, int64_t n)
{
    ds->run = first;
    ds->n_runs = n;
}

const int64_t *lk__dataset_runs(const lk_dataset *ds, int64_t *n)
{
    static const int64_t none[] = {0};
    *n = ds->run ? ds->n_runs : 1;
    return ds->run ? ds->run : none;
}

void lk__dataset_set_classes(lk_dataset *ds, int64_t classes)
{
    ds->info.classes = classes;
}

const char *lk__dataset_split_suffix(const lk_dataset *ds)
{
    return ds->split == LK_VALIDATION ? ".validation" : ds->split == LK_TEST ? ".test" : NULL;
}

const char *lk__dataset_title(const lk_dataset *ds)
{
    return ds->title;
}

lk_dataset *lk_dataset_retain(lk_dataset *ds)
{
    if (ds)
        atomic_fetch_add(&ds->holders, 1);
    return ds;
}

void lk_dataset_free(lk_dataset *ds)
{
    if (!ds || atomic_fetch_sub(&ds->holders, 1) != 1)
        return;
    if (ds->release)
        ds->release(ds->context);
    lk_free(ds);
}

const lk_dataset_info *lk_dataset_info_of(const lk_dataset *ds)
{
    return &ds->info;
}

int lk_dataset_find(const lk_dataset *ds, const char *field)
{
    return find_field(&ds->info, field);
}

static lk_status check_index(const lk_dataset *ds, int64_t index)
{
    LK_CHECK(index >= 0 && index < ds->info.count, LK_EINVAL,
             "dataset %s: there is no sample %lld, it has %lld", ds->title, (long long)index,
             (long long)ds->info.count);
    return LK_OK;
}

lk_status lk__dataset_row(const lk_dataset *ds, int64_t index, void *const *row)
{
    LK_TRY(check_index(ds, index));
    if (ds->row)
        LK_TRY(ds->row(ds->context, index, row));
    for (int f = 0; !ds->row && f < ds->info.n_fields; f++) {
        lk_box whole = lk__field_whole(&ds->info.field[f]);
        if (row[f] && ds->bytes[f] > 0)
            LK_TRY(ds->box(ds->context, index, f, &whole, row[f]));
    }
    return LK_OK;
}

bool lk__dataset_has_boxes(const lk_dataset *ds)
{
    return ds->start[0] || ds->box;
}

lk_status lk__dataset_box(const lk_dataset *ds, int64_t index, int f, const lk_box *box, void *out)
{
    LK_TRY(check_index(ds, index));
    if (ds->start[0])
        lk__box_cut(&ds->info.field[f], ds->start[f] + index * ds->bytes[f], box, out);
    else if (lk__box_bytes(&ds->info.field[f], box) > 0)
        LK_TRY(ds->box(ds->context, index, f, box, out));
    return LK_OK;
}

bool lk__dataset_is_compared(const lk_dataset *ds)
{
    return atomic_load(&ds->compared);
}

void lk__dataset_set_compared(lk_dataset *ds)
{
    atomic_store(&ds->compared, true);
}

/* ---- what is known without reading ---- */

void lk__dataset_set_files(lk_dataset *ds, lk__source *const *source, int64_t n)
{
    lk_hash h = lk_hash_start();
    bool any = false;
    for (int64_t i = 0; i < n; i++) {
        lk_hash_add_i64(&h, (int64_t)lk__source_stamp(source[i]));
        any = any || lk__source_stamp(source[i]) != 0;
    }
    ds->files = any ? lk_hash_value(&h) : 0;
}

void lk__dataset_set_generated(lk_dataset *ds)
{
    ds->files = 1;
}

uint64_t lk__dataset_stamp(const lk_dataset *ds)
{
    return ds->stamp;
}

void lk__dataset_set_stamp(lk_dataset *ds, uint64_t stamp)
{
    ds->stamp = stamp;
}

lk_status lk__dataset_stamp_options(lk_dataset *ds, const lk_config *format, lk_split split)
{
    lk_hash h = lk_hash_start();
    if (ds->files == 0)
        return LK_OK;
    lk_hash_add_i64(&h, (int64_t)ds->files);
    lk_hash_add_i64(&h, split);
    lk_hash_add_text(&h, lk_version()); /* another one may read the same bytes otherwise */
    LK_TRY(lk_config_hash(format, &h));
    ds->stamp = lk_hash_value(&h);
    return LK_OK;
}

bool lk__dataset_is_hashed(const lk_dataset *ds)
{
    return atomic_load_explicit(&ds->hashed, memory_order_acquire);
}

void lk__dataset_set_hash(lk_dataset *ds, uint64_t hash)
{
    atomic_store(&ds->hash, hash);
    atomic_store_explicit(&ds->hashed, true, memory_order_release);
}

/* ---- samples in memory ---- */

void lk__dataset_set_base(lk_dataset *ds, int f, const void *start)
{
    ds->start[f] = start;
}

bool lk__dataset_has_base(const lk_dataset *ds)
{
    return ds->start[0] != NULL;
}

lk_status lk__dataset_row_ptr(const lk_dataset *ds, int64_t index, void *const *row,
                              const void **at)
{
    if (!ds->start[0])
        LK_TRY(lk__dataset_row(ds, index, row));
    for (int f = 0; f < ds->info.n_fields; f++)
        at[f] = ds->start[0] ? ds->start[f] + index * ds->bytes[f] : row[f];
    return LK_OK;
}

void lk__dataset_prefetch(const lk_dataset *ds, int64_t index)
{
    enum { LINE = 64, FIRST = 1024 }; /* the processor sees by itself how it goes on */
    for (int f = 0; f < ds->info.n_fields && ds->start[0]; f++)
        for (int64_t at = 0; at < ds->bytes[f] && at < FIRST; at += LINE)
            __builtin_prefetch(ds->start[f] + index * ds->bytes[f] + at);
}

lk_status lk__dataset_check_target(const lk_dataset *ds, int f, const lk_box *box, int64_t n,
                                   lk_tensor *t, char **data)
{
    const lk_field *field = &ds->info.field[f];
    lk_shape want = {.ndim = box->ndim + 1, .dim = {n}};
    memcpy(want.dim + 1, box->n, (size_t)box->ndim * sizeof want.dim[0]);
    LK_CHECK(lk_tensor_dtype(t) == field->dtype, LK_EDTYPE,
             "dataset %s: field \"%s\" is %s, the tensor for it %s", ds->title, field->name,
             lk_dtype_name(field->dtype), lk_tensor_text(t).s);
    LK_CHECK(lk_shape_is_equal(lk_tensor_shape(t), want), LK_ESHAPE,
             "dataset %s: %lld samples of field \"%s\" are %s, the tensor for them %s", ds->title,
             (long long)n, field->name, lk_shape_text(want).s, lk_tensor_text(t).s);
    LK_CHECK(lk_tensor_is_contiguous(t), LK_EINVAL,
             "dataset %s: the tensor for field \"%s\" is not contiguous", ds->title, field->name);
    void *start;
    LK_TRY(lk_tensor_writable_data(t, &start));
    *data = start;
    return LK_OK;
}

lk_status lk_dataset_read(const lk_dataset *ds, const int64_t *index, int64_t n,
                          lk_tensor *const *tensor)
{
    LK_FP_GUARD();
    LK_CHECK(n >= 0 && (index || n == 0), LK_EINVAL, "dataset %s: %lld samples%s", ds->title,
             (long long)n, index ? "" : " of no index");
    char *data[LK_MAX_FIELDS] = {NULL};
    for (int f = 0; f < ds->info.n_fields; f++) {
        lk_box whole = lk__field_whole(&ds->info.field[f]);
        if (tensor[f])
            LK_TRY(lk__dataset_check_target(ds, f, &whole, n, tensor[f], &data[f]));
    }
    for (int64_t i = 0; i < n; i++) {
        void *row[LK_MAX_FIELDS] = {NULL};
        for (int f = 0; f < ds->info.n_fields; f++)
            row[f] = data[f] ? data[f] + i * ds->bytes[f] : NULL;
        LK_TRY(lk__dataset_row(ds, index[i], row));
    }
    return LK_OK;
}

lk_status lk__dataset_rows_new(const lk_dataset *ds, void **row, void **block)
{
    int64_t bytes = 0, at[LK_MAX_FIELDS];
    *block = NULL;
    for (int f = 0; f < ds->info.n_fields; f++) {
        at[f] = bytes;
        if (ds->info.count > 0) /* an empty set may claim any shape: nothing is read */
            LK_TRY(lk_add_i64(bytes, ds->bytes[f], &bytes));
        LK_TRY(lk_round_up_i64(bytes, LK_ALIGN, &bytes));
    }
    char *start;
    LK_TRY(lk_alloc(&start, bytes, 1));
    for (int f = 0; f < ds->info.n_fields; f++)
        row[f] = start + at[f];
    *block = start;
    return LK_OK;
}

lk_status lk_dataset_hash(lk_dataset *ds, uint64_t *out)
{
    LK_FP_GUARD();
    if (lk__dataset_is_hashed(ds)) {
        *out = atomic_load(&ds->hash);
        return LK_OK;
    }
    LK_TRY(lk__content_hash(ds, out));
    lk__dataset_set_hash(ds, *out);
    return LK_OK;
}
