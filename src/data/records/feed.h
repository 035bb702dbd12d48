/* The records of a file in order, from the first on, packed or not: for sets that are read so, and for
 * finding what is whole in a file that is damaged.
 *
 * Where a record's data are damaged, the next one is found by its length.  Where the length is, nothing
 * says where the next record begins: it is looked for, byte by byte, up to the next place where a whole
 * record stands, length, data and both checksums, or up to the end of the file.  What a packed file has
 * behind damage is lost.
 */
#ifndef LK_DATA_RECORD_FEED_H
#define LK_DATA_RECORD_FEED_H

#include "data/source.h"

typedef struct lk__record_feed lk__record_feed;

typedef enum lk__record_found {
    LK_RECORD_WHOLE,
    LK_RECORD_BAD, /* its data are damaged, and it was passed over */
    LK_RECORD_GAP, /* it is not known how many records were there */
    LK_RECORD_END
} lk__record_found;

enum { LK_RECORD_WHY = 400 };

/** What came next. */
typedef struct lk__record_item {
    lk__record_found found;
    int64_t number;      /* of a record in its file; damaged ones, and gaps, count as well */
    int64_t offset, end; /* its bytes, or those that are lost, in the file as it is unpacked */
    const unsigned char *bytes; /* of a whole one, from its length on; until the next call */
    int64_t n;                  /* of its data, which lie behind the head */
    char why[LK_RECORD_WHY];    /* of a damaged one: the message of an error */
} lk__record_item;

/** Begin with the first record of a file, which is borrowed. */
lk_status lk__record_feed_open(const lk__source *s, lk__packing how,
                               lk__record_feed **out) LK_NODISCARD;

/** NULL is allowed. */
void lk__record_feed_close(lk__record_feed *f);

/** The next record, whole or damaged, or the end.  Takes memory for the largest record so far.  Errors: what
 * has nothing to do with the bytes of the file, such as LK_ENOMEM. */
lk_status lk__record_feed_next(lk__record_feed *f, lk__record_item *out) LK_NODISCARD;

/** Pass over whole records without checking their data, up to number `number`: the next one is that, or
 * one before it that is damaged. */
lk_status lk__record_feed_skip(lk__record_feed *f, int64_t number) LK_NODISCARD;

#endif /* LK_DATA_RECORD_FEED_H */
