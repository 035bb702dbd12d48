/* struct lk_ddl: the interface of IBM's DDL (<lockstep/ddl.h>) over this library's collectives, and
 * what its files share.  One on each rank.
 *
 *     ddl.c             begin, end, broadcast
 *     options.c     the text of options
 *     allreduce.c   one tensor, or several in groups, along the tiers
 *     check.c       a second time, compared; the dump file
 *     tune.c        rates of the tiers; which way each goes
 *     watch.c       -dump_iter and -rebind_iter
 */
#ifndef LK_COLL_DDL_H
#define LK_COLL_DDL_H

#include "coll/tiers/tiers.h"
#include "comm/mpi_native.h"

#include <lockstep/ddl.h>
#include <lockstep/log.h>

#include <sched.h>

typedef struct lk__ddl_options {
    lk_tier_spec mode;
    int64_t dump_iter, rebind_iter;
    int dev_sync, dbg_level;
} lk__ddl_options;

/** Read "-mode b:4x3 -dump_iter 100".  Errors: LK_EINVAL, naming what is wrong. */
lk_status lk__ddl_options_parse(const char *text, lk__ddl_options *out) LK_NODISCARD;

enum { LK_DDL_CLASSES = 64, LK_DDL_TRIES = 3, LK_DDL_ROOMS = 2 * LK_MAX_STAGES };

/* Mode p: what was measured for vectors of 2^class bytes and more. */
typedef struct lk__ddl_class {
    int n_tried; /* calls */
    bool chosen;
    double best[LK_MAX_TIERS][2]; /* seconds, direct and halves */
    lk__way way[LK_MAX_TIERS];
} lk__ddl_class;

/* Memory that is kept from call to call. */
typedef struct lk__ddl_rooms {
    int n_used, n;
    void *block[LK_DDL_ROOMS];
    int64_t bytes[LK_DDL_ROOMS];
} lk__ddl_rooms;

struct lk_ddl {
    lk_comm *opened, *comm; /* ours to close; the dup that everything goes through */
    lk_topology *topology;
    lk__ddl_options options;
    lk_ddl_location place;
    cpu_set_t cores; /* of the device */
    lk__tiers tiers; /* sizes and rates */
    bool measured;   /* the rates are */
    lk__native *mpi, *line[LK_MAX_TIERS];
    int64_t group_size; /* elements */
    int64_t *counts;    /* [size] */
    lk__ddl_rooms rooms, group;
    lk__ddl_class probe[LK_DDL_CLASSES];
    lk_ddl_times times;
    int64_t left_ns;        /* when the last call ended */
    double inside, outside; /* seconds since the last look, in calls and between them */
    double tier[LK_MAX_TIERS];
    int64_t n_watched;     /* calls since then */
    int slow_rank, n_slow; /* who was the slowest, how often running */
    int n_rebound;
};

/** A block of at least `bytes`, the i-th of this call; kept for the i-th of the next. */
lk_status lk__ddl_room(void *rooms, int64_t bytes, void *out) LK_NODISCARD;
void lk__ddl_rooms_free(lk__ddl_rooms *rooms);

/** A line that an option asked for, to the log; where the host has no sink, rank 0 prints it. */
void lk__ddl_log(const lk_ddl *d, lk_log_level level, const char *fmt, ...) LK_PRINTF(3, 4);

/** MPI's collectives on all ranks, opened when first needed.  Collective. */
lk_status lk__ddl_mpi(lk_ddl *d, lk__native **out) LK_NODISCARD;

/** One vector, along the tiers or by MPI; checks nothing, counts nothing. */
lk_status lk__ddl_reduce(lk_ddl *d, const lk_collective *c, bool mpi) LK_NODISCARD;

/** Compare `c` (done; `given` was its input) with a reference; fails on all ranks or on none. */
lk_status lk__ddl_check(lk_ddl *d, const lk_collective *c, const void *given, bool mpi,
                        double tolerance) LK_NODISCARD;

/** Whether a value is right: the rule in ddl.h. */
bool lk__ddl_right(double ours, double reference, double tolerance);

/** Measure the rates of the tiers.  Collective; all ranks get the same. */
lk_status lk__ddl_measure(lk_ddl *d) LK_NODISCARD;

/** Let the ranks of a host share memory, unless the mode is a ring or MPI's.  Collective. */
lk_status lk__ddl_share(lk_ddl *d, const lk__coll_args *k) LK_NODISCARD;

/** The ways for this call, by mode. */
void lk__ddl_ways(lk_ddl *d, const lk__coll_args *k, lk__tiers *tiers);

/** Mode p, after a call: remember the seconds of its tiers; when all were tried, choose.  Collective. */
lk_status lk__ddl_learn(lk_ddl *d, const lk__coll_args *k, const double *seconds) LK_NODISCARD;

/** After a call: what -dump_iter and -rebind_iter ask for.  Collective. */
lk_status lk__ddl_watch(lk_ddl *d) LK_NODISCARD;

#endif /* LK_COLL_DDL_H */
