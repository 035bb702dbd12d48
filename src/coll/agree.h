/* What ranks that fail together need besides lk_agree(): errors that all ranks have anyway, and memory
 * that all get or none.  For train, io and parallel.
 */
#ifndef LK_COLL_AGREE_H
#define LK_COLL_AGREE_H

#include <lockstep/comm.h>

#include <stdbool.h>

/** Whether a failure has ended the job: every rank gets it, and no call can tell them more. */
static inline bool lk__is_end(lk_status st)
{
    return st == LK_EMISMATCH || st == LK_ESTALL || st == LK_ECOMM;
}

/** LK_EINVAL on all ranks if the environment of one names an algorithm of a collective call that need
 * not give the canonical bits.  Collective; for training that promises them. */
lk_status lk__agree_bits(lk_comm *comm) LK_NODISCARD;

/** As lk_agree(), but all ranks get the failure of the lowest that failed, in its own words: for those
 * that name their rank. */
lk_status lk__agree_words(lk_comm *comm, lk_status st) LK_NODISCARD;

/** The same, whatever algorithms the environments of ranks name. */
lk_status lk__agree_first(lk_comm *comm, lk_status st) LK_NODISCARD;

/** Allocate `size` bytes of zeros at *out on every rank, or on none.  Collective. */
lk_status lk__agree_alloc(lk_comm *comm, void *out, size_t size) LK_NODISCARD;

#endif /* LK_COLL_AGREE_H */
