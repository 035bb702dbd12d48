/* What other rooms (ops, nn, dist, parallel, train) may do with a tape besides
 * <lockstep/autograd.h>.
 *
 * An extension is what a room keeps for a tape beside it: dist, the messages that are under way
 * (dist/common/pending.c).  The room makes it, the tape calls it on its own thread and frees it.
 */
#ifndef LK_AUTOGRAD_TAPE_ACCESS_H
#define LK_AUTOGRAD_TAPE_ACCESS_H

#include <lockstep/autograd.h>

/* In front of the room's own struct. */
typedef struct lk__tape_extension {
    void (*reset)(struct lk__tape_extension *extension); /* the values are about to be forgotten */
    lk_status (*ready)(struct lk__tape_extension *extension); /* whether backward may begin */
    /* This thread's last error, `st`, has ended a call that communicates, or backward, on this rank
     * alone. */
    void (*failed)(struct lk__tape_extension *extension, lk_status st);
    void (*free)(struct lk__tape_extension *extension);
} lk__tape_extension;

/** Where a tape has its extension; NULL there: none yet. */
lk__tape_extension **lk__tape_extension_slot(lk_tape *tape);

/** Own a valid value besides others, so that its elements stay; and no longer.  Not over a reset. */
void lk__var_hold(lk_var v);
void lk__var_release(lk_var v);

/** Run a layer, or what else makes one value of another, on a tape that does not record.  Of the values that it
 * makes only *out stays, and those that lk_retain_value() has named, as if the caller had made them; *made:
 * whether *out is one of them, and not a value from before. */
lk_status lk__scope_run(lk_tape *tape, lk_segment_fn *run, void *arg, lk_var *out,
                        bool *made) LK_NODISCARD;

/** Give up the elements of a value that is not to be read any more, unless a caller holds it or
 * lk_retain_value() has named it.  Views of it keep them. */
void lk__var_drop(lk_var v);

/** The shape of a valid value, where the tape has it: lk_shape_of() without a copy. */
const lk_shape *lk__var_shape(lk_var v);

/** Whether an op would be written to the tape now. */
bool lk__tape_writes(const lk_tape *tape);

/** `bytes` bytes of the tape's memory, aligned for any object, until the reset, or in a segment until its
 * end: for a pass that needs an array of variables.  Errors: LK_ENOMEM. */
lk_status lk__tape_room(lk_tape *tape, int64_t bytes, void *out) LK_NODISCARD;

/** Forget all values, as a reset does, and give all memory of values back.  Not during a pass. */
void lk__tape_give_back(lk_tape *tape);

/** In an op's backward: whether the pass keeps what it goes through, LK_RETAIN_GRAPH. */
bool lk__tape_retains(const lk_tape *tape);

/** In an op's forward: whether the call that runs it has found that this thread rounds to nearest and keeps
 * denormals, so that the op need not look again, which takes as long as to add a few numbers. */
bool lk__tape_is_canonical(const lk_tape *tape);

/** As lk_recompute(), but outputs are not compared: of some elements, which are not read, the second run may
 * give others than the first. */
lk_status lk__recompute_unchecked(lk_tape *tape, lk_segment_fn *segment, void *arg, int n_out,
                                  lk_var *out) LK_NODISCARD;

/** The segment of lk_recompute() that is being run, or NULL. */
const void *lk__tape_segment(const lk_tape *tape);

#endif /* LK_AUTOGRAD_TAPE_ACCESS_H */
