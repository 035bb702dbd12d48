/* The abort hook: a fatal signal in this process is reported to all ranks, with what the rank was doing and where,
 * before it ends the process.
 *
 *     handler   writes who and where to the program's file
 *               -> the report of the end of the job, in the memory that the ranks of the node share; wakeups
 *               -> a moment for the others to take it: launchers end them as soon as this process ends
 *               -> the host's handler, or the signal's own end
 *     others    return the report from their call; the first of them tells the other nodes
 *
 * Signals belong to the process, so what is hooked is a list of all its worlds; which of them the thread is the
 * rank of is known by the thread's number.  The list is changed under a lock and read without one: a handler
 * must not wait.  Programs install it by rank, on its thread, or LK_ABORT_HOOK does for all; lk_comm_close()
 * of the last communicator takes it back.
 */
#include "base/env.h"
#include "comm/comm.h"
#include "comm/faults/crash.h"

#include <lockstep/extra/alloc.h>

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { STACK_BYTES = 128 << 10 };

/* In ns: for the other ranks to take the report, and for the thread that writes it, if two crash. */
static const int64_t moment = 100000000, longest_report = 2000000000;

/* What a world has of it. */
struct lk__abort_hook {
    lk__world *w;
    struct lk__abort_hook *_Atomic next;
    int fd; /* -1: nothing is written */
    pid_t process, thread;
    lk__host host;
    void *stack; /* of the handler on this thread; NULL: it has the host's */
};

static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
enum { N_SIGNALS = sizeof signals / sizeof signals[0] };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct lk__abort_hook *_Atomic hooks;
static struct sigaction before[N_SIGNALS]; /* the host's */
static _Atomic int reported;               /* 1: it is being written, 2: it is */

static pid_t thread_number(void)
{
    return (pid_t)syscall(SYS_gettid);
}

/* ---- the handler ---- */

static void nap(int64_t ns)
{
    int saved = errno;
    nanosleep(&(struct timespec){ns / 1000000000, ns % 1000000000}, NULL);
    errno = saved;
}

/* The rank that this thread is, or, of a process that is one rank, the rank that it works for. */
static struct lk__abort_hook *hook_of_thread(void)
{
    struct lk__abort_hook *first = atomic_load(&hooks), *own = NULL;
    pid_t thread = thread_number();
    for (struct lk__abort_hook *h = first; h && !own; h = atomic_load(&h->next))
        own = h->thread == thread ? h : NULL;
    bool one = first && !atomic_load(&first->next);
    return own ? own : one ? first : NULL;
}

/* `rank 1 of 4 on host "b", process 4711, ended by SIGSEGV at address 0x10 in allreduce("g") #3` */
static void put_event(lk__crash_text *t, const struct lk__abort_hook *h, int sig,
                      const siginfo_t *info)
{
    lk__crash_put(t, "rank ");
    lk__crash_put_int(t, h->w->rank);
    lk__crash_put(t, " of ");
    lk__crash_put_int(t, h->w->size);
    lk__crash_put(t, " on host \"");
    lk__crash_put(t, h->host.name);
    lk__crash_put(t, "\", process ");
    lk__crash_put_int(t, h->process);
    lk__crash_put(t, ", ended by ");
    lk__crash_put(t, lk__signal_name(sig));
    lk__crash_put_cause(t, sig, info);
    lk__crash_put_doing(t, h->w);
}

/* To the program's file: who, and all of where. */
static void event_print(const struct lk__abort_hook *own, int fd, int sig, const siginfo_t *info,
                        const lk__crash_frames *frames)
{
    lk__crash_text t = {.used = 0};
    lk__crash_put(&t, "lockstep: ");
    if (own) {
        put_event(&t, own, sig, info);
    } else {
        lk__crash_put(&t, "a thread that is no rank, ended by ");
        lk__crash_put(&t, lk__signal_name(sig));
        lk__crash_put_cause(&t, sig, info);
    }
    lk__crash_put(&t, ", with all ranks of its job\n");
    for (int i = 0; i < frames->n; i++) {
        lk__crash_put(&t, "  #");
        lk__crash_put_int(&t, i);
        lk__crash_put(&t, " ");
        lk__crash_put_address(&t, frames->at[i]);
        lk__crash_put(&t, "\n");
        if (t.used > LK_CRASH_TEXT / 2)
            lk__crash_write(&t, fd);
    }
    lk__crash_write(&t, fd);
}

/* To the ranks of a world. */
static void event_report(const struct lk__abort_hook *h, int sig, const siginfo_t *info,
                         void *place)
{
    lk__crash_text t = {.used = 0};
    put_event(&t, h, sig, info);
    lk__crash_put(&t, ", at ");
    lk__crash_put_address(&t, place);
    (void)!lk__fault_set(h->w->fault, LK_ECOMM, h->w->rank, t.at, false);
    for (int r = 0; r < h->w->size; r++)
        if (r != h->w->rank)
            lk__wakeup_notify(h->w->wakeup[r]);
}

static void report(int sig, const siginfo_t *info, const void *context)
{
    lk__crash_frames frames;
    struct lk__abort_hook *own = hook_of_thread(), *any = own ? own : atomic_load(&hooks);
    if (!any || any->process != getpid()) /* a child that fork() has made is no rank */
        return;
    lk__crash_walk(context, &frames);
    event_print(own, any->fd, sig, info, &frames);
    void *place = frames.at[frames.place];
    if (own)
        event_report(own, sig, info, place);
    bool others = false; /* processes, which go on */
    for (struct lk__abort_hook *h = atomic_load(&hooks); h; h = atomic_load(&h->next)) {
        if (h != own)
            event_report(h, sig, info, place); /* all worlds of this process end with it */
        others = others || (h->w->life && h->w->size > 1);
    }
    if (others)
        nap(moment);
}

/* What would have happened without the hook. */
static void pass_on(int sig, siginfo_t *info, void *context)
{
    int k = 0;
    while (signals[k] != sig)
        k++;
    sigaction(sig, &before[k], NULL);
    if (before[k].sa_flags & SA_SIGINFO)
        before[k].sa_sigaction(sig, info, context);
    else if (before[k].sa_handler != SIG_DFL)
        before[k].sa_handler(sig);
    else
        (void)raise(sig); /* when the handler returns */
}

static void on_signal(int sig, siginfo_t *info, void *context)
{
    int saved = errno, none = 0;
    if (atomic_compare_exchange_strong(&reported, &none, 1)) {
        report(sig, info, context);
        atomic_store(&reported, 2);
    } else { /* another thread has come first, and ends the process */
        for (int64_t ns = 0; atomic_load(&reported) == 1 && ns < longest_report; ns += moment)
            nap(moment);
    }
    pass_on(sig, info, context);
    errno = saved;
}

/* ---- installing ---- */

/* Whether it is ours: a host may have put its own over it since. */
static bool is_ours(const struct sigaction *action)
{
    return (action->sa_flags & SA_SIGINFO) && action->sa_sigaction == on_signal;
}

/* Signals that the host ignores stay so. */
static void signals_take(void)
{
    struct sigaction ours = {.sa_flags = SA_SIGINFO | SA_ONSTACK};
    ours.sa_sigaction = on_signal;
    sigemptyset(&ours.sa_mask);
    for (int i = 0; i < N_SIGNALS; i++)
        sigaddset(&ours.sa_mask, signals[i]);
    for (int i = 0; i < N_SIGNALS; i++) {
        struct sigaction now;
        sigaction(signals[i], NULL, &now);
        bool ignored = !(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_IGN;
        if (is_ours(&now) || ignored)
            continue;
        before[i] = now;
        sigaction(signals[i], &ours, NULL);
    }
}

static void signals_give_back(void)
{
    for (int i = 0; i < N_SIGNALS; i++) {
        struct sigaction now;
        sigaction(signals[i], NULL, &now);
        if (is_ours(&now))
            sigaction(signals[i], &before[i], NULL);
    }
}

/* A stack for the handler, unless the thread has one: its own may be what has overflowed. */
static void stack_give(struct lk__abort_hook *h)
{
    stack_t now, ours = {.ss_size = STACK_BYTES};
    if (sigaltstack(NULL, &now) != 0 || !(now.ss_flags & SS_DISABLE))
        return;
    void *at = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return;
    ours.ss_sp = at;
    if (sigaltstack(&ours, NULL) == 0)
        h->stack = at;
    else
        munmap(at, STACK_BYTES);
}

/* On another thread than that which has it, it stays: a signal there may still need it. */
static void stack_take(struct lk__abort_hook *h)
{
    stack_t now, none = {.ss_flags = SS_DISABLE};
    if (!h->stack || h->thread != thread_number())
        return;
    if (sigaltstack(NULL, &now) == 0 && now.ss_sp == h->stack)
        sigaltstack(&none, NULL);
    munmap(h->stack, STACK_BYTES);
}

lk_status lk__abort_hook_install(lk__world *w, int fd)
{
    struct lk__abort_hook *h = w->hook;
    if (h) {
        h->fd = fd;
        return LK_OK;
    }
    LK_TRY(lk_alloc_zero(&h, 1, sizeof *h));
    h->w = w;
    h->fd = fd;
    h->process = getpid();
    h->thread = thread_number();
    lk__world_host(w, &h->host);
    lk__crash_prepare();
    stack_give(h);
    pthread_mutex_lock(&lock);
    signals_take();
    atomic_store(&h->next, atomic_load(&hooks));
    atomic_store(&hooks, h);
    pthread_mutex_unlock(&lock);
    w->hook = h;
    return LK_OK;
}

void lk__abort_hook_remove(lk__world *w)
{
    struct lk__abort_hook *h = w->hook;
    if (!h)
        return;
    w->hook = NULL;
    pthread_mutex_lock(&lock);
    struct lk__abort_hook *_Atomic *at = &hooks;
    while (atomic_load(at) != h)
        at = &atomic_load(at)->next;
    atomic_store(at, atomic_load(&h->next));
    if (!atomic_load(&hooks))
        signals_give_back();
    pthread_mutex_unlock(&lock);
    stack_take(h);
    lk_free(h);
}

lk_status lk__abort_hook_default(lk__world *w)
{
    const char *env = lk__env("LK_ABORT_HOOK");
    bool set = env && *env;
    LK_CHECK(!set || strcmp(env, "0") == 0 || strcmp(env, "1") == 0, LK_EINVAL,
             "LK_ABORT_HOOK is \"%s\": it must be 0 or 1", env);
    if (set && *env == '1')
        LK_TRY(lk__abort_hook_install(w, STDERR_FILENO));
    return LK_OK;
}

lk_status lk_abort_hook_install(lk_comm *comm, FILE *errors)
{
    LK_CHECK(comm, LK_EINVAL, "comm is NULL");
    return LK_TRACE(lk__abort_hook_install(comm->w, errors ? fileno(errors) : -1));
}

void lk_abort_hook_remove(lk_comm *comm)
{
    if (comm)
        lk__abort_hook_remove(comm->w);
}
