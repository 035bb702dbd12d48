/* The start of a job, until its ranks have met: MPI_Init waits for ever for one that does not come. */
#ifndef LK_CLI_LAUNCH_START_H
#define LK_CLI_LAUNCH_START_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct launch_start {
    int mailbox, n;   /* the mailbox of the job, and its ranks */
    bool here;        /* all ranks are on this host */
    double seconds;   /* that may pass without a rank that comes; 0: any number */
    int64_t moved_ns; /* when one came last */
    int came;         /* ranks that have */
    bool met;         /* or have all ended */
} launch_start;

/**
 * The seconds for a start: what LK_START_DEADLINE says; or else LK_DEADLINE, but at least 10; or 120.
 * False after a message if the first is no number.
 */
bool launch_start_seconds(double *seconds);

void launch_start_begin(launch_start *s);

/** Look at the mailbox: who has come, and whether the ranks have met. */
void launch_start_look(launch_start *s);

/** Whether the ranks of this host have had their time.  Those of other hosts look at the clock
 * themselves, see launch_alarm_set(). */
bool launch_start_is_late(const launch_start *s, pid_t launcher);

/** Whether a job that was asked to stop at `since_ns` will not come so far: for seconds no rank came, or
 * one is stopped.  Of ranks on other hosts alone nobody knows. */
bool launch_start_is_stuck(const launch_start *s, pid_t launcher, int64_t since_ns);

/** Say who did not come. */
void launch_start_complain(const launch_start *s, pid_t launcher);

/** Before rank `rank` meets the others, if nobody watches it from outside, because it was started by mpirun or
 * srun, or on another host than `lockstep run`: it then ends by itself if they do not come.  False after a message if
 * LK_START_DEADLINE is no number. */
bool launch_alarm_set(int rank);

/** It has met them. */
void launch_alarm_clear(void);

#endif /* LK_CLI_LAUNCH_START_H */
