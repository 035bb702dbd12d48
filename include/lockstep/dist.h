/* Communication on the tape: every exchange between ranks has a derivative.
 *
 * The convention: gradients are of the **sum of all ranks' losses**.  So what a rank receives in
 * backward is what all ranks' losses say about the value it gave away, and the adjoint of a
 * sum-allreduce is a sum-allreduce.
 *
 * All functions here are collective in the sense of comm.h, and so is lk_backward() on a tape that
 * has them: a rank without a loss calls it with no seed.  Ops that communicate are never left out:
 * a rank whose result is not used still sends its zero gradient.  Backward runs in the reverse order
 * of the program on every rank, so it cannot wait for ever if forward did not.
 *
 * Every message of backward carries the number of the message that it is the adjoint of, so tags never
 * matter to it.  Backward can be recorded: second derivatives pass through communication.
 *
 * `comm` must live until the tape is reset: backward refuses one that was freed.  `name` (may be NULL) is
 * for reports, which show shapes of two axes and more, axes and roots behind it.  Tensors are made
 * contiguous.  Integers travel too, without a gradient.  Errors of all: those of ops.h, of coll.h and of
 * communication; an error inside communication, or a rank that has no memory, is the end of the job, on
 * all ranks.
 */
#ifndef LK_DIST_H
#define LK_DIST_H

#include <lockstep/coll.h>
#include <lockstep/ops.h>

LK_BEGIN_DECLS

/* ---- collectives ---- */

/**
 * y = x reduced over all ranks, everywhere; all give the same dtype and shape.
 *
 * sum    dx = the sum of all dy
 * avg    dx = the sum of all dy / P
 * prod   dx = the sum of all dy times the product of the others' x, right with zeros among them
 * min, max   dx = the sum of all dy on the lowest rank that has the smallest or largest, else 0;
 *            minloc and maxloc are the same here, for their index see lk_dist_allreduce_loc()
 *
 * Errors: LK_ENOTSUP for and, or, xor, which act on bits and have no derivative.
 */
LK_API lk_status lk_dist_allreduce(lk_comm *comm, lk_var x, lk_reduce_op op, const char *name,
                                   lk_var *out) LK_NODISCARD;

/** As lk_dist_allreduce(), on `root` alone; zeros elsewhere; their gradient is ignored. */
LK_API lk_status lk_dist_reduce(lk_comm *comm, lk_var x, lk_reduce_op op, int root,
                                const char *name, lk_var *out) LK_NODISCARD;

/**
 * minloc and maxloc: `*value` as lk_dist_allreduce(), and `*where`, an i64 value without gradient, the
 * lowest index among those that have it.  `index` is an i64 value of x's shape, what this rank calls
 * its elements; LK_NO_VAR: the rank.  dx goes to the lowest rank that has value and index.
 *
 * Errors: LK_EINVAL for another op.
 */
LK_API lk_status lk_dist_allreduce_loc(lk_comm *comm, lk_var x, lk_var index, lk_reduce_op op,
                                       const char *name, lk_var *value, lk_var *where) LK_NODISCARD;

/** As lk_dist_allreduce_loc(), on `root` alone; zeros elsewhere. */
LK_API lk_status lk_dist_reduce_loc(lk_comm *comm, lk_var x, lk_var index, lk_reduce_op op,
                                    int root, const char *name, lk_var *value,
                                    lk_var *where) LK_NODISCARD;

/** x of `root` for all; the others give a value of the same dtype and shape, whose elements do not
 * matter.  dx = the sum of all dy on `root`, 0 elsewhere. */
LK_API lk_status lk_dist_bcast(lk_comm *comm, lk_var x, int root, const char *name,
                               lk_var *out) LK_NODISCARD;

/**
 * The x of all ranks, one behind the other along `axis`, in the order of ranks, everywhere.  Sizes
 * along `axis` may differ.  dx = this rank's part of the sum of all dy.
 */
LK_API lk_status lk_dist_allgather(lk_comm *comm, lk_var x, int axis, const char *name,
                                   lk_var *out) LK_NODISCARD;

/** This rank's part, `count` along `axis`, of the sum of all x; counts of all ranks add up to x's
 * size.  dx = the dy of all ranks, one behind the other. */
LK_API lk_status lk_dist_reduce_scatter(lk_comm *comm, lk_var x, int axis, int64_t count,
                                        const char *name, lk_var *out) LK_NODISCARD;

/** As lk_dist_allgather(), on `root` alone; elsewhere the result has size 0 along `axis`. */
LK_API lk_status lk_dist_gather(lk_comm *comm, lk_var x, int axis, int root, const char *name,
                                lk_var *out) LK_NODISCARD;

/** `root`'s x cut along `axis` into `count` for each rank, in the order of ranks; counts add up to its
 * size.  Of the others' x only the dtype matters.  dx = all dy on `root`, 0 elsewhere. */
LK_API lk_status lk_dist_scatter(lk_comm *comm, lk_var x, int axis, int64_t count, int root,
                                 const char *name, lk_var *out) LK_NODISCARD;

/**
 * Cut x along `scatter` into the `count` of each rank, and put what comes from all ranks one behind
 * the other along `gather`.
 *
 * The axes may be equal: the whole, of which rank r holds x, is then cut anew into `count` for each.
 * Counts of all ranks add up to the size of x along `scatter` (equal axes: of the whole).  dx =
 * the same with the axes exchanged.
 */
LK_API lk_status lk_dist_alltoall(lk_comm *comm, lk_var x, int gather, int scatter, int64_t count,
                                  const char *name, lk_var *out) LK_NODISCARD;

/* ---- a batch that ranks share ---- */

/** A batch of samples, of which each rank has a part. */
typedef struct lk_dist_batch {
    lk_comm *comm;
    int64_t samples; /* of the whole batch */
    /* Shards of lk_tape_shard_size() samples that it is cut into, and where the range of each rank begins,
     * [P + 1], as in coll.h: a rank has one subtree, or nothing.  0: each rank's part is a
     * shard; the bits then depend on the number of ranks. */
    int64_t shards;
    const int64_t *first;
} lk_dist_batch;

/**
 * lk_batch_norm() of this rank's part x of a batch, by mean and variance over the whole of it: the bits
 * are those of one rank that has all samples.
 *
 * All ranks give the same `gamma` and `beta`.  Their gradients, over the whole batch, are on the rank
 * that has its first shard (without shards: rank 0), and 0 elsewhere.  out[0] is the result, out[1] and
 * out[2] are mean and variance, [1][channels], the same everywhere and without a gradient.  A part may
 * be empty.  `batch->first` must live until the tape is reset, `attr` may be NULL.
 *
 * Errors: LK_ESHAPE unless x is what this rank has of the batch; LK_EINVAL when that is not one subtree.
 */
LK_API lk_status lk_dist_batch_norm(const lk_dist_batch *batch, lk_var x, lk_var gamma, lk_var beta,
                                    const lk_batch_norm_attr *attr, const char *name,
                                    lk_var out[3]) LK_NODISCARD;

/* ---- neighbours ---- */

/**
 * Neighbours by rank (negative: none there), with the rows to send to each and to receive from each;
 * for neighbours on a grid lk_grid_rank() gives the ranks.  `peer_slot`, which may be NULL, is as in
 * coll.h, and mutual: if this rank's entry i goes to entry k of its neighbour, that goes to i here.
 */
typedef struct lk_neighbours {
    int n;
    const int *rank;
    const int64_t *send, *receive;
    const int *peer_slot;
} lk_neighbours;

/** Cut x along `axis` into the parts for the neighbours, in order, and put what comes from them one
 * behind the other along it.  dx = what the neighbours' dy say about the parts they got. */
LK_API lk_status lk_dist_neighbor_alltoall(lk_comm *comm, lk_var x, int axis,
                                           const lk_neighbours *to, const char *name,
                                           lk_var *out) LK_NODISCARD;

/** The halo along one axis of a tile: rows of the neighbour at lower coordinates of the grid in front
 * of the tile, and of the one at higher coordinates behind it. */
typedef struct lk_halo {
    int axis;          /* of the value */
    int grid_axis;     /* of the grid, along which it is cut */
    int64_t low, high; /* rows, may be 0, and differ between ranks along this axis */
    bool zeros;        /* at a border of the grid: rows of zeros; otherwise none are added there */
} lk_halo;

/**
 * x, this rank's tile, with halos along `n` axes, corners included: they come from the diagonal
 * neighbours.  Tiles may have different sizes along these axes.  Along a periodic axis of the grid
 * the first and the last tile are neighbours, also if they are the same.
 *
 * dx = dy of the tile, plus what the halos of the neighbours say about the rows they got: the
 * lk_dist_halo_add() of dy.
 *
 * Errors: LK_ESHAPE on all ranks when a halo is wider than the neighbour's tile, or when tiles differ
 * across an axis, LK_EMISMATCH when grids differ or the neighbour calls lk_dist_halo_add(), all naming
 * both ranks; LK_EINVAL.
 */
LK_API lk_status lk_dist_halo(lk_comm *comm, const lk_grid *grid, lk_var x, const lk_halo *halos,
                              int n, const char *name, lk_var *out) LK_NODISCARD;

/**
 * The way back: x is a tile with halos, as lk_dist_halo() with the same arguments gives it.  What lies in
 * the halos is sent to the ranks whose rows they are, corners to the diagonal neighbours, and added
 * there; the result is the tile without halos.  Rows at a border, where there is no neighbour, are
 * dropped.
 *
 * The order of the additions is fixed.  The axes are done from the last of `halos` to the first, with
 * the halos of those that are still to come; along each, a row of the tile is (own + what the neighbour
 * at lower coordinates has of it) + what the one at higher coordinates has.  So are the gradients of
 * lk_dist_halo() added up: each of the two calls is the other's adjoint, dx = the halo of dy.
 *
 * Errors: those of lk_dist_halo(); LK_ESHAPE on all ranks when x has fewer rows than its halos;
 * LK_EDTYPE for integers.
 */
LK_API lk_status lk_dist_halo_add(lk_comm *comm, const lk_grid *grid, lk_var x,
                                  const lk_halo *halos, int n, const char *name,
                                  lk_var *out) LK_NODISCARD;

/** Barrier, in forward and in backward. */
LK_API lk_status lk_dist_barrier(lk_tape *tape, lk_comm *comm, const char *name) LK_NODISCARD;

/* ---- messages ---- */

/**
 * Send x to `dest`.  dx = the gradient of what `dest` received.
 *
 * To this rank itself only if a receive that takes the message has begun (lk_dist_irecv()), otherwise
 * it would never arrive: LK_EINVAL.
 *
 * `*token` (may be NULL) is an empty value that depends on the message, for programs ported from
 * systems that need one: see lk_join().
 */
LK_API lk_status lk_dist_send(lk_comm *comm, lk_var x, int dest, int64_t tag, const char *name,
                              lk_var *token) LK_NODISCARD;

/* A receive that leaves dtype, shape or both to the message. */
#define LK_ANY_DTYPE ((lk_dtype)LK_N_DTYPES)
#ifdef __cplusplus
#    define LK_ANY_SHAPE (lk_shape{-1, {0}})
#else
#    define LK_ANY_SHAPE ((lk_shape){-1, {0}})
#endif

/**
 * Receive a value from `source` (or LK_ANY_RANK) with `tag` (or LK_ANY_TAG); its gradient is sent back
 * to its sender.  From this rank itself only what lk_dist_isend() has begun to send: LK_EINVAL.
 *
 * `dtype` and `shape` are compared with those of the message, or taken from it where they are
 * LK_ANY_DTYPE and LK_ANY_SHAPE.  Plain elements of lk_send() have no shape: their number is compared,
 * and is the shape that is taken.
 *
 * Errors: LK_EMISMATCH, on all ranks, for another dtype and for more elements than the shape has;
 * LK_ESHAPE for another shape, naming both; LK_ENOMEM for a message that there is no memory for.
 */
LK_API lk_status lk_dist_recv(lk_tape *tape, lk_comm *comm, int source, int64_t tag, lk_dtype dtype,
                              lk_shape shape, const char *name, lk_var *out) LK_NODISCARD;

/**
 * Begin to send x to `dest`, which may be this rank; lk_dist_wait() ends it.  dx = the gradient of
 * what `dest` received, for which backward waits here.  x must not change until then.
 *
 * `*handle` is an empty value.  It must be waited for once, before backward and before the tape is
 * reset.  What is not is an error that names it: backward returns it, and after a reset the next call
 * of all ranks that communicates.
 */
LK_API lk_status lk_dist_isend(lk_comm *comm, lk_var x, int dest, int64_t tag, const char *name,
                               lk_var *handle) LK_NODISCARD;

/** Begin to receive, as lk_dist_recv() and also from this rank; lk_dist_wait() gives the value.  What a
 * call leaves to the message comes in the turn of the call, and is copied once more. */
LK_API lk_status lk_dist_irecv(lk_tape *tape, lk_comm *comm, int source, int64_t tag,
                               lk_dtype dtype, lk_shape shape, const char *name,
                               lk_var *handle) LK_NODISCARD;

/**
 * Wait for a message.  `*out` (may be NULL) is the value that irecv received, or an empty token of
 * isend.  In backward the adjoint message begins here: what overlaps with one overlaps with the other.
 *
 * Handles may be waited for in any order.  Errors: LK_ESTATE for one that was waited for before, or
 * is none; LK_ESHAPE when the message has another shape than irecv said.
 */
LK_API lk_status lk_dist_wait(lk_var handle, lk_var *out) LK_NODISCARD;

/** Wait for one of `n` messages and say which; the lowest of those that are complete.  LK_NO_VAR is
 * skipped; `*which` is -1 if all are.  Backward follows what happened. */
LK_API lk_status lk_dist_waitany(const lk_var *handles, int n, int *which,
                                 lk_var *out) LK_NODISCARD;

/** What lk_dist_sendrecv() sends; a negative rank: nothing (a border of a grid). */
typedef struct lk_dist_send_arg {
    lk_var x;
    int rank;
    int64_t tag;
} lk_dist_send_arg;

/** What lk_dist_sendrecv() receives; a negative rank: nothing. */
typedef struct lk_dist_recv_arg {
    int rank;
    int64_t tag;
    lk_dtype dtype; /* or LK_ANY_DTYPE, as in lk_dist_recv() */
    lk_shape shape;
} lk_dist_recv_arg;

/** Send one and receive the other, in whatever order the partners do it; this rank may be its own
 * partner.  `*out` is LK_NO_VAR when nothing is received. */
LK_API lk_status lk_dist_sendrecv(lk_tape *tape, lk_comm *comm, const lk_dist_send_arg *send,
                                  const lk_dist_recv_arg *recv, const char *name,
                                  lk_var *out) LK_NODISCARD;

/* ---- lists ----
 *
 * Several values in one call, of any shapes.  Where dtypes and shapes (and how many there are) are
 * not known to the receiver, they travel along.
 */

/** lk_dist_send() of n >= 1 values of any dtypes, for lk_dist_recv_list(). */
LK_API lk_status lk_dist_send_list(lk_comm *comm, const lk_var *xs, int n, int dest, int64_t tag,
                                   const char *name, lk_var *token) LK_NODISCARD;

/** Receive what one lk_dist_send_list() sent, without knowing what it is.  Errors: LK_EINVAL when
 * there is not room for all. */
LK_API lk_status lk_dist_recv_list(lk_tape *tape, lk_comm *comm, int source, int64_t tag,
                                   const char *name, lk_list *out) LK_NODISCARD;

/** lk_dist_bcast() of the `list->n` values of `root`, whose list is replaced as those of the others
 * are filled in.  Errors: LK_EINVAL when there is not room for all. */
LK_API lk_status lk_dist_bcast_list(lk_tape *tape, lk_comm *comm, int root, const char *name,
                                    lk_list *list) LK_NODISCARD;

/** out[i] = lk_dist_allreduce() of xs[i], i < n, of any dtypes; small values of one dtype travel
 * together.  `out` may be `xs`. */
LK_API lk_status lk_dist_allreduce_list(lk_comm *comm, const lk_var *xs, int n, lk_reduce_op op,
                                        const char *name, lk_var *out) LK_NODISCARD;

/* One value for or from each rank, P in all, of one dtype and any shapes.  Errors: LK_EDTYPE on all
 * ranks when dtypes differ. */

/** out[r] = the x of rank r, everywhere. */
LK_API lk_status lk_dist_allgather_list(lk_comm *comm, lk_var x, const char *name,
                                        lk_var *out) LK_NODISCARD;

/** out[r] = the x of rank r, on `root`; elsewhere `out` is not used. */
LK_API lk_status lk_dist_gather_list(lk_comm *comm, lk_var x, int root, const char *name,
                                     lk_var *out) LK_NODISCARD;

/** out = xs[rank] of `root`; elsewhere `xs` is not used. */
LK_API lk_status lk_dist_scatter_list(lk_tape *tape, lk_comm *comm, const lk_var *xs, int root,
                                      const char *name, lk_var *out) LK_NODISCARD;

/** out[r] = xs[rank] of rank r. */
LK_API lk_status lk_dist_alltoall_list(lk_comm *comm, const lk_var *xs, const char *name,
                                       lk_var *out) LK_NODISCARD;

/* ---- for ported programs ----
 *
 * Other systems run backward in an order that follows from what values depend on.  There a message
 * must be made to lie between the input and the loss, with empty values: delegate variables
 * (ChainerMN), the dummies of handles (mpi4torch).  Here backward reverses the program, and nothing of
 * this is needed for correct gradients.  The calls let programs be ported line by line; the token of
 * lk_dist_send() is a delegate variable, and a handle is its own dummy.
 */

/** x itself, depending on tokens besides: their gradients are 0.  JoinDummies of mpi4torch. */
LK_API lk_status lk_join(lk_var x, const lk_var *tokens, int n, lk_var *out) LK_NODISCARD;

/** The handle itself: JoinDummiesHandle of mpi4torch. */
LK_API lk_status lk_join_handle(lk_var handle, const lk_var *tokens, int n,
                                lk_var *out) LK_NODISCARD;

/** out[i] = xs[i], depending on `delegate` besides, unless that is LK_NO_VAR; `out` may be `xs`.
 * pseudo_connect of ChainerMN. */
LK_API lk_status lk_pseudo_connect(lk_var delegate, const lk_var *xs, int n,
                                   lk_var *out) LK_NODISCARD;

LK_END_DECLS

#endif /* LK_DIST_H */
