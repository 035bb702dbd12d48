/* Both ends of the file of a cache (cache.h): the header, which says what boxes of which set it holds, and
 * the record, which says from what the set was made then.
 *
 * A cache is of a set if the header has the set's hash.  That takes reading all of the set, unless the
 * record has its stamp (dataset.h): then the hash is that of the header.  The record stands behind the
 * trailer, with a hash of its own and of the header, so that it can be renewed in place.
 */
#ifndef LK_DATA_CACHE_HEAD_H
#define LK_DATA_CACHE_HEAD_H

#include "data/cache/cache.h"

/* Bytes: 7 numbers and 18 of each field; stamp and hash. */
enum { LK_CACHE_HEADER = 8 * (7 + LK_MAX_FIELDS * (2 + 2 * LK_MAX_NDIM)), LK_CACHE_RECORD = 16 };

#define LK_CACHE_REMEDY "delete it, and it is made anew"

/* A cache is often stale on all ranks; formats the path with * for {rank}. */
#define LK_CACHE_REMEDY_OF_ALL \
    LK_CACHE_REMEDY "; the files of all ranks are %s, and with .test or .validation behind it"

/** What can come into the box of field `f` by crop and flip: what is kept. */
lk_box lk__cache_reach(const lk_loader *l, int f);

/** The header of the file that fits, but for the hash of the set. */
void lk__cache_header(const lk_loader *l, unsigned char *out);

/** The hash of the set in a header. */
void lk__cache_set_content(unsigned char *header, uint64_t content);
uint64_t lk__cache_content(const unsigned char *header);

/** The file is a cache, and of this version; `all` are the paths of all ranks.  Errors: LK_EIO, as those of
 * the next call. */
lk_status lk__cache_kind_check(const char *path, const char *all, const unsigned char *has,
                               const unsigned char *want) LK_NODISCARD;

/** It is one of this set and these boxes. */
lk_status lk__cache_header_check(const char *path, const char *all, const unsigned char *has,
                                 const unsigned char *want) LK_NODISCARD;

/** The record of a set of this stamp, behind such a header. */
void lk__cache_record(const unsigned char *header, uint64_t stamp, unsigned char *out);

/** Whether a record says that the file was made of the set with this stamp. */
bool lk__cache_is_of(const unsigned char *header, const unsigned char *record, uint64_t stamp);

/** Write the record anew, from byte `at` of the file on, if that is possible: the next start reads the set
 * otherwise. */
void lk__cache_renew(const char *path, const unsigned char *header, uint64_t stamp, int64_t at);

#endif /* LK_DATA_CACHE_HEAD_H */
