/* What the two tables of a module share: the text of an error, and one call of MPI at a time, once the
 * library has two threads that make them. */
#ifndef LK_COMM_MPI_SHARED_H
#define LK_COMM_MPI_SHARED_H

#include "comm/mpi_module.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

/** The text of an MPI's error code; in module.c. */
void lk__mpi_error(int code, char text[LK_MPI_TEXT]);

/* Both in module.c; the flag is raised before the second thread starts, and stays. */
extern pthread_mutex_t lk__mpi_lock;
extern _Atomic bool lk_mpi_serial;

static inline bool lk_mpi_enter(void)
{
    bool serial = atomic_load_explicit(&lk_mpi_serial, memory_order_relaxed);
    if (serial)
        pthread_mutex_lock(&lk__mpi_lock);
    return serial;
}

static inline void lk_mpi_leave(const bool *entered)
{
    if (*entered)
        pthread_mutex_unlock(&lk__mpi_lock);
}

/** Be alone in MPI from here to the end of the block. */
#define LK_MPI_ALONE() \
    __attribute__((cleanup(lk_mpi_leave), unused)) const bool alone_ = lk_mpi_enter()

#endif /* LK_COMM_MPI_SHARED_H */
