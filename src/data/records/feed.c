/* Records in order: see feed.h.  Bytes come through a buffer, which grows only when it is full of
 * bytes that were there. */
#include "data/records/feed.h"

#include "data/packed/inflate.h"
#include "data/records/tfrecord.h"

#include <lockstep/extra/alloc.h>

#include <stdio.h>
#include <string.h>

enum { BUFFER = 1 << 17, CHUNK = 1 << 16 };

struct lk__record_feed {
    const lk__source *source;
    lk__unpacker *unpacker; /* NULL: it is not packed */
    unsigned char *buffer;
    int64_t room;
    int64_t at, n; /* bytes of the file that are held: from `at` on */
    int64_t next;  /* where the next record begins */
    int64_t number;
    bool ended;                 /* all bytes were read */
    char broken[LK_RECORD_WHY]; /* why none can be unpacked from there on; "": they can */
};

lk_status lk__record_feed_open(const lk__source *s, lk__packing how, lk__record_feed **out)
{
    *out = NULL;
    lk__record_feed *f;
    LK_TRY(lk_alloc_zero(&f, 1, sizeof *f));
    f->source = s;
    lk_status st = LK_OK;
    LK_TRY_TO(fail, lk_alloc(&f->buffer, BUFFER, 1));
    f->room = BUFFER;
    if (how != LK_PACKED_NOT)
        LK_TRY_TO(fail, lk__unpacker_open(s, how, &f->unpacker));
    *out = f;
    return LK_OK;
fail:
    lk__record_feed_close(f);
    return st;
}

void lk__record_feed_close(lk__record_feed *f)
{
    if (!f)
        return;
    lk__unpacker_close(f->unpacker);
    lk_free(f->buffer);
    lk_free(f);
}

/* ---- bytes ---- */

/* Where the next record begins in the buffer. */
static unsigned char *here(const lk__record_feed *f)
{
    return f->buffer + (f->next - f->at);
}

/* Bytes that are held from there on. */
static int64_t held(const lk__record_feed *f)
{
    return f->at + f->n - f->next;
}

/* Room for more bytes behind those that are held: what lies before the next record goes, or the buffer
 * grows. */
static lk_status make_room(lk__record_feed *f)
{
    if (f->next > f->at) {
        int64_t left = held(f) > 0 ? held(f) : 0;
        if (left > 0)
            memmove(f->buffer, here(f), (size_t)left);
        f->at += f->n - left;
        f->n = left;
    }
    if (f->n < f->room)
        return LK_OK;
    unsigned char *more;
    LK_TRY(lk_alloc(&more, 2 * f->room, 1));
    memcpy(more, f->buffer, (size_t)f->n);
    lk_free(f->buffer);
    f->buffer = more;
    f->room *= 2;
    return LK_OK;
}

/* Some bytes more.  What cannot be unpacked is the end. */
static lk_status read_some(lk__record_feed *f)
{
    int64_t n = f->room - f->n < CHUNK ? f->room - f->n : CHUNK, from = f->at + f->n;
    if (f->unpacker) {
        lk_status st = lk__unpacker_read(f->unpacker, f->buffer + f->n, n, &n);
        f->ended = st != LK_OK || n == 0;
        if (st == LK_EIO) {
            snprintf(f->broken, sizeof f->broken, "%s", lk_error_message());
            lk_error_clear();
            st = LK_OK;
        }
        LK_TRY(st);
    } else {
        int64_t left = lk__source_size(f->source) - from;
        n = left < n ? left : n;
        LK_TRY(lk__source_read(f->source, from, f->buffer + f->n, n, "records"));
        f->ended = n == left;
    }
    f->n += n;
    return LK_OK;
}

/* Hold `n` bytes from the next record on, or all that there are. */
static lk_status hold(lk__record_feed *f, int64_t n)
{
    while (held(f) < n && !f->ended) {
        if (f->n == f->room || held(f) <= 0)
            LK_TRY(make_room(f));
        LK_TRY(read_some(f));
    }
    return LK_OK;
}

/* ---- records ---- */

/* Hold all of the record that the head at the next place tells of.  *whole: it is there, in full length;
 * its data may be damaged. */
static lk_status hold_record(lk__record_feed *f, bool *whole)
{
    uint64_t length;
    *whole = false;
    LK_TRY(hold(f, LK_TFRECORD_HEAD));
    if (held(f) < LK_TFRECORD_HEAD || !lk__tfrecord_length(here(f), &length) ||
        length > LK_TFRECORD_MAX)
        return LK_OK;
    int64_t n = LK_TFRECORD_HEAD + (int64_t)length + LK_TFRECORD_TAIL;
    LK_TRY(hold(f, n));
    *whole = held(f) >= n;
    return LK_OK;
}

static lk_status check(lk__record_feed *f, int64_t *n)
{
    return lk__tfrecord_held(f->source, f->number, f->next, here(f), held(f), n);
}

/* Go on to the next place where a whole record stands, or to the end. */
static lk_status search(lk__record_feed *f)
{
    for (f->next++;; f->next++) {
        bool whole;
        int64_t n;
        LK_TRY(hold_record(f, &whole));
        if (held(f) < LK_TFRECORD_HEAD) {
            f->next += held(f);
            return LK_OK;
        }
        if (!whole)
            continue;
        if (check(f, &n) == LK_OK)
            return LK_OK;
        lk_error_clear();
    }
}

/* What is damaged from here on, and where that ends. */
static lk_status pass_damage(lk__record_feed *f, bool whole, lk__record_item *out)
{
    uint64_t length = 0;
    snprintf(out->why, sizeof out->why, "%s", lk_error_message());
    lk_error_clear();
    out->found = whole ? LK_RECORD_BAD : LK_RECORD_GAP;
    if (whole && lk__tfrecord_length(here(f), &length))
        f->next += LK_TFRECORD_HEAD + (int64_t)length + LK_TFRECORD_TAIL;
    else
        LK_TRY(search(f));
    out->end = f->next;
    f->number++;
    if (!whole && f->broken[0] && held(f) == 0) { /* no more is lost by it, and it is the reason */
        snprintf(out->why, sizeof out->why, "%s", f->broken);
        f->broken[0] = '\0';
    }
    return LK_OK;
}

/* The end of the bytes: that of the file, or where unpacking has failed. */
static void end_report(lk__record_feed *f, lk__record_item *out)
{
    out->found = f->broken[0] ? LK_RECORD_GAP : LK_RECORD_END;
    out->end = f->next;
    snprintf(out->why, sizeof out->why, "%s", f->broken);
    f->broken[0] = '\0'; /* reported once */
}

lk_status lk__record_feed_next(lk__record_feed *f, lk__record_item *out)
{
    bool whole;
    int64_t n = 0;
    LK_TRY(hold(f, 1));
    *out = (lk__record_item){.number = f->number, .offset = f->next};
    if (held(f) == 0) {
        end_report(f, out);
        return LK_OK;
    }
    LK_TRY(hold_record(f, &whole));
    if (check(f, &n) != LK_OK) {
        return LK_TRACE(pass_damage(f, whole, out));
    }
    out->found = LK_RECORD_WHOLE;
    out->bytes = here(f);
    out->n = n;
    f->next += LK_TFRECORD_HEAD + n + LK_TFRECORD_TAIL;
    out->end = f->next;
    f->number++;
    return LK_OK;
}

lk_status lk__record_feed_skip(lk__record_feed *f, int64_t number)
{
    bool whole = true;
    uint64_t length;
    while (f->number < number && whole) {
        LK_TRY(hold_record(f, &whole));
        if (whole && lk__tfrecord_length(here(f), &length)) {
            f->next += LK_TFRECORD_HEAD + (int64_t)length + LK_TFRECORD_TAIL;
            f->number++;
        }
    }
    return LK_OK;
}
