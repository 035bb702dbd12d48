/* Requests to stop: INT, TERM, USR1 and USR2 to this process, or to the command that launched it. */
#ifndef LK_CLI_STOP_H
#define LK_CLI_STOP_H

#include <stdbool.h>

/**
 * From here on a request is remembered; before, a signal ends the process.
 *
 * For the process, whatever its ranks: before it has other threads.  A second INT (Ctrl-C) is not caught
 * any more and ends the process.  The others stay caught to its end: launchers repeat a request until then.
 */
void stop_listen(void);

/** Whether there was a request.  Any thread may ask. */
bool stop_asked(void);

#endif /* LK_CLI_STOP_H */
