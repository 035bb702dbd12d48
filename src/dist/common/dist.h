/* What the ops of this room share.  The calls of dist.h make the attributes and apply an op, on the
 * thread of the tape; every rank of the communicator does the same.
 *
 * An op works along axis 0 of contiguous tensors; the typed calls move the axis to the front and back
 * with ops.  Parts of ranks are counts along that axis, an i64 value on the tape [P], so that a
 * recorded backward has them too.
 */
#ifndef LK_DIST_COMMON_DIST_H
#define LK_DIST_COMMON_DIST_H

#include <lockstep/dist.h>
#include <lockstep/op.h>

enum { LK_DIST_NAME = 48 };

typedef struct lk__dist {
    lk_comm *comm;
    lk_reduce_op reduce_op;
    int root;
    char name[LK_DIST_NAME];
} lk__dist;

/** The attributes of a node; `name` is cut to fit. */
lk__dist lk__dist_of(lk_comm *comm, lk_reduce_op reduce_op, int root, const char *name);

/** Put a shape of two axes or more behind the name, "x[2,3]", so that ranks whose shapes differ get a
 * mismatch that shows them; `axis` (or -1) may differ and is written "*". */
void lk__dist_shaped(lk__dist *d, lk_shape shape, int axis);

/** Put what all ranks must give alike behind the name, "x root 1", so that ranks that differ in it get a
 * mismatch that shows it. */
void lk__dist_noted(lk__dist *d, const char *what, int value);

/** The attributes of the adjoint of `op`, in backward: another operator, and ".grad" behind the
 * name.  Refuses a communicator that was freed. */
lk_status lk__dist_adjoint(const lk__dist *d, const char *op, lk_reduce_op reduce_op,
                           lk__dist *g) LK_NODISCARD;

/** The backward of a real input by one op: apply `op`, with the attributes of the adjoint, to the `n`
 * variables `in`. */
lk_status lk__dist_adjoint_with(lk_call *c, const lk_op *op, lk_reduce_op reduce_op,
                                const lk_var *in, int n, lk_var *din) LK_NODISCARD;

/** Refuse LK_NO_VAR and, with LK_ESTATE, a value that is gone. */
lk_status lk__dist_valid(const char *call, lk_var x) LK_NODISCARD;

/** Refuse a NULL communicator, a root outside it, and a value that is none or gone; the tape uses the
 * communicator. */
lk_status lk__dist_check(const lk__dist *d, const char *call, lk_var x) LK_NODISCARD;

/** End the job with this thread's last failure: others may wait for what this rank does not do any more. */
void lk__dist_end_job(lk_comm *comm);

/** The status of a call that ends: where memory has run out the job ends, for others may wait for what
 * this rank does not do any more.  `comm` may be NULL, and then no rank is notified. */
lk_status lk__dist_failed(lk_comm *comm, lk_status st) LK_NODISCARD;

/** LK_TRY() in a call that communicates, also before its op: lk__dist_failed(). */
#define LK_TRY_DIST(comm, expr)                               \
    do {                                                      \
        lk_status try_st_ = (expr);                           \
        if (try_st_ != LK_OK) {                               \
            lk__trace(try_st_, __FILE__, __LINE__, __func__); \
            return lk__dist_failed(comm, try_st_);            \
        }                                                     \
    } while (0)

/** As lk__dist_check(), of a message: a rank outside (or `any`, of a receive), a tag, and, unless the
 * call does not block (`self`), this rank if it has not begun the other end. */
typedef struct lk__dist_peer {
    const char *call;
    int rank;
    int64_t tag;
    bool any, self, list;
} lk__dist_peer;
lk_status lk__dist_peer_check(lk_tape *tape, lk_comm *comm, const lk__dist_peer *p) LK_NODISCARD;

/** Begin to send a contiguous tensor; its shape travels along. */
lk_status lk__dist_isend(const lk__dist *d, const lk_tensor *x, int rank, int64_t tag,
                         lk_request **out) LK_NODISCARD;

/** Whether a receive leaves the dtype or the shape to the message. */
bool lk__dist_is_open(lk_dtype dtype, lk_shape shape);

/** What a message is: its shape, or of plain elements their number.  Errors:
 * LK_ECOMM when shape and number do not go together. */
lk_status lk__dist_message_spec(const lk_message *message, lk_output_spec *out) LK_NODISCARD;

/** Whether a receive of this shape, which may be open, takes it. */
bool lk__dist_fits(lk_shape shape, const lk_message *message);

/** The counts of all ranks as a value [P]; `sum` (may be NULL) is all together.  Collective. */
lk_status lk__dist_counts(const lk__dist *d, lk_tape *tape, int64_t own, int64_t *sum,
                          lk_var *out) LK_NODISCARD;

/** counts[r] * row elements for each rank, in the call's scratch. */
lk_status lk__dist_elements(lk_call *c, const lk_tensor *counts, int64_t row,
                            int64_t **out) LK_NODISCARD;

/** Elements of one step along axis 0. */
int64_t lk__dist_row(lk_shape shape);

/** Whether what is to be sent or received of `axis` is all of it; shows the shape otherwise. */
lk_status lk__dist_adds_up(const char *call, lk_dtype dtype, lk_shape shape, int axis,
                           int64_t sum) LK_NODISCARD;

/** The shape whose `axis` is in front in `shape`. */
lk_shape lk__dist_moved_back(lk_shape shape, int axis);

/** Move `axis` to the front, contiguous; and back. */
lk_status lk__dist_front(const char *call, lk_var x, int axis, lk_var *out) LK_NODISCARD;
lk_status lk__dist_back(lk_var x, int axis, lk_var *out) LK_NODISCARD;

/** Refuse an operator that is none, or acts on bits: it has no derivative. */
lk_status lk__dist_reduce_check(const lk__dist *d, const char *call) LK_NODISCARD;

/** lk_dist_allreduce() with these attributes; operator and value are checked. */
lk_status lk__dist_reduce_apply(const lk__dist *d, lk_var x, lk_var *out) LK_NODISCARD;

/** The smallest or largest over ranks, and the index that has it; d->reduce_op is min, max, minloc or
 * maxloc, `index` LK_NO_VAR for the rank. */
lk_status lk__dist_extreme(const lk__dist *d, lk_var x, lk_var index, lk_var *value,
                           lk_var *where) LK_NODISCARD;

/* The ops of this room, which are each other's adjoints. */
extern const lk_op lk__dist_allreduce, lk__dist_reduce, lk__dist_bcast, lk__dist_allgather,
    lk__dist_reduce_scatter, lk__dist_gather, lk__dist_scatter, lk__dist_alltoall, lk__dist_sent,
    lk__dist_received, lk__dist_claimed;

#endif /* LK_DIST_COMMON_DIST_H */
