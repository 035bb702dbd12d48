/* The messages of event files, apart from the file and the clock, so that a test can see them. */
#ifndef LK_IO_EVENTS_H
#define LK_IO_EVENTS_H

#include "io/out.h"

#include <lockstep/io.h>

/** The event that begins a file. */
void lk__events_version(lk__out *o, double time);

/** The event of some scalars at a step. */
void lk__events_scalars(lk__out *o, double time, int64_t step, const lk_scalar *scalar, int64_t n);

#endif /* LK_IO_EVENTS_H */
