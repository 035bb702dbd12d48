/* lk__record_cursor: seeking to a record, checking it, and reading its values: see cursor.h. */
#include "data/records/cursor.h"

#include "data/dataset.h"
#include "data/format.h"
#include "data/loader/loader.h"
#include "data/records/tfrecord.h"

#include <lockstep/extra/alloc.h>

#include <string.h>

enum { WORD = 64 };

/* ---- who has which ---- */

lk_status lk__record_reading_new(bool stream, lk__record_reading **out)
{
    LK_TRY(lk_alloc_zero(out, 1, sizeof **out));
    (*out)->stream = stream;
    pthread_mutex_init(&(*out)->lock, NULL);
    return LK_OK;
}

lk_status lk__record_reading_start(lk__record_reading *r)
{
    if (r->index.largest > LK_RECORD_WINDOW)
        LK_TRY(lk_alloc_zero(&r->checked, r->index.count / WORD + 1, sizeof *r->checked));
    return LK_OK;
}

static void cursor_free(lk__record_cursor *c)
{
    if (c)
        lk__record_feed_close(c->feed);
    lk_free(c);
}

void lk__record_reading_free(lk__record_reading *r)
{
    for (int i = 0; i < LK_RECORD_CURSORS; i++)
        cursor_free(r->slot[i].cursor);
    pthread_mutex_destroy(&r->lock);
    lk_free(r->checked);
    lk__record_fields_free(&r->fields);
    lk__record_index_free(&r->index);
    lk_free(r);
}

static lk_status cursor_new(bool stream, int slot, lk__record_cursor **out)
{
    size_t bytes = stream ? 0 : LK_RECORD_WINDOW;
    LK_TRY(lk_alloc(out, 1, sizeof **out + bytes));
    (*out)->feed = NULL;
    (*out)->used = 0;
    (*out)->slot = slot;
    (*out)->record = -1;
    (*out)->window = (lk__example_window){.bytes = (*out)->bytes, .room = (int64_t)bytes};
    return LK_OK;
}

/* The cursor of a slot that is taken. */
static lk_status take_slot(lk__record_reading *r, int at, lk__record_cursor **out)
{
    lk_status st = r->slot[at].cursor ? LK_OK : cursor_new(r->stream, at, &r->slot[at].cursor);
    *out = r->slot[at].cursor;
    if (st != LK_OK)
        atomic_store(&r->slot[at].taken, false);
    return LK_TRACE(st);
}

static lk_status take_of_stream(lk__record_reading *r, int64_t record, lk__record_cursor **out)
{
    pthread_mutex_lock(&r->lock);
    int at = lk__record_stream_choose(r, record);
    int64_t now = ++r->taken;
    if (at >= 0)
        atomic_store(&r->slot[at].taken, true);
    pthread_mutex_unlock(&r->lock);
    LK_TRY(at >= 0 ? take_slot(r, at, out) : cursor_new(true, -1, out));
    (*out)->used = now;
    return LK_OK;
}

/* Where this thread looks first: where it found a cursor last. */
static unsigned *first_slot(void)
{
    static _Atomic unsigned threads;
    static _Thread_local unsigned mine, known;
    if (!known) {
        mine = atomic_fetch_add(&threads, 1);
        known = 1;
    }
    return &mine;
}

lk_status lk__record_take(lk__record_reading *r, int64_t record, lk__record_cursor **out)
{
    unsigned *first = first_slot();
    if (r->stream) {
        return LK_TRACE(take_of_stream(r, record, out));
    }
    for (unsigned i = 0; i < LK_RECORD_CURSORS; i++) {
        unsigned at = (*first + i) % LK_RECORD_CURSORS;
        if (atomic_exchange(&r->slot[at].taken, true))
            continue;
        *first = at;
        return LK_TRACE(take_slot(r, (int)at, out));
    }
    return LK_TRACE(cursor_new(false, -1, out));
}

void lk__record_give(lk__record_reading *r, lk__record_cursor *c)
{
    if (c->slot < 0) {
        cursor_free(c);
        return;
    }
    if (r->stream)
        pthread_mutex_lock(&r->lock);
    atomic_store(&r->slot[c->slot].taken, false);
    if (r->stream)
        pthread_mutex_unlock(&r->lock);
}

/* ---- going to a record ---- */

/* Have all bytes of a record in the window; those that follow as well, when records are read one after
 * the other. */
static lk_status hold(lk__record_cursor *c, const lk__record_place *p, bool follows)
{
    lk__example_window *w = &c->window;
    if (w->source == p->source && p->at >= w->at && p->end <= w->at + w->n)
        return LK_OK;
    int64_t n = p->end - p->at;
    if (follows && w->source == p->source)
        n = p->end_of_all - p->at < LK_RECORD_WINDOW ? p->end_of_all - p->at : LK_RECORD_WINDOW;
    w->n = 0;
    LK_TRY(lk__source_read(p->source, p->at, c->bytes, n, "a record"));
    w->source = p->source;
    w->at = p->at;
    w->n = n;
    return LK_OK;
}

/* Read a record that is too large to be held through the window, unless that was done before. */
static lk_status pass_through(lk__record_reading *r, lk__record_cursor *c, int64_t record,
                              const lk__record_place *p, int64_t *at, int64_t *n)
{
    int64_t next;
    c->window.source = p->source;
    c->window.n = 0;
    LK_TRY(lk__tfrecord_find(p->source, p->number, p->at, at, n, &next));
    uint64_t bit = UINT64_C(1) << record % WORD;
    if (atomic_load(&r->checked[record / WORD]) & bit)
        return LK_OK;
    LK_TRY(lk__tfrecord_check(p->source, p->number, *at, *n, c->bytes, LK_RECORD_WINDOW));
    atomic_fetch_or(&r->checked[record / WORD], bit);
    return LK_OK;
}

/* Have a record of a set that is indexed: its data are `*n` bytes from `*at` on. */
static lk_status record_load(lk__record_reading *r, lk__record_cursor *c, int64_t record,
                             bool follows, int64_t *at, int64_t *n)
{
    lk__record_place p = lk__record_index_find(&r->index, record);
    *at = p.at + LK_TFRECORD_HEAD;
    c->window.record = p.number;
    c->offset = p.at;
    c->held = p.end - p.at <= LK_RECORD_WINDOW;
    if (!c->held) {
        return LK_TRACE(pass_through(r, c, record, &p, at, n));
    }
    LK_TRY(hold(c, &p, follows));
    const unsigned char *bytes = c->bytes + (p.at - c->window.at);
    return LK_TRACE(lk__tfrecord_held(p.source, p.number, p.at, bytes, p.end - p.at, n));
}

static lk_status features_read(lk__record_reading *r, lk__record_cursor *c, int64_t record,
                               bool follows, bool check)
{
    int64_t at, n;
    if (r->stream) {
        LK_TRY(lk__record_stream_seek(r, c, record));
        at = c->offset + LK_TFRECORD_HEAD;
        n = c->window.n - LK_TFRECORD_HEAD - LK_TFRECORD_TAIL;
    } else
        LK_TRY(record_load(r, c, record, follows, &at, &n));
    for (int i = 0; i < LK_RECORD_FEATURES; i++)
        c->feature[i].name = r->fields.name[i];
    LK_TRY(lk__example_read(&c->window, at, n, c->feature, LK_RECORD_FEATURES));
    if (check)
        LK_TRY(lk__record_fields_check(&r->fields, &c->window, c->offset, c->feature));
    for (int i = 0; i < LK_MAX_FIELDS; i++)
        c->reached[i] = (lk__example_place){0, c->feature[i].at};
    return LK_OK;
}

lk_status lk__record_seek(lk__record_reading *r, lk__record_cursor *c, int64_t record, bool check)
{
    if (c->record == record)
        return LK_OK;
    bool follows = record == c->record + 1;
    c->record = -1;
    LK_TRY(features_read(r, c, record, follows, check));
    c->record = record;
    return LK_OK;
}

/* ---- its values ---- */

/* The elements of a box as they lie in the record. */
static lk_status read_values(const lk__record_field *f, lk__record_cursor *c, int i,
                             const lk_box *box, void *out)
{
    const lk__feature *feature = &c->feature[i];
    size_t size = lk_dtype_size(f->in.dtype);
    if (f->kind == LK_FEATURE_INTS && feature->n == 1) {
        *(int64_t *)out = feature->value[0];
    } else if (f->kind == LK_FEATURE_INTS) {
        lk_box_walk walk = lk_box_start(box, f->in.shape.dim);
        if (c->reached[i].number > walk.place) /* no way back */
            c->reached[i] = (lk__example_place){0, feature->at};
        LK_TRY(lk__example_ints(&c->window, feature->end, &c->reached[i], &f->in.shape, box, out));
    } else if (c->held) {
        lk__box_cut(&f->in, c->window.bytes + (feature->at - c->window.at), box, out);
    } else
        LK_TRY(lk__source_read_box(c->window.source, feature->at, &f->in.shape, box, size, out));
    return LK_OK;
}

static lk_status wrong_label(const lk__record_cursor *c, int64_t label, int64_t limit)
{
    return LK_RECORD_WRONG(LK_EIO, c->window.source, c->window.record, c->offset,
                           "the label %lld, but labels are from 0 to %lld", (long long)label,
                           (long long)limit - 1);
}

/* The `n` integers of a dtype that lie at the end of `out` become i64; each is a class. */
static lk_status widen(const lk__record_reading *r, const lk__record_cursor *c, lk_dtype dtype,
                       int64_t n, int64_t *out)
{
    int64_t limit = r->fields.classes > 0 ? r->fields.classes : LK_MAX_CLASSES;
    const char *in = (const char *)(out + n) - n * (int64_t)lk_dtype_size(dtype);
    for (int64_t i = 0; i < n; i++) {
        int64_t v = dtype == LK_U8    ? ((const unsigned char *)in)[i]
                    : dtype == LK_I32 ? ((const int32_t *)(const void *)in)[i]
                                      : out[i];
        if (v < 0 || v >= limit)
            return wrong_label(c, v, limit);
        out[i] = v;
    }
    return LK_OK;
}

static lk_status read_labels(const lk__record_reading *r, lk__record_cursor *c, int i,
                             const lk_box *box, int64_t *out)
{
    const lk__record_field *f = &r->fields.field[i];
    int64_t n = lk_box_count(box);
    char *in = (char *)(out + n) - n * (int64_t)lk_dtype_size(f->in.dtype);
    LK_TRY(read_values(f, c, i, box, in));
    return LK_TRACE(widen(r, c, f->in.dtype, n, out));
}

/* The place of the only 1 of a row of zeros. */
static lk_status read_one_hot(const lk__record_reading *r, lk__record_cursor *c, int i,
                              int64_t *out)
{
    const lk__record_field *f = &r->fields.field[i];
    enum { SOME = 64 };
    int64_t values[SOME], some, total = r->fields.classes; /* of any dtype */
    double v[SOME];
    lk__record_field flat = *f;
    flat.in.shape = LK_SHAPE(total);
    *out = -1;
    for (int64_t at = 0; at < total; at += some) {
        some = total - at < SOME ? total - at : SOME;
        lk_box box = {1, {at}, {some}};
        LK_TRY(read_values(&flat, c, i, &box, values));
        lk__convert(f->in.dtype, values, LK_F64, v, some, NULL);
        for (int64_t k = 0; k < some; k++) {
            bool hot = v[k] == 1 && *out < 0;
            if (v[k] != 0 && !hot)
                return LK_RECORD_WRONG(LK_EIO, c->window.source, c->window.record, c->offset,
                                       "\"%s\" is no row with one 1 and zeros else: it has %g at "
                                       "place %lld",
                                       r->fields.name[i], v[k], (long long)(at + k));
            *out = hot ? at + k : *out;
        }
    }
    if (*out < 0)
        return LK_RECORD_WRONG(LK_EIO, c->window.source, c->window.record, c->offset,
                               "\"%s\" is no row with one 1: it has none", r->fields.name[i]);
    return LK_OK;
}

lk_status lk__record_box(const lk__record_reading *r, lk__record_cursor *c, int i,
                         const lk_box *box, void *out)
{
    const lk__record_field *f = &r->fields.field[i];
    if (f->use == LK_RECORD_LABELS)
        LK_TRY(read_labels(r, c, i, box, out));
    else if (f->use == LK_RECORD_ONE_HOT)
        LK_TRY(read_one_hot(r, c, i, out));
    else
        LK_TRY(read_values(f, c, i, box, out));
    return LK_OK;
}
