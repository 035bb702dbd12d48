/* Lists of values: what they are, as numbers that travel, and all in one flat value.  For the calls
 * ..._list().
 */
#ifndef LK_DIST_COMMON_LIST_H
#define LK_DIST_COMMON_LIST_H

#include "dist/common/dist.h"

/* What a receiver must know of a value. */
typedef struct lk__like {
    int64_t dtype, ndim, dim[LK_MAX_NDIM], count;
} lk__like;

enum { LK_LIKE = sizeof(lk__like) / sizeof(int64_t) }; /* i64 numbers */

lk_status lk__like_of(lk_var x, lk__like *out) LK_NODISCARD;
lk_output_spec lk__like_spec(const lk__like *like);

/** Refuse a list with values of several tapes, LK_NO_VAR, or unless `mixed` of several dtypes. */
lk_status lk__list_check(const char *call, const lk_var *xs, int64_t n, bool mixed) LK_NODISCARD;

/** All values, of one dtype, one behind the other: [all their elements]. */
lk_status lk__list_pack(const lk_var *xs, int64_t n, lk_var *flat) LK_NODISCARD;

/** The values that are one behind the other in `flat`, without a copy. */
lk_status lk__list_unpack(lk_var flat, const lk__like *like, int64_t n, lk_var *out) LK_NODISCARD;

/** An i64 value [n] on the tape: the counts of `like`. */
lk_status lk__list_counts(lk_tape *tape, const lk__like *like, int64_t n, lk_var *out) LK_NODISCARD;

#endif /* LK_DIST_COMMON_LIST_H */
