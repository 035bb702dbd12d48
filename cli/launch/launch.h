/* Which MPI and which launcher (mpirun, srun, ...) start the ranks of a job as processes: found on
 * PATH. */
#ifndef LK_CLI_LAUNCH_H
#define LK_CLI_LAUNCH_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct launcher {
    const char *mpi;     /* "openmpi" or "mpich" */
    char path[PATH_MAX]; /* of its mpirun */
} launcher;

/** Find a program: in PATH, or where it is said to be if there is a slash in its name.  False, with
 * errno, if there is none that this user may run. */
bool program_find(const char *name, char out[PATH_MAX]);

/**
 * Find an MPI (`mpi` is "openmpi", "mpich", or "auto": what LK_MPI says, else either) that the library
 * has a module for, and its launcher in PATH.  False with the reason in `why`.
 */
bool launcher_find(const char *mpi, launcher *out, char *why, size_t size);

/**
 * The first of the words, NULL-terminated, that the launcher would read as its own wherever it stands;
 * NULL: there is none.  A colon begins another program, and Open MPI takes its parameters from anywhere.
 */
const char *launcher_own_word(const launcher *l, char *const *argv);

#endif /* LK_CLI_LAUNCH_H */
