/* Reading records: a cursor holds the bytes of one, checked and looked through, and some that lie behind it.
 *
 * A set has as many cursors as threads read it at once; a thread takes one for a record, by preference the
 * one that it had last, which may have the record already.  Nothing is locked, and once there is a cursor
 * for each thread nothing is allocated.
 *
 * Of a stream, a set whose files are read in order, a cursor is somewhere in a file: it goes forward to the
 * record that is wanted, or back to the beginning of a file.  Who wants one takes the cursor that is nearest
 * before it.
 *
 * Checksums are checked whenever a record is read whole.  One that is larger than a cursor's memory is never
 * held: it is read through once, the first time that anything of it is wanted, and then by boxes.
 */
#ifndef LK_DATA_RECORD_CURSOR_H
#define LK_DATA_RECORD_CURSOR_H

#include "data/records/fields.h"
#include "data/records/index.h"

#include <lockstep/extra/alloc.h>

#include <pthread.h>
#include <stdatomic.h>

/* Bytes that a cursor holds, and cursors that a set keeps. */
enum { LK_RECORD_WINDOW = 1 << 17, LK_RECORD_CURSORS = 64 };

typedef struct lk__record_cursor {
    lk__record_feed *feed; /* of a stream: where it is; NULL: nowhere */
    int64_t file,
        passed;     /* of a stream: its file, and how many whole records lie behind it there */
    int64_t used;   /* of a stream: when it was taken last */
    int slot;       /* of the set; -1: none, it is of one call alone */
    int64_t record; /* the one at hand; -1: none */
    bool held;      /* all of it is in the window */
    int64_t offset; /* where it begins */
    lk__example_window window;
    lk__feature feature[LK_RECORD_FEATURES];
    lk__example_place reached[LK_MAX_FIELDS]; /* where reading its integers ended */
    unsigned char bytes[]; /* LK_RECORD_WINDOW of them, unless it is of a stream */
} lk__record_cursor;

/** What cursors read: all of it is the set's (records.c). */
typedef struct lk__record_reading {
    bool stream;
    pthread_mutex_t lock; /* of a stream: who takes a cursor */
    int64_t taken;        /* how often that was */
    lk__record_index index;
    lk__record_fields fields;
    _Atomic uint64_t *checked; /* a bit for each record that was read through; NULL: all are held */
    struct {
        _Alignas(LK_ALIGN) _Atomic bool taken; /* lines apart: each is of another thread */
        lk__record_cursor *cursor;
    } slot[LK_RECORD_CURSORS];
} lk__record_reading;

/** An empty one. */
lk_status lk__record_reading_new(bool stream, lk__record_reading **out) LK_NODISCARD;

/** Memory for what there is to note, once the index is complete. */
lk_status lk__record_reading_start(lk__record_reading *r) LK_NODISCARD;

void lk__record_reading_free(lk__record_reading *r);

/** A cursor for this thread, which wants a record, to be given back by lk__record_give(). */
lk_status lk__record_take(lk__record_reading *r, int64_t record,
                          lk__record_cursor **out) LK_NODISCARD;

void lk__record_give(lk__record_reading *r, lk__record_cursor *c);

/** Let a cursor have a record: read it, check it and find its features.  With `check` they must be as those
 * of the first. */
lk_status lk__record_seek(lk__record_reading *r, lk__record_cursor *c, int64_t record,
                          bool check) LK_NODISCARD;

/** Write a box of field `i` of the fields of the records to `out`. */
lk_status lk__record_box(const lk__record_reading *r, lk__record_cursor *c, int i,
                         const lk_box *box, void *out) LK_NODISCARD;

/* ---- of a stream: stream.c ---- */

/** Which slot to take a cursor from; -1: none is free.  The set is locked. */
int lk__record_stream_choose(const lk__record_reading *r, int64_t record);

/** Let a cursor go forward to a record, or begin its file anew: then it has it in its window. */
lk_status lk__record_stream_seek(const lk__record_reading *r, lk__record_cursor *c,
                                 int64_t record) LK_NODISCARD;

#endif /* LK_DATA_RECORD_CURSOR_H */
