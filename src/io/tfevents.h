/* lk_tfevents from inside: how a resumed run goes on with its file, as the run's output does on rank 0; and
 * messages apart from the file and the clock, for tests.
 */
#ifndef LK_IO_TFEVENTS_H
#define LK_IO_TFEVENTS_H

#include "io/out.h"

#include <lockstep/io.h>

/** The event that begins a file. */
void lk__tfevents_version(lk__out *o, double time);

/** The event of some scalars at a step. */
void lk__tfevents_scalars(lk__out *o, double time, int64_t step, const lk_scalar *scalar,
                          int64_t n);

/** As lk_tfevents_open() with `append`, but go on behind at most `bytes` of what is there. */
lk_status lk__tfevents_open_at(const char *path, int64_t bytes, lk_tfevents **out) LK_NODISCARD;

/** Bytes of the file, with records that could not be written yet. */
int64_t lk__tfevents_bytes(const lk_tfevents *events);

/** Bring all records to disk. */
lk_status lk__tfevents_sync(lk_tfevents *events) LK_NODISCARD;

#endif /* LK_IO_TFEVENTS_H */
