/* lockstep run: start ranks, by MPI's launcher or as threads, and see them to their end. */
#include "launch/hosts.h"
#include "launch/run_job.h"
#include "ranks.h"
#include "verb.h"

#define FIELD(name) offsetof(run_options, name)

static const lk_option options[] = {
    {"n", LK_OPTION_INT, FIELD(n), .value = "N", .def = "0", .min = 0, .max = RANKS_MAX_PROCESSES,
     .help = "the number of ranks; 0: as many as there are cores; on threads 4096 at most"},
    {"host", LK_OPTION_TEXT, FIELD(host), .value = "LIST",
     .help =
         "the hosts, in the order of the ranks: a,b,c; a:4 takes 4 ranks, also more than it has "
         "cores"},
    {.name = "H", .flags = OPTION_SHORT},
    {"hostfile", LK_OPTION_TEXT, FIELD(hostfile), .value = "FILE",
     .help = "the hosts, one a line: a, a slots=4 or a:4; # begins a comment"},
    {"mode", LK_OPTION_TEXT, FIELD(mode), .value = "MODE",
     .help = "how ranks lie and sum, as n:4x3: 4 ranks on each of 3 hosts; a letter alone: the "
             "dimensions are those of the hosts; p by default where hosts are given"},
    {.name = "m", .flags = OPTION_SHORT},
    {"rankfile", LK_OPTION_TEXT, FIELD(rankfile), .value = "FILE",
     .help = "where each rank goes, as rank 0=a slot=0:0-3; the hosts are not looked at"},
    {.name = "rf", .flags = OPTION_SHORT},
    {"accelerators", LK_OPTION_INT, FIELD(accelerators), .value = "N", .def = "0", .min = 0,
     .max = 4096,
     .help = "sets that the cores of each host are cut into, one for each of its ranks; 0: as many "
             "as ranks"},
    {"nodes", LK_OPTION_INT, FIELD(nodes), .value = "N", .def = "0", .min = 0, .max = HOSTS_MAX,
     .help = "hosts in each rack; 0: all of them"},
    {"racks", LK_OPTION_INT, FIELD(racks), .value = "N", .def = "0", .min = 0, .max = HOSTS_MAX,
     .help = "racks in each aisle; 0: one"},
    {"aisles", LK_OPTION_INT, FIELD(aisles), .value = "N", .def = "0", .min = 0, .max = HOSTS_MAX,
     .help = "aisles; 0: one"},
    {"tcp", LK_OPTION_FLAG, FIELD(tcp), .help = "hosts talk over TCP, whatever else there is"},
    {"x", LK_OPTION_TEXT, FIELD(variables), .value = "VAR[=VALUE]", .flags = OPTION_LINES,
     .help =
         "a variable of the environment for all ranks, as it is here or with this value; may be "
         "given again"},
    {"mpiarg", LK_OPTION_TEXT, FIELD(mpiarg), .value = "WORDS", .flags = OPTION_LINES,
     .help = "for mpirun, before the program; may be given again"},
    {"ddlarg", LK_OPTION_TEXT, FIELD(ddlarg), .value = "WORDS", .flags = OPTION_LINES,
     .help = "for DDL_OPTIONS, behind the mode, as -dump_iter 100; may be given again"},
    {"no_ddloptions", LK_OPTION_FLAG, FIELD(no_ddloptions), .help = "leave DDL_OPTIONS as it is"},
    {"verbose", LK_OPTION_FLAG, FIELD(verbose),
     .help = "tell of each check, and how the launcher is called"},
    {.name = "v", .flags = OPTION_SHORT},
    {"transport", LK_OPTION_TEXT, FIELD(transport), .value = "NAME",
     .help = "mpi: ranks are processes of an MPI; local: threads of one process; mpi by default "
             "where there is one"},
    {"mpi", LK_OPTION_TEXT, FIELD(mpi), .value = "NAME", .def = "auto",
     .help = "openmpi, mpich, or auto: what LK_MPI says, otherwise the first that is there"},
    {"restarts", LK_OPTION_INT, FIELD(restarts), .value = "K", .def = "0", .min = 0, .max = 1000000,
     .help = "how often to start again, with --resume, after a failure"},
    {"start-deadline", LK_OPTION_TEXT, FIELD(start_deadline), .value = "S",
     .help = "end the job if for so many seconds no further rank comes and MPI_Init has not "
             "returned, 0: never; otherwise LK_START_DEADLINE, or LK_DEADLINE but at least 10, or "
             "120"},
    {"dry-run", LK_OPTION_FLAG, FIELD(dry_run),
     .help = "print what is set for the launcher and its command line, and start nothing"},
    {.name = NULL},
};

static int run_run(const void *given, int n, char **operand)
{
    return run_job(given, n, operand);
}

const lk__verb lk__verb_run = {
    .name = "run",
    .summary = "start ranks, as processes of an MPI or as threads, and run a verb on them",
    .operands = "[--] VERB|PROGRAM [options] [operands]",
    .about =
        "Runs a verb on N ranks: train, eval, bench step, bench allreduce, gradcheck, topo, slurm, "
        "verify --trace. With the transport mpi it calls the mpirun of Open MPI or MPICH; with "
        "local the "
        "ranks are threads of one process, and no MPI "
        "is needed. Kernels of local ranks share the cores, unless LK_THREADS says otherwise.\n"
        "Ranks of train and eval share the batch (parallel.data); parallel.spatial, features and "
        "stages of the "
        "experiment let so many of them share each sample, wide layers, or the model's layers, and "
        "N is a multiple of their product.\n"
        "What is no verb is a program, by its path or found in PATH: one that uses the library, or "
        "any other MPI program. Its ranks are processes of an MPI; its status is the launcher's.\n"
        "Hosts, modes and rank files are given as to DDL's launcher. The hosts are looked at "
        "before "
        "anything is started: whether each can be reached, has this lockstep and is like the "
        "others. A rank file skips that.\n"
        "INT, TERM, HUP, USR1 and USR2 ask the ranks to stop; train saves a checkpoint then. A "
        "second INT (Ctrl-C) ends the job at once. To a program USR1 and USR2 are passed on, and "
        "the "
        "others end it. When this command is killed, its ranks end too.\n"
        "The exit status is the job's: 0 done, 1 failed, 2 wrong usage, 75 stopped on request with "
        "a "
        "checkpoint saved. After a failure, and only then, --restarts starts the job again.",
    .options = options,
    .options_size = sizeof(run_options),
    .min_operands = 1,
    .max_operands = 100000,
    .wraps = true,
    .run = run_run,
};
