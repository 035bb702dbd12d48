/* launch_start: the start of a job, watched by the command until all its ranks are connected: MPI_Init would
 * wait for ever for one that does not start.  wait.c has one and updates it between waits. */
#ifndef LK_CLI_LAUNCH_START_H
#define LK_CLI_LAUNCH_START_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct launch_start {
    int mailbox, n;   /* the mailbox of the job, and its ranks */
    bool here;        /* all ranks are on this host */
    double seconds;   /* that may pass without another rank that arrives; 0: any number */
    int64_t moved_ns; /* when one arrived last */
    int arrived;      /* how many ranks */
    bool connected;   /* all of them, or all have ended */
} launch_start;

/**
 * The seconds for a start: what LK_START_DEADLINE says; or else LK_DEADLINE, but at least 10; or 120.
 * False after a message if the first is no number.
 */
bool launch_start_seconds(double *seconds);

void launch_start_begin(launch_start *s);

/** Read the mailbox: how many ranks have arrived, and whether they are connected. */
void launch_start_update(launch_start *s);

/** Whether the ranks of this host have had their time.  Those of other hosts look at the clock
 * themselves, see launch_alarm_set(). */
bool launch_start_is_late(const launch_start *s, pid_t launcher);

/** Whether a job that was asked to stop at `since_ns` will not come so far: for seconds no rank came, or
 * one is stopped.  Of ranks on other hosts alone it is not known. */
bool launch_start_is_stuck(const launch_start *s, pid_t launcher, int64_t since_ns);

/** Say who did not come. */
void launch_start_complain(const launch_start *s, pid_t launcher);

/** Before rank `rank` meets the others, if no launcher of ours watches it, because it was started by mpirun or
 * srun, or on another host than `lockstep run`: it then ends by itself if they do not come.  False after a message if
 * LK_START_DEADLINE is no number. */
bool launch_alarm_set(int rank);

/** It has met them. */
void launch_alarm_clear(void);

#endif /* LK_CLI_LAUNCH_START_H */
