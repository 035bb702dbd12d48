/* Probes of hosts.
 *
 * One job with a rank on each host probes them all.  If a host cannot be reached, some launchers start nothing
 * anywhere, and others do not end; so where several did not reply they are probed once more, each by a job
 * of its own, some at a time.  Each job has a deadline, and is started by a child of this process, whose output
 * is read when it has ended.
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

enum { AT_A_TIME = 32, FEW = 8, REASON = 200, WRONG = 600 };

/* What is probed, and the replies. */
struct probe {
    const char *command;
    const host_list *hosts;
    const job_spec *spec;
    lk_arena *arena;
    double seconds;
    bool *replied;          /* [hosts] */
    host_facts *facts;      /* [hosts] */
    char (*reason)[REASON]; /* [hosts]: why it did not reply */
    bool interrupted;       /* a job was asked to stop */
};

/* A job on some hosts, and the files of what it prints. */
struct probe_job {
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

/* In the child: be a command whose job this is. */
static _Noreturn void probe_job_run(const struct probe *p, const struct probe_job *job,
                                    const char *hosts)
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
    if (dup2(job->output, STDOUT_FILENO) < 0 || dup2(job->errors, STDERR_FILENO) < 0)
        _exit(LK_EXIT_FAILED);
    const job_spec spec = {.launcher = p->spec->launcher,
                           .n = job->n,
                           .argv = argv,
                           .place = &place,
                           .seconds = p->seconds};
    (void)job_start(&spec, &end);
    _exit(end.asked ? LK_EXIT_REQUEUE : end.status);
}

static void file_close(int fd)
{
    if (fd >= 0)
        close(fd);
}

/* False after a message. */
static bool probe_job_start(const struct probe *p, int first, int n, struct probe_job *job)
{
    const char *hosts = hosts_text(p, first, n);
    pid_t parent = getpid();
    *job = (struct probe_job){.first = first, .n = n, .start_ns = lk_clock_ns(), .child = -1};
    job->output = memfd_create("lockstep-replies", MFD_CLOEXEC);
    job->errors = memfd_create("lockstep-errors", MFD_CLOEXEC);
    fflush(NULL);
    if (hosts && job->output >= 0 && job->errors >= 0)
        job->child = fork();
    if (job->child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() != parent)
            _exit(LK_EXIT_FAILED);
        probe_job_run(p, job, hosts);
    }
    if (job->child > 0)
        return true;
    fprintf(stderr, "error: %s: cannot probe the hosts: %s\n", p->command,
            hosts ? strerror(errno) : lk_error_message());
    file_close(job->output);
    file_close(job->errors);
    return false;
}

/* ---- replies ---- */

/* The first line that says anything: launchers begin theirs with dashes. */
static void reason_read(FILE *from, char reason[REASON])
{
    char *line = NULL;
    size_t room = 0;
    while (!reason[0] && getline(&line, &room, from) > 0) {
        line[strcspn(line, "\r\n")] = '\0';
        if (line[strspn(line, " -=*")] && strncmp(line, "lockstep: ", 10) != 0)
            lk_sanitize_text(line, reason, REASON);
    }
    free(line);
}

static void replies_read(struct probe *p, const struct probe_job *job, FILE *from)
{
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, from) > 0) {
        host_facts f;
        const char *at = strstr(line, "lockstep host ");
        int rank = at && host_facts_read(at, p->arena, &f) ? f.rank : -1;
        if (rank < 0 || rank >= job->n)
            continue;
        p->facts[job->first + rank] = f;
        p->replied[job->first + rank] = true;
    }
    free(line);
}

/* The file of a job that has ended, from its beginning; NULL: it is closed. */
static FILE *file_reopen(int fd)
{
    FILE *file = fdopen(fd, "r");
    if (file)
        rewind(file);
    else
        close(fd);
    return file;
}

static void probe_job_end(struct probe *p, struct probe_job *job)
{
    int status = 0;
    char reason[REASON] = "";
    pid_t ended;
    while ((ended = waitpid(job->child, &status, 0)) < 0 && errno == EINTR)
        ;
    if (ended < 0)
        snprintf(reason, sizeof reason, "its job cannot be waited for: %s", strerror(errno));
    p->interrupted = p->interrupted ||
                     (ended > 0 && WIFEXITED(status) && WEXITSTATUS(status) == LK_EXIT_REQUEUE);
    FILE *output = file_reopen(job->output), *errors = file_reopen(job->errors);
    if (output) {
        replies_read(p, job, output);
        fclose(output);
    }
    if (errors) {
        reason_read(errors, reason);
        fclose(errors);
    }
    double took = 1e-9 * (double)(lk_clock_ns() - job->start_ns);
    if (!reason[0] && took >= p->seconds)
        snprintf(reason, sizeof reason, "nothing was started there in %.15g s", p->seconds);
    else if (!reason[0])
        snprintf(reason, sizeof reason, "%.100s starts nothing there", p->spec->launcher->path);
    for (int i = job->first; i < job->first + job->n; i++)
        snprintf(p->reason[i], REASON, "%s", reason);
}

/* ---- the hosts ---- */

static int missing_count(const struct probe *p)
{
    int n = 0;
    for (int i = 0; i < p->hosts->n; i++)
        n += !p->replied[i];
    return n;
}

/* Probe those that did not reply, each for itself; false after a message. */
static bool probe_each(struct probe *p)
{
    bool started = true;
    for (int i = 0; i < p->hosts->n && started && !p->interrupted;) {
        struct probe_job job[AT_A_TIME];
        int n = 0;
        for (; i < p->hosts->n && n < AT_A_TIME && started; i++)
            if (!p->replied[i]) {
                started = probe_job_start(p, i, 1, &job[n]);
                n += started;
            }
        for (int k = 0; k < n; k++)
            probe_job_end(p, &job[k]);
    }
    return started;
}

/* Those that cannot be reached; `reason`: why nobody could be, when all were probed. */
static void missing_print(const struct probe *p, const char *reason)
{
    int missing = missing_count(p);
    for (int i = 0, shown = 0; i < p->hosts->n && shown < FEW; i++) {
        if (p->replied[i])
            continue;
        fprintf(stderr, "error: %s: host %s cannot be reached: %s\n", p->command,
                p->hosts->item[i].name, p->reason[i]);
        shown++;
    }
    if (missing > FEW)
        fprintf(stderr, "error: %s: and %d more\n", p->command, missing - FEW);
    if (missing == 0)
        fprintf(stderr, "error: %s: each host can be reached, but not all of them at once: %s\n",
                p->command, reason);
}

static int interrupted_print(const struct probe *p)
{
    fprintf(stderr, "error: %s: asked to stop while the hosts were probed\n", p->command);
    return LK_EXIT_FAILED;
}

/* Probe all; several that do not reply once more.  An exit status. */
static int probe_all(struct probe *p)
{
    struct probe_job all;
    char reason[REASON];
    if (!probe_job_start(p, 0, p->hosts->n, &all))
        return LK_EXIT_FAILED;
    probe_job_end(p, &all);
    if (p->interrupted)
        return interrupted_print(p);
    int missing = missing_count(p);
    if (missing == 0)
        return LK_EXIT_DONE;
    snprintf(reason, sizeof reason, "%s", p->reason[0]);
    if (missing > 1 && !probe_each(p))
        return LK_EXIT_FAILED;
    if (p->interrupted)
        return interrupted_print(p);
    missing_print(p, reason);
    return LK_EXIT_FAILED;
}

static void machine_text(const host_facts *f, char out[REASON])
{
    snprintf(out, REASON, "%d socket%s with %d core%s, %s", f->sockets, plural(f->sockets),
             f->cores, plural(f->cores), f->isa);
}

/* Whether a module is among those of "openmpi+mpich". */
static bool has_module(const char *modules, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = modules; *at; at += *at == '+') {
        size_t length = strcspn(at, "+");
        if (length == n && strncmp(at, name, n) == 0)
            return true;
        at += length;
    }
    return false;
}

/* What is wrong with a host; "" if nothing is. */
static void host_judge(const struct probe *p, int i, const host_facts *own, char out[WRONG])
{
    const host_facts *f = &p->facts[i], *first = &p->facts[0];
    char its[REASON], others[REASON];
    out[0] = '\0';
    machine_text(f, its);
    machine_text(first, others);
    if (strcmp(f->version, own->version) != 0 || f->epoch != own->epoch || f->hash != own->hash)
        snprintf(
            out, WRONG,
            "has lockstep %s (numerics epoch %d, hash format %d), and this is %s (numerics epoch "
            "%d, hash format %d)",
            f->version, f->epoch, f->hash, own->version, own->epoch, own->hash);
    else if (!has_module(f->modules, p->spec->launcher->mpi))
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
        char what[WRONG], machine[REASON];
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
    if (lk_arena_alloc(arena, &p.replied, hosts->n, sizeof *p.replied) != LK_OK ||
        lk_arena_alloc(arena, &p.facts, hosts->n, sizeof *p.facts) != LK_OK ||
        lk_arena_alloc(arena, &p.reason, hosts->n, sizeof *p.reason) != LK_OK)
        return verb_failed();
    int status = probe_all(&p);
    if (status == LK_EXIT_DONE)
        status = judge(&p);
    *out = p.facts[0];
    return status;
}
