/* A convolution's shape, checked and with every default filled in.
 *
 * All passes work on three spatial axes: leading axes of size one stand in front of the caller's.
 * Once a shape is made, sums and products of its numbers that stay within the operands, and
 * positions out * stride - pad + tap * dilation, cannot overflow.
 */
#ifndef LK_KERNEL_CONV_SHAPE_H
#define LK_KERNEL_CONV_SHAPE_H

#include <lockstep/extra/conv.h>

enum { LK_CONV_AXES = LK_CONV_MAX_NDIM };

typedef struct lk__conv_shape {
    lk_dtype dtype;
    int64_t elem; /* bytes of one element */
    int64_t batch;
    int64_t in_channels, out_channels;
    int64_t groups, group_in, group_out; /* channels of one group */
    int64_t in[LK_CONV_AXES], out[LK_CONV_AXES];
    lk_window window;
    int64_t taps; /* product of kernel */
    int64_t x_sample, x_step[LK_CONV_AXES];
    int64_t y_sample, y_step[LK_CONV_AXES];
    int64_t x_extent, w_extent, y_extent; /* elements from the first to behind the last */
    int64_t piece;
    lk_conv_algorithm algorithm;
} lk__conv_shape;

/** Check and complete `from`.  Errors: as lk_conv_plan_new(). */
lk_status lk__conv_shape_make(const lk_conv_shape *from, lk__conv_shape *out) LK_NODISCARD;

/** The name of an algorithm, as options have it. */
const char *lk__conv_algorithm_name(lk_conv_algorithm algorithm);

/**
 * Check that the algorithm computes convolutions with these axes, kernel, stride, dilation and
 * groups; other fields are not looked at.
 *
 * Errors: LK_EINVAL for an unknown algorithm, LK_ESHAPE naming the field that does not suit.
 */
lk_status lk__conv_algorithm_check(const lk_conv_shape *c) LK_NODISCARD;

/** The greatest common divisor; 0 if both are 0. */
int64_t lk__conv_gcd(int64_t a, int64_t b);

/* An operand of a pass: where it lies.  Elements are in runs of `run` bytes, each at a multiple of
 * `unit` bytes from the first. */
typedef struct lk__conv_operand {
    const char *name;
    const void *data;
    int64_t extent, run, unit; /* bytes */
} lk__conv_operand;

lk__conv_operand lk__conv_operand_x(const lk__conv_shape *s, const char *name, const void *data);
lk__conv_operand lk__conv_operand_y(const lk__conv_shape *s, const char *name, const void *data);
lk__conv_operand lk__conv_operand_w(const lk__conv_shape *s, const char *name, const void *data);

/** `n` values in a row. */
lk__conv_operand lk__conv_operand_vector(const lk__conv_shape *s, const char *name,
                                         const void *data, int64_t n);

/**
 * Check that no operand but an empty one is NULL and that the first one, the output, shares no
 * element with another.  Operands that interleave, like channel slices of one tensor, are told
 * apart.
 *
 * Errors: LK_EINVAL, LK_EOVERLAP.
 */
lk_status lk__conv_operands_check(const lk__conv_operand *op, int n) LK_NODISCARD;

#endif /* LK_KERNEL_CONV_SHAPE_H */
