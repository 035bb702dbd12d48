/* Jobs as child processes.
 *
 * INT, TERM, HUP, USR1 and USR2 ask the job to stop: ranks save and end with status 75.  Launchers
 * treat these signals in their own ways (Open MPI's kills its ranks within a second of TERM, MPICH's
 * dies of USR2), but both pass USR1 on, so that is what they get.  One that comes before a rank is
 * ready for it is lost: so it comes again every second.  MPICH's loses more, and hangs, if it comes
 * while the ranks find each other: there it is held back at first.  A verb that has nothing to save
 * gets TERM.
 * A second INT ends the job at once.
 *
 * When this process dies, whatever the cause, the system ends the child, and the child its ranks.
 */
#include "launch_wait.h"

#include "launch_status.h"
#include "verb.h"

#include <lockstep/clock.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Those that ask the job to stop. */
static const int requests[] = {SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGHUP};

enum { N_REQUESTS = sizeof requests / sizeof requests[0] };

/* The signals to wait for; one that is ignored, as nohup does with HUP, stays so. */
static void signals_wanted(sigset_t *out)
{
    sigemptyset(out);
    sigaddset(out, SIGCHLD);
    for (int i = 0; i < N_REQUESTS; i++) {
        struct sigaction now;
        sigaction(requests[i], NULL, &now);
        if (requests[i] != SIGHUP || now.sa_handler != SIG_IGN)
            sigaddset(out, requests[i]);
    }
}

/* In the child: be its launcher, or go on as the job itself.  Signals are let in, as `before`, only
 * when they cannot kill it: the parent may have passed on a request already. */
static void child_begin(const job_spec *spec, pid_t parent, int status_fd, const sigset_t *before)
{
    const launcher *l = spec->launcher;
    prctl(PR_SET_PDEATHSIG, l ? SIGTERM : SIGKILL);
    if (getppid() != parent)
        _exit(LK_EXIT_FAILED);
    signal(SIGHUP, SIG_IGN); /* the parent passes it on as a request */
    for (int i = 0; i < N_REQUESTS && spec->saves && !l; i++)
        signal(requests[i], SIG_IGN); /* until the verb is ready for it */
    if (spec->saves)
        signal(SIGUSR1, SIG_IGN); /* until launcher and ranks are ready for it */
    sigprocmask(SIG_SETMASK, before, NULL);
    if (!l)
        return;
    /* Away from the terminal, whose Ctrl-C is for this command alone. */
    setpgid(0, 0);
    int nothing = open("/dev/null", O_RDONLY);
    if (nothing >= 0)
        dup2(nothing, STDIN_FILENO);
    if (spec->output > 0)
        dup2(spec->output, STDOUT_FILENO);
    launch_status_name(parent, status_fd);
    launcher_exec(l, spec->n, spec->argv);
    fprintf(stderr, "error: cannot start %s: %s\n", l->path, strerror(errno));
    _exit(LK_EXIT_FAILED);
}

static void end_at_once(const launcher *l, pid_t job)
{
    fprintf(stderr, "lockstep: ending the job at once\n");
    kill(job, l && strcmp(l->mpi, "openmpi") == 0 ? SIGTERM : SIGKILL);
}

/* Tell the job about a signal that this process got.  One of the terminal the local job has got
 * itself. */
static void request(const job_spec *spec, pid_t job, const siginfo_t *got)
{
    if (spec->launcher)
        kill(job, spec->saves ? SIGUSR1 : SIGTERM);
    else if (got->si_code != SI_KERNEL || got->si_signo == SIGHUP)
        kill(job, got->si_signo == SIGHUP ? SIGTERM : got->si_signo);
}

/* MPICH's launcher joins the statuses of its ranks bit by bit, and says 9 of one that was killed;
 * Open MPI's says 137. */
static int status_of(const launcher *l, int wait_status, int said, bool asked)
{
    int code = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
    if (code == LK_EXIT_DONE)
        code = said;
    if (code == LK_EXIT_DONE || code == LK_EXIT_FAILED || code == LK_EXIT_USAGE ||
        code == LK_EXIT_REQUEUE)
        return code;
    if (asked)
        fprintf(stderr, "lockstep: stopped, without a checkpoint\n");
    else if (code > 128)
        fprintf(stderr, "lockstep: %s was killed by signal %d\n", l ? "a rank" : "the job",
                code - 128);
    else
        fprintf(stderr, "lockstep: the job ended with status %d\n", code);
    return LK_EXIT_FAILED;
}

/* Whether a request must wait: ranks of MPICH may not have found each other yet. */
static bool is_early(const job_spec *spec, int64_t began)
{
    const int64_t start_ns = 1000000000;
    return spec->launcher && spec->saves && strcmp(spec->launcher->mpi, "mpich") == 0 &&
           lk_clock_ns() - began < start_ns;
}

/* Pass requests on until the job ends; returns how it did, as waitpid(). */
static int job_watch(const job_spec *spec, pid_t job, const sigset_t *wanted, bool *asked)
{
    const struct timespec second = {.tv_sec = 1}, soon = {.tv_nsec = 100000000};
    int64_t began = lk_clock_ns();
    int wait_status = 0;
    while (waitpid(job, &wait_status, WNOHANG) != job) {
        siginfo_t got;
        int sig = sigtimedwait(wanted, &got, *asked && is_early(spec, began) ? &soon : &second);
        if (sig == SIGINT && *asked)
            end_at_once(spec->launcher, job);
        else if (sig > 0 && sig != SIGCHLD && !is_early(spec, began))
            request(spec, job, &got);
        else if (sig < 0 && *asked && spec->saves && !is_early(spec, began))
            kill(job, SIGUSR1);
        *asked = *asked || (sig > 0 && sig != SIGCHLD);
    }
    return wait_status;
}

bool job_start(const job_spec *spec, job_end *end)
{
    sigset_t wanted, before;
    pid_t parent = getpid();
    int status_fd = spec->launcher ? launch_status_open() : -1;
    *end = (job_end){.status = LK_EXIT_FAILED};
    signals_wanted(&wanted);
    sigprocmask(SIG_BLOCK, &wanted, &before);
    fflush(NULL);
    pid_t job = fork();
    if (job == 0) {
        child_begin(spec, parent, status_fd, &before);
        return true;
    }
    if (job < 0)
        fprintf(stderr, "error: cannot start a process: %s\n", strerror(errno));
    int wait_status = job < 0 ? 0 : job_watch(spec, job, &wanted, &end->asked);
    int said = launch_status_take(status_fd);
    if (job > 0)
        end->status = status_of(spec->launcher, wait_status, said, end->asked);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return false;
}
