/* What the checks of the three convolution passes share: shapes, operands, parts. */
#ifndef LK_CLI_CHECK_CONV_H
#define LK_CLI_CHECK_CONV_H

#include "selfcheck/check.h"

#include <lockstep/extra/conv.h>

/* Ways of the convolution checks. */
enum { CONV_WHOLE, CONV_BATCH, CONV_IMAGE };

/* The number of shapes. */
enum { CHECK_CONV_CASES = 32 };

/** The shape of a case, complete, with every stride given; axes beyond ndim have one position. */
lk_status check_conv_shape(const check_case *c, lk_conv_shape *s) LK_NODISCARD;

/** Fill in the case's label. */
lk_status check_conv_label(check_case *c) LK_NODISCARD;

/** Elements that x or y of a shape take in memory, gaps included. */
int64_t check_conv_x_size(const lk_conv_shape *s);
int64_t check_conv_y_size(const lk_conv_shape *s);

/* A part of a convolution: its shape, its first positions in the whole, and where its operands
 * begin in those of the whole. */
typedef struct check_conv_part {
    lk_conv_shape shape;
    int64_t i[LK_CONV_MAX_NDIM], o[LK_CONV_MAX_NDIM];
    int64_t x, y;
} check_conv_part;

/** Some samples. */
check_conv_part check_conv_samples(const lk_conv_shape *s, lk_range b);

/** A tile of the image, cut by its inputs, with all inputs that its outputs read. */
check_conv_part check_conv_widen(const lk_conv_shape *s, const check_conv_part *tile);

/** The parts of a case computed in a way: how many, and each of them.  Tiles have the halo they need; those of
 * forward passes are of y, `of_input` those of x. */
int check_conv_n_parts(const lk_conv_shape *s, int way);
check_conv_part check_conv_get_part(const lk_conv_shape *s, int way, int i, bool of_input);

#endif /* LK_CLI_CHECK_CONV_H */
