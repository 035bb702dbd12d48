/* A schedule: what one rank does in one collective call, written before it is run.
 *
 *     send, recv     are begun when they are reached
 *     wait           goes on when all sends and receives so far are complete
 *     join, copy     are done when they are reached
 *     finish         what remains of the operator after the last join (avg)
 *     widen, narrow  f16 and bf16 to f32, in which they are joined, and back
 *     part           a request of its own, in shared memory (within.h): goes on when it is complete
 *
 * Messages of a pair within one call arrive in the order they are written.  Memory of
 * lk__schedule_room() lives until the call is complete.
 */
#ifndef LK_COLL_SCHEDULE_H
#define LK_COLL_SCHEDULE_H

#include "coll/coll.h"

/** Temporary memory, aligned to LK_ALIGN. */
lk_status lk__schedule_room(lk__schedule *s, int64_t bytes, void *out) LK_NODISCARD;

/** Send or receive `bytes` bytes (0: the header alone) to or from a rank of the communicator. */
lk_status lk__schedule_send(lk__schedule *s, int peer, const void *data,
                            int64_t bytes) LK_NODISCARD;
lk_status lk__schedule_recv(lk__schedule *s, int peer, void *data, int64_t bytes) LK_NODISCARD;

lk_status lk__schedule_wait(lk__schedule *s) LK_NODISCARD;

/** Go on when all but the last `keep` messages are complete. */
lk_status lk__schedule_wait_some(lk__schedule *s, int64_t keep) LK_NODISCARD;

/** first = first op second, `count` elements of the case's `work` and the operator. */
lk_status lk__schedule_join(lk__schedule *s, void *first, const void *second,
                            int64_t count) LK_NODISCARD;

lk_status lk__schedule_copy(lk__schedule *s, void *to, const void *from,
                            int64_t bytes) LK_NODISCARD;

lk_status lk__schedule_finish(lk__schedule *s, void *data, int64_t count) LK_NODISCARD;

lk_status lk__schedule_widen(lk__schedule *s, void *to, const void *from,
                             int64_t count) LK_NODISCARD;
lk_status lk__schedule_narrow(lk__schedule *s, void *to, const void *from,
                              int64_t count) LK_NODISCARD;

/**
 * A part of the call that is a request with an `advance` of its own; its memory is of
 * lk__schedule_room().  Its label is that of the call, which is there when `begin` is called.
 */
lk_status lk__schedule_part(lk__schedule *s, lk_request *part,
                            void (*begin)(lk_request *part)) LK_NODISCARD;

/* ---- parts of several algorithms ---- */

/* The value of a subtree: `count` elements of the case's `work` that may be overwritten. */
typedef struct lk__leaf {
    lk_range at;
    unsigned char *data;
} lk__leaf;

/**
 * Join what can be joined: `leaf` [*n] are different subtrees in order, and become fewer,
 * the largest whose halves are all there.  `s` NULL: only say which.
 */
lk_status lk__schedule_merge(lk__schedule *s, const lk__coll_args *k, int64_t count, lk__leaf *leaf,
                             int64_t *n) LK_NODISCARD;

/* A vector that goes to a rank of the communicator, or comes from one. */
typedef struct lk__parcel {
    int peer;
    bool sends;
    unsigned char *data;
    int64_t bytes;
} lk__parcel;

/* Who adds steps for `bytes` bytes from `first` on of every parcel, as far as it has them, once these have
 * come and gone. */
typedef struct lk__unpack {
    lk_status (*add)(void *arg, lk__schedule *s, int64_t first, int64_t bytes);
    void *arg;
} lk__unpack;

/**
 * All of them at once, and wait: in messages of at most `piece` bytes (0: one each), of each parcel in turn,
 * of which few are under way at a time.  Both ends give the parcels between them in the same order.
 * `unpack` may be NULL.
 */
lk_status lk__schedule_parcels(lk__schedule *s, const lk__parcel *parcel, int64_t n, int64_t piece,
                               const lk__unpack *unpack) LK_NODISCARD;

/** What each rank computes of a vector: its counts of a ragged call, otherwise an even share. */
lk_range lk__coll_args_share(const lk__coll_args *k, int r);

/**
 * Each rank sends each other its share of all vectors, which that one joins: into `out`, complete.
 */
lk_status lk__schedule_shares(lk__schedule *s, const lk__coll_args *k, void *out) LK_NODISCARD;

/** The cost of that, with the sums going to all; and where parts go to their ranks as they are. */
double lk__shares_cost(const lk__coll_args *k, const lk__rates *r);
double lk__direct_cost(const lk__coll_args *k, const lk__rates *r);

/** Up the fixed tree: the sum over all vectors of `count` elements is in `out`, on the rank that holds
 * piece 0.  Not for f16 and bf16. */
lk_status lk__schedule_up(lk__schedule *s, const lk__coll_args *k, int64_t count,
                          void *out) LK_NODISCARD;
bool lk__tree_eligible(const lk__coll_args *k, const char **why);

/** Whether the ranks themselves are the leaves of the tree: a power of two of them, each with one subtree,
 * and every aligned range of 2^k ranks has one too. */
bool lk__aligned_eligible(const lk__coll_args *k, const char **why);

/** The ranks of lk__aligned_eligible() halve what they work on until each has one part. */
typedef struct lk__halves {
    unsigned char *acc;       /* the vector, in the order of `bound`; a copy of the input */
    const int64_t *bound;     /* [size + 1] where the parts begin, in elements */
    int64_t from[32], to[32]; /* the range of parts that a rank has after each step */
    int n;                    /* steps */
} lk__halves;

/** After it, part h->from[h->n] of `acc` is the sum on this rank. */
lk_status lk__schedule_halve(lk__schedule *s, const lk__coll_args *k, lk__halves *h) LK_NODISCARD;

/** From rank `root` to all, down a binomial tree: `bytes` of `data`. */
lk_status lk__schedule_bcast(lk__schedule *s, const lk__coll_args *k, int root, void *data,
                             int64_t bytes) LK_NODISCARD;

/** A schedule for a case, empty; a request that runs it.  The caller owns it until it is started. */
lk_status lk__schedule_new(const lk__coll_args *k, int algorithm, lk__schedule **out) LK_NODISCARD;

/** Begin; the request is the caller's, and releases the schedule. */
lk_status lk__schedule_start(lk__schedule *s, lk_request **out) LK_NODISCARD;

void lk__schedule_free(lk__schedule *s);

#endif /* LK_COLL_SCHEDULE_H */
