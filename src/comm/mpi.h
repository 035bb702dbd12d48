/* The MPI of this process: its module, once it has been found. */
#ifndef LK_COMM_MPI_H
#define LK_COMM_MPI_H

#include "comm/mpi_module.h"

#include <lockstep/status.h>

/**
 * The module for the MPI that is loaded, or that started this process, or the first one there is.
 *
 * LK_MPI names one ("openmpi", "mpich") and LK_MPI_MODULES a folder with modules; otherwise they are
 * looked for beside the library: in mpi/, lockstep/mpi/ and ../lib/lockstep/mpi/, then where the
 * library was to be installed.
 *
 * Errors: LK_ENOTSUP, saying which were looked for and where.
 */
lk_status lk__mpi_module(const lk_mpi **out) LK_NODISCARD;

#endif /* LK_COMM_MPI_H */
