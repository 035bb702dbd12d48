/* Where the records of some files begin; together they are one set.  records.c has one for each set, and
 * cursors ask it on any thread.  8 bytes a record; of files that are read in order, only how many they have.
 */
#ifndef LK_DATA_RECORD_INDEX_H
#define LK_DATA_RECORD_INDEX_H

#include "data/records/feed.h"

/** What is damaged in the files of a set, and left out. */
typedef struct lk__record_damage {
    int64_t records,
        gaps; /* records whose data are; places where it is not known how many there were */
    char first[LK_RECORD_WHY]; /* the message about the first of them */
} lk__record_damage;

/** Count what a feed has found damaged. */
void lk__record_damage_add(lk__record_damage *d, const lk__record_item *item);

/* A damaged record of a file that is read in order. */
typedef struct lk__record_hole {
    int64_t file, number; /* as lk__record_item.number */
} lk__record_hole;

typedef struct lk__record_index {
    int64_t n_files, files_room, firsts_room, hows_room;
    lk__source **source; /* owned */
    lk__packing *how;    /* of files that are read in order */
    int64_t *first;      /* the number of each file's first record among all */
    lk__record_hole *hole;
    int64_t n_holes, holes_room;
    int64_t count, room; /* records */
    int64_t *at;         /* where each begins in its file */
    int64_t largest;     /* bytes of the largest, up to the beginning of the next */
} lk__record_index;

/** Add a file, which the index owns from here on, also if this fails, and note where its records begin:
 * their lengths are read and checked, nothing else. */
lk_status lk__record_index_add(lk__record_index *x, lk__source *s) LK_NODISCARD;

/** The same, but all of it is read, and only records that are whole are noted; the others are counted.  `cut`:
 * the end of the file is missing. */
lk_status lk__record_index_scan(lk__record_index *x, lk__source *s, bool cut,
                                lk__record_damage *damage) LK_NODISCARD;

/** Add a file that is read in order, packed or not, and count its records, all of which are read and checked.
 * Damaged ones are an error, or with `skips` left out and counted. */
lk_status lk__record_index_count(lk__record_index *x, lk__source *s, lk__packing how, bool skips,
                                 lk__record_damage *damage) LK_NODISCARD;

void lk__record_index_free(lk__record_index *x);

/** Where a record is. */
typedef struct lk__record_place {
    const lk__source *source;
    int64_t number;     /* in its file */
    int64_t at, end;    /* its bytes there, from its length on; more may lie behind it */
    int64_t end_of_all; /* of the file */
} lk__record_place;

/** The file of a record. */
int64_t lk__record_index_file(const lk__record_index *x, int64_t record);

lk__record_place lk__record_index_find(const lk__record_index *x, int64_t record);

#endif /* LK_DATA_RECORD_INDEX_H */
