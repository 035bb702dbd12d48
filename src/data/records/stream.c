/* Cursors on streams, sets of records whose files are read in order: see cursor.h. */
#include "data/records/cursor.h"
#include "data/records/tfrecord.h"

/* Cursors that are kept where they are rather than taken for something else: who reads a set of several
 * places at once, as training and evaluation do, has one for each. */
enum { KEPT = 8 };

/* How a cursor that is free suits a read of record `want` of a file: 3, it is before it in the file; 2, it
 * is nowhere, or at the end of its file; 1, a reader may come back to where it is. */
static int rank_of(const lk__record_reading *r, const lk__record_cursor *c, int64_t file,
                   int64_t want)
{
    const lk__record_index *x = &r->index;
    if (!c || !c->feed)
        return 2;
    int64_t end = c->file + 1 < x->n_files ? x->first[c->file + 1] : x->count;
    if (c->file == file && c->passed <= want)
        return 3;
    return c->passed == end - x->first[c->file] ? 2 : 1;
}

int lk__record_stream_choose(const lk__record_reading *r, int64_t record)
{
    int64_t file = lk__record_index_file(&r->index, record), want = record - r->index.first[file];
    const lk__record_cursor *best = NULL;
    int found = -1, best_rank = 0;
    for (int i = 0; i < LK_RECORD_CURSORS; i++) {
        if (atomic_load(&r->slot[i].taken))
            continue;
        const lk__record_cursor *c = r->slot[i].cursor;
        int rank = !c && i >= KEPT ? 0
                                   : rank_of(r, c, file, want); /* new ones while there are few */
        bool alike = c && best && rank == best_rank;
        bool nearer = alike && rank == 3 && c->passed > best->passed;
        bool older = alike && rank == 1 && c->used < best->used;
        if (found < 0 || rank > best_rank || nearer || older) {
            found = i;
            best = c;
            best_rank = rank;
        }
    }
    return found;
}

/* Which item of its file the whole record number `want` is. */
static int64_t number_of(const lk__record_index *x, int64_t file, int64_t want)
{
    for (int64_t i = 0; i < x->n_holes; i++)
        if (x->hole[i].file == file && x->hole[i].number <= want)
            want++;
    return want;
}

static bool is_hole(const lk__record_index *x, int64_t file, int64_t number)
{
    for (int64_t i = 0; i < x->n_holes; i++)
        if (x->hole[i].file == file && x->hole[i].number == number)
            return true;
    return false;
}

/* Go forward to item `number` of the cursor's file: what is damaged on the way was so before. */
static lk_status forward(const lk__record_reading *r, lk__record_cursor *c, int64_t number,
                         lk__record_item *item)
{
    const lk__source *s = r->index.source[c->file];
    do {
        LK_TRY(lk__record_feed_skip(c->feed, number));
        LK_TRY(lk__record_feed_next(c->feed, item));
        LK_CHECK(item->found != LK_RECORD_END, LK_EIO,
                 "%s: it ends with record %lld, and had more when it was opened",
                 lk__source_name(s), (long long)item->number - 1);
        LK_CHECK(item->found == LK_RECORD_WHOLE || is_hole(&r->index, c->file, item->number),
                 LK_EIO, "%s", item->why);
    } while (item->number < number);
    LK_CHECK(item->number == number && item->found == LK_RECORD_WHOLE, LK_EIO,
             "%s: record %lld is another one than when it was opened", lk__source_name(s),
             (long long)number);
    return LK_OK;
}

lk_status lk__record_stream_seek(const lk__record_reading *r, lk__record_cursor *c, int64_t record)
{
    const lk__record_index *x = &r->index;
    int64_t file = lk__record_index_file(x, record), want = record - x->first[file];
    lk__record_item item;
    if (!c->feed || c->file != file || c->passed > want) {
        lk__record_feed_close(c->feed);
        c->feed = NULL;
        LK_TRY(lk__record_feed_open(x->source[file], x->how[file], &c->feed));
        c->file = file;
    }
    c->passed = want + 1; /* or nothing of it can be used */
    lk_status st = forward(r, c, number_of(x, file, want), &item);
    if (st != LK_OK) {
        lk__record_feed_close(c->feed);
        c->feed = NULL;
        LK_TRY(st);
    }
    c->offset = item.offset;
    c->held = true;
    c->window.source = x->source[file];
    c->window.record = item.number;
    c->window.at = item.offset;
    c->window.n = LK_TFRECORD_HEAD + item.n + LK_TFRECORD_TAIL;
    c->window.bytes = (unsigned char *)(uintptr_t)item.bytes;
    return LK_OK;
}
