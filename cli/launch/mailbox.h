/* What a job and the command that started it tell each other past MPI's launcher.
 *
 * Up goes how far each rank is, and the job's status: MPICH's launcher (seen with 4.0.2 of Debian 12)
 * forgets it at times, when ranks got a signal.  Down goes a request to stop: launchers lose signals, or hang, while they start their
 * ranks; a mailbox is found by a rank however late it is.
 *
 * The mailbox is a memfd of the command, which tells ranks where it is in LK_NOTE: a path of /proc, that
 * leads nowhere on other hosts.  There the launcher's word counts, and the signals that it passes on.
 */
#ifndef LK_CLI_LAUNCH_MAILBOX_H
#define LK_CLI_LAUNCH_MAILBOX_H

#include <stdbool.h>
#include <sys/types.h>

/** How far a rank is. */
typedef enum launch_stage {
    LAUNCH_UNSEEN, /* it did not start yet, or is on another host */
    LAUNCH_ARRIVED,
    LAUNCH_CONNECTED, /* to the others: MPI_Init has returned */
    LAUNCH_DONE       /* at its own end, with a status */
} launch_stage;

/** In the command: the file of a mailbox, -1: there is none. */
int launch_mailbox_open(void);

/** In the child, before it becomes the launcher: name the file `fd` of process `parent`, by which ranks
 * are known as well (tree.h). */
void launch_mailbox_name(int parent, int fd);

/** In the command: ask the ranks to stop. */
void launch_mailbox_request_stop(int fd);

/** In the command: whether a rank looks at what it is asked. */
bool launch_mailbox_is_read(int fd);

/** In the command: how far a rank is, and its process, 0 if it is unseen. */
launch_stage launch_mailbox_stage(int fd, int rank, pid_t *process);

/** In the command: the status of the first rank that failed or stopped, 0: none left one. */
int launch_mailbox_status(int fd);

/** In the command: close the file. */
void launch_mailbox_close(int fd);

/** In a rank, at its start: post that it has arrived.  `rank` -1: it does not know which it is. */
void launch_mailbox_arrive(int rank);

/** In a rank that has arrived: whether the command that started it watches. */
bool launch_mailbox_is_there(void);

/** In a rank, before it has other threads: begin to look at what it is asked. */
void launch_mailbox_read(void);

/** In a rank that does: whether it was asked to stop. */
bool launch_mailbox_stop_requested(void);

/** In a rank: post that it is connected to the others. */
void launch_mailbox_connected(void);

/** In a rank, at its end: leave its status there. */
void launch_mailbox_post_status(int status);

#endif /* LK_CLI_LAUNCH_MAILBOX_H */
