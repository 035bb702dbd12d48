/* What the transport `mpi` needs of an MPI: a table of functions in a module of its own.
 *
 * src/comm/mpi/module.c is the only file that includes <mpi.h>.  It is compiled once against each
 * MPI that is installed, into lockstep-mpi-NAME.so; the library opens the one that fits the launcher,
 * or the MPI that the host has loaded.  So one build runs under every MPI, and where there is none
 * nothing is missing but `mpi`.  A module calls nothing of Lockstep.
 *
 * Functions return 0, or MPI's error code; error() gives its text.  None blocks, except those that
 * say so.
 */
#ifndef LK_COMM_MPI_MODULE_H
#define LK_COMM_MPI_MODULE_H

#include <stdbool.h>
#include <stdint.h>

/* Raised when this file changes, so that a module of another build is not used. */
enum { LK_MPI_INTERFACE = 4, LK_MPI_TEXT = 512 };

/* Room for an MPI_Request. */
typedef union lk__mpi_request {
    void *p;
    int i;
} lk__mpi_request;

/* A communicator of ours: the dup of the host's. */
typedef struct lk__mpi_comm lk__mpi_comm;

/* A message: bytes, and the rank and tag at the other end. */
typedef struct lk__mpi_part {
    void *data;
    int64_t bytes;
    int rank; /* LK_MPI_ANY: from anybody */
    int tag;
} lk__mpi_part;

enum { LK_MPI_ANY = -1, LK_MPI_SOME = 64 };

typedef enum lk__mpi_handle { LK_MPI_INTRA, LK_MPI_INTER, LK_MPI_NO_COMM } lk__mpi_handle;

typedef enum lk__mpi_threads {
    LK_MPI_FUNNELED,
    LK_MPI_SERIALIZED,
    LK_MPI_MULTIPLE
} lk__mpi_threads;

typedef struct lk__mpi {
    int interface; /* LK_MPI_INTERFACE */
    const char *name;

    /* Whether MPI can be used now: initialised, and not finalized. */
    bool (*running)(void);
    bool (*finalized)(void);

    /* Both block.  `threads`: MPI_THREAD_SERIALIZED, otherwise MPI_THREAD_FUNNELED. */
    int (*init)(bool threads);
    int (*finalize)(void);

    /* What threads MPI was initialised for; from serialize() on, calls of this module never overlap. */
    lk__mpi_threads (*threads)(void);
    void (*serialize)(void);

    /* What a Fortran handle is. */
    lk__mpi_handle (*handle)(int fortran_handle);

    /* Dup MPI_COMM_WORLD (`world`) or the communicator of this Fortran handle; errors are returned
     * from then on.  Blocks. */
    int (*comm_dup)(bool world, int fortran_handle, lk__mpi_comm **out);
    void (*comm_free)(lk__mpi_comm *comm);
    void (*comm_place)(const lk__mpi_comm *comm, int *rank, int *size);

    /* node[r] for every rank: the lowest rank on its node, as shared memory tells.  Blocks. */
    int (*comm_nodes)(const lk__mpi_comm *comm, int *node);

    int (*isend)(const lk__mpi_comm *comm, const lk__mpi_part *part, lk__mpi_request *out);
    int (*irecv)(const lk__mpi_comm *comm, const lk__mpi_part *part, lk__mpi_request *out);
    int (*test)(lk__mpi_request *request, bool *done);

    /* The same for `n` of them, at most LK_MPI_SOME, in one look at what has come. */
    int (*test_some)(int n, lk__mpi_request *request, bool *done);

    /* Ask MPI to give up a receive: test() tells when its memory is no longer MPI's. */
    void (*cancel)(lk__mpi_request *request);

    void (*error)(int code, char text[LK_MPI_TEXT]);
} lk__mpi;

/* The symbol that a module defines. */
#define LK_MPI_SYMBOL "lk__mpi_module"

#endif /* LK_COMM_MPI_MODULE_H */
