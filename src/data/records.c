/* The records of a TFRecord file as samples: where the values of each begin, and its label. */
#include "data/records.h"

#include "data/dataset.h"
#include "data/example.h"
#include "data/format.h"
#include "data/tfrecord.h"

#include <lockstep/alloc.h>
#include <lockstep/checked.h>

enum { IMAGE, LABEL, HEIGHT, WIDTH, DEPTH, N_FEATURES };

struct records {
    lk__source *source;
    int64_t *at;    /* where the values of each sample begin */
    int64_t *label; /* NULL: there are none */
    int64_t bytes;  /* of the values of one sample */
};

static void records_free(void *context)
{
    struct records *r = context;
    lk__source_free(r->source);
    lk_free(r->at);
    lk_free(r->label);
    lk_free(r);
}

static lk_status records_row(void *context, int64_t index, void *const *row)
{
    const struct records *r = context;
    if (r->label && row[1])
        *(int64_t *)row[1] = r->label[index];
    if (row[0])
        LK_TRY(lk__source_read(r->source, r->at[index], row[0], r->bytes, "a sample"));
    return LK_OK;
}

/* How many records there are, and the bytes of the longest. */
static lk_status count_records(const lk__source *s, int64_t *count, int64_t *longest)
{
    int64_t at, n, next = 0;
    *count = *longest = 0;
    while (next < lk__source_size(s)) {
        LK_TRY(lk__tfrecord_find(s, next, &at, &n, &next));
        *longest = n > *longest ? n : *longest;
        ++*count;
    }
    return LK_OK;
}

/* The shape that the features of a record give its values. */
static lk_status shape_of(const lk__source *s, int64_t at, const lk__feature *f, lk_shape *out)
{
    *out = LK_SHAPE(f[IMAGE].n);
    int sizes = 0;
    for (int i = HEIGHT; i <= DEPTH; i++)
        sizes += f[i].kind == LK_FEATURE_INTS && f[i].n == 1;
    if (sizes < 3)
        return LK_OK;
    lk_shape shape = LK_SHAPE(f[HEIGHT].value[0], f[WIDTH].value[0], f[DEPTH].value[0]);
    int64_t count = -1;
    if (shape.dim[0] < 1 || shape.dim[1] < 1 || shape.dim[2] < 1 ||
        __builtin_mul_overflow(shape.dim[0], shape.dim[1], &count) ||
        __builtin_mul_overflow(count, shape.dim[2], &count) || count != f[IMAGE].n)
        return LK_DAMAGED(s, at, "%lld values for an image of %s", (long long)f[IMAGE].n,
                          lk_shape_text(shape).s);
    *out = shape;
    return LK_OK;
}

/* What the first record says about all. */
static lk_status describe(struct records *r, int64_t at, const lk__feature *f,
                          const lk_option_ints *given, lk_dataset_info *info)
{
    if (f[IMAGE].kind != LK_FEATURE_BYTES && f[IMAGE].kind != LK_FEATURE_FLOATS)
        return LK_DAMAGED(r->source, at, "the record has no feature \"%s\" of bytes or floats",
                          f[IMAGE].name);
    lk_shape shape;
    LK_TRY(shape_of(r->source, at, f, &shape));
    LK_TRY(lk__shape_given(given, shape, lk__source_name(r->source), &shape));
    bool bytes = f[IMAGE].kind == LK_FEATURE_BYTES;
    info->field[0] = lk__field("x", bytes ? LK_U8 : LK_F32, shape);
    info->n_fields = 1;
    r->bytes = bytes ? f[IMAGE].n : 4 * f[IMAGE].n;
    if (f[LABEL].kind == LK_FEATURE_NONE)
        return LK_OK;
    info->field[info->n_fields++] = lk__field("y", LK_I64, LK_SCALAR);
    LK_TRY(lk_alloc(&r->label, info->count, sizeof *r->label));
    return LK_OK;
}

/* Note record `i`, whose data of `n` bytes are at `at`. */
static lk_status note_record(struct records *r, int64_t i, int64_t at, const lk__feature *f,
                             const lk_dataset_info *info)
{
    lk_dtype dtype = f[IMAGE].kind == LK_FEATURE_BYTES ? LK_U8 : LK_F32;
    int64_t bytes = dtype == LK_U8 ? f[IMAGE].n : 4 * f[IMAGE].n;
    lk_shape shape;
    LK_TRY(shape_of(r->source, at, f, &shape));
    if (f[IMAGE].kind == LK_FEATURE_NONE || f[IMAGE].kind == LK_FEATURE_INTS || bytes != r->bytes ||
        dtype != info->field[0].dtype)
        return LK_DAMAGED(r->source, at, "record %lld has other values in \"%s\" than the first",
                          (long long)i, f[IMAGE].name);
    if ((r->label != NULL) != (f[LABEL].kind != LK_FEATURE_NONE) ||
        (r->label && (f[LABEL].kind != LK_FEATURE_INTS || f[LABEL].n != 1)))
        return LK_DAMAGED(r->source, at, "record %lld: \"%s\" is not one integer, as in others",
                          (long long)i, f[LABEL].name);
    r->at[i] = at + f[IMAGE].at;
    if (r->label)
        r->label[i] = f[LABEL].value[0];
    return LK_OK;
}

static lk_status read_records(struct records *r, const lk__record_names *names,
                              const lk_option_ints *given, unsigned char *buffer,
                              lk_dataset_info *info)
{
    lk__feature f[N_FEATURES] = {[IMAGE] = {.name = names->image},
                                 [LABEL] = {.name = names->label},
                                 [HEIGHT] = {.name = names->height},
                                 [WIDTH] = {.name = names->width},
                                 [DEPTH] = {.name = names->depth}};
    int64_t at, n, next = 0;
    for (int64_t i = 0; i < info->count; i++) {
        LK_TRY(lk__tfrecord_find(r->source, next, &at, &n, &next));
        LK_TRY(lk__tfrecord_read(r->source, at, n, buffer));
        LK_TRY(lk__example_read(r->source, at, buffer, n, f, N_FEATURES));
        if (i == 0)
            LK_TRY(describe(r, at, f, given, info));
        LK_TRY(note_record(r, i, at, f, info));
    }
    if (r->label)
        LK_TRY(lk__labels_check(r->source, r->label, info->count, info->count, &info->classes));
    return LK_OK;
}

static lk_status fill(struct records *r, const lk__record_names *names, const lk_option_ints *given,
                      lk_dataset_info *info)
{
    int64_t longest;
    LK_TRY(count_records(r->source, &info->count, &longest));
    LK_CHECK(info->count > 0, LK_EIO, "%s: there is no record in it", info->name);
    LK_TRY(lk_alloc(&r->at, info->count, sizeof *r->at));
    unsigned char *buffer;
    LK_TRY(lk_alloc(&buffer, longest, 1));
    lk_status st = read_records(r, names, given, buffer, info);
    lk_free(buffer);
    LK_TRY(st);
    return LK_OK;
}

lk_status lk__records_dataset(lk__source *s, const lk__record_names *names, int64_t classes,
                              const lk_option_ints *shape, lk_dataset **out)
{
    *out = NULL;
    struct records *r;
    lk_status st = lk_alloc_zero(&r, 1, sizeof *r);
    if (st != LK_OK) {
        lk__source_free(s);
        return st;
    }
    r->source = s;
    lk_dataset_info info = {.name = lk__source_name(s), .classes = classes};
    LK_TRY_TO(fail, fill(r, names, shape, &info));
    if (!r->label)
        info.classes = 0;
    LK_TRY_TO(fail, lk_dataset_new(&info, records_row, records_free, r, out));
    return LK_OK;
fail:
    records_free(r);
    return st;
}
