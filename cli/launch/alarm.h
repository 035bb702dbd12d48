/* A rank that nobody watches from outside ends by itself if the others do not come: one that was
 * started by mpirun or srun, or on another host than `lockstep run`.
 */
#ifndef LK_CLI_LAUNCH_ALARM_H
#define LK_CLI_LAUNCH_ALARM_H

#include <stdbool.h>

/** Before rank `rank` meets the others.  False after a message if LK_START_DEADLINE is no number. */
bool launch_alarm_set(int rank);

/** It has met them. */
void launch_alarm_clear(void);

#endif /* LK_CLI_LAUNCH_ALARM_H */
