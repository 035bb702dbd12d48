/* lockstep slurm: which task of a job of SLURM is what, at which address; whether the ranks of a job compute;
 * and scripts for jobs to come. */
#include "slurm/slurm.h"

#include "ranks.h"
#include "verb.h"

#define COMMAND "lockstep slurm"

struct slurm_options {
    lk_slurm_cluster_options cluster;
    slurm_script_options job;
    bool test, script, json;
};

#define FIELD(name) offsetof(struct slurm_options, name)

static const lk_option options[] = {
    {"script", LK_OPTION_FLAG, FIELD(script),
     .help = "print a script for sbatch that trains an experiment"},
    {"test", LK_OPTION_FLAG, FIELD(test),
     .help = "compute a matrix product on every rank and the sum of all, and compare"},
    {"num_param_servers", LK_OPTION_INT, FIELD(cluster.num_param_servers), .value = "N",
     .def = "-1", .min = -1, .max = LK_SLURM_MAX_HOSTS,
     .help = "on how many hosts the first task is a parameter server; 0 or -1: on all"},
    {"starting_port", LK_OPTION_INT, FIELD(cluster.starting_port), .value = "PORT", .def = "2222",
     .min = 1, .max = 65535,
     .help = "port of the first task of each host; the others have those behind it"},
    {"network", LK_OPTION_TEXT, FIELD(cluster.network), .value = "NAME",
     .help = "call hosts HOST.NAME, as they are called in another network"},
    {"json", LK_OPTION_FLAG, FIELD(json),
     .help = "print one JSON object for each task, or with --test for each rank"},
    {"ranks", LK_OPTION_INT, FIELD(job.ranks), .value = "N", .min = 1, .max = RANKS_MAX_PROCESSES,
     .help = "of the script: how many ranks train; by default as many as the experiment's "
             "`parallel` says"},
    {"nodes", LK_OPTION_INT, FIELD(job.nodes), .value = "N", .min = 1, .max = LK_SLURM_MAX_HOSTS,
     .help = "of the script: on how many nodes; by default as SLURM finds room"},
    {"tasks_per_node", LK_OPTION_INT, FIELD(job.tasks_per_node), .value = "N", .min = 1,
     .max = LK_SLURM_MAX_TASKS, .help = "of the script: ranks on a node at most"},
    {"cpus_per_task", LK_OPTION_INT, FIELD(job.cpus_per_task), .value = "N", .min = 1,
     .max = LK_MAX_PROCESSORS, .help = "of the script: processors of each rank"},
    {"time", LK_OPTION_TEXT, FIELD(job.time), .value = "LIMIT",
     .help = "of the script: how long it runs at a time, as SLURM reads it: minutes, "
             "hours:minutes:seconds, days-hours; by default 60 minutes"},
    {"signal", LK_OPTION_INT, FIELD(job.signal), .value = "SECONDS", .min = 1, .max = 65535,
     .help = "of the script: how long before the end it saves; by default 120 seconds"},
    {"mpi", LK_OPTION_TEXT, FIELD(job.mpi), .value = "NAME",
     .help = "of the script: openmpi or mpich; by default the first that this build has"},
    {.name = NULL},
};

/* What is asked for together that does not belong together; NULL: nothing. */
static const char *mixed(const struct slurm_options *o, int n)
{
    const lk_slurm_cluster_options *c = &o->cluster;
    const slurm_script_options *j = &o->job;
    if (o->test && o->script)
        return "--test runs now, --script is for later: give one of them";
    if (o->script && o->json)
        return "a batch script is no JSON";
    if (o->script && n == 0)
        return "--script needs FILE.yaml, the experiment to train";
    if (!o->script && n > 0)
        return "an experiment is for --script";
    if (!o->script && (j->ranks || j->nodes || j->tasks_per_node || j->cpus_per_task || j->time ||
                       j->signal || j->mpi))
        return "--ranks, --nodes, --tasks-per-node, --cpus-per-task, --time, --signal and --mpi "
               "are for --script";
    if ((o->script || o->test) &&
        (c->num_param_servers != -1 || c->starting_port != 2222 || c->network))
        return "--num-param-servers, --starting-port and --network are for the list of tasks, "
               "without --test and --script";
    return NULL;
}

static int slurm_run(const void *given, int n, char **operand)
{
    const struct slurm_options *o = given;
    const char *why = mixed(o, n);
    if (why)
        return verb_refuse(COMMAND ": %s", why);
    if (o->test)
        return slurm_test(COMMAND, o->json);
    if (!o->script)
        return slurm_show(COMMAND, &o->cluster, o->json);
    return ranks_is_root() ? slurm_script(COMMAND, &o->job, n, operand) : LK_EXIT_DONE;
}

const lk__verb lk__verb_slurm = {
    .name = "slurm",
    .summary = "tasks of a job of SLURM and their addresses; a self-test; batch scripts",
    .operands = "[FILE.yaml [KEY=VALUE...]]",
    .about =
        "Prints the tasks of the job of SLURM that it runs in, from SLURM_JOB_NODELIST (in a step "
        "SLURM_STEP_NODELIST), SLURM_TASKS_PER_NODE, SLURM_PROCID, SLURM_NPROCS and SLURM_NNODES: "
        "each has a host and a port, and is a parameter server or a worker, of which the first is "
        "the chief. What is missing or wrong in the environment is named. Of several tasks that "
        "srun starts, the first prints.\n"
        "With --test it needs no variables: every rank of the job that a launcher started (or one "
        "alone) computes [[1,2,3],[4,5,6]] x [[1,2],[3,4],[5,6]], which is [[22,28],[49,64]], and "
        "the sum over all ranks; rank 0 prints what each has, with its host. One that has another "
        "result makes the status 1 on all.\n"
        "With --script it prints a batch script that trains an experiment: sbatch starts it, with "
        "as many tasks as there are ranks. Before its time ends it gets USR1 and passes it on: the "
        "ranks save and end with status 75; the script then puts the job back into the queue, and "
        "it goes on from there, until it is done, or until it made no step in its time. `scancel "
        "-s USR1 JOB` or a file STOP in the output folder stops it for good. The experiment is "
        "checked first, as train would, and must have a "
        "train.output.\n"
        "JSON: task, role (ps or worker), number (among those of its role), chief, host, port, "
        "address, ps (the number of its parameter server), own, and of the own task device; with "
        "--test rank, host, product, sum, right.",
    .options = options,
    .options_size = sizeof(struct slurm_options),
    .max_operands = 1000,
    .computes = true,
    .ranks = true,
    .run = slurm_run,
};
