/* Jobs of `lockstep run`. */
#include "run_job.h"

#include "launch_wait.h"
#include "plural.h"
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

/* Run the job until it is done, stopped or has failed too often. */
static int job_run(struct job *job)
{
    job_end end;
    for (int64_t i = 0;; i++) {
        const char *program = job->program[0] ? job->program : NULL;
        const job_spec spec = {.launcher = job->launcher,
                               .n = job->n,
                               .program = program,
                               .argv = job->argv + (program != NULL),
                               .saves = can_resume(job),
                               .dry_run = job->o->dry_run};
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

/* Decide where the ranks are, and say so. */
static int place_choose(const run_options *o, int n, launcher *found, const launcher **out)
{
    char why[256];
    bool local = o->transport && strcmp(o->transport, "local") == 0;
    if (o->transport && !local && strcmp(o->transport, "mpi") != 0) {
        fprintf(stderr,
                "error: " RUN_COMMAND ": no ranks can be started on \"%s\": give local or mpi\n",
                o->transport);
        return LK_EXIT_USAGE;
    }
    *out = !local && launcher_find(o->mpi, found, why, sizeof why) ? found : NULL;
    if (!*out && !local && (o->transport || strcmp(o->mpi, "auto") != 0)) {
        fprintf(stderr, "error: " RUN_COMMAND ": %s\n", why);
        return LK_EXIT_USAGE;
    }
    fprintf(stderr, RUN_COMMAND ": %d rank%s, ", n, plural(n));
    if (*out)
        fprintf(stderr, "transport mpi: %s\n", found->path);
    else if (local)
        fprintf(stderr, "transport local\n");
    else
        fprintf(stderr, "transport local: %s\n", why);
    return LK_EXIT_DONE;
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

static int job_place(struct job *job)
{
    int status = words_read(job);
    if (status != LK_EXIT_DONE || (!job->call.verb && !job->program[0]))
        return status;
    if (job->n == 0 && lk_threads_now(&job->n) != LK_OK)
        return verb_failed();
    status = place_choose(job->o, job->n, &job->found, &job->launcher);
    if (status == LK_EXIT_DONE)
        status = options_check(job);
    if (status != LK_EXIT_DONE)
        return status;
    if (job->o->dry_run && !job->launcher)
        return LK_EXIT_DONE; /* there is no launcher, as was said */
    if (job->o->start_deadline)
        setenv("LK_START_DEADLINE", job->o->start_deadline, 1);
    term_pass_on();
    return job_run(job);
}

int run_job(const run_options *o, int argc, char **argv)
{
    struct job job = {.o = o, .n = (int)o->n, .argc = argc};
    int status = LK_EXIT_FAILED;
    if (lk_alloc_zero(&job.argv, argc + 2, sizeof *job.argv) != LK_OK ||
        lk_alloc_zero(&job.words, argc + 2, sizeof *job.words) != LK_OK) {
        status = verb_failed();
    } else {
        memcpy(job.argv, argv, sizeof *argv * (size_t)argc);
        status = job_place(&job);
    }
    verb_forget(&job.call);
    lk_free(job.words);
    lk_free(job.argv);
    return status;
}
