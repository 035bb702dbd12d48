/* DDL's interface: broadcast and allreduce of tensors along tiers, as programs for IBM's Distributed
 * Deep Learning library expect them.
 *
 *     lk_ddl_init(NULL, 4, "-mode b:4x3 -dump_iter 100", &ddl);      4 devices on each host
 *     lk_ddl_bcast(ddl, &weights);                                   from rank 0
 *     lk_ddl_allreduce_n(ddl, n, gradients, &(lk_ddl_allreduce_options){.op = LK_REDUCE_AVG});
 *
 * A device is a set of cores here.  Nothing is global: several may be open at once.
 *
 * Options:
 *
 *     -mode MODE        the tiers and how they sum: docs/guide/topology.md; default b, tiers as found
 *     -dump_iter N      every N calls, rank 0 tells the slowest rank, the time from end to end, and of
 *                       each tier the time and the algorithm; 0: never, the default
 *     -dev_sync 0|1|2   1: a barrier before each allreduce, 2: before and after it; default 0
 *     -rebind_iter N    every N calls, look for the slowest rank; one that is it three times running,
 *                       by a fifth of the median or more, is bound to its cores; 0: never
 *     -dbg_level 0|1|2  1: tell what was set up, 2: tell of every call; default 0
 *
 * What -dump_iter and -dbg_level tell goes to the log (log.h), at level info, and debug for calls, whose
 * level they raise to that.  Where the host has set no sink, rank 0 prints it to stderr, a line each, as
 * DDL does: a program that gives these options asks for it.  Nothing else in the library prints; a host that
 * wants it elsewhere, or nowhere, sets a sink.
 */
#ifndef LK_DDL_H
#define LK_DDL_H

#include <lockstep/coll.h>
#include <lockstep/topology.h>

LK_BEGIN_DECLS

/** DDL on the ranks of a communicator.  Made by the program, on each rank; one thread at a time, as for a
 * communicator.  Collective, unless marked. */
typedef struct lk_ddl lk_ddl;

/**
 * Begin.  `comm` is dup'ed; NULL: the ranks of the job, as lk_comm_open(NULL) opens them, until
 * lk_ddl_free().  `devices` is how many sets the cores of a host are cut into; 0: one for each rank
 * on it.  `options` NULL: those of DDL_OPTIONS in the environment, none if it is not set.
 *
 * Collective.  The caller owns `*out`.
 *
 * Errors: LK_EINVAL for options, naming the wrong one, and for more ranks on a host than devices;
 * LK_ESHAPE for a mode that does not fit the ranks, showing both; LK_ENOTSUP for mode m where ranks
 * are no MPI processes; LK_ENOMEM and those of communication.
 */
LK_API lk_status lk_ddl_init(lk_comm *comm, int devices, const char *options,
                             lk_ddl **out) LK_NODISCARD;

/** End.  Collective in mode m and after calls that used MPI.  NULL is allowed. */
LK_API void lk_ddl_free(lk_ddl *ddl);

/** Who and where this rank is. */
typedef struct lk_ddl_location {
    int rank, size;
    int local_rank, local_size; /* among the ranks of its host */
    int device, n_devices;      /* of its host */
    char cores[56];             /* of the device, "0-3" */
} lk_ddl_location;

/** Not collective. */
LK_API lk_ddl_location lk_ddl_location_of(const lk_ddl *ddl);

/** The mode in use, with its dimensions.  Not collective. */
LK_API lk_tier_spec lk_ddl_mode(const lk_ddl *ddl);

typedef struct lk_ddl_tensor {
    const char *name; /* for reports; may be NULL */
    const void *in;   /* NULL, or `out`: in place */
    void *out;
    int64_t count;
    lk_dtype dtype;
} lk_ddl_tensor;

/** How to reduce.  All zero: the sum, along the tiers, unchecked. */
typedef struct lk_ddl_allreduce_options {
    lk_reduce_op op;  /* LK_REDUCE_SUM or LK_REDUCE_AVG */
    bool mpi;         /* by MPI_Allreduce, to compare with */
    bool check;       /* compute it a second time, and compare */
    double tolerance; /* of the check: see below */
} lk_ddl_allreduce_options;

/** Send `in` of rank 0, or its `out` where that is NULL, to the `out` of all, its own included; `in` of
 * the others is not read.  Collective.  Errors: as lk_bcast(). */
LK_API lk_status lk_ddl_bcast(lk_ddl *ddl, const lk_ddl_tensor *t) LK_NODISCARD;

/**
 * Sum or average a tensor over all ranks.
 *
 * Collective.  In canonical modes (b, n, c, p) the bits are those of lk_allreduce().
 *
 * **check**: the reference is computed by MPI_Allreduce; with tolerance 0, and where ranks are no MPI
 * processes, by the fixed tree of lk_allreduce(), so that tolerance 0 holds in canonical modes.  An
 * element is right when |ours - reference| <= tolerance |reference|; where the reference is 0, when
 * |ours| <= tolerance; where one is infinite, when both are alike.  A NaN is always wrong.  If an
 * element is wrong on any rank, rank 0 writes a file ddl.dump.XXXXXX into the working folder, which
 * names the tensor, the indices, and of every rank what it gave, what it got and the reference; and
 * all ranks fail.
 *
 * Errors: LK_EINVAL for an operator that is neither sum nor avg, a negative or infinite tolerance;
 * LK_EDTYPE; LK_ENOTSUP for `mpi` where ranks are no MPI processes; LK_ECOMM when a check fails,
 * naming the dump file; LK_ENOMEM and those of communication.
 */
LK_API lk_status lk_ddl_allreduce(lk_ddl *ddl, const lk_ddl_tensor *t,
                                  const lk_ddl_allreduce_options *how) LK_NODISCARD;

/**
 * The same for `n` tensors in one shot.  Small ones of one dtype that follow each other travel
 * together, up to DDL_GROUP_SIZE elements (1048576 without it, at least 200000).  The bits are the
 * same as one by one.  Counts as one call for -dump_iter and -rebind_iter.
 */
LK_API lk_status lk_ddl_allreduce_n(lk_ddl *ddl, int64_t n, const lk_ddl_tensor *t,
                                    const lk_ddl_allreduce_options *how) LK_NODISCARD;

/** Times of the last allreduce on this rank, in seconds. */
typedef struct lk_ddl_times {
    int64_t calls;
    double seconds;   /* from end to end */
    double predicted; /* by the cost model, from latency and bandwidth measured at the start; 0 if
                         they were not: modes n, r, m, c without -dump_iter */
    int n_tiers;
    struct {
        int size;
        const char *algorithm; /* "direct", "halves", "ring", "mpi"; static */
        double seconds, predicted;
    } tier[LK_MAX_TIERS];
} lk_ddl_times;

/** Not collective. */
LK_API lk_ddl_times lk_ddl_times_of(const lk_ddl *ddl);

LK_END_DECLS

#endif /* LK_DDL_H */
