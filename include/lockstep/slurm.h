/* SLURM: what it says of a job, and which of the job's processes is what.
 *
 * SLURM tells each process, a *task*, by variables of its environment:
 *
 *     SLURM_JOB_NODELIST      node[1-3,07-08],login     the hosts
 *     SLURM_TASKS_PER_NODE    1,3(x2),4(x3)             how many tasks each of them has: 1, 3, 3, 4, 4 and 4
 *     SLURM_PROCID            2                         which task this is
 *     SLURM_NPROCS            19                        how many there are
 *     SLURM_NNODES            6                         on how many hosts
 *
 * Ranks need none of this: srun and the MPI bring them together, see lk_comm_open().  It is for programs
 * whose processes find each other by host and port, as parameter servers and workers do, and for who wants
 * to know of a job what SLURM knows.
 *
 * Nothing of it is trusted: every number is checked before memory is taken, and errors name the variable,
 * its value, the column, and what was expected.  Nothing here is collective; any thread may call it.
 */
#ifndef LK_SLURM_H
#define LK_SLURM_H

#include <lockstep/device.h>
#include <lockstep/option.h>

LK_BEGIN_DECLS

/* The most that is read: hosts and tasks of a job, and bytes of a host's name with the terminating zero. */
enum { LK_SLURM_MAX_HOSTS = 65536, LK_SLURM_MAX_TASKS = 1048576, LK_SLURM_HOST = 256 };

/** The variables as texts. */
typedef struct lk_slurm_texts {
    const char *nodelist;       /* SLURM_JOB_NODELIST */
    const char *tasks_per_node; /* SLURM_TASKS_PER_NODE */
    const char *procid;         /* SLURM_PROCID */
    const char *nprocs;         /* SLURM_NPROCS */
    const char *nnodes;         /* SLURM_NNODES */
    const char *nodeid;         /* SLURM_NODEID, the host of this task; NULL: not compared */
} lk_slurm_texts;

/** A job: fields are to be read.  The program makes it by lk_slurm_job_new(), which is not collective; any
 * thread may read it. */
typedef struct lk_slurm_job {
    int n_hosts, n_tasks;
    int task;                /* which of them this is */
    const char *const *host; /* [n_hosts], in the order of the list */
    const int *tasks;        /* [n_hosts]: how many each has */
    lk_arena *arena;         /* where all this is */
} lk_slurm_job;

/**
 * Read a job from its variables: those of `texts`, or of the environment (NULL).
 *
 * Hosts are names and lists of them, as `scontrol show hostnames` takes them apart and in its order: in
 * brackets there are numbers and ranges, of which the first says how many digits all have at least
 * (`n[08-10]` is n08, n09, n10); there may be several brackets in a name, and something behind the last.
 * Of several the last changes fastest, then the first, then the second and so on.
 *
 * In the environment of a step on a part of the job's hosts the variables are of the step, but for
 * SLURM_JOB_NODELIST: where SLURM_STEP_NODELIST is set, it is read instead.  Tasks are numbered host by
 * host, as srun does unless it is told another --distribution; where SLURM_NODEID says that this task is
 * not on the host of its number, that is an error.
 *
 * The caller owns `*out`, which keeps nothing of the texts.
 *
 * Errors: LK_EINVAL when variables are missing, naming all of them; when one is no list or number of its
 * kind, or beyond the limits above; when a host is there twice; and when two do not agree, naming both.
 * LK_ENOMEM.
 */
LK_API lk_status lk_slurm_job_new(const lk_slurm_texts *texts, lk_slurm_job **out) LK_NODISCARD;

/** NULL is allowed. */
LK_API void lk_slurm_job_free(lk_slurm_job *job);

LK_END_DECLS

#endif /* LK_SLURM_H */
