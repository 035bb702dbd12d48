/* Comparing two configurations of `lockstep verify`: the first step, then the layer and the tensor,
 * in which they differ.
 */
#ifndef LK_CLI_VERIFY_COMPARE_H
#define LK_CLI_VERIFY_COMPARE_H

#include "verify_train.h"

enum { VERIFY_TEXT = 768 };

/** The first difference between two traces. */
typedef struct verify_difference {
    bool found;
    int64_t step;       /* after how many steps, from 1 on */
    int64_t state_step; /* after how many the states do; 0: they never do */
    char text
        [VERIFY_TEXT]; /* "the loss is 1.25 and 1.5"; "": the states differ, and nothing before */
} verify_difference;

verify_difference verify_compare(const verify_trace *a, const verify_trace *b);

/** The first difference between two files of verify_snapshot_write(), in the order of layers: layer,
 * tensor, element and both values, or that there is none, in `text`.  Errors: LK_EIO, LK_ENOMEM, LK_ESTATE
 * unless both have the same tensors. */
lk_status verify_explain(const char *a, const char *b, char text[VERIFY_TEXT]) LK_NODISCARD;

#endif /* LK_CLI_VERIFY_COMPARE_H */
