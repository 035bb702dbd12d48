/* What computes a strip: the rows micro-kernel, or the one for depthwise convolution. */
#ifndef LK_KERNEL_CONV_RUN_H
#define LK_KERNEL_CONV_RUN_H

#include "kernel/conv/strip.h"

/** Blocks `first` ... `last` - 1 of a strip. */
void lk__conv_run_rows(const lk__conv_strip *s, const lk__conv_call *call, int64_t first,
                       int64_t last);
void lk__conv_run_depthwise(const lk__conv_strip *s, const lk__conv_call *call, int64_t first,
                            int64_t last);

#endif /* LK_KERNEL_CONV_RUN_H */
