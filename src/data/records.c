/* The records of a TFRecord file as samples: where the values of each begin, and its label or target.  All
 * are read through a window when the set is opened; samples later, by boxes, on any thread. */
#include "data/records.h"

#include "data/dataset.h"
#include "data/example.h"
#include "data/format.h"
#include "data/tfrecord.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/checked.h>

#include <pthread.h>

enum { IMAGE, LABEL, HEIGHT, WIDTH, DEPTH, N_FEATURES };

struct records {
    lk__source *source;
    int64_t *at;             /* where the values of each sample begin */
    lk__feature_kind kind;   /* of the values */
    int64_t values, targets; /* of one sample */
    lk_shape x, y;           /* their shapes */
    /* Where reading integers ended last: who reads a sample part by part goes on from there. */
    pthread_mutex_t lock;
    int64_t last;
    lk__example_place reached;
    int64_t *label;         /* labels, or where the targets begin; NULL: there are none */
    lk__feature_kind wants; /* INTS: labels, FLOATS: targets */
};

static void records_free(void *context)
{
    struct records *r = context;
    lk__source_free(r->source);
    pthread_mutex_destroy(&r->lock);
    lk_free(r->at);
    lk_free(r->label);
    lk_free(r);
}

static lk_status records_ints(struct records *r, int64_t index, const lk_box *box, void *out)
{
    lk__example_place from = {0, r->at[index]};
    lk_box_walk walk = lk_box_start(box, r->x.dim);
    pthread_mutex_lock(&r->lock);
    if (r->last == index && r->reached.number <= walk.place)
        from = r->reached;
    pthread_mutex_unlock(&r->lock);
    LK_TRY(lk__example_ints(r->source, &from, &r->x, box, out));
    pthread_mutex_lock(&r->lock);
    r->last = index;
    r->reached = from;
    pthread_mutex_unlock(&r->lock);
    return LK_OK;
}

static lk_status records_box(void *context, int64_t index, int field, const lk_box *box, void *out)
{
    struct records *r = context;
    if (field == 1 && r->wants == LK_FEATURE_INTS)
        *(int64_t *)out = r->label[index];
    else if (field == 1)
        LK_TRY(lk__source_read_box(r->source, r->label[index], &r->y, box, 4, out));
    else if (r->kind == LK_FEATURE_INTS)
        LK_TRY(records_ints(r, index, box, out));
    else
        LK_TRY(lk__source_read_box(r->source, r->at[index], &r->x, box,
                                   r->kind == LK_FEATURE_BYTES ? 1 : 4, out));
    return LK_OK;
}

static lk_status count_records(const lk__source *s, int64_t *count)
{
    int64_t at, n, next = 0;
    *count = 0;
    while (next < lk__source_size(s)) {
        LK_TRY(lk__tfrecord_find(s, next, &at, &n, &next));
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

static const char *kind_text(lk__feature_kind kind)
{
    static const char *const text[] = {"nothing", "bytes", "floats", "integers"};
    return text[kind];
}

/* Labels or targets, as the first record has them. */
static lk_status describe_y(struct records *r, int64_t at, const lk__feature *y,
                            lk_dataset_info *info)
{
    if (y->kind == LK_FEATURE_NONE)
        return LK_OK;
    if (y->kind == LK_FEATURE_BYTES || (y->kind == LK_FEATURE_INTS && y->n != 1))
        return LK_DAMAGED(r->source, at,
                          "feature \"%s\" has %lld %s: a label is one integer, targets are floats",
                          y->name, (long long)y->n, kind_text(y->kind));
    bool labels = y->kind == LK_FEATURE_INTS;
    r->y = y->n == 1 ? LK_SCALAR : LK_SHAPE(y->n);
    info->field[info->n_fields++] = lk__field("y", labels ? LK_I64 : LK_F32, r->y);
    r->wants = y->kind;
    r->targets = y->n;
    LK_TRY(lk_alloc(&r->label, info->count, sizeof *r->label));
    return LK_OK;
}

/* What the first record says about all. */
static lk_status describe(struct records *r, int64_t at, const lk__feature *f,
                          const lk_option_ints *given, lk_dataset_info *info)
{
    static const lk_dtype dtype[] = {
        [LK_FEATURE_BYTES] = LK_U8, [LK_FEATURE_FLOATS] = LK_F32, [LK_FEATURE_INTS] = LK_I64};
    if (f[IMAGE].kind == LK_FEATURE_NONE)
        return LK_DAMAGED(r->source, at, "the record has no feature \"%s\" with values",
                          f[IMAGE].name);
    LK_TRY(shape_of(r->source, at, f, &r->x));
    LK_TRY(lk__shape_given(given, r->x, lk__source_name(r->source), &r->x));
    info->field[0] = lk__field("x", dtype[f[IMAGE].kind], r->x);
    info->n_fields = 1;
    r->kind = f[IMAGE].kind;
    r->values = f[IMAGE].n;
    LK_TRY(describe_y(r, at, &f[LABEL], info));
    return LK_OK;
}

/* A feature of record `i` is as that of the first. */
static lk_status check_like(const struct records *r, int64_t i, int64_t at, const lk__feature *f,
                            lk__feature_kind kind, int64_t n)
{
    if (f->kind != kind || f->n != n)
        return LK_DAMAGED(r->source, at,
                          "record %lld has %lld %s in \"%s\", but the first one %lld %s",
                          (long long)i, (long long)f->n, kind_text(f->kind), f->name, (long long)n,
                          kind_text(kind));
    return LK_OK;
}

/* Note record `i`, whose data are at `at`. */
static lk_status note_record(struct records *r, int64_t i, int64_t at, const lk__feature *f)
{
    lk_shape shape;
    LK_TRY(check_like(r, i, at, &f[IMAGE], r->kind, r->values));
    LK_TRY(check_like(r, i, at, &f[LABEL], r->wants, r->targets));
    LK_TRY(shape_of(r->source, at, f, &shape));
    if (r->kind == LK_FEATURE_INTS && f[IMAGE].scattered)
        return LK_RAISE(
            LK_ENOTSUP,
            "%s: offset %lld: record %lld: the integers of \"%s\" are not packed in one "
            "piece, which is not supported",
            lk__source_name(r->source), (long long)at, (long long)i, f[IMAGE].name);
    r->at[i] = f[IMAGE].at;
    if (r->label)
        r->label[i] = r->wants == LK_FEATURE_INTS ? f[LABEL].value[0] : f[LABEL].at;
    return LK_OK;
}

static lk_status read_records(struct records *r, const lk__record_names *names,
                              const lk_option_ints *given, lk__example_window *w,
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
        LK_TRY(lk__tfrecord_check(r->source, at, n, w->bytes, (int64_t)sizeof w->bytes));
        w->at = at;
        w->n = n <= (int64_t)sizeof w->bytes ? n : 0;
        LK_TRY(lk__example_read(w, at, n, f, N_FEATURES));
        if (i == 0)
            LK_TRY(describe(r, at, f, given, info));
        LK_TRY(note_record(r, i, at, f));
    }
    if (r->wants == LK_FEATURE_INTS)
        LK_TRY(lk__labels_check(r->source, r->label, info->count, info->count, &info->classes));
    return LK_OK;
}

static lk_status fill(struct records *r, const lk__record_names *names, const lk_option_ints *given,
                      lk_dataset_info *info)
{
    LK_TRY(count_records(r->source, &info->count));
    LK_CHECK(info->count > 0, LK_EIO, "%s: there is no record in it", info->name);
    LK_TRY(lk_alloc(&r->at, info->count, sizeof *r->at));
    lk__example_window *w;
    LK_TRY(lk_alloc(&w, 1, sizeof *w));
    w->source = r->source;
    lk_status st = read_records(r, names, given, w, info);
    lk_free(w);
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
    r->last = -1;
    pthread_mutex_init(&r->lock, NULL);
    lk_dataset_info info = {.name = lk__source_name(s), .classes = classes};
    LK_TRY_TO(fail, fill(r, names, shape, &info));
    if (r->wants != LK_FEATURE_INTS)
        info.classes = 0;
    LK_TRY_TO(fail, lk_dataset_new_boxes(&info, NULL, records_box, records_free, r, out));
    lk__dataset_set_files(*out, &r->source, 1);
    return LK_OK;
fail:
    records_free(r);
    return st;
}
