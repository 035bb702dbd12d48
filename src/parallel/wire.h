/* The wire: gradients of f32 that travel as f16 or bf16.
 *
 *     narrow      y = x * 2^s, rounded to 16 bits         s: one of each tensor, of bf16 always 0
 *     allreduce   z = y of rank 0 + y of rank 1 + ...     in f32 by the fixed tree, rounded once (coll.h)
 *     widen       x = z * 2^-s
 *
 * bf16 has the range of f32.  f16 ends at 65504, and below 2^-14 it loses digits: so s is what brings the
 * largest magnitude that any rank has of a tensor, times the number of ranks, to just below 2^15.  Then
 * neither what is sent nor the sum overflows.  The ranks agree on it by an allreduce of one number for each
 * tensor.  A tensor that is not finite on some rank is not scaled, and stays not finite.
 *
 * Gradient groups have one (groups.h), and so has a multi-node optimizer; both call it on their thread.
 */
#ifndef LK_PARALLEL_WIRE_H
#define LK_PARALLEL_WIRE_H

#include <lockstep/parallel.h>
#include <lockstep/slab.h>

typedef struct lk__wire lk__wire;

/**
 * Make the wire of the first `slices` slices of a layout, all of f32, for the ranks of `comm`; both are
 * borrowed.  `choice` is LK_WIRE_F16 or LK_WIRE_BF16.  The caller owns `*out`.
 *
 * Not collective.  Errors: LK_EDTYPE for another dtype, naming the tensor; LK_ENOMEM.
 */
lk_status lk__wire_new(const lk_slab_layout *layout, int64_t slices, lk_wire choice, lk_comm *comm,
                       lk__wire **out) LK_NODISCARD;

/** NULL is allowed. */
void lk__wire_free(lk__wire *wire);

/** Elements of a slab that travel so, those of the gaps between tensors included; and of a layout's first
 * slices. */
int64_t lk__wire_elements(const lk__wire *wire);
int64_t lk__wire_elements_of(const lk_slab_layout *layout, int64_t slices);

/** Agree on the scales of what all ranks have in `x`, a slab's data; nothing for bf16, where the call may be
 * left out.  Collective. */
lk_status lk__wire_scale(lk__wire *wire, const float *x) LK_NODISCARD;

/** Narrow elements [first, first + n) of a slab; returns where they are, to be joined in place as
 * lk__wire_dtype(). */
void *lk__wire_narrow(lk__wire *wire, const float *x, int64_t first, int64_t n);
lk_dtype lk__wire_dtype(const lk__wire *wire);

/** Widen what was joined, to where it was. */
void lk__wire_widen(const lk__wire *wire, float *x, int64_t first, int64_t n);

#endif /* LK_PARALLEL_WIRE_H */
