/* What computes a pass: its strips as tasks of the pool, each by the rows micro-kernel, or by the one for
 * depthwise convolution.  lk_conv_forward() and lk_conv_backward_data() give the tasks to lk__parallel(). */
#ifndef LK_KERNEL_CONV_RUN_H
#define LK_KERNEL_CONV_RUN_H

#include "kernel/conv/strip.h"
#include "kernel/runtime/parallel.h"

/* A pass with packed weights and a call of it, cut into tasks: each is a part of the blocks of one strip. */
typedef struct lk__conv_strips {
    const lk__conv_pass *pass;
    const lk__conv_call *call;
    int64_t parts; /* into which a strip's blocks are cut */
    lk__tasks tasks;
} lk__conv_strips;

/** Cut a pass for the threads that there are; both arguments are borrowed.  Errors: as lk_threads_now(). */
lk_status lk__conv_strips_cut(const lk__conv_pass *pass, const lk__conv_call *call,
                              lk__conv_strips *out) LK_NODISCARD;

/** The tasks; `arg` is a lk__conv_strips. */
lk__task_fn lk__conv_strips_run;

/** Blocks `first` ... `last` - 1 of a strip. */
void lk__conv_run_rows(const lk__conv_strip *s, const lk__conv_call *call, int64_t first,
                       int64_t last);
void lk__conv_run_depthwise(const lk__conv_strip *s, const lk__conv_call *call, int64_t first,
                            int64_t last);

#endif /* LK_KERNEL_CONV_RUN_H */
