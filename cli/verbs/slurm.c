/* lockstep slurm: which task of a job of SLURM is what, at which address, and whether all of them compute. */
#include "slurm_show.h"
#include "slurm_test.h"
#include "verb.h"

#define COMMAND "lockstep slurm"

struct slurm_options {
    lk_slurm_cluster_options cluster;
    bool test, json;
};

#define FIELD(name) offsetof(struct slurm_options, name)

static const lk_option options[] = {
    {.name = "test",
     .type = LK_OPTION_FLAG,
     .offset = FIELD(test),
     .help = "compute a matrix product on every rank and the sum of all, and compare"},
    {.name = "num_param_servers",
     .type = LK_OPTION_INT,
     .offset = FIELD(cluster.num_param_servers),
     .value = "N",
     .def = "-1",
     .min = -1,
     .max = LK_SLURM_MAX_HOSTS,
     .help = "on how many hosts the first task is a parameter server; 0 or -1: on all"},
    {.name = "starting_port",
     .type = LK_OPTION_INT,
     .offset = FIELD(cluster.starting_port),
     .value = "PORT",
     .def = "2222",
     .min = 1,
     .max = 65535,
     .help = "port of the first task of each host; the others have those behind it"},
    {.name = "network",
     .type = LK_OPTION_TEXT,
     .offset = FIELD(cluster.network),
     .value = "NAME",
     .help = "call hosts HOST.NAME, as they are called in another network"},
    {.name = "json",
     .type = LK_OPTION_FLAG,
     .offset = FIELD(json),
     .help = "print one JSON object for each task, or with --test for each rank"},
    {.name = NULL},
};

static int slurm_run(const void *given, int n, char **operand)
{
    const struct slurm_options *o = given;
    (void)n;
    (void)operand;
    if (o->test)
        return slurm_test(COMMAND, o->json);
    return slurm_show(COMMAND, &o->cluster, o->json);
}

const lk__verb lk__verb_slurm = {
    .name = "slurm",
    .summary = "what SLURM says of a job: servers, workers and their addresses; a self-test",
    .operands = "",
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
        "JSON: task, role (ps or worker), number (among those of its role), chief, host, port, "
        "address, ps (the number of its parameter server), own, and of the own task device; with "
        "--test rank, host, product, sum, right.",
    .options = options,
    .options_size = sizeof(struct slurm_options),
    .computes = true,
    .ranks = true,
    .run = slurm_run,
};
