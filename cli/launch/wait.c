/* Jobs as child processes.
 *
 * INT, TERM, HUP, USR1 and USR2 ask the job to stop: ranks save and end with status 75.  Ranks that are
 * threads get USR1.  Launchers treat signals in their own ways (Open MPI's kills its ranks within a
 * second of TERM, MPICH's dies of USR2), and while they start ranks they lose them, or hang: so ranks
 * find the request in a mailbox.  Those of other hosts cannot: as long as no rank reads the mailbox, the
 * launcher gets USR1, which both pass on, after a second and again every second.  A verb that has
 * nothing to save gets TERM. A second INT ends the job at once, and so is a launcher ended that does
 * not notice that its ranks have, and a job whose ranks do not meet.  What a launcher does not end in
 * seconds is killed, process by process, and with it ranks that are stopped.
 *
 * A program of somebody else knows nothing of the mailbox: USR1 and USR2 are passed on to its launcher and
 * mean what they mean to it, the others end it by TERM, and when its ranks have met is not known.
 *
 * When this process dies, whatever the cause, the system ends the child.  A launcher then ends its
 * ranks, or they find that it is gone.
 */
#include "launch/wait.h"

#include "launch/line.h"
#include "launch/mailbox.h"
#include "launch/start.h"
#include "launch/status.h"
#include "launch/stop.h"
#include "launch/tree.h"
#include "verb.h"

#include <lockstep/extra/clock.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
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

/* The signal that ends a job with all its ranks.  Open MPI's launcher must end them itself; that of MPICH
 * hangs if TERM comes while it starts, and ranks find that it is gone. */
static int ending(const launcher *l)
{
    return l && strcmp(l->mpi, "openmpi") == 0 ? SIGTERM : SIGKILL;
}

/* In the child: be its launcher, or go on as the job itself.  Signals are let in only when they cannot
 * kill a job that saves: the parent may have passed on a request already. */
static void child_begin(const job_spec *spec, const launch_line *line, pid_t parent, int mailbox,
                        const sigset_t *wanted)
{
    const launcher *l = spec->launcher;
    prctl(PR_SET_PDEATHSIG, ending(l));
    if (getppid() != parent)
        _exit(LK_EXIT_FAILED);
    signal(SIGHUP, SIG_IGN); /* the parent passes it on as a request */
    if (l && (spec->saves || spec->program))
        signal(SIGUSR1, SIG_IGN); /* until the launcher is ready for it */
    else if (spec->saves)
        stop_listen(false);
    sigprocmask(SIG_UNBLOCK, wanted, NULL);
    if (!l)
        return;
    /* Away from the terminal, whose Ctrl-C is for this command alone. */
    setpgid(0, 0);
    int nothing = open("/dev/null", O_RDONLY);
    if (nothing >= 0)
        dup2(nothing, STDIN_FILENO);
    if (spec->output > 0)
        dup2(spec->output, STDOUT_FILENO);
    launch_mailbox_name(parent, mailbox);
    unsetenv("OMPI_COMM_WORLD_RANK"); /* of another job, that this one is in */
    unsetenv("PMI_RANK");
    launch_line_exec(line);
    fprintf(stderr, "error: cannot start %s: %s\n", l->path, strerror(errno));
    _exit(LK_EXIT_FAILED);
}

/* A job that is watched. */
struct watch {
    const job_spec *spec;
    pid_t job;
    launch_start start;
    const launch_folders *folders;
    int recorded;         /* ranks that are recorded in `folders` */
    int looks;            /* at the memory of ranks that are still to be made */
    bool asked;           /* to stop */
    int64_t asked_ns;     /* when */
    int64_t requested_ns; /* when the job was asked, by request() or by a signal after that */
    int64_t ending_ns;    /* when its end began; 0: it did not */
    int64_t start_ns;     /* of the job */
    int hung_seconds;
    bool given_up; /* its end was decided here */
};

/* End the job, with no more ado. */
static void job_finish(struct watch *w)
{
    kill(w->job, ending(w->spec->launcher));
    if (w->ending_ns == 0)
        w->ending_ns = lk_clock_ns();
}

/* Tell the job that it is to stop. */
static void request(struct watch *w)
{
    if (!w->spec->saves)
        kill(w->job, SIGTERM);
    else if (w->spec->launcher)
        launch_mailbox_request_stop(w->start.mailbox);
    else
        kill(w->job, SIGUSR1);
    w->requested_ns = lk_clock_ns();
    w->asked_ns = w->asked ? w->asked_ns : w->requested_ns;
    w->asked = true;
}

/* USR1 or USR2 for somebody else's program.  The second would be the end of MPICH's launcher. */
static void pass_on(const struct watch *w, const launcher *l, int sig)
{
    if (sig == SIGUSR1 || strcmp(l->mpi, "openmpi") == 0)
        kill(w->job, sig);
    else
        fprintf(stderr, "lockstep: USR2 is not passed on: %s would end\n", l->path);
}

/* Once a second: end a launcher that has not noticed for a while that its ranks have ended. */
static void hung_end(struct watch *w)
{
    enum { PATIENCE = 5 };
    w->hung_seconds = tree_is_hung(w->job) ? w->hung_seconds + 1 : 0;
    if (w->hung_seconds != PATIENCE)
        return;
    fprintf(stderr, "lockstep: all ranks have ended, but %s does not notice: ending it\n",
            w->spec->launcher->path);
    kill(w->job, SIGKILL);
}

/* Whether a job that was asked to stop does not: its ranks do not connect, or have nothing to save and stay
 * all the same. */
static bool is_obstinate(const struct watch *w)
{
    const int64_t patience = 5000000000;
    if (!w->asked)
        return false;
    return launch_start_is_stuck(&w->start, w->job, w->asked_ns) ||
           (!w->spec->saves && lk_clock_ns() - w->asked_ns >= patience);
}

/* Record the processes of the job when a rank has come, and for some seconds what ranks have of the MPI
 * while they are in MPI_Init: behind it, it may be theirs. */
static void job_record(struct watch *w)
{
    enum { LOOKS = 3, TEXT = 8192 };
    char lines[TEXT];
    pid_t pid;
    bool may_be_new = w->spec->program && w->recorded < LOOKS; /* its ranks do not say so */
    if (w->start.arrived > w->recorded || may_be_new) {
        launch_folders_add_tree(w->folders, w->job);
        w->recorded = may_be_new ? w->recorded + 1 : w->start.arrived;
        w->looks = LOOKS;
    }
    if (w->looks == 0 || !w->folders->files[0])
        return;
    w->looks--;
    for (int r = 0; r < w->start.n; r++)
        if (launch_mailbox_stage(w->start.mailbox, r, &pid) == LAUNCH_ARRIVED &&
            launch_folders_segments(pid, lines, sizeof lines) > 0 &&
            launch_mailbox_stage(w->start.mailbox, r, &pid) == LAUNCH_ARRIVED)
            launch_folders_add_segments(w->folders, lines);
}

/* Ranks alone: their launcher would wake those that are stopped; it cleans up when they have gone. */
static void give_up(struct watch *w)
{
    w->given_up = true;
    w->ending_ns = lk_clock_ns();
    w->looks = 1;
    job_record(w);
    tree_kill_ranks(w->job);
}

/* End a job whose ranks do not connect or do not stop; and if its launcher cannot, end its processes. */
static void start_watch(struct watch *w)
{
    const int64_t patience = 3000000000;
    launch_start_update(&w->start);
    job_record(w);
    if (w->ending_ns == 0 && launch_start_is_late(&w->start, w->job)) {
        launch_start_complain(&w->start, w->job);
        give_up(w);
    } else if (w->ending_ns == 0 && w->spec->seconds > 0 &&
               1e-9 * (double)(lk_clock_ns() - w->start_ns) >= w->spec->seconds) {
        give_up(w);
        job_finish(w);
    } else if (w->ending_ns == 0 && is_obstinate(w)) {
        fprintf(stderr, "lockstep: the ranks %s: ending the job\n",
                w->start.connected ? "do not end" : "have not met");
        give_up(w);
    }
    if (w->ending_ns > 0 && lk_clock_ns() - w->ending_ns >= patience)
        tree_kill(w->job);
}

/* Pass requests on until the job ends; returns how it did, as waitpid(). */
static int job_watch(struct watch *w, const sigset_t *wanted)
{
    const int64_t second = 1000000000;
    const job_spec *spec = w->spec;
    int wait_status = 0;
    while (waitpid(w->job, &wait_status, WNOHANG) != w->job) {
        int sig = sigtimedwait(wanted, NULL, &(struct timespec){.tv_sec = 1});
        if (sig == SIGINT && w->asked) {
            fprintf(stderr, "lockstep: ending the job at once\n");
            job_finish(w);
        } else if (spec->launcher && spec->program && (sig == SIGUSR1 || sig == SIGUSR2)) {
            pass_on(w, spec->launcher, sig);
        } else if (sig > 0 && sig != SIGCHLD && (!w->asked || !spec->saves)) {
            request(w);
        } else if (w->asked && spec->saves && spec->launcher &&
                   !launch_mailbox_is_read(w->start.mailbox) &&
                   lk_clock_ns() - w->requested_ns >= second) {
            kill(w->job, SIGUSR1);
            w->requested_ns = lk_clock_ns();
        }
        if (sig < 0 && spec->launcher)
            hung_end(w);
        if (spec->launcher)
            start_watch(w);
    }
    if (spec->launcher)
        tree_kill_ranks(w->job);
    return wait_status;
}

/* The launcher's line; false after a message.  What the launcher would read as its own is refused. */
static bool line_make(const job_spec *spec, const launch_folders *folders, launch_line *line,
                      int *status)
{
    const launcher *l = spec->launcher;
    const char *word = launcher_own_word(l, spec->argv);
    if (word) {
        fprintf(
            stderr,
            "error: \"%s\" would be a word for %s, not for %s: leave it out; a file of that name "
            "is ./%s\n",
            word, l->path, spec->program ? spec->program : "lockstep", word);
        *status = LK_EXIT_USAGE;
        return false;
    }
    const rankfile *ranks = spec->place ? spec->place->ranks : NULL;
    if (ranks && !folders->files[0]) {
        fprintf(stderr, "error: there is no folder for the rank file\n");
        return false;
    }
    if (!launch_line_make(spec, folders, line)) {
        fprintf(stderr, "error: cannot start %s: %s\n", l->path, strerror(errno));
        return false;
    }
    if (!spec->dry_run && !launch_line_write(line, ranks)) {
        fprintf(stderr, "error: cannot write the rank file %s: %s\n", line->rankfile,
                strerror(errno));
        return false;
    }
    if (spec->dry_run || spec->verbose)
        launch_line_print(line, ranks, spec->dry_run ? stdout : stderr);
    return true;
}

/* Start the job and wait for its end; true in a child that is to do the work itself. */
static bool job_fork(const job_spec *spec, const launch_folders *folders, const launch_line *line,
                     job_end *end)
{
    sigset_t wanted;
    pid_t parent = getpid();
    struct watch w = {.spec = spec, .folders = folders, .start_ns = lk_clock_ns()};
    w.start = (launch_start){
        .mailbox = -1, .n = spec->n, .here = line->here, .connected = spec->program != NULL};
    if (spec->launcher) {
        if (!launch_start_seconds(&w.start.seconds)) {
            end->status = LK_EXIT_USAGE;
            return false;
        }
        w.start.mailbox = launch_mailbox_open();
        prctl(PR_SET_CHILD_SUBREAPER, 1); /* ranks that outlive their launcher are found here */
    }
    signals_wanted(&wanted);
    sigprocmask(SIG_BLOCK, &wanted, NULL);
    fflush(NULL);
    launch_start_begin(&w.start);
    w.job = fork();
    if (w.job == 0) {
        child_begin(spec, line, parent, w.start.mailbox, &wanted);
        return true;
    }
    if (w.job < 0) {
        fprintf(stderr, "error: cannot start a process: %s\n", strerror(errno));
    } else {
        launch_folders_add(folders, w.job);
        int wait_status = job_watch(&w, &wanted);
        end->asked = w.asked;
        end->status = w.given_up ? LK_EXIT_FAILED
                                 : launch_status(spec, wait_status, w.start.mailbox, w.asked);
    }
    launch_mailbox_close(w.start.mailbox);
    return false;
}

bool job_start(const job_spec *spec, job_end *end)
{
    launch_line line = {.argv = NULL};
    launch_folders folders = {.files = ""};
    bool child = false;
    *end = (job_end){.status = LK_EXIT_FAILED};
    bool ranked = spec->place && spec->place->ranks;
    if (spec->launcher && (ranked || launch_is_here(spec->place))) {
        if (spec->dry_run)
            launch_folders_name(&folders);
        else
            launch_folders_make(&folders);
    }
    if (!spec->launcher || line_make(spec, &folders, &line, &end->status)) {
        if (spec->dry_run)
            end->status = LK_EXIT_DONE;
        else
            child = job_fork(spec, &folders, &line, end);
    }
    if (!spec->dry_run && !child)
        launch_folders_remove(&folders);
    launch_line_free(&line);
    return child;
}

void job_signals_let_in(void)
{
    sigset_t wanted;
    signals_wanted(&wanted);
    sigprocmask(SIG_UNBLOCK, &wanted, NULL);
}
