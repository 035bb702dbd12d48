/* Decisions that all ranks take alike. */
#ifndef LK_IO_AGREE_H
#define LK_IO_AGREE_H

#include <lockstep/comm.h>

/**
 * All ranks return LK_OK if all give it; otherwise the failure of the lowest rank that gives one,
 * with "rank R: " before its message.
 *
 * Collective; `comm` may be NULL.  The message is this thread's last one.  `name` is for reports.
 */
lk_status lk__agree(lk_comm *comm, lk_status st, const char *name) LK_NODISCARD;

#endif /* LK_IO_AGREE_H */
