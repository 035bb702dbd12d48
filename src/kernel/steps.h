/* Steps of a window into a larger array: what conv, pool and reduce have in their shapes.
 *
 *   element (b, i0, i1, i2, c) is at  b * sample + i0 * step[0] + i1 * step[1] + i2 * step[2] + c
 */
#ifndef LK_KERNEL_STEPS_H
#define LK_KERNEL_STEPS_H

#include <lockstep/status.h>

#include <stdint.h>

/* One operand of three axes, the unused ones first and of size 1, and how messages name its fields. */
typedef struct lk__steps {
    const char *name, *size_name, *step_name, *sample_name; /* "x", "in", "x_step", "x_sample" */
    int front;                                              /* unused axes */
    int64_t batch, channels;
    const int64_t *size;             /* [3] */
    int64_t *sample, *step, *extent; /* step [3]; the extent: from the first element to behind the
                                       * last */
} lk__steps;

/**
 * Fill in dense steps for those that are 0, and the extent; refuse steps that make positions overlap.
 * Nothing has the steps and the extent 0.
 *
 * Errors: LK_ESHAPE; LK_EOVERFLOW, also if the extent has more than 2^63 - 1 bytes, `elem` for each
 * element.
 */
lk_status lk__steps_fill(const lk__steps *v, int64_t elem) LK_NODISCARD;

#endif /* LK_KERNEL_STEPS_H */
