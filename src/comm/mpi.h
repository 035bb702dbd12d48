/* The header of mpi_find.c: the MPI of this process, that is its module (mpi_module.h), and whether a launcher
 * of another MPI started the process.  The module is looked up once per process (pthread_once) by
 * lk__mpi_open() or lk_comm_from_mpi(), on any thread; the launcher test reads the environment at each call. */
#ifndef LK_COMM_MPI_H
#define LK_COMM_MPI_H

#include "comm/mpi_module.h"

#include <lockstep/status.h>

/**
 * The module for the MPI that is loaded, or that started this process, or the first one there is.
 *
 * LK_MPI names one ("openmpi", "mpich") and LK_MPI_MODULES a folder with modules; otherwise they are
 * looked for beside the library, or the program that it is linked into: in mpi/, lockstep/mpi/ and
 * ../lib/lockstep/mpi/ (as the installation names it), then where the library was to be installed.
 *
 * Errors: LK_ENOTSUP, saying which were looked for and where, or which one cannot be loaded and why.
 */
lk_status lk__mpi_module(const lk__mpi **out) LK_NODISCARD;

/* A launcher that is not of the MPI in use, or of none. */
typedef struct lk__mpi_other_launcher {
    int processes; /* that it started with this one; 0: there is no such launcher */
    int ours, theirs;
    bool srun; /* it is srun */
} lk__mpi_other_launcher;

/** Whether the launcher of another MPI started this process, or srun for no MPI, as the environment
 * says.  Before MPI_Init, which may change the environment; where the host has called that already, as of
 * lk_comm_from_mpi(), what it left counts. */
lk__mpi_other_launcher lk__mpi_other_launcher_find(const lk__mpi *m);

/** LK_ENOTSUP: says who started what, and what to do. */
lk_status lk__mpi_other_launcher_refuse(const lk__mpi_other_launcher *s) LK_NODISCARD;

#endif /* LK_COMM_MPI_H */
