/* Tap-validity classes: padding without masks.
 *
 * A pass reads A and writes C: forward A is x and C is y, backward data the other way round.
 * Along one axis, the position of C decides which taps meet A inside the image and at which
 * position of A they start.  Positions with the same valid taps form a class; so all of a class
 * share one list of taps, and a tap in the padding is in no list.
 *
 * The taps of a position are in the order of its chain, A ascending:
 *
 *   forward        taps 0, 1, 2, ...; from one to the next A moves by `dilation`
 *   backward data  the taps t with t * dilation = position + pad modulo stride, descending: their
 *                  distance is stride / gcd(stride, dilation), and A moves by dilation / gcd
 *
 * Either way every tap has one place in `order`, and the valid taps of a class are neighbours
 * there.
 */
#ifndef LK_KERNEL_CONV_AXIS_H
#define LK_KERNEL_CONV_AXIS_H

#include "kernel/conv/shape.h"

typedef struct lk__conv_class {
    int64_t tap, n_taps; /* valid are order[tap ... tap + n_taps - 1]; all zero if none */
    int64_t first, n;    /* its positions are entries first ... first + n - 1 of a_off and c_off */
} lk__conv_class;

typedef struct lk__conv_axis {
    int64_t n_taps;
    int64_t *order; /* order[j] is the kernel tap in place j */
    int64_t a_step; /* elements of A from one tap to the next */
    int64_t *a_off; /* elements from A's first position to the one under the first valid tap */
    int64_t *c_off; /* elements from C's first position; ascending within a class */
    lk__conv_class *classes;
    int64_t n_classes;
} lk__conv_axis;

/** Axis `d` of the forward pass.  Release with lk__conv_axis_free(), also after a failure. */
lk_status lk__conv_axis_forward(const lk__conv_shape *s, int d, lk__conv_axis *out) LK_NODISCARD;

/** Axis `d` of the backward-data pass.  As above. */
lk_status lk__conv_axis_data(const lk__conv_shape *s, int d, lk__conv_axis *out) LK_NODISCARD;

void lk__conv_axis_free(lk__conv_axis *axis);

#endif /* LK_KERNEL_CONV_AXIS_H */
