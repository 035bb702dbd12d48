/* lk__record_index: the offsets of all records of a set's files, found when the set is opened: see
 * index.h. */
#include "data/records/index.h"

#include "base/memory/grow.h"
#include "data/records/tfrecord.h"

#include <lockstep/extra/alloc.h>

#include <stdio.h>

static lk_status add_file(lk__record_index *x, lk__source *s, lk__packing how)
{
    lk_status st = lk__grow(&x->first, &x->firsts_room, x->n_files + 1, sizeof *x->first);
    if (st == LK_OK)
        st = lk__grow(&x->how, &x->hows_room, x->n_files + 1, sizeof *x->how);
    if (st == LK_OK)
        st = lk__grow(&x->source, &x->files_room, x->n_files + 1, sizeof *x->source);
    if (st != LK_OK) {
        lk__source_free(s);
        return st;
    }
    x->first[x->n_files] = x->count;
    x->how[x->n_files] = how;
    x->source[x->n_files++] = s;
    return LK_OK;
}

/* A record of the last file begins there. */
static lk_status offset_add(lk__record_index *x, int64_t begin)
{
    LK_TRY(lk__grow(&x->at, &x->room, x->count + 1, sizeof *x->at));
    x->at[x->count++] = begin;
    return LK_OK;
}

/* The last file is complete. */
static void largest_update(lk__record_index *x)
{
    int64_t end = lk__source_size(x->source[x->n_files - 1]);
    for (int64_t i = x->count - 1; i >= x->first[x->n_files - 1]; i--) {
        x->largest = end - x->at[i] > x->largest ? end - x->at[i] : x->largest;
        end = x->at[i];
    }
}

lk_status lk__record_index_add(lk__record_index *x, lk__source *s)
{
    LK_TRY(add_file(x, s, LK_PACKED_NOT));
    for (int64_t begin = 0, number = 0, at, n, next; begin < lk__source_size(s); number++) {
        LK_TRY(lk__tfrecord_find(s, number, begin, &at, &n, &next));
        LK_TRY(offset_add(x, begin));
        begin = next;
    }
    largest_update(x);
    return LK_OK;
}

void lk__record_damage_add(lk__record_damage *d, const lk__record_item *item)
{
    d->records += item->found == LK_RECORD_BAD;
    d->gaps += item->found == LK_RECORD_GAP;
    if (!d->first[0])
        snprintf(d->first, sizeof d->first, "%s", item->why);
}

static lk_status scan(lk__record_index *x, lk__record_feed *feed, bool cut,
                      lk__record_damage *damage)
{
    lk__record_item item;
    bool gap = false; /* the last one was */
    for (;;) {
        LK_TRY(lk__record_feed_next(feed, &item));
        if (item.found == LK_RECORD_END)
            break;
        gap = item.found == LK_RECORD_GAP;
        if (item.found == LK_RECORD_WHOLE)
            LK_TRY(offset_add(x, item.offset));
        else
            lk__record_damage_add(damage, &item);
    }
    if (cut && !gap) {
        item.found = LK_RECORD_GAP;
        snprintf(item.why, sizeof item.why,
                 "%s: record %lld, offset %lld: the rest of the packed "
                 "file is damaged",
                 lk__source_name(x->source[x->n_files - 1]), (long long)item.number,
                 (long long)item.offset);
        lk__record_damage_add(damage, &item);
    }
    return LK_OK;
}

lk_status lk__record_index_scan(lk__record_index *x, lk__source *s, bool cut,
                                lk__record_damage *damage)
{
    lk__record_feed *feed;
    LK_TRY(add_file(x, s, LK_PACKED_NOT));
    LK_TRY(lk__record_feed_open(s, LK_PACKED_NOT, &feed));
    lk_status st = scan(x, feed, cut, damage);
    lk__record_feed_close(feed);
    LK_TRY(st);
    largest_update(x);
    return LK_OK;
}

/* All records of the last file. */
static lk_status count(lk__record_index *x, lk__record_feed *feed, bool skips,
                       lk__record_damage *damage)
{
    for (;;) {
        lk__record_item item;
        LK_TRY(lk__record_feed_next(feed, &item));
        if (item.found == LK_RECORD_END)
            return LK_OK;
        if (item.found == LK_RECORD_WHOLE) {
            x->count++;
            continue;
        }
        LK_CHECK(skips, LK_EIO, "%s", item.why);
        LK_TRY(lk__grow(&x->hole, &x->holes_room, x->n_holes + 1, sizeof *x->hole));
        x->hole[x->n_holes++] = (lk__record_hole){x->n_files - 1, item.number};
        lk__record_damage_add(damage, &item);
    }
}

lk_status lk__record_index_count(lk__record_index *x, lk__source *s, lk__packing how, bool skips,
                                 lk__record_damage *damage)
{
    lk__record_feed *feed;
    LK_TRY(add_file(x, s, how));
    LK_TRY(lk__record_feed_open(s, how, &feed));
    lk_status st = count(x, feed, skips, damage);
    lk__record_feed_close(feed);
    return LK_TRACE(st);
}

void lk__record_index_free(lk__record_index *x)
{
    for (int64_t i = 0; i < x->n_files; i++)
        lk__source_free(x->source[i]);
    lk_free(x->source);
    lk_free(x->how);
    lk_free(x->hole);
    lk_free(x->first);
    lk_free(x->at);
}

/* The last one that begins with it or before; empty ones lie before that. */
int64_t lk__record_index_file(const lk__record_index *x, int64_t record)
{
    int64_t low = 0, high = x->n_files;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (x->first[middle] <= record)
            low = middle;
        else
            high = middle;
    }
    return low;
}

lk__record_place lk__record_index_find(const lk__record_index *x, int64_t record)
{
    int64_t file = lk__record_index_file(x, record);
    int64_t next = file + 1 < x->n_files ? x->first[file + 1] : x->count;
    lk__record_place p = {.source = x->source[file], .number = record - x->first[file]};
    p.end_of_all = lk__source_size(p.source);
    p.at = x->at[record];
    p.end = record + 1 < next ? x->at[record + 1] : p.end_of_all;
    return p;
}
