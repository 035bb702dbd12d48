/* lockstep run: start ranks, by MPI's launcher or as threads, and see them to their end. */
#include "launch_wait.h"
#include "plural.h"
#include "ranks.h"
#include "term.h"
#include "verb.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/thread.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COMMAND "lockstep run"

struct run_options {
    int64_t n, restarts;
    const char *transport, *mpi, *start_deadline;
    bool dry_run;
};

#define FIELD(name) offsetof(struct run_options, name)

static const lk_option options[] = {
    {.name = "n",
     .type = LK_OPTION_INT,
     .offset = FIELD(n),
     .value = "N",
     .def = "0",
     .min = 0,
     .max = LK_MAX_LOCAL,
     .help = "the number of ranks; 0: as many as there are cores"},
    {.name = "transport",
     .type = LK_OPTION_TEXT,
     .offset = FIELD(transport),
     .value = "NAME",
     .help = "mpi: ranks are processes of an MPI; local: threads of one process; mpi by default "
             "where there is one"},
    {.name = "mpi",
     .type = LK_OPTION_TEXT,
     .offset = FIELD(mpi),
     .value = "NAME",
     .def = "auto",
     .help = "openmpi, mpich, or auto: what LK_MPI says, otherwise the first that is there"},
    {.name = "restarts",
     .type = LK_OPTION_INT,
     .offset = FIELD(restarts),
     .value = "K",
     .def = "0",
     .min = 0,
     .max = 1000000,
     .help = "how often to start again, with --resume, after a failure"},
    {.name = "start-deadline",
     .type = LK_OPTION_TEXT,
     .offset = FIELD(start_deadline),
     .value = "S",
     .help = "end the job if for so many seconds no further rank comes and MPI_Init has not "
             "returned, 0: never; otherwise LK_START_DEADLINE, or LK_DEADLINE but at least 10, or "
             "120"},
    {.name = "dry-run",
     .type = LK_OPTION_FLAG,
     .offset = FIELD(dry_run),
     .help = "print what is set for the launcher and its command line, and start nothing"},
    {.name = NULL},
};

/* ---- ranks as threads ---- */

static int rank_main(void *arg)
{
    const verb_call *call = arg;
    return call->verb->run(call->options, call->n_operands, call->operand);
}

/* ---- jobs ---- */

/* What is to be run: a verb with its arguments, as they were given and as they were read. */
struct job {
    const struct run_options *o;
    launcher found;
    const launcher *launcher; /* `found`; NULL: threads */
    int n, argc;
    char **argv;    /* from the verb's name on, NULL-terminated, with room for one more */
    char **words;   /* a copy that was reordered by reading */
    verb_call call; /* read before anything is started: what is wrong is said once */
};

static int call_read(struct job *job)
{
    char command[64];
    const lk__verb *verb = verb_find(lk__verbs, COMMAND, "verb", job->argv[0]);
    if (!verb)
        return LK_EXIT_USAGE;
    memcpy(job->words, job->argv, sizeof *job->words * (size_t)job->argc);
    snprintf(command, sizeof command, "lockstep %s", verb->name);
    verb_forget(&job->call);
    int status = verb_read(verb, command, job->argc - 1, job->words + 1, &job->call);
    if (!job->call.verb || job->call.verb->ranks)
        return status;
    const char *kind = verb->kinds ? job->call.verb->name : "";
    fprintf(stderr, "error: " COMMAND ": %s%s%s runs in one process: start it without run\n",
            command, *kind ? " " : "", kind);
    return LK_EXIT_USAGE;
}

static bool can_resume(const struct job *job)
{
    return lk_option_find(job->call.verb->options, "resume") != NULL;
}

/* Run the job until it is done, stopped or has failed too often. */
static int job_run(struct job *job)
{
    job_end end;
    for (int64_t i = 0;; i++) {
        const job_spec spec = {.launcher = job->launcher,
                               .n = job->n,
                               .argv = job->argv,
                               .saves = can_resume(job),
                               .dry_run = job->o->dry_run};
        if (job_start(&spec, &end))
            return ranks_run(job->n, rank_main, &job->call);
        if (end.status != LK_EXIT_FAILED || end.asked || i == job->o->restarts)
            return end.status;
        fprintf(stderr, COMMAND ": the job failed; starting again, %lld of %lld\n",
                (long long)i + 1, (long long)job->o->restarts);
        if (i > 0)
            continue;
        memmove(&job->argv[2], &job->argv[1], sizeof *job->argv * (size_t)job->argc);
        job->argv[1] = (char *)(uintptr_t) "--resume";
        job->argc++;
        int status = call_read(job);
        if (status != LK_EXIT_DONE)
            return status;
    }
}

/* Decide where the ranks are, and say so. */
static int place_choose(const struct run_options *o, int n, launcher *found, const launcher **out)
{
    char why[256];
    bool local = o->transport && strcmp(o->transport, "local") == 0;
    if (o->transport && !local && strcmp(o->transport, "mpi") != 0) {
        fprintf(stderr,
                "error: " COMMAND ": no ranks can be started on \"%s\": give local or mpi\n",
                o->transport);
        return LK_EXIT_USAGE;
    }
    *out = !local && launcher_find(o->mpi, found, why, sizeof why) ? found : NULL;
    if (!*out && !local && (o->transport || strcmp(o->mpi, "auto") != 0)) {
        fprintf(stderr, "error: " COMMAND ": %s\n", why);
        return LK_EXIT_USAGE;
    }
    fprintf(stderr, COMMAND ": %d rank%s, ", n, plural(n));
    if (*out)
        fprintf(stderr, "transport mpi: %s\n", found->path);
    else if (local)
        fprintf(stderr, "transport local\n");
    else
        fprintf(stderr, "transport local: %s\n", why);
    return LK_EXIT_DONE;
}

static int job_place(struct job *job)
{
    int status = call_read(job);
    if (status != LK_EXIT_DONE || !job->call.verb)
        return status;
    if (job->o->restarts > 0 && !can_resume(job)) {
        fprintf(stderr, "error: " COMMAND ": option --restarts: %s has no --resume\n",
                job->call.verb->name);
        return LK_EXIT_USAGE;
    }
    if (job->n == 0 && lk_threads_now(&job->n) != LK_OK)
        return verb_failed();
    status = place_choose(job->o, job->n, &job->found, &job->launcher);
    if (status != LK_EXIT_DONE)
        return status;
    if (job->o->dry_run && !job->launcher)
        return LK_EXIT_DONE; /* there is no launcher, as was said */
    if (job->o->start_deadline)
        setenv("LK_START_DEADLINE", job->o->start_deadline, 1);
    term_pass_on();
    return job_run(job);
}

static int run_run(const void *given, int n, char **operand)
{
    struct job job = {.o = given, .argc = n};
    job.n = (int)job.o->n;
    int status = LK_EXIT_FAILED;
    if (lk_alloc_zero(&job.argv, n + 2, sizeof *job.argv) != LK_OK ||
        lk_alloc_zero(&job.words, n + 2, sizeof *job.words) != LK_OK) {
        status = verb_failed();
    } else {
        memcpy(job.argv, operand, sizeof *operand * (size_t)n);
        status = job_place(&job);
    }
    verb_forget(&job.call);
    lk_free(job.words);
    lk_free(job.argv);
    return status;
}

const lk__verb lk__verb_run = {
    .name = "run",
    .summary = "start ranks, as processes of an MPI or as threads, and run a verb on them",
    .operands = "[--] VERB [options] [operands]",
    .about =
        "Runs a verb on N ranks: train, eval, bench step, bench allreduce, gradcheck, topo, verify "
        "--trace. With the transport mpi it calls the mpirun of Open MPI or MPICH; with local the "
        "ranks are threads of one process, and no MPI "
        "is needed. Kernels of local ranks share the cores, unless LK_THREADS says otherwise.\n"
        "INT, TERM, HUP, USR1 and USR2 ask the ranks to stop; train saves a checkpoint then. A "
        "second INT "
        "(Ctrl-C) ends the job at once. When this command is killed, its ranks end too.\n"
        "The exit status is the job's: 0 done, 1 failed, 2 wrong usage, 75 stopped on request with "
        "a "
        "checkpoint saved. After a failure, and only then, --restarts starts the job again.",
    .options = options,
    .options_size = sizeof(struct run_options),
    .min_operands = 1,
    .max_operands = 100000,
    .wraps = true,
    .run = run_run,
};
