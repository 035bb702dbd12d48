/* Statistics of channels over pieces of the batch.
 *
 * x [samples][...][channels] is seen as [rows][channels], the rows cut into pieces of
 * lk_tape_shard_size() samples (the last may be shorter), or taken as one.  A vector has a number for
 * each piece and channel, [pieces][channels].  No elements are no pieces.
 */
#ifndef LK_OPS_COMMON_PIECES_H
#define LK_OPS_COMMON_PIECES_H

#include "ops/common/sums.h"

/* Who adds up what others have parts of: of a batch, or of its samples. */
typedef struct lk__combiner {
    /** Sums [n] of this part become those of the whole. */
    lk_status (*join)(void *arg, lk_dtype dtype, int64_t n, void *sums);
    /** Add up x in another way than by rows, and keep it: `join` then writes all sums that were kept
     * since the last, one behind the other.  NULL: by rows. */
    lk_status (*sum)(void *arg, const void *x);
    void *arg;
} lk__combiner;

typedef struct lk__pieces {
    lk_dtype dtype;
    int64_t rows, channels;
    int64_t n, piece; /* pieces, and rows in each but the last */
    int64_t sum;      /* rows in a piece of a sum over all, when there is one piece; 0: all */
    /* Rows that a mean is over, of each piece but the last, and of the last, when others have parts of
     * them; 0: these rows. */
    int64_t of, last_of;
    const lk__combiner *combiner; /* then: who has the other parts */
} lk__pieces;

/** The pieces of x; one if `whole`. */
lk__pieces lk__pieces_of(const lk_tape *tape, lk_dtype dtype, lk_shape x, bool whole);

/** Rows in piece `p`. */
int64_t lk__pieces_rows(const lk__pieces *s, int64_t p);

enum { LK_PIECES_MAX_X = 2, LK_PIECES_MAX_V = 5 };

/* What terms are of: inputs of x's shape, then vectors; NULL ends each list. */
typedef struct lk__pieces_in {
    const void *x[LK_PIECES_MAX_X];
    const void *v[LK_PIECES_MAX_V];
    bool shared[LK_PIECES_MAX_V]; /* one number for each channel, for all pieces */
    void *y;    /* the output; of sums, room of x's size for a combiner that sums itself */
    lk_act act; /* of the output of a map */
} lk__pieces_in;

/** out [terms][n][channels] = the sums of terms over the rows of each piece, by lanes, joined with those of
 * the other parts, if there are any. */
lk_status lk__pieces_sum(lk_call *c, const lk__pieces *s, const lk__pieces_in *in,
                         lk__sum_down down, void *out) LK_NODISCARD;

/** As lk__pieces_sum() of one term, divided by the rows of the piece or of the whole batch. */
lk_status lk__pieces_mean(lk_call *c, const lk__pieces *s, const lk__pieces_in *in,
                          lk__sum_down down, void *out) LK_NODISCARD;

/** in->y = the term of each element of x's shape, or 0 + that if the call overwrites. */
lk_status lk__pieces_map(lk_call *c, const lk__pieces *s, const lk__pieces_in *in,
                         lk__sum_term term) LK_NODISCARD;

/** The term of vectors alone: in->v give a vector in->y.  The number p is the rows that a mean is over, q
 * is `q`. */
lk_status lk__pieces_vector(const lk__pieces *s, const lk__pieces_in *in, double q,
                            lk__sum_term term) LK_NODISCARD;

/* ---- as ops, for backward that is recorded ---- */

/** *out [pieces][channels] = sums of x over each piece, or means. */
lk_status lk__piece_sum(lk_var x, bool mean, bool whole, lk_var *out) LK_NODISCARD;

/** *out = v [pieces][channels] repeated to `shape`, or that divided by the rows of the piece. */
lk_status lk__piece_spread(lk_var v, lk_shape shape, bool mean, bool whole,
                           lk_var *out) LK_NODISCARD;

#endif /* LK_OPS_COMMON_PIECES_H */
