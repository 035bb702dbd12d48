/* A strip: positions of C with the same valid taps, as offsets into A and C. */
#ifndef LK_KERNEL_CONV_STRIP_H
#define LK_KERNEL_CONV_STRIP_H

#include "kernel/conv/pass.h"

typedef struct lk__conv_strip {
    const lk__conv_pass *pass;
    const lk__conv_class *axis_class[LK_CONV_AXES];
    int64_t n_taps;        /* valid ones */
    int64_t sample, group; /* offsets are from this sample's and group's first element */
    int64_t n;
    int64_t a_off[LK_CONV_STRIP], c_off[LK_CONV_STRIP];
} lk__conv_strip;

/** A valid tap of a strip. */
typedef struct lk__conv_tap {
    int64_t a;     /* elements of A from the first valid tap */
    int64_t place; /* among all taps, in the order of the axes */
} lk__conv_tap;

/** Strips of the whole pass. */
int64_t lk__conv_strip_count(const lk__conv_pass *pass);

/** Strip i of the pass.  It may be empty. */
void lk__conv_strip_make(const lk__conv_pass *pass, int64_t i, lk__conv_strip *out);

/** Valid tap i in the order of the chain. */
lk__conv_tap lk__conv_strip_tap(const lk__conv_strip *s, int64_t i);

#endif /* LK_KERNEL_CONV_STRIP_H */
