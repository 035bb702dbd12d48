/* Collectives: what all ranks of a communicator do together.
 *
 * Every function here is collective: all ranks of the communicator call it, in the same order, with the
 * same call, name, dtype, count, operator, root, counts by rank, pieces and ranges of them, by the same
 * algorithm, and all run it or all start it; otherwise all get LK_EMISMATCH, which names both sides and
 * the difference.  Counts are elements, in 64 bits.
 *
 * **The same bits.**  What is reduced belongs to *pieces*, numbered from 0, and pieces are joined by
 * the fixed tree of extra/reduce.h, the lower number first.  Which rank holds which piece, how many ranks
 * there are, and which algorithm carries the messages, changes no bit:
 *
 *     pieces    0   1   2   3   4   5   6   7       the expression is ((0+1)+(2+3))+((4+5)+(6+7))
 *     1 rank   [0 ...                      7]
 *     3 ranks  [0   1] [2   3   4] [5   6   7]      rank 1 gives two subtrees: (2+3) and 4
 *
 * A rank's range of pieces is cut into the largest *subtrees* that lie in it (pieces.h); the rank joins
 * those itself (or never has the pieces apart) and gives their sums.  Without `pieces`, each rank is
 * one piece: the result then depends on the number of ranks, and on nothing else.
 *
 * f16 and bf16 travel as they are and are joined in f32, rounded once at the end; there a rank gives
 * its pieces, not subtrees, because their sums would have been rounded.
 *
 * **Algorithms.**  Each call has several (`lockstep list`); the one of the least predicted cost is
 * taken, unless the call or the environment (LK_ALLREDUCE=tree, for each call its own variable)
 * names one.  An unknown name is an error that lists the known ones.  Some are there to measure against
 * and promise no bits (lk_coll_info.benchmark_only); a call may name them, but training in canonical
 * mode refuses to begin where the environment does.
 */
#ifndef LK_COLL_H
#define LK_COLL_H

#include <lockstep/comm.h>
#include <lockstep/pieces.h>

LK_BEGIN_DECLS

/** A pair for minloc and maxloc: 16 bytes whatever the dtype. */
typedef struct lk_value_index {
    union {
        float f32;
        double f64;
        int32_t i32;
        int64_t i64;
        uint8_t u8;
    } value;
    int64_t index;
} lk_value_index;

/**
 * One collective call.  What is not said below is 0 or NULL; P is the number of ranks.
 *
 *     call            in, elements            out, elements
 *     barrier         -                       -
 *     bcast           - (must be NULL)        count; of `root` it is the input
 *     reduce          count (subtrees x count)   count, on `root`
 *     allreduce       count (subtrees x count)   count
 *     reduce_scatter  all counts              counts[rank]
 *     gather          counts[rank]            all counts, on `root`
 *     allgather       counts[rank]            all counts
 *     scatter         all counts, on `root`   counts[rank]
 *     alltoall        in_counts[r] for r      counts[r] from r
 *     neighbour       in_counts[i] for i      counts[i] from neighbour i
 *
 * **In place**: `in` NULL: the input is in `out`, where the result comes (not with several subtrees).
 * Of gather (on the root) and allgather it is this rank's part at its place among all; scatter's root
 * keeps its part at its place; of reduce_scatter `out` holds all counts and the result comes to its
 * beginning; neighbour has none.  Otherwise in and out must not overlap, but for a reduce_scatter
 * whose `out` is this rank's part in its first vector; in place and there parts must not overlap each
 * other.  Both belong to the call until it is complete.
 *
 * **Ragged**: `counts` [P] gives the elements by rank; NULL: `count` for each.  `offsets` [P] says
 * where each begins, in elements; NULL: one behind the other.  The arrays are read when the call
 * starts and not kept.  All ranks must give the same `counts`; equal ones and NULL are the same.  Of
 * alltoall all ranks give counts that match, or none does.
 *
 * **Pieces**: `pieces` is the number of all pieces, 0: one for each rank.  `first` [P + 1] says where
 * the range of each rank begins, NULL: lk_range_split(), which may as well be given.  All ranks must
 * give the same.  `in` holds lk_range_subtrees() vectors of `count` elements (reduce_scatter: of all
 * counts) one behind the other, or each `stride` elements behind the one before, so that `in` may be
 * a range of longer vectors; ranks may differ in that.  Of f16 and bf16 there are as many vectors as
 * pieces; a rank without a piece gives none.
 *
 * **Neighbours**: a rank may be several times in `neighbours`, as both ends of a ring of two are, and
 * be this rank itself.  Between two ranks the messages are matched in the order of the lists, unless
 * `peer_slot` says where in its neighbour's list this rank's message arrives: of pairs (lower, upper)
 * {1, 0, 3, 2, ...}, so that what goes down arrives from above.
 */
typedef struct lk_collective {
    lk_comm_call call;
    const char *name;      /* of the tensor, for reports; may be NULL */
    const char *algorithm; /* NULL: by cost */
    const void *in;
    void *out;
    int64_t count;
    const int64_t *counts, *offsets;       /* of the ragged side */
    const int64_t *in_counts, *in_offsets; /* alltoall, neighbour: of the input */
    lk_dtype dtype;
    lk_reduce_op op;
    int root;
    int64_t pieces;
    const int64_t *first;
    int64_t stride;        /* calls that reduce: from one vector of `in` to the next; 0: no gap */
    const int *neighbours; /* neighbour: [n_neighbours] ranks, negative: none there */
    int n_neighbours;
    const int *peer_slot; /* neighbour: [n_neighbours] places in their lists; NULL: in order */
} lk_collective;

/**
 * Do a collective call.
 *
 * Errors: LK_EINVAL, LK_EDTYPE, LK_EOVERFLOW for arguments, LK_ENOTSUP when no algorithm can do it,
 * LK_ENOMEM, and those of communication.
 */
LK_API lk_status lk_coll_run(lk_comm *comm, const lk_collective *c) LK_NODISCARD;

/** Begin one; `c` itself is not kept.  The caller owns `*out`; lk_wait() and its kind end it.  All ranks
 * do a call the same way: they run it, or they start it. */
LK_API lk_status lk_coll_start(lk_comm *comm, const lk_collective *c,
                               lk_request **out) LK_NODISCARD;

/* ---- the same, in short ---- */

/* Blocking, with algorithms by cost, one piece for each rank and parts one behind the other.  `in` NULL
 * is in place; `name` is for reports and may be NULL.  Arguments, errors and ownership as above. */

/** Barrier: returns when all ranks have called it. */
LK_API lk_status lk_barrier(lk_comm *comm, const char *name) LK_NODISCARD;

/** `data` [count] of `root` to all. */
LK_API lk_status lk_bcast(lk_comm *comm, void *data, int64_t count, lk_dtype dtype, int root,
                          const char *name) LK_NODISCARD;

/** out[i] = op over ranks of in[i], i < count, on `root` or everywhere.  minloc and maxloc: lk_value_index
 * with values of `dtype`. */
LK_API lk_status lk_reduce(lk_comm *comm, const void *in, void *out, int64_t count, lk_dtype dtype,
                           lk_reduce_op op, int root, const char *name) LK_NODISCARD;
LK_API lk_status lk_allreduce(lk_comm *comm, const void *in, void *out, int64_t count,
                              lk_dtype dtype, lk_reduce_op op, const char *name) LK_NODISCARD;

/** out[i] = op over ranks of in[rank * count + i], i < count; `in` has P * count elements. */
LK_API lk_status lk_reduce_scatter(lk_comm *comm, const void *in, void *out, int64_t count,
                                   lk_dtype dtype, lk_reduce_op op, const char *name) LK_NODISCARD;

/** out[r * count + i] = in[i] of rank r, on `root` or everywhere; `out` has P * count elements. */
LK_API lk_status lk_gather(lk_comm *comm, const void *in, void *out, int64_t count, lk_dtype dtype,
                           int root, const char *name) LK_NODISCARD;
LK_API lk_status lk_allgather(lk_comm *comm, const void *in, void *out, int64_t count,
                              lk_dtype dtype, const char *name) LK_NODISCARD;

/** out[i] = in[rank * count + i] of `root`, whose `in` has P * count elements. */
LK_API lk_status lk_scatter(lk_comm *comm, const void *in, void *out, int64_t count, lk_dtype dtype,
                            int root, const char *name) LK_NODISCARD;

/** out[r * count + i] = in[rank * count + i] of rank r; both have P * count elements. */
LK_API lk_status lk_alltoall(lk_comm *comm, const void *in, void *out, int64_t count,
                             lk_dtype dtype, const char *name) LK_NODISCARD;

/** The same with counts [P] that differ; alltoallv sends in_counts[r] to r and gets counts[r]. */
LK_API lk_status lk_gatherv(lk_comm *comm, const void *in, void *out, const int64_t *counts,
                            lk_dtype dtype, int root, const char *name) LK_NODISCARD;
LK_API lk_status lk_allgatherv(lk_comm *comm, const void *in, void *out, const int64_t *counts,
                               lk_dtype dtype, const char *name) LK_NODISCARD;
LK_API lk_status lk_scatterv(lk_comm *comm, const void *in, void *out, const int64_t *counts,
                             lk_dtype dtype, int root, const char *name) LK_NODISCARD;
LK_API lk_status lk_alltoallv(lk_comm *comm, const void *in, const int64_t *in_counts, void *out,
                              const int64_t *counts, lk_dtype dtype, const char *name) LK_NODISCARD;

/** Exchange `count` elements with each of `n` neighbours (negative: none there): in and out are
 * [n][count], in the order of `neighbours`; of a border nothing is written. */
LK_API lk_status lk_neighbor_alltoall(lk_comm *comm, int n, const int *neighbours, const void *in,
                                      void *out, int64_t count, lk_dtype dtype,
                                      const char *name) LK_NODISCARD;

/* ---- plain C objects: bytes whose number the other ranks do not know ----
 *
 * As lk_send_bytes() and lk_recv_bytes() of comm.h, from and to all ranks.  What a call gives is a new
 * block on each rank that gets something, also on one that has given it; the caller releases it with
 * lk_free().  Objects may be of any size, 0 included, and are not compared between ranks.
 *
 * Errors of all: LK_EINVAL for a negative number of bytes or none at an address, LK_ENOMEM and
 * LK_EOVERFLOW, of any rank on all of them by lk_agree(), and nothing has been given then; those of
 * communication.
 */

/** The object of `root` to all: `*out` of `*n_out` bytes.  `bytes` and `n` of others are not read. */
LK_API lk_status lk_bcast_bytes(lk_comm *comm, const void *bytes, int64_t n, int root,
                                const char *name, void **out, int64_t *n_out) LK_NODISCARD;

/** The objects of all ranks, one behind the other, on `root` or everywhere: that of rank r is
 * out[first[r] ... first[r + 1]).  `first` [P + 1] is written on every rank; `*out` is NULL on those
 * that get nothing. */
LK_API lk_status lk_gather_bytes(lk_comm *comm, const void *bytes, int64_t n, int root,
                                 const char *name, void **out, int64_t *first) LK_NODISCARD;
LK_API lk_status lk_allgather_bytes(lk_comm *comm, const void *bytes, int64_t n, const char *name,
                                    void **out, int64_t *first) LK_NODISCARD;

/** Join two objects to a new block `*out` of lk_alloc(), of `*n` bytes; `a` is of lower ranks than `b`.
 * A failure is that of all ranks. */
typedef lk_status lk_join_bytes_fn(void *context, const void *a, int64_t n_a, const void *b,
                                   int64_t n_b, void **out, int64_t *n);

/** The objects of all ranks, joined by the fixed tree with each rank as a piece: `*out` of `*n_out`
 * bytes, the same on all.  Of one rank `join` is not called. */
LK_API lk_status lk_allreduce_bytes(lk_comm *comm, const void *bytes, int64_t n,
                                    lk_join_bytes_fn *join, void *context, const char *name,
                                    void **out, int64_t *n_out) LK_NODISCARD;

/* ---- failures ---- */

/**
 * Fail together: LK_OK if all ranks give LK_OK.  Otherwise each rank that failed returns its own
 * failure, as it is, and the others that of the lowest such rank, with "rank R: " before its message.
 *
 * Collective; comm NULL: gives back `st`.  Errors: also those of communication.
 */
LK_API lk_status lk_agree(lk_comm *comm, lk_status st) LK_NODISCARD;

LK_END_DECLS

#endif /* LK_COLL_H */
