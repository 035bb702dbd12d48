/* MPI's own collectives on the ranks of a communicator, by the second table of a module
 * (mpi_native.h): for `allreduce_mpi` and DDL.  They block. */
#include "comm/mpi_native.h"

#include "comm/comm.h"

#include <lockstep/extra/alloc.h>

#include <dlfcn.h>
#include <limits.h>
#include <string.h>

#pragma weak dlsym

struct lk__native {
    const lk__mpi_native *m;
    lk__world *w;
    lk__mpi_group *group;
    int size;
    int *counts, *offsets; /* [size] */
};

static lk_status native_check(const lk__mpi_native *m, int code, const char *what)
{
    if (code == 0)
        return LK_OK;
    char text[LK_MPI_TEXT];
    m->error(code, text);
    return LK_RAISE(LK_ECOMM, "%s: %.400s", what, text);
}

static lk_status type_of(lk_dtype dtype, lk__mpi_type *out)
{
    *out = LK_MPI_F32;
    switch (dtype) {
    case LK_F32: return LK_OK;
    case LK_F64: *out = LK_MPI_F64; return LK_OK;
    case LK_I32: *out = LK_MPI_I32; return LK_OK;
    case LK_I64: *out = LK_MPI_I64; return LK_OK;
    case LK_U8: *out = LK_MPI_U8; return LK_OK;
    default: return LK_RAISE(LK_EDTYPE, "MPI has no sum of %s", lk_dtype_name(dtype));
    }
}

lk_status lk__native_open(lk_comm *comm, lk__native **out)
{
    lk_status st;
    *out = NULL;
    LK_CHECK(
        strcmp(lk_comm_transport(comm), "mpi") == 0, LK_ENOTSUP,
        "MPI's own collectives need ranks that are MPI processes; these are of the transport %s",
        lk_comm_transport(comm));
    /* The transport has opened the module for all to see. */
    const lk__mpi_native *m = dlsym(RTLD_DEFAULT, LK_NATIVE_SYMBOL);
    LK_CHECK(m && m->interface == LK_NATIVE_INTERFACE, LK_ENOTSUP,
             "the module for MPI is of another build");
    lk__native *n = NULL;
    int *world = NULL;
    LK_TRY_COMM(comm->w, lk_alloc_zero(&n, 1, sizeof *n));
    n->m = m;
    n->w = comm->w;
    n->size = comm->size;
    st = lk_alloc(&world, comm->size, sizeof *world);
    if (st == LK_OK)
        st = lk_alloc(&n->counts, comm->size, sizeof *n->counts);
    if (st == LK_OK)
        st = lk_alloc(&n->offsets, comm->size, sizeof *n->offsets);
    if (st != LK_OK) {
        st = lk__fault_raise(comm->w);
        goto done;
    }
    int mine = m->world_rank();
    lk__call call = {
        .call = LK_CALL_SHARE, .name = "MPI", .dtype = LK_U8, .op = LK_N_REDUCE_OPS, .root = -1};
    LK_TRY_TO(done, lk__exchange(comm, &call, &mine, sizeof mine, world));
    LK_TRY_TO(done, native_check(m, m->group_make(comm->size, world, &n->group),
                                 "MPI_Comm_create_group"));
    *out = n;
done:
    lk_free(world);
    if (st != LK_OK)
        lk__native_free(n);
    return st;
}

void lk__native_free(lk__native *n)
{
    if (!n)
        return;
    if (atomic_load(&n->w->fault->state) == 0) /* else the others will not come to free it */
        n->m->group_free(n->group);
    lk_free(n->counts);
    lk_free(n->offsets);
    lk_free(n);
}

lk_status lk__native_allreduce(lk__native *n, const void *in, void *out, int64_t count,
                               lk_dtype dtype)
{
    lk__mpi_type type;
    LK_TRY(type_of(dtype, &type));
    return LK_TRACE(
        native_check(n->m, n->m->allreduce(n->group, in, out, count, type), "MPI_Allreduce"));
}

static lk_status counts_set(lk__native *n, const int64_t *counts)
{
    int64_t sum = 0;
    for (int r = 0; r < n->size; r++) {
        n->counts[r] = (int)counts[r];
        n->offsets[r] = (int)sum;
        sum += counts[r];
        LK_CHECK(sum <= INT_MAX, LK_EOVERFLOW, "MPI counts to %d elements", INT_MAX);
    }
    return LK_OK;
}

lk_status lk__native_reduce_scatter(lk__native *n, const void *in, void *out, const int64_t *counts,
                                    lk_dtype dtype)
{
    lk__mpi_type type;
    LK_TRY(type_of(dtype, &type));
    LK_TRY(counts_set(n, counts));
    int code = n->m->reduce_scatter(n->group, in, out, n->counts, type);
    return LK_TRACE(native_check(n->m, code, "MPI_Reduce_scatter"));
}

lk_status lk__native_allgather(lk__native *n, void *out, const int64_t *counts, lk_dtype dtype)
{
    lk__mpi_type type;
    LK_TRY(type_of(dtype, &type));
    LK_TRY(counts_set(n, counts));
    int code = n->m->allgather(n->group, out, n->counts, n->offsets, type);
    return LK_TRACE(native_check(n->m, code, "MPI_Allgatherv"));
}
