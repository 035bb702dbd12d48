/* The module's second table: MPI's own collectives.  Compiled against each MPI, beside module.c. */
#include "comm/mpi/shared.h"
#include "comm/mpi_native.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

struct lk__mpi_group {
    MPI_Comm comm;
};

enum { BLOCK = 1 << 30, TAG = 1 };

static MPI_Datatype type_of(lk__mpi_type type)
{
    switch (type) {
    case LK_MPI_F32: return MPI_FLOAT;
    case LK_MPI_F64: return MPI_DOUBLE;
    case LK_MPI_I32: return MPI_INT32_T;
    case LK_MPI_I64: return MPI_INT64_T;
    default: return MPI_UINT8_T;
    }
}

static int native_world_rank(void)
{
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank;
}

static int native_group_make(int n, const int *world_rank, lk__mpi_group **out)
{
    LK_MPI_ALONE();
    MPI_Group all, some;
    lk__mpi_group *g = malloc(sizeof *g);
    *out = NULL;
    if (!g)
        return MPI_ERR_NO_MEM;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    int code = MPI_Group_incl(all, n, world_rank, &some);
    if (code == MPI_SUCCESS) {
        code = MPI_Comm_create_group(MPI_COMM_WORLD, some, TAG, &g->comm);
        MPI_Group_free(&some);
    }
    MPI_Group_free(&all);
    if (code != MPI_SUCCESS) {
        free(g);
        return code;
    }
    MPI_Comm_set_errhandler(g->comm, MPI_ERRORS_RETURN);
    *out = g;
    return 0;
}

static void native_group_free(lk__mpi_group *g)
{
    if (!g)
        return;
    LK_MPI_ALONE();
    MPI_Comm_free(&g->comm);
    free(g);
}

/* MPI 3 counts in int: in blocks. */
static int native_allreduce(lk__mpi_group *g, const void *in, void *out, int64_t count,
                            lk__mpi_type type)
{
    LK_MPI_ALONE();
    int size, code = MPI_SUCCESS;
    MPI_Type_size(type_of(type), &size);
    for (int64_t at = 0; at < count && code == MPI_SUCCESS; at += BLOCK) {
        int n = (int)(count - at < BLOCK ? count - at : BLOCK);
        char *to = (char *)out + at * size;
        const void *from = in ? (const char *)in + at * size : MPI_IN_PLACE;
        code = MPI_Allreduce(from, to, n, type_of(type), MPI_SUM, g->comm);
    }
    return code;
}

static int native_reduce_scatter(lk__mpi_group *g, const void *in, void *out, const int *counts,
                                 lk__mpi_type type)
{
    LK_MPI_ALONE();
    return MPI_Reduce_scatter(in, out, counts, type_of(type), MPI_SUM, g->comm);
}

static int native_allgather(lk__mpi_group *g, void *out, const int *counts, const int *offsets,
                            lk__mpi_type type)
{
    LK_MPI_ALONE();
    return MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, out, counts, offsets, type_of(type),
                          g->comm);
}

__attribute__((visibility("default"))) extern const lk__mpi_native lk__mpi_native_module;

const lk__mpi_native lk__mpi_native_module = {.interface = LK_NATIVE_INTERFACE,
                                              .world_rank = native_world_rank,
                                              .group_make = native_group_make,
                                              .group_free = native_group_free,
                                              .allreduce = native_allreduce,
                                              .reduce_scatter = native_reduce_scatter,
                                              .allgather = native_allgather,
                                              .error = lk__mpi_error};
