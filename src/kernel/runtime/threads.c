/* How many threads: what was set, LK_THREADS, or this process's share of the node's cores.
 *
 *     share = min(cores in the affinity mask, cores of the node / ranks on the node),   at least 1
 *
 * The first is less where the launcher gave each rank cores of its own, the second where ranks have
 * the same mask, all of them or those of a socket.  The ranks on the node are what the launcher says
 * in the environment: one number (Open MPI, MPICH) or SLURM's list by node, where "4(x2),3" means 4,
 * 4 and 3; but not SLURM_NTASKS_PER_NODE, which a batch script has before anything is started.  The
 * cores of the node are those of process 1, which is not bound: the machine's, or the container's; no
 * more than SLURM gave to the job.
 *
 * A thread that is bound to a set of processors has one for each of these, and no share: it was told
 * which are its own.  What was set, or LK_THREADS, is then the most.
 */
#include "base/env.h"
#include "base/processors.h"
#include "base/text/digits.h"
#include "kernel/runtime/parallel.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

enum { UNDECIDED = 0, MAX_CPUS = 65536, MAX_NUMBER = 1000000 };
enum { GIVEN = 1 << 20 }; /* beside the number: it was set, or is that of LK_THREADS */

static _Atomic int current = UNDECIDED;

/* The number at the beginning of a text, at most MAX_NUMBER; 0 if there is none. */
static int number_at(const char *s)
{
    int64_t n;
    return s && lk__digits_read(&s, MAX_NUMBER, &n) ? (int)n : 0;
}

/* Entry `node` of a list such as "4(x2),3"; the last entry stands for all nodes behind it.  0 if
 * the list cannot be read. */
static int list_entry(const char *s, int node)
{
    int64_t tasks, repeat;
    for (;; s++) {
        if (!lk__repeated_read(&s, MAX_NUMBER, &tasks, &repeat) || (*s != ',' && *s != '\0'))
            return 0;
        if (node < repeat || *s == '\0')
            return (int)tasks;
        node -= (int)repeat;
    }
}

int lk__ranks_on_node(void)
{
    static const char *const launcher[] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS",
                                           "PMI_LOCAL_SIZE", "SLURM_STEP_TASKS_PER_NODE"};
    int node = number_at(lk__env("SLURM_NODEID"));
    for (size_t i = 0; i < sizeof launcher / sizeof launcher[0]; i++) {
        const char *env = lk__env(launcher[i]);
        int ranks = env ? list_entry(env, node) : 0;
        if (ranks > 0)
            return ranks;
    }
    return 1;
}

/* Cores in the affinity mask of a process, 0: the calling thread; 0 if that is not known. */
static int mask_count(pid_t pid)
{
    unsigned long mask[MAX_CPUS / (8 * sizeof(unsigned long))] = {0};
    if (sched_getaffinity(pid, sizeof mask, (cpu_set_t *)mask) != 0)
        return 0;
    int n = 0;
    for (size_t i = 0; i < sizeof mask / sizeof mask[0]; i++)
        n += __builtin_popcountl(mask[i]);
    return n;
}

int lk__cores(void)
{
    const lk__bound_set *bound = lk__thread_binding();
    int n = bound ? lk__processors_count(&bound->before) : mask_count(0);
    return n > 0 ? n : 1;
}

int lk__cores_of_node(void)
{
    int own = lk__cores(), all = mask_count(1), given = number_at(lk__env("SLURM_CPUS_ON_NODE"));
    if (all == 0)
        all = (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (all < own)
        all = own;
    return given > 0 && given < all ? given : all;
}

int lk__threads_share(int mask, int node, int ranks)
{
    int fair = node / ranks, share = mask < fair ? mask : fair;
    return share < 1 ? 1 : share > LK_MAX_THREADS ? LK_MAX_THREADS : share;
}

static lk_status decide(int *out)
{
    const char *env = lk__env("LK_THREADS");
    if (env && *env) {
        const char *end = env;
        int64_t n;
        bool good = lk__digits_read(&end, MAX_NUMBER, &n) && *end == '\0' && n >= 1 &&
                    n <= LK_MAX_THREADS;
        LK_CHECK(good, LK_EINVAL, "LK_THREADS is \"%s\": it must be a number from 1 to %d", env,
                 LK_MAX_THREADS);
        *out = (int)n | GIVEN;
        return LK_OK;
    }
    *out = lk__threads_share(lk__cores(), lk__cores_of_node(), lk__ranks_on_node());
    return LK_OK;
}

lk_status lk__threads_of(const lk__bound_set *bound, int *out)
{
    int n = atomic_load_explicit(&current, memory_order_relaxed);
    if (n == UNDECIDED) {
        int decided, undecided = UNDECIDED;
        LK_TRY(decide(&decided));
        /* A setting that arrived meanwhile stands. */
        n = atomic_compare_exchange_strong(&current, &undecided, decided) ? decided : undecided;
    }
    *out = n & (GIVEN - 1);
    if (bound) {
        int most = n & GIVEN ? *out : LK_MAX_THREADS;
        *out = bound->n < most ? bound->n : most;
    }
    return LK_OK;
}

lk_status lk_threads_now(int *out)
{
    return LK_TRACE(lk__threads_of(lk__thread_binding(), out));
}

lk_status lk__threads_leave_core(int ranks, bool *out)
{
    int threads;
    LK_TRY(lk_threads_now(&threads));
    *out = lk__threads_share(lk__cores(), lk__cores_of_node(), ranks) > threads;
    return LK_OK;
}

lk_status lk_threads_set(int n)
{
    LK_CHECK(n >= 0 && n <= LK_MAX_THREADS, LK_EINVAL,
             "cannot use %d threads: give 1 to %d, or 0 to decide anew", n, LK_MAX_THREADS);
    int setting = n > 0 ? n | GIVEN : UNDECIDED;
    if (atomic_exchange(&current, setting) != setting)
        lk_threads_stop();
    return LK_OK;
}
