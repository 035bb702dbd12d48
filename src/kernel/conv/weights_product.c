/* The weight gradient of a convolution with one tap, whose pixels lie one behind the other: dw is the
 * product of two matrices, x transposed and dy, with the pieces of the samples.  Short pieces are
 * faster so. */
#include "kernel/conv/weights.h"
#include "kernel/cross.h"

bool lk__conv_weights_product(const lk__conv_shape *s, lk_gemm *g)
{
    const int64_t pixels = s->out[0] * s->out[1] * s->out[2];
    const int64_t x_row = s->x_step[LK_CONV_AXES - 1], y_row = s->y_step[LK_CONV_AXES - 1];
    if (s->taps != 1 || s->groups != 1 || s->piece * pixels > LK_CROSS_STEPS)
        return false;
    /* Axes are at least as far apart as what lies within them: there is no gap if samples have none. */
    if (s->x_sample != pixels * x_row || s->y_sample != pixels * y_row)
        return false;
    for (int d = 0; d < LK_CONV_AXES; d++)
        if (s->in[d] != s->out[d] || s->window.stride[d] != 1 || s->window.pad_lo[d] != 0)
            return false;
    *g = (lk_gemm){.dtype = s->dtype,
                   .trans_a = true,
                   .m = s->in_channels,
                   .n = s->out_channels,
                   .k = s->batch * pixels,
                   .lda = x_row,
                   .ldb = y_row,
                   .ldc = s->out_channels,
                   .piece = s->piece * pixels};
    return true;
}
