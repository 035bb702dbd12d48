/* lockstep slurm: which task of a job of SLURM is what, and at which address. */
#include "ranks.h"
#include "slurm_show.h"
#include "verb.h"

#define COMMAND "lockstep slurm"

struct slurm_options {
    lk_slurm_cluster_options cluster;
    bool json;
};

#define FIELD(name) offsetof(struct slurm_options, name)

static const lk_option options[] = {
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
     .help = "print one JSON object for each task"},
    {.name = NULL},
};

static int slurm_run(const void *given, int n, char **operand)
{
    const struct slurm_options *o = given;
    (void)n;
    (void)operand;
    if (!ranks_leader())
        return LK_EXIT_DONE;
    return slurm_show(COMMAND, &o->cluster, o->json);
}

const lk__verb lk__verb_slurm = {
    .name = "slurm",
    .summary = "what SLURM says of a job: parameter servers, workers and their addresses",
    .operands = "",
    .about =
        "Prints the tasks of the job of SLURM that it runs in, from SLURM_JOB_NODELIST (in a step "
        "SLURM_STEP_NODELIST), SLURM_TASKS_PER_NODE, SLURM_PROCID, SLURM_NPROCS and SLURM_NNODES: "
        "each has a host and a port, and is a parameter server or a worker, of which the first is "
        "the chief. What is missing or wrong in the environment is named. Of several tasks that "
        "srun starts, the first prints.\n"
        "JSON: task, role (ps or worker), number (among those of its role), chief, host, port, "
        "address, ps (the number of its parameter server), own, and of the own task device.",
    .options = options,
    .options_size = sizeof(struct slurm_options),
    .ranks = true,
    .run = slurm_run,
};
