/* The start of a job.
 *
 * Ranks on this host leave in the mailbox that they came, and that they have met the others: then all
 * have, because that is collective.  The deadline counts from the last one that came, so that many slow
 * ones have their time.
 */
#include "launch/start.h"

#include "launch/mailbox.h"
#include "launch/tree.h"
#include "verb.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/clock.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

/* Seconds in a variable; false if it holds anything else. */
static bool seconds_read(const char *variable, double *out)
{
    const char *text = secure_getenv(variable);
    char *end = NULL;
    if (!text || !*text)
        return true;
    double value = strspn(text, "0123456789.e+-") == strlen(text) ? strtod(text, &end) : -1;
    bool is = end && !*end && value >= 0 && value <= 1e9;
    *out = is ? value : *out;
    return is;
}

bool launch_start_seconds(double *seconds)
{
    enum { LEAST = 10 };
    *seconds = 120;
    (void)seconds_read("LK_DEADLINE", seconds); /* what is wrong with it, the library says */
    if (*seconds > 0 && *seconds < LEAST)
        *seconds = LEAST;
    if (seconds_read("LK_START_DEADLINE", seconds))
        return true;
    (void)verb_refuse("LK_START_DEADLINE is \"%s\": it must be seconds, 0 for no deadline",
                      secure_getenv("LK_START_DEADLINE"));
    return false;
}

void launch_start_begin(launch_start *s)
{
    s->moved_ns = lk_clock_ns();
}

void launch_start_update(launch_start *s)
{
    int arrived = 0, done = 0;
    for (int r = 0; r < s->n && !s->connected; r++) {
        pid_t pid;
        launch_stage stage = launch_mailbox_stage(s->mailbox, r, &pid);
        arrived += stage != LAUNCH_UNSEEN;
        done += stage == LAUNCH_DONE;
        s->connected = stage == LAUNCH_CONNECTED || done == s->n;
    }
    if (arrived > s->arrived) {
        s->arrived = arrived;
        s->moved_ns = lk_clock_ns();
    }
}

static void ours_count(const process *p, void *arg)
{
    *(int *)arg += process_rank(p->pid) >= 0;
}

bool launch_start_is_late(const launch_start *s, pid_t launcher)
{
    int ranks = s->arrived;
    if (s->connected || s->seconds <= 0 ||
        1e-9 * (double)(lk_clock_ns() - s->moved_ns) < s->seconds)
        return false;
    tree_visit(launcher, ours_count, &ranks);
    return s->here || ranks > 0;
}

static void stopped_count(const process *p, void *arg)
{
    *(int *)arg += p->state == 'T' || p->state == 't';
}

bool launch_start_is_stuck(const launch_start *s, pid_t launcher, int64_t since_ns)
{
    enum { PATIENCE = 10, STOPPED_PATIENCE = 1 };
    int stopped = 0;
    int64_t from = since_ns > s->moved_ns ? since_ns : s->moved_ns;
    double waited = 1e-9 * (double)(lk_clock_ns() - from);
    bool unseen = !s->here && s->arrived == 0; /* on other hosts they may be connected already */
    if (s->connected || unseen || waited < STOPPED_PATIENCE)
        return false;
    tree_visit(launcher, stopped_count, &stopped);
    return stopped > 0 || waited >= PATIENCE;
}

/* ---- who is it? ---- */

struct roll {
    int n;
    process *rank; /* by rank; pid 0: no process of it is seen */
};

static void roll_call(const process *p, void *arg)
{
    struct roll *roll = arg;
    int rank = process_rank(p->pid);
    if (rank >= 0 && rank < roll->n)
        roll->rank[rank] = *p;
}

/* Print those who are missing, up to a few; returns how many there are. */
static int missing_print(const launch_start *s, const struct roll *roll)
{
    enum { FEW = 8 };
    int missing = 0;
    for (int r = 0; r < s->n; r++) {
        pid_t said;
        const process *p = &roll->rank[r];
        bool arrived = launch_mailbox_stage(s->mailbox, r, &said) != LAUNCH_UNSEEN;
        if (arrived && p->pid > 0 && p->state != 'T' && p->state != 't')
            continue;
        if (missing++ >= FEW)
            continue;
        fprintf(stderr, "%s rank %d ", missing > 1 ? "," : ":", r);
        if (p->pid == 0)
            fprintf(stderr, arrived ? "has ended" : "did not come");
        else
            fprintf(stderr, "(process %d) %s", (int)p->pid,
                    p->state == 'T' || p->state == 't' ? "is stopped" : "has not begun");
    }
    if (missing > FEW)
        fprintf(stderr, " and %d more", missing - FEW);
    return missing;
}

void launch_start_complain(const launch_start *s, pid_t launcher)
{
    struct roll roll = {.n = s->n};
    fprintf(stderr, "error: the ranks have not met in MPI_Init after %.15g s", s->seconds);
    if (lk_alloc_zero(&roll.rank, s->n, sizeof *roll.rank) == LK_OK) {
        tree_visit(launcher, roll_call, &roll);
        if (missing_print(s, &roll) == 0)
            fprintf(stderr, ", although all came");
    }
    fprintf(stderr, "; ending the job (LK_START_DEADLINE sets these seconds)\n");
    lk_free(roll.rank);
}

/* ---- the alarm of a rank ---- */

/* MPI_Init cannot be called off: a signal ends the process with a message.  The first rank is a second earlier
 * than the others, so that most launchers end them before they speak. */
static char message[256];
static struct sigaction before;

static void on_alarm(int sig)
{
    (void)sig;
    (void)!write(STDERR_FILENO, message, strlen(message));
    _exit(LK_EXIT_FAILED);
}

bool launch_alarm_set(int rank)
{
    double seconds;
    if (!launch_start_seconds(&seconds))
        return false;
    if (seconds <= 0)
        return true;
    snprintf(
        message, sizeof message,
        "error: rank %d has waited %.15g s in MPI_Init for a rank that does not come; look for a "
        "process that is stopped, or give LK_START_DEADLINE more seconds\n",
        rank, seconds);
    seconds += rank > 0;
    struct itimerval when = {.it_value = {.tv_sec = (time_t)seconds}};
    when.it_value.tv_usec = (suseconds_t)(1e6 * (seconds - (double)when.it_value.tv_sec)) + 1;
    sigaction(SIGALRM, &(struct sigaction){.sa_handler = on_alarm}, &before);
    setitimer(ITIMER_REAL, &when, NULL);
    return true;
}

void launch_alarm_clear(void)
{
    if (!*message)
        return;
    setitimer(ITIMER_REAL, &(struct itimerval){.it_value = {.tv_sec = 0}}, NULL);
    sigaction(SIGALRM, &before, NULL);
    *message = '\0';
}
