/* launch_folders: the folders of one job for what an MPI would leave behind if it were killed, and their
 * removal.  The command makes them before the launcher starts (wait.c).
 *
 * Open MPI keeps its files in a folder of temporary ones, and memory that its ranks share in /dev/shm;
 * both stay when launcher and ranks are killed.  So each job on this host has folders of its own, which
 * are removed after it.  If this command is killed as well, the next one removes them: a record in the
 * user's own folder names them, with the processes of the job, all of which must be gone.  Nothing that
 * no record names is ever removed.
 */
#ifndef LK_CLI_LAUNCH_HOME_H
#define LK_CLI_LAUNCH_HOME_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

typedef struct launch_folders {
    char files[PATH_MAX];  /* a folder for the launcher's files; "": there is none */
    char memory[PATH_MAX]; /* one for memory that ranks share; "": there is none */
} launch_folders;

/** Remove what killed jobs have left, and make the folders of a job. */
void launch_folders_make(launch_folders *out);

/** The names that they would have. */
void launch_folders_name(launch_folders *out);

/** The name of a file in the folder for the launcher's; false if there is no such folder. */
bool launch_folders_file(const launch_folders *h, const char *name, char out[PATH_MAX]);

/** Record a process of the job. */
void launch_folders_add(const launch_folders *h, pid_t pid);

/** Record all processes below the launcher. */
void launch_folders_add_tree(const launch_folders *h, pid_t launcher);

/**
 * The files in /dev/shm that a rank has mapped, as lines of a record, and how many characters that is.
 * MPICH has no option for where to keep its own; while a rank is in MPI_Init, it has no others.
 */
size_t launch_folders_segments(pid_t pid, char *out, size_t size);

/** Record such lines. */
void launch_folders_add_segments(const launch_folders *h, const char *lines);

/** Remove the folders, after the job's end. */
void launch_folders_remove(launch_folders *h);

#endif /* LK_CLI_LAUNCH_HOME_H */
