/* One rank's part of the instruction SEGMENTS. */
#ifndef LK_TEST_SEGMENTS_H
#define LK_TEST_SEGMENTS_H

#include "programs.h"

/* What a segment reads; lives until backward has passed. */
struct program_segment {
    const struct program *p;
    const struct instruction *n;
    lk_tape *tape;
    lk_comm *comm; /* the world */
    lk_var x;
    int64_t tag;
    bool last; /* it communicates; others have one more inside */
};

/* Run the segments of this rank; `g` is the first of two, of which it fills in the second. */
lk_status program_segment_run(struct program_segment *g, lk_var *out) LK_NODISCARD;

#endif /* LK_TEST_SEGMENTS_H */
