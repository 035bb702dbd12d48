/* The job of `lockstep run`, from its options to its end: hosts, placement, launcher, and the exit
 * status. */
#include "launch/run_job.h"

#include "launch/host_probe.h"
#include "launch/line.h"
#include "launch/placement.h"
#include "launch/wait.h"
#include "ranks.h"
#include "term.h"
#include "verb.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/thread.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- ranks as threads ---- */

static int rank_main(void *arg)
{
    const verb_call *call = arg;
    return call->verb->run(call->options, call->n_operands, call->operand);
}

/* ---- jobs ---- */

/* What is to be run: a verb with its arguments, as they were given and as they were read, or a program. */
struct job {
    const run_options *o;
    launcher found;
    const launcher *launcher; /* `found`; NULL: threads */
    placement where;
    int n, argc;
    char **argv;            /* from its name on, NULL-terminated, with room for one more */
    char **words;           /* a copy that was reordered by reading */
    verb_call call;         /* read before anything is started: what is wrong is said once */
    char program[PATH_MAX]; /* "": it is a verb */
};

static int call_read(struct job *job, const lk__verb *verb)
{
    char command[64];
    memcpy(job->words, job->argv, sizeof *job->words * (size_t)job->argc);
    snprintf(command, sizeof command, "lockstep %s", verb->name);
    verb_forget(&job->call);
    int status = verb_read(verb, command, job->argc - 1, job->words + 1, &job->call);
    if (!job->call.verb || job->call.verb->ranks)
        return status;
    const char *kind = verb->kinds ? job->call.verb->name : "";
    fprintf(stderr, "error: " RUN_COMMAND ": %s%s%s runs in one process: start it without run\n",
            command, *kind ? " " : "", kind);
    return LK_EXIT_USAGE;
}

/* A verb, or else a program; what is neither, and no path, is taken for a verb. */
static int words_read(struct job *job)
{
    const char *name = job->argv[0];
    for (int i = 0; lk__verbs[i]; i++)
        if (strcmp(lk__verbs[i]->name, name) == 0)
            return call_read(job, lk__verbs[i]);
    if (program_find(name, job->program))
        return LK_EXIT_DONE;
    job->program[0] = '\0';
    if (strchr(name, '/'))
        fprintf(stderr, "error: " RUN_COMMAND ": cannot run %s: %s\n", name, strerror(errno));
    else
        (void)verb_find(lk__verbs, RUN_COMMAND, "verb or program", name);
    return LK_EXIT_USAGE;
}

static bool can_resume(const struct job *job)
{
    return job->call.verb && lk_option_find(job->call.verb->options, "resume") != NULL;
}

static job_spec spec_of(const struct job *job)
{
    const char *program = job->program[0] ? job->program : NULL;
    return (job_spec){.launcher = job->launcher,
                      .n = job->n,
                      .program = program,
                      .argv = job->argv + (program != NULL),
                      .place = &job->where.place,
                      .saves = can_resume(job),
                      .dry_run = job->o->dry_run,
                      .verbose = job->o->verbose};
}

/* Run the job until it is done, stopped or has failed too often. */
static int job_run(struct job *job)
{
    job_end end;
    for (int64_t i = 0;; i++) {
        const job_spec spec = spec_of(job);
        if (job_start(&spec, &end))
            return ranks_run(job->n, rank_main, &job->call);
        if (end.status != LK_EXIT_FAILED || end.asked || i == job->o->restarts)
            return end.status;
        fprintf(stderr, RUN_COMMAND ": the job failed; starting again, %lld of %lld\n",
                (long long)i + 1, (long long)job->o->restarts);
        if (i > 0)
            continue;
        memmove(&job->argv[2], &job->argv[1], sizeof *job->argv * (size_t)job->argc);
        job->argv[1] = (char *)(uintptr_t) "--resume";
        job->argc++;
        int status = words_read(job);
        if (status != LK_EXIT_DONE)
            return status;
    }
}

/* Decide whether the ranks are processes. */
static int transport_choose(struct job *job, char *why, size_t size)
{
    const run_options *o = job->o;
    bool local = o->transport && strcmp(o->transport, "local") == 0;
    if (o->transport && !local && strcmp(o->transport, "mpi") != 0)
        return verb_refuse(RUN_COMMAND ": no ranks can be started on \"%s\": give local or mpi",
                           o->transport);
    if (!local && launcher_find(o->mpi, &job->found, why, size))
        job->launcher = &job->found;
    if (!job->launcher && !local && (o->transport || strcmp(o->mpi, "auto") != 0))
        return verb_refuse(RUN_COMMAND ": %s", why);
    return LK_EXIT_DONE;
}

static void transport_print(const struct job *job, const char *why)
{
    fprintf(stderr, RUN_COMMAND ": %d rank%s, transport ", job->n, plural(job->n));
    if (job->launcher)
        fprintf(stderr, "mpi: %s\n", job->launcher->path);
    else
        fprintf(stderr, "local%s%s\n", *why ? ": " : "", why);
}

/* What does not go with the words. */
static int options_check(const struct job *job)
{
    if (job->o->restarts > 0 && !can_resume(job))
        return verb_refuse(RUN_COMMAND ": option --restarts: %s has no --resume", job->argv[0]);
    if (job->program[0] && job->o->start_deadline)
        return verb_refuse(RUN_COMMAND
                           ": option --start-deadline: when the ranks of %s have met is "
                           "not known: it is a program of its own",
                           job->argv[0]);
    if (job->program[0] && !job->launcher)
        return verb_refuse(RUN_COMMAND ": %s is a program, whose ranks are processes of an MPI; on "
                                       "threads it must run itself",
                           job->argv[0]);
    return LK_EXIT_DONE;
}

/* What the hosts have: as they answer, or, where nothing is to be started, as this one has it. */
static int hosts_collect(struct job *job, host_facts *each)
{
    placement *w = &job->where;
    const host_list *hosts = &w->file.hosts;
    if (!placement_has_hosts(w))
        return LK_EXIT_DONE;
    if (!host_facts_collect(NULL, w->arena, each))
        return verb_failed();
    if (!job->o->dry_run && !(hosts->n == 1 && hosts_is_here(hosts->item[0].name))) {
        w->place.tcp = job->o->tcp;
        w->place.words = job->o->mpiarg;
        const job_spec spec = spec_of(job);
        int status = hosts_probe(RUN_COMMAND, hosts, &spec, w->arena, each);
        if (status != LK_EXIT_DONE)
            return status;
    }
    return placement_fit(w, job->o, each);
}

/* Where the ranks are, and how many. */
static int job_place(struct job *job)
{
    char why[256] = "";
    host_facts each = {.rank = -1};
    int status = transport_choose(job, why, sizeof why);
    if (status == LK_EXIT_DONE)
        status = options_check(job);
    if (status == LK_EXIT_DONE)
        status = placement_make(job->o, !job->launcher, &job->where);
    if (status == LK_EXIT_DONE)
        status = hosts_collect(job, &each);
    if (status == LK_EXIT_DONE)
        status = placement_pass(&job->where, job->o, job->launcher ? job->launcher->mpi : "local",
                                &each);
    if (status != LK_EXIT_DONE)
        return status;
    job->n = job->where.n;
    if (job->n == 0 && lk_threads_now(&job->n) != LK_OK)
        return verb_failed();
    if (!job->launcher && job->n > LK_MAX_LOCAL)
        return verb_refuse(RUN_COMMAND ": %d ranks: at most %d are threads of one process", job->n,
                           LK_MAX_LOCAL);
    transport_print(job, why);
    return LK_EXIT_DONE;
}

static int job_begin(struct job *job)
{
    int status = words_read(job);
    if (status != LK_EXIT_DONE || (!job->call.verb && !job->program[0]))
        return status;
    if (job->o->start_deadline)
        setenv("LK_START_DEADLINE", job->o->start_deadline, 1);
    status = job_place(job);
    if (status != LK_EXIT_DONE || (job->o->dry_run && !job->launcher))
        return status; /* a dry run without a launcher has said what there is to say */
    if (!job->launcher && !launch_variables_set(job->where.place.variables))
        return verb_failed();
    term_pass_on();
    return job_run(job);
}

int run_job(const run_options *o, int argc, char **argv)
{
    struct job job = {.o = o, .argc = argc};
    int status = LK_EXIT_FAILED;
    if (lk_alloc_zero(&job.argv, argc + 2, sizeof *job.argv) != LK_OK ||
        lk_alloc_zero(&job.words, argc + 2, sizeof *job.words) != LK_OK) {
        status = verb_failed();
    } else {
        memcpy(job.argv, argv, sizeof *argv * (size_t)argc);
        status = job_begin(&job);
    }
    placement_free(&job.where);
    verb_forget(&job.call);
    lk_free(job.words);
    lk_free(job.argv);
    return status;
}
