/* How a job says its status past its launcher: MPICH's forgets it at times, when ranks got a signal.
 *
 * The command that starts the job has a memfd for it, and tells its ranks where in LK_STATUS: a path of
 * /proc, which leads nowhere on other hosts.  There the launcher's word counts.
 */
#ifndef LK_CLI_LAUNCH_STATUS_H
#define LK_CLI_LAUNCH_STATUS_H

/** In the command: a file for the status of a job, -1: there is none. */
int launch_status_open(void);

/** In the child, before it becomes the launcher: name the file `fd` of process `parent`. */
void launch_status_name(int parent, int fd);

/** In a rank, at its end: leave a status other than 0 there. */
void launch_status_say(int status);

/** In the command: close the file; the status that a rank left, 0: none did. */
int launch_status_take(int fd);

#endif /* LK_CLI_LAUNCH_STATUS_H */
