/* What the library asks the log besides <lockstep/log.h>: whether this rank is the one to log what
 * every rank would, and whether there is a sink at all.  Any thread. */
#ifndef LK_BASE_LOG_H
#define LK_BASE_LOG_H

#include <lockstep/log.h>

/** Whether this rank is the one to say what every rank would: rank 0, or one that is not known. */
bool lk__log_leads(void);

/** Whether the host has set a sink. */
bool lk__log_has_sink(void);

#endif /* LK_BASE_LOG_H */
