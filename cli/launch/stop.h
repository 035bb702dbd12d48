/* Requests to stop: INT, TERM, USR1 and USR2 to this process, or to the command that launched it.
 * Verbs that train ask between steps, on the main thread. */
#ifndef LK_CLI_STOP_H
#define LK_CLI_STOP_H

#include <stdbool.h>

/**
 * Install handlers: from now on INT, TERM, USR1 and USR2 set a flag; before, they end the process.
 *
 * `opening`: a launched rank that is about to look for the others.  TERM then still ends it: launchers
 * that give up end their ranks by it, which would wait for each other for ever.  Call it again after that.
 *
 * For the process, whatever its ranks: before it has other threads.  A second INT (Ctrl-C) is not caught
 * any more and ends the process.  The others stay caught to its end: launchers repeat a request until then.
 */
void stop_listen(bool opening);

/** Whether there was a request.  Any thread may ask. */
bool stop_asked(void);

#endif /* LK_CLI_STOP_H */
