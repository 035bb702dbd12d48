/* lk_allreduce(), lk_bcast() and the other short calls of coll.h: each fills in an lk_collective
 * and calls lk_coll_run(). */
#include <lockstep/coll.h>

/* One call: the arguments are the fields that are not zero. */
#define RUN(code, ...)                                                                            \
    do {                                                                                          \
        LK_TRY(lk_coll_run(comm,                                                                  \
                           &(lk_collective){.call = LK_CALL_##code, .name = name, __VA_ARGS__})); \
        return LK_OK;                                                                             \
    } while (0)

lk_status lk_barrier(lk_comm *comm, const char *name)
{
    RUN(BARRIER, .count = 0);
}

lk_status lk_bcast(lk_comm *comm, void *data, int64_t count, lk_dtype dtype, int root,
                   const char *name)
{
    RUN(BCAST, .out = data, .count = count, .dtype = dtype, .root = root);
}

lk_status lk_reduce(lk_comm *comm, const void *in, void *out, int64_t count, lk_dtype dtype,
                    lk_reduce_op op, int root, const char *name)
{
    RUN(REDUCE, .in = in, .out = out, .count = count, .dtype = dtype, .op = op, .root = root);
}

lk_status lk_allreduce(lk_comm *comm, const void *in, void *out, int64_t count, lk_dtype dtype,
                       lk_reduce_op op, const char *name)
{
    RUN(ALLREDUCE, .in = in, .out = out, .count = count, .dtype = dtype, .op = op);
}

lk_status lk_reduce_scatter(lk_comm *comm, const void *in, void *out, int64_t count, lk_dtype dtype,
                            lk_reduce_op op, const char *name)
{
    RUN(REDUCE_SCATTER, .in = in, .out = out, .count = count, .dtype = dtype, .op = op);
}

lk_status lk_gather(lk_comm *comm, const void *in, void *out, int64_t count, lk_dtype dtype,
                    int root, const char *name)
{
    RUN(GATHER, .in = in, .out = out, .count = count, .dtype = dtype, .root = root);
}

lk_status lk_allgather(lk_comm *comm, const void *in, void *out, int64_t count, lk_dtype dtype,
                       const char *name)
{
    RUN(ALLGATHER, .in = in, .out = out, .count = count, .dtype = dtype);
}

lk_status lk_scatter(lk_comm *comm, const void *in, void *out, int64_t count, lk_dtype dtype,
                     int root, const char *name)
{
    RUN(SCATTER, .in = in, .out = out, .count = count, .dtype = dtype, .root = root);
}

lk_status lk_alltoall(lk_comm *comm, const void *in, void *out, int64_t count, lk_dtype dtype,
                      const char *name)
{
    RUN(ALLTOALL, .in = in, .out = out, .count = count, .dtype = dtype);
}

lk_status lk_gatherv(lk_comm *comm, const void *in, void *out, const int64_t *counts,
                     lk_dtype dtype, int root, const char *name)
{
    RUN(GATHER, .in = in, .out = out, .counts = counts, .dtype = dtype, .root = root);
}

lk_status lk_allgatherv(lk_comm *comm, const void *in, void *out, const int64_t *counts,
                        lk_dtype dtype, const char *name)
{
    RUN(ALLGATHER, .in = in, .out = out, .counts = counts, .dtype = dtype);
}

lk_status lk_scatterv(lk_comm *comm, const void *in, void *out, const int64_t *counts,
                      lk_dtype dtype, int root, const char *name)
{
    RUN(SCATTER, .in = in, .out = out, .counts = counts, .dtype = dtype, .root = root);
}

lk_status lk_alltoallv(lk_comm *comm, const void *in, const int64_t *in_counts, void *out,
                       const int64_t *counts, lk_dtype dtype, const char *name)
{
    RUN(ALLTOALL, .in = in, .out = out, .counts = counts, .in_counts = in_counts, .dtype = dtype);
}

lk_status lk_neighbor_alltoall(lk_comm *comm, int n, const int *neighbours, const void *in,
                               void *out, int64_t count, lk_dtype dtype, const char *name)
{
    RUN(NEIGHBOUR, .in = in, .out = out, .count = count, .dtype = dtype, .neighbours = neighbours,
        .n_neighbours = n);
}
