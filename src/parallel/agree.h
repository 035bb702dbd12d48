/* What all ranks know by themselves. */
#ifndef LK_PARALLEL_AGREE_H
#define LK_PARALLEL_AGREE_H

#include <lockstep/status.h>

#include <stdbool.h>

/** Whether a failure has ended the job: every rank gets it, and no call can tell them more. */
static inline bool lk__is_end(lk_status st)
{
    return st == LK_EMISMATCH || st == LK_ESTALL || st == LK_ECOMM;
}

#endif /* LK_PARALLEL_AGREE_H */
