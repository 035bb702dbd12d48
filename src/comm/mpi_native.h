/* MPI's own collectives, for comparison: what a module gives beside the transport.
 *
 * src/comm/mpi/native.c is compiled into the same module as the transport.  It makes communicators
 * of its own, from ranks of MPI_COMM_WORLD, so their messages never meet those of the transport.
 * These calls block inside MPI: no header, no deadline, no report.
 */
#ifndef LK_COMM_MPI_NATIVE_H
#define LK_COMM_MPI_NATIVE_H

#include "comm/mpi_module.h"

#include <lockstep/comm.h>

/* ---- what the module defines ---- */

/* Raised when this part changes. */
enum { LK_NATIVE_INTERFACE = 1 };

typedef enum lk__mpi_type {
    LK_MPI_F32,
    LK_MPI_F64,
    LK_MPI_I32,
    LK_MPI_I64,
    LK_MPI_U8
} lk__mpi_type;

typedef struct lk__mpi_group lk__mpi_group;

/* Sums.  Functions return 0 or MPI's error code, as in mpi_module.h. */
typedef struct lk__mpi_native {
    int interface; /* LK_NATIVE_INTERFACE */
    int (*world_rank)(void);
    /* The communicator of `n` ranks of MPI_COMM_WORLD, collective over them. */
    int (*group_make)(int n, const int *world_rank, lk__mpi_group **out);
    void (*group_free)(lk__mpi_group *g);
    /* `in` NULL: in place. */
    int (*allreduce)(lk__mpi_group *g, const void *in, void *out, int64_t count, lk__mpi_type type);
    /* Part r of `in`, counts[r] elements, summed, to rank r. */
    int (*reduce_scatter)(lk__mpi_group *g, const void *in, void *out, const int *counts,
                          lk__mpi_type type);
    /* The parts to all, in place: each rank's own is there already. */
    int (*allgather)(lk__mpi_group *g, void *out, const int *counts, const int *offsets,
                     lk__mpi_type type);
    void (*error)(int code, char text[LK_MPI_TEXT]);
} lk__mpi_native;

#define LK_NATIVE_SYMBOL "lk__mpi_native_module"

/* ---- what the library makes of it ---- */

/** MPI's collectives on the ranks of a communicator. */
typedef struct lk__native lk__native;

/**
 * Collective.  The caller owns `*out`, and frees it before the communicator.
 *
 * Errors: LK_ENOTSUP when the ranks are no MPI processes; LK_ENOMEM, LK_ECOMM.
 */
lk_status lk__native_open(lk_comm *comm, lk__native **out) LK_NODISCARD;

/** NULL is allowed. */
void lk__native_free(lk__native *n);

/** MPI_Allreduce, sum.  `in` NULL: in place.  Errors: LK_EDTYPE, LK_ECOMM. */
lk_status lk__native_allreduce(lk__native *n, const void *in, void *out, int64_t count,
                               lk_dtype dtype) LK_NODISCARD;

/** MPI_Reduce_scatter, sum: counts [size].  Errors also LK_EOVERFLOW for more than 2^31 - 1. */
lk_status lk__native_reduce_scatter(lk__native *n, const void *in, void *out, const int64_t *counts,
                                    lk_dtype dtype) LK_NODISCARD;

/** MPI_Allgatherv in place. */
lk_status lk__native_allgather(lk__native *n, void *out, const int64_t *counts,
                               lk_dtype dtype) LK_NODISCARD;

#endif /* LK_COMM_MPI_NATIVE_H */
