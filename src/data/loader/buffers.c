/* Shuffle buffers: see buffers.h.  Readers of the loader call it, or the caller where there are none. */
#include "data/loader/buffers.h"

#include "data/dataset.h"
#include "data/loader/loader.h"
#include "data/loader/order.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/checked.h>

#include <string.h>

enum {
    STEP = 64,
    ALIGN = 16
}; /* samples that are read ahead at once; where fields of a row begin */

lk_status lk__buffers_start(lk_loader *l)
{
    lk__buffers *s = &l->buffers;
    int64_t runs, slots;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    l->order_size = lk__order_size(l->info, &l->options);
    if (l->order_size == 0)
        return LK_OK;
    for (int f = 0; f < l->info->n_fields; f++) {
        s->field_at[f] = s->row_bytes;
        LK_TRY(lk_add_i64(s->row_bytes, lk__field_bytes(&l->info->field[f]), &s->row_bytes));
        LK_TRY(lk_round_up_i64(s->row_bytes, ALIGN, &s->row_bytes));
    }
    LK_CHECK(lk__order_buffers(l) < INT64_C(1) << 31, LK_EINVAL,
             "dataset %s: shuffle_buffer: %lld are too few of %lld samples",
             lk__dataset_title(l->ds), (long long)l->order_size, (long long)l->info->count);
    /* What slots are made of, and one that is filled meanwhile. */
    LK_TRY(lk_mul_i64(l->n_slots, l->options.batch, &slots));
    slots = (slots - 1) / l->order_size + 1;
    (void)lk__dataset_runs(l->ds, &runs);
    LK_TRY(lk_alloc(&s->runs, runs, sizeof *s->runs));
    LK_TRY(lk_alloc_zero(&s->buffer, slots + 1, sizeof *s->buffer));
    s->n = (int)slots + 1;
    for (int i = 0; i < s->n; i++)
        s->buffer[i].key = -1;
    return LK_OK;
}

static void buffer_free(lk__buffer *b)
{
    lk_free(b->sample);
    lk_free(b->rows);
    *b = (lk__buffer){.key = -1};
}

void lk__buffers_free(lk_loader *l)
{
    lk__buffers *s = &l->buffers;
    for (int i = 0; i < s->n; i++)
        buffer_free(&s->buffer[i]);
    lk_free(s->buffer);
    lk_free(s->runs);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->changed);
}

void lk__buffers_drop(lk_loader *l)
{
    for (int i = 0; i < l->buffers.n; i++)
        buffer_free(&l->buffers.buffer[i]);
}

int64_t lk__buffers_bytes(const lk_loader *l, int64_t part)
{
    double samples = (double)l->buffers.n * (double)l->order_size;
    double share = (double)part / (double)l->options.batch;
    double bytes = samples * (share * (double)l->buffers.row_bytes + 3 * sizeof(int64_t));
    return l->buffers.n == 0 ? 0 : (int64_t)bytes;
}

/* ---- filling one ---- */

static bool is_wanted(const lk_loader *l, int64_t position, lk_range part)
{
    int64_t at = position % l->options.batch;
    return at >= part.first && at < part.first + part.n;
}

/* Room for what is noted of `n` samples. */
static lk_status notes_grow(lk__buffer *b, int64_t n)
{
    if (n <= b->room)
        return LK_OK;
    lk_free(b->sample);
    b->sample = NULL;
    b->room = 0;
    LK_TRY(lk_alloc(&b->sample, 3 * n, sizeof *b->sample));
    b->place = b->sample + n;
    b->row = b->place + n;
    b->room = n;
    return LK_OK;
}

/* Room for those that are kept. */
static lk_status rows_grow(const lk_loader *l, lk__buffer *b, int64_t wanted)
{
    if (l->cache.ds || wanted <= b->rows_room) /* what is in a cache is read from there */
        return LK_OK;
    lk_free(b->rows);
    b->rows = NULL;
    b->rows_room = 0;
    LK_TRY(lk_alloc(&b->rows, wanted, (size_t)l->buffers.row_bytes));
    b->rows_room = wanted;
    return LK_OK;
}

/* Which samples it has, in which order they are read, and which of them are kept. */
static lk_status plan(lk_loader *l, lk__buffer *b)
{
    int64_t n = b->positions.n, wanted = 0;
    LK_TRY(notes_grow(b, l->order_size));
    LK_TRY(lk__order_shuffle(l, b->epoch, b->number, n, b->row)); /* as they are read, for now */
    LK_TRY(lk__order_read(l, b->epoch, b->positions, l->buffers.runs, b->place));
    for (int64_t i = 0; i < n; i++)
        b->sample[i] = b->place[b->row[i]];
    for (int64_t i = 0; i < n; i++)
        b->place[b->row[i]] = i;
    for (int64_t i = 0; i < n; i++)
        b->row[i] = is_wanted(l, b->positions.first + i, b->part) ? wanted++ : -1;
    return LK_TRACE(rows_grow(l, b, wanted));
}

/* Read samples from `*loaded` on, up to `end`, in the order of the set. */
static lk_status load(lk_loader *l, lk__buffer *b, int64_t end, int64_t *loaded)
{
    if (!b->planned) {
        LK_TRY(plan(l, b));
        b->planned = true;
    }
    for (; *loaded < end; ++*loaded) {
        int64_t i = b->place[*loaded];
        if (b->row[i] < 0 || !b->rows)
            continue;
        void *row[LK_MAX_FIELDS];
        for (int f = 0; f < l->info->n_fields; f++)
            row[f] = b->rows + b->row[i] * l->buffers.row_bytes + l->buffers.field_at[f];
        LK_TRY(lk__dataset_row(l->ds, b->sample[i], row));
    }
    return LK_OK;
}

void lk__buffer_row(const lk_loader *l, const lk__buffer *b, int64_t position, const void **row)
{
    int64_t at = b->row[position - b->positions.first];
    for (int f = 0; f < l->info->n_fields; f++)
        row[f] = b->rows ? b->rows + at * l->buffers.row_bytes + l->buffers.field_at[f] : NULL;
}

/* ---- which one; the lock is held ---- */

static lk__buffer *find(lk_loader *l, int64_t key)
{
    for (int i = 0; i < l->buffers.n; i++)
        if (l->buffers.buffer[i].key == key)
            return &l->buffers.buffer[i];
    return NULL;
}

/* One to put another in: empty, or the one that lies furthest behind `key`, or, if none is behind, ahead of it;
 * but not from `keep` on.  NULL: there is none. */
static lk__buffer *victim(lk_loader *l, int64_t key, int64_t keep)
{
    lk__buffer *first = NULL, *last = NULL;
    for (int i = 0; i < l->buffers.n; i++) {
        lk__buffer *b = &l->buffers.buffer[i];
        if (b->key < 0)
            return b;
        if (b->pins > 0 || b->key >= keep)
            continue;
        first = !first || b->key < first->key ? b : first;
        last = !last || b->key > last->key ? b : last;
    }
    return first && first->key < key ? first : last;
}

static lk_status assign(lk_loader *l, lk__buffer *b, int64_t key, lk_range part)
{
    int64_t each = lk__order_buffers(l);
    b->key = -1;
    LK_TRY(lk__order_range(l, key / each, key % each, &b->positions));
    b->key = key;
    b->epoch = key / each;
    b->number = key % each;
    b->part = part;
    b->planned = false;
    b->loaded = 0;
    return LK_OK;
}

/* Load a buffer up to `end` without the lock. */
static lk_status load_unlocked(lk_loader *l, lk__buffer *b, int64_t end)
{
    lk__buffers *s = &l->buffers;
    int64_t loaded = b->loaded;
    s->loading = true;
    b->pins++;
    pthread_mutex_unlock(&s->lock);
    lk_status st = load(l, b, end, &loaded);
    pthread_mutex_lock(&s->lock);
    s->loading = false;
    b->pins--;
    b->loaded = loaded;
    if (st != LK_OK)
        b->key = -1;
    pthread_cond_broadcast(&s->changed);
    return st;
}

/* Whether a buffer keeps all that a request has in it: from a position on, to the end of the part of its batch
 * or of the buffer. */
static bool keeps(const lk_loader *l, const lk__buffer *b, int64_t position, lk_range part)
{
    int64_t end = position - position % l->options.batch + part.first + part.n;
    int64_t full = b->positions.first + b->positions.n;
    return is_wanted(l, position, b->part) && is_wanted(l, (end < full ? end : full) - 1, b->part);
}

/* As lk__buffers_hold(), of the buffer of a key. */
static lk_status hold(lk_loader *l, int64_t key, int64_t position, lk_range part, lk__buffer **out)
{
    lk__buffers *s = &l->buffers;
    for (;;) {
        lk__buffer *b = find(l, key);
        bool fits = b && keeps(l, b, position, part);
        if (fits && b->loaded == b->positions.n) {
            b->pins++;
            *out = b;
            return LK_OK;
        }
        if (!b)
            b = s->loading ? NULL : victim(l, key, INT64_MAX);
        if (s->loading || !b || (!fits && b->pins > 0)) {
            pthread_cond_wait(&s->changed, &s->lock);
            continue;
        }
        if (!fits)
            LK_TRY(assign(l, b, key, part));
        LK_TRY(load_unlocked(l, b, b->positions.n));
    }
}

lk_status lk__buffers_hold(lk_loader *l, int64_t epoch, int64_t position, lk_range part,
                           lk__buffer **out)
{
    int64_t number;
    LK_TRY(lk__order_find(l, epoch, position, &number));
    pthread_mutex_lock(&l->buffers.lock);
    l->buffers.failed = false;
    lk_status st = hold(l, epoch * lk__order_buffers(l) + number, position, part, out);
    pthread_mutex_unlock(&l->buffers.lock);
    return LK_TRACE(st);
}

void lk__buffers_release(lk_loader *l, lk__buffer *b)
{
    pthread_mutex_lock(&l->buffers.lock);
    b->pins--;
    pthread_cond_broadcast(&l->buffers.changed);
    pthread_mutex_unlock(&l->buffers.lock);
}

/* ---- ahead ---- */

/* The buffer behind one that is there. */
static lk_status key_behind(const lk_loader *l, int64_t key, int64_t *out)
{
    int64_t each = lk__order_buffers(l);
    lk_range next = {0, 0};
    *out = key + 1;
    if (*out % each != 0)
        LK_TRY(lk__order_range(l, *out / each, *out % each, &next));
    if (next.n == 0)
        *out = (key / each + 1) * each;
    return LK_OK;
}

/* The first buffer from `key` on that is not full, as far as there is room; NULL: there is none. */
static lk_status next_to_fill(lk_loader *l, int64_t key, lk_range part, lk__buffer **out)
{
    int64_t first = key;
    for (int i = 0; i < l->buffers.n; i++) {
        lk__buffer *b = find(l, key);
        if (b && b->loaded < b->positions.n) {
            *out = b;
            return LK_OK;
        }
        if (!b) {
            *out = victim(l, key, first);
            if (*out)
                LK_TRY(assign(l, *out, key, part));
            return LK_OK;
        }
        LK_TRY(key_behind(l, key, &key));
    }
    return LK_OK;
}

static lk_status step_ahead(lk_loader *l, int64_t epoch, int64_t position, lk_range part, bool *did)
{
    lk__buffer *b = NULL;
    int64_t number;
    LK_TRY(lk__order_find(l, epoch, position, &number));
    if (l->buffers.loading || l->buffers.failed)
        return LK_OK;
    LK_TRY(next_to_fill(l, epoch * lk__order_buffers(l) + number, part, &b));
    if (!b || b->pins > 0)
        return LK_OK;
    int64_t left = b->positions.n - b->loaded;
    *did = true;
    return LK_TRACE(load_unlocked(l, b, b->loaded + (left < STEP ? left : STEP)));
}

bool lk__buffers_ahead(lk_loader *l, int64_t epoch, int64_t position, lk_range part)
{
    bool did = false;
    if (l->buffers.n == 0 || part.n == 0)
        return false;
    pthread_mutex_lock(&l->buffers.lock);
    if (step_ahead(l, epoch, position, part, &did) != LK_OK) {
        lk_error_clear();
        l->buffers.failed = true;
        did = false;
    }
    pthread_mutex_unlock(&l->buffers.lock);
    return did;
}
