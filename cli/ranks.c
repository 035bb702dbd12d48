/* Opening the communicator that a verb runs on, as threads or processes, and which of its ranks
 * prints: see ranks.h. */
#include "ranks.h"

#include "launch/mailbox.h"
#include "launch/start.h"
#include "verb.h"

#include <lockstep/log.h>
#include <lockstep/thread.h>

#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static _Thread_local struct {
    lk_comm *lent;      /* by `lockstep run`; NULL: ranks are processes */
    lk_shm *shared;     /* where `spoken` lies, if ranks are processes */
    atomic_int *spoken; /* whether a rank has reported a failure; NULL: no other rank can know */
    int rank, size;     /* size 0: not opened yet */
    bool unopened;      /* they could not be opened: no rank knows what another says */
} here;

/* The rank that a launcher gave this process, 0 if that is no number; -1 if none started it.  srun
 * gives one for no MPI too: ranks_open() then says what is wrong.  A batch script has SLURM_PROCID as
 * well, but is no part of a step. */
int ranks_given(void)
{
    /* PMIX_RANK behind PMI_RANK: under SLURM it may be that of a helper of MPICH's mpirun. */
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK",
                                        "SLURM_PROCID"};
    const char *tasks = secure_getenv("SLURM_STEP_NUM_TASKS");
    size_t n = sizeof names / sizeof names[0] - (tasks && strtol(tasks, NULL, 10) > 1 ? 0 : 1);
    for (size_t i = 0; i < n; i++) {
        const char *value = secure_getenv(names[i]);
        if (value && *value) {
            long rank = strtol(value, NULL, 10);
            return rank > 0 && rank <= INT_MAX ? (int)rank : 0;
        }
    }
    return -1;
}

bool ranks_launched(void)
{
    return here.lent || ranks_given() >= 0;
}

bool ranks_are_threads(void)
{
    return here.lent != NULL;
}

/* A rank that crashes says which it was, and ends the others with that; unless LK_ABORT_HOOK says no. */
static lk_status crashes_report(lk_comm *comm)
{
    const char *env = secure_getenv("LK_ABORT_HOOK");
    if (!env || strcmp(env, "0") != 0)
        LK_TRY(lk_abort_hook_install(comm, stderr));
    return LK_OK;
}

/* ---- ranks as threads ---- */

struct threads {
    int (*fn)(void *arg);
    void *arg;
    atomic_int spoken;
    atomic_int failed; /* the status of the first rank that failed; the others fail because of it */
    atomic_int stopped; /* whether a rank stopped on request */
};

/* One rank.  A failure is the end of the others too. */
static lk_status rank_main(lk_comm *comm, void *arg)
{
    struct threads *t = arg;
    here.lent = comm;
    here.spoken = &t->spoken;
    here.rank = lk_comm_rank(comm);
    here.size = lk_comm_size(comm);
    LK_TRY(crashes_report(comm));
    int status = t->fn(t->arg), none = LK_EXIT_DONE;
    if (status == LK_EXIT_REQUEUE)
        atomic_store(&t->stopped, 1);
    if (status == LK_EXIT_DONE || status == LK_EXIT_REQUEUE)
        return LK_OK;
    atomic_compare_exchange_strong(&t->failed, &none, status);
    return LK_RAISE(LK_ECOMM, "the verb ended with status %d", status);
}

int ranks_run(int n, int (*fn)(void *arg), void *arg)
{
    struct threads t = {.fn = fn, .arg = arg};
    const char *env = secure_getenv("LK_THREADS");
    int cores = 1;
    if (!env || !*env) {
        if (lk_threads_now(&cores) != LK_OK ||
            lk_threads_set(cores / n > 0 ? cores / n : 1) != LK_OK)
            return verb_failed();
    }
    lk_status st = lk_run_local(n, rank_main, &t);
    if (atomic_load(&t.failed) != LK_EXIT_DONE)
        return atomic_load(&t.failed);
    if (st == LK_OK && atomic_load(&t.stopped))
        return LK_EXIT_REQUEUE;
    return st == LK_OK ? LK_EXIT_DONE : verb_failed_with(st, NULL);
}

/* ---- ranks as processes ---- */

/* Ranks of one node agree in shared memory on who reports a failure; where they cannot have any, each
 * does. */
static lk_status processes_join(lk_comm *comm)
{
    here.rank = lk_comm_rank(comm);
    here.size = lk_comm_size(comm);
    LK_TRY(lk_log_set_rank(here.size > 1 ? here.rank : 0, here.size > 1 ? here.size : 0));
    LK_TRY(crashes_report(comm));
    if (here.size == 1)
        return LK_OK;
    lk_status st = lk_shm_open(comm, (int64_t)sizeof(atomic_int), "reports", &here.shared);
    if (st == LK_ENOTSUP) {
        lk_error_clear();
        return LK_OK;
    }
    LK_TRY(st);
    here.spoken = lk_shm_data(here.shared, 0);
    return LK_OK;
}

/* Every rank says why, but the first one before the others: most launchers end all of them as soon
 * as it ends, so that it is said once. */
static int open_failed(lk_status st)
{
    if (ranks_given() > 0)
        nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    here.unopened = true;
    return verb_failed_with(st, NULL);
}

int ranks_open_on(const char *transport, lk_comm **out)
{
    *out = here.lent;
    if (here.lent && transport)
        return verb_refuse("option --transport: lockstep run has started the ranks already, as "
                           "threads");
    if (here.lent || (transport && strcmp(transport, "local") == 0))
        return LK_EXIT_DONE;
    bool alone = ranks_given() >= 0 && !launch_mailbox_is_there();
    if (alone && !launch_alarm_set(ranks_given()))
        return LK_EXIT_USAGE;
    lk_status st = lk_comm_open(transport, out);
    launch_alarm_clear();
    if (st != LK_OK)
        return open_failed(st);
    launch_mailbox_connected();
    return processes_join(*out) == LK_OK ? LK_EXIT_DONE : verb_failed();
}

int ranks_open(lk_comm **out)
{
    return ranks_open_on(NULL, out);
}

void ranks_close(lk_comm *comm)
{
    if (here.lent)
        return;
    here.spoken = NULL;
    lk_shm_close(here.shared);
    here.shared = NULL;
    lk_comm_close(comm);
}

bool ranks_is_root(void)
{
    return here.size > 0 ? here.rank == 0 : ranks_given() <= 0;
}

bool ranks_may_report_error(void)
{
    if (here.size == 0)
        return here.unopened || ranks_given() <= 0;
    return !here.spoken || atomic_exchange(here.spoken, 1) == 0;
}

void ranks_print_prefix(void)
{
    if (here.size > 1)
        fprintf(stderr, "[%d/%d] ", here.rank, here.size);
}
