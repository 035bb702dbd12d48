/* Probes of hosts.
 *
 * One job with a rank on each host asks them all.  If a host cannot be reached, some launchers start nothing
 * anywhere, and others do not end; so where several did not answer they are asked once more, each by a job
 * of its own, some at a time.  Each job is one of a child of this process, that catches what it prints, and has a
 * deadline.
 */
#include "launch/host_probe.h"

#include "launch/start.h"
#include "launch/wait.h"
#include "term.h"
#include "verb.h"

#include <lockstep/extra/clock.h>
#include <lockstep/extra/text.h>

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { AT_A_TIME = 32, FEW = 8, WHY = 200, WRONG = 600 };

/* What is asked, and what was answered. */
struct probe {
    const char *command;
    const host_list *hosts;
    const job_spec *spec;
    lk_arena *arena;
    double seconds;
    bool *answered;    /* [hosts] */
    host_facts *facts; /* [hosts] */
    char (*why)[WHY];  /* [hosts]: why it did not */
};

/* A job on some hosts, and the files of what it prints. */
struct question {
    int first, n; /* hosts */
    int64_t start_ns;
    pid_t child;
    int output, errors;
};

/* "a:1,b:1" of hosts from `first` on. */
static const char *hosts_text(const struct probe *p, int first, int n)
{
    size_t room = 1, at = 0;
    char *text;
    for (int i = first; i < first + n; i++)
        room += strlen(p->hosts->item[i].name) + 3;
    if (lk_arena_alloc(p->arena, &text, (int64_t)room, 1) != LK_OK)
        return NULL;
    for (int i = first; i < first + n; i++)
        at += (size_t)snprintf(text + at, room - at, "%s%s:1", i > first ? "," : "",
                               p->hosts->item[i].name);
    return text;
}

/* In the child: be a command whose job is the question. */
static void question_run(const struct probe *p, const struct question *q, const char *hosts)
{
    char *argv[] = {(char *)(uintptr_t) "info", (char *)(uintptr_t) "--host",
                    (char *)(uintptr_t) "--program", (char *)(uintptr_t)p->spec->program, NULL};
    launch_place place = {.hosts = hosts};
    job_end end;
    if (p->spec->place) {
        place.tcp = p->spec->place->tcp;
        place.words = p->spec->place->words;
    }
    if (!p->spec->program)
        argv[2] = NULL;
    dup2(q->output, STDOUT_FILENO);
    dup2(q->errors, STDERR_FILENO);
    const job_spec job = {.launcher = p->spec->launcher,
                          .n = q->n,
                          .argv = argv,
                          .place = &place,
                          .seconds = p->seconds};
    (void)job_start(&job, &end);
    _exit(end.asked ? LK_EXIT_REQUEUE : end.status);
}

static bool question_start(const struct probe *p, int first, int n, struct question *q)
{
    const char *hosts = hosts_text(p, first, n);
    pid_t parent = getpid();
    *q = (struct question){.first = first, .n = n, .start_ns = lk_clock_ns(), .child = -1};
    q->output = memfd_create("lockstep-answers", MFD_CLOEXEC);
    q->errors = memfd_create("lockstep-errors", MFD_CLOEXEC);
    fflush(NULL);
    if (hosts && q->output >= 0 && q->errors >= 0)
        q->child = fork();
    if (q->child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() != parent)
            _exit(LK_EXIT_FAILED);
        question_run(p, q, hosts);
    }
    if (q->child < 0)
        fprintf(stderr, "error: %s: cannot ask the hosts: %s\n", p->command,
                hosts ? strerror(errno) : lk_error_message());
    return q->child >= 0;
}

/* ---- answers ---- */

/* The first line that says anything: launchers begin theirs with dashes. */
static void why_read(FILE *from, char why[WHY])
{
    char *line = NULL;
    size_t room = 0;
    while (!why[0] && getline(&line, &room, from) > 0) {
        line[strcspn(line, "\r\n")] = '\0';
        if (line[strspn(line, " -=*")] && strncmp(line, "lockstep: ", 10) != 0)
            lk_sanitize_text(line, why, WHY);
    }
    free(line);
}

static void answers_read(struct probe *p, const struct question *q, FILE *from)
{
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, from) > 0) {
        host_facts f;
        const char *at = strstr(line, "lockstep host ");
        int rank = at && host_facts_read(at, p->arena, &f) ? f.rank : -1;
        if (rank < 0 || rank >= q->n)
            continue;
        p->facts[q->first + rank] = f;
        p->answered[q->first + rank] = true;
    }
    free(line);
}

/* Wait for the end of a question; returns false if it was asked to stop. */
static bool question_end(struct probe *p, struct question *q)
{
    int status = 0;
    char why[WHY] = "";
    while (waitpid(q->child, &status, 0) < 0 && errno == EINTR)
        ;
    FILE *output = fdopen(q->output, "r"), *errors = fdopen(q->errors, "r");
    if (output) {
        rewind(output);
        answers_read(p, q, output);
        fclose(output);
    }
    if (errors) {
        rewind(errors);
        why_read(errors, why);
        fclose(errors);
    }
    double took = 1e-9 * (double)(lk_clock_ns() - q->start_ns);
    if (!why[0] && took >= p->seconds)
        snprintf(why, sizeof why, "nothing was started there in %.15g s", p->seconds);
    else if (!why[0])
        snprintf(why, sizeof why, "%.100s starts nothing there", p->spec->launcher->path);
    for (int i = q->first; i < q->first + q->n; i++)
        snprintf(p->why[i], WHY, "%s", why);
    return !WIFEXITED(status) || WEXITSTATUS(status) != LK_EXIT_REQUEUE;
}

/* ---- the hosts ---- */

static int unanswered(const struct probe *p)
{
    int n = 0;
    for (int i = 0; i < p->hosts->n; i++)
        n += !p->answered[i];
    return n;
}

/* Ask those that did not answer, each for itself. */
static bool ask_each(struct probe *p)
{
    for (int i = 0; i < p->hosts->n;) {
        struct question q[AT_A_TIME];
        int n = 0;
        bool goes_on = true;
        for (; i < p->hosts->n && n < AT_A_TIME && goes_on; i++)
            if (!p->answered[i]) {
                goes_on = question_start(p, i, 1, &q[n]);
                n += goes_on;
            }
        for (int k = 0; k < n; k++)
            goes_on = question_end(p, &q[k]) && goes_on;
        if (!goes_on)
            return false;
    }
    return true;
}

/* Those that cannot be reached; `why`: nobody could be, when all were asked. */
static void missing_print(const struct probe *p, const char *why)
{
    int missing = unanswered(p);
    for (int i = 0, shown = 0; i < p->hosts->n && shown < FEW; i++) {
        if (p->answered[i])
            continue;
        fprintf(stderr, "error: %s: host %s cannot be reached: %s\n", p->command,
                p->hosts->item[i].name, p->why[i]);
        shown++;
    }
    if (missing > FEW)
        fprintf(stderr, "error: %s: and %d more\n", p->command, missing - FEW);
    if (missing == 0)
        fprintf(stderr, "error: %s: each host can be reached, but not all of them at once: %s\n",
                p->command, why);
}

/* Ask all; several that do not answer once more.  An exit status. */
static int ask(struct probe *p)
{
    struct question all;
    char why[WHY];
    if (!question_start(p, 0, p->hosts->n, &all) || !question_end(p, &all))
        return LK_EXIT_FAILED;
    int missing = unanswered(p);
    if (missing == 0)
        return LK_EXIT_DONE;
    snprintf(why, sizeof why, "%s", p->why[0]);
    if (missing > 1 && !ask_each(p))
        return LK_EXIT_FAILED;
    missing_print(p, why);
    return LK_EXIT_FAILED;
}

static void machine_text(const host_facts *f, char out[WHY])
{
    snprintf(out, WHY, "%d socket%s with %d core%s, %s", f->sockets, plural(f->sockets), f->cores,
             plural(f->cores), f->isa);
}

/* What is wrong with a host; "" if nothing is. */
static void host_judge(const struct probe *p, int i, const host_facts *own, char out[WRONG])
{
    const host_facts *f = &p->facts[i], *first = &p->facts[0];
    char its[WHY], others[WHY];
    out[0] = '\0';
    machine_text(f, its);
    machine_text(first, others);
    if (strcmp(f->version, own->version) != 0 || f->epoch != own->epoch || f->hash != own->hash)
        snprintf(
            out, WRONG,
            "has lockstep %s (numerics epoch %d, hash format %d), and this is %s (numerics epoch "
            "%d, hash format %d)",
            f->version, f->epoch, f->hash, own->version, own->epoch, own->hash);
    else if (!strstr(f->modules, p->spec->launcher->mpi))
        snprintf(out, WRONG, "has no module for %s", p->spec->launcher->mpi);
    else if (!f->program)
        snprintf(out, WRONG, "has no program %.150s", p->spec->program);
    else if (strcmp(its, others) != 0)
        snprintf(
            out, WRONG,
            "has %s, and host %.60s has %s: hosts must be alike; --rankfile says where ranks go "
            "if they are not",
            its, p->hosts->item[0].name, others);
}

static int judge(const struct probe *p)
{
    host_facts own;
    int wrong = 0;
    if (!host_facts_collect(NULL, p->arena, &own))
        return verb_failed();
    for (int i = 0; i < p->hosts->n; i++) {
        const host_facts *f = &p->facts[i];
        char what[WRONG], machine[WHY];
        host_judge(p, i, &own, what);
        machine_text(f, machine);
        if (p->spec->verbose)
            fprintf(stderr, "%s: host %s answers: lockstep %s, numerics epoch %d, modules %s, %s\n",
                    p->command, p->hosts->item[i].name, f->version, f->epoch, f->modules, machine);
        if (what[0] && wrong++ < FEW)
            fprintf(stderr, "error: %s: host %s %s\n", p->command, p->hosts->item[i].name, what);
    }
    if (wrong > FEW)
        fprintf(stderr, "error: %s: and %d more\n", p->command, wrong - FEW);
    return wrong > 0 ? LK_EXIT_USAGE : LK_EXIT_DONE;
}

int hosts_probe(const char *command, const host_list *hosts, const job_spec *spec, lk_arena *arena,
                host_facts *out)
{
    const double most = 30;
    struct probe p = {.command = command, .hosts = hosts, .spec = spec, .arena = arena};
    if (!launch_start_seconds(&p.seconds))
        return LK_EXIT_USAGE;
    p.seconds = p.seconds > 0 && p.seconds < most ? p.seconds : most;
    if (lk_arena_alloc(arena, &p.answered, hosts->n, sizeof *p.answered) != LK_OK ||
        lk_arena_alloc(arena, &p.facts, hosts->n, sizeof *p.facts) != LK_OK ||
        lk_arena_alloc(arena, &p.why, hosts->n, sizeof *p.why) != LK_OK)
        return verb_failed();
    int status = ask(&p);
    if (status == LK_EXIT_DONE)
        status = judge(&p);
    *out = p.facts[0];
    return status;
}
