/* An op that gives an input itself as the gradient of another: z = 0 of x and y, dx = y. */
#ifndef LK_TEST_ODD_OP_H
#define LK_TEST_ODD_OP_H

#include "harness.h"

#include <lockstep/op.h>

static lk_status odd_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    (void)dout;
    din[0] = c->in[1];
    return LK_OK;
}

static lk_status odd_infer(lk_call *c, lk_output_spec *out)
{
    out->dtype = lk_tensor_dtype(c->x[0]);
    out->shape = lk_tensor_shape(c->x[0]);
    return LK_OK;
}

static lk_status odd_forward(lk_call *c)
{
    return LK_TRACE(lk_tensor_fill_f64(c->y[0], 0));
}

static const lk_op odd_op = {.name = "odd",
                             .min_in = 2,
                             .max_in = 2,
                             .n_out = 1,
                             .saves_in = 3,
                             .infer = odd_infer,
                             .forward = odd_forward,
                             .backward = odd_backward};

#endif /* LK_TEST_ODD_OP_H */
