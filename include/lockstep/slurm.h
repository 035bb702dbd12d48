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
 * whose processes find each other by host and port, as parameter servers and workers do, and for programs
 * that want to know of a job what SLURM knows.
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
 * host, as srun does unless given another --distribution; where SLURM_NODEID says that this task is
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

/* ---- parameter servers and workers ----
 *
 * Each task has an address: its host, and as task i of this host the port starting_port + i.  The first
 * task of each of the first hosts is a *parameter server*; all others are *workers*, numbered in the order
 * of the tasks, and worker 0 is the *chief*.  Of 2 hosts with 2 tasks each
 *
 *     task    0          1          2          3
 *     is      ps 0       worker 0   ps 1       worker 1
 *     at      n1:2222    n1:2223    n2:2222    n2:2223
 */

/** The options of keras_experiments' SlurmClusterParser; lk_slurm_cluster_descriptor describes the fields. */
typedef struct lk_slurm_cluster_options {
    int64_t num_param_servers; /* on so many hosts, if there are more; 0 and -1: on all */
    int64_t starting_port;
    const char *network; /* hosts are called HOST.NETWORK; NULL: HOST */
} lk_slurm_cluster_options;

/** The table of lk_slurm_cluster_options, with its defaults: on all hosts, from port 2222 on. */
LK_API extern const lk_descriptor lk_slurm_cluster_descriptor;

typedef enum lk_slurm_role { LK_SLURM_PS, LK_SLURM_WORKER } lk_slurm_role;

/** "ps" or "worker"; "?" for a value that is none. */
LK_API const char *lk_slurm_role_name(lk_slurm_role role);

/** What a task is. */
typedef struct lk_slurm_task {
    lk_slurm_role role;
    int number; /* among those of its role; worker 0 is the chief */
    int host;   /* number of its host */
    int local;  /* number among the tasks of its host */
    int port;
    int ps; /* number of its parameter server: the one on its host; 0 if there is none */
} lk_slurm_task;

/** The tasks of a job in their roles: fields are to be read.  The program makes it by
 * lk_slurm_cluster_new(), which is not collective; any thread may read it. */
typedef struct lk_slurm_cluster {
    int n_hosts, n_tasks, n_ps, n_workers;
    int own;                   /* which task this is */
    const char *const *host;   /* [n_hosts], with the network */
    const lk_slurm_task *task; /* [n_tasks] */
    const int *ps, *worker;    /* [n_ps], [n_workers]: which tasks they are */
    lk_arena *arena;           /* where all this is */
} lk_slurm_cluster;

/**
 * Give the tasks of a job their roles and addresses, with options as lk_options_parse() reads them, such as
 * "num_param_servers=1 starting_port=2300 network=ib.cluster"; NULL: all defaults.
 *
 * The caller owns `*out`, which keeps nothing of job and text.
 *
 * Errors: those of lk_options_parse(); LK_EINVAL when no task is left to be a worker, when ports end before
 * the tasks of a host do, naming it, and for a network that is no part of a host's name; LK_ENOMEM.
 */
LK_API lk_status lk_slurm_cluster_new(const lk_slurm_job *job, const char *options,
                                      lk_slurm_cluster **out) LK_NODISCARD;

/** As lk_slurm_cluster_new(), from a struct; NULL: all defaults. */
LK_API lk_status lk_slurm_cluster_new_options(const lk_slurm_job *job,
                                              const lk_slurm_cluster_options *options,
                                              lk_slurm_cluster **out) LK_NODISCARD;

/** NULL is allowed. */
LK_API void lk_slurm_cluster_free(lk_slurm_cluster *cluster);

/* Bytes of the longest address. */
enum { LK_SLURM_ADDRESS = 2 * LK_SLURM_HOST + 8 };

/** Write the address of a task, "n1.ib:2223", to `out`; returns `out`.  The task exists. */
LK_API const char *lk_slurm_address(const lk_slurm_cluster *cluster, int task,
                                    char out[LK_SLURM_ADDRESS]);

/**
 * The device of a task, of the `n` that its host has: a worker that is alone on its host has all of them, as
 * one; of several workers each has the one of its number among them; those behind the last device, like
 * parameter servers, have none of their own and share the processors of all.
 *
 * With `list` NULL and n 0 the list is lk_devices_available(): that of this host.
 *
 * Errors: LK_EINVAL for a task that does not exist, and without a device; LK_ENOTSUP for devices that are not
 * LK_DEVICE_CPU; those of lk_devices_available().
 */
LK_API lk_status lk_slurm_device(const lk_slurm_cluster *cluster, int task, const lk_device *list,
                                 int n, lk_device *out) LK_NODISCARD;

LK_END_DECLS

#endif /* LK_SLURM_H */
