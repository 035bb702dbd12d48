/* lockstep info: what this build is, what it found here, and what it will use and why; and with a
 * file, what an experiment says. */
#include "bench/peers/peers.h"
#include "experiment.h"
#include "launch/host_facts.h"
#include "launch/launch.h"
#include "report.h"
#include "verb.h"

#include <lockstep/extra/isa.h>
#include <lockstep/extra/map.h>
#include <lockstep/thread.h>
#include <lockstep/version.h>

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct info_options {
    bool json, host;
    const char *program;
};

static const lk_option options[] = {
    {"json", LK_OPTION_FLAG, offsetof(struct info_options, json),
     .help = "print one JSON object for each fact"},
    {"host", LK_OPTION_FLAG, offsetof(struct info_options, host),
     .help = "print one line of what the hosts of a job must have in common, as run compares it"},
    {"program", LK_OPTION_TEXT, offsetof(struct info_options, program), .value = "PATH",
     .help = "with --host, whether this program is there as well"},
    {.name = NULL},
};

static const report_column columns[] = {
    {"topic", "topic", -1},
    {"name", "name", -1},
    {"value", "value", -1},
    {"note", "", -1},
};

/* The report, what the environment said before peers were opened, and whether something found here stops
 * the kernels from running. */
struct info {
    report out;
    bool openmp_spins;
    openmp_spin spin;
    bool broken;
};

static void row(struct info *info, const char *topic, const char *name, report_cell value,
                const char *note)
{
    report_row(&info->out,
               (report_cell[]){cell_text(topic), cell_text(name), value, cell_text(note)});
}

static void build_rows(struct info *info)
{
    row(info, "lockstep", "version", cell_text(lk_version()), "");
    row(info, "lockstep", "epoch", cell_int(lk_numerics_epoch()),
        "numerics epoch: equal epochs give equal bits");
    row(info, "lockstep", "hash", cell_int(lk_hash_format()),
        "hash format: states can be compared if it is equal");
    row(info, "lockstep", "compiler", cell_text(lk_build_compiler()), "");
    row(info, "lockstep", "build", cell_text(lk_build_type()), "");
}

static void isa_rows(struct info *info)
{
    lk_isa used = LK_ISA_SCALAR;
    char note[256];
    bool known = lk_isa_now(&used) == LK_OK;
    if (!known) {
        row(info, "instruction set", "in use", cell_text("error"), lk_error_message());
        info->broken = true;
    }
    const char *env = secure_getenv("LK_ISA");
    const char *why = env && *env ? "because LK_ISA says so; " : "because it is the best here; ";
    for (int i = 0; i < LK_N_ISAS; i++) {
        lk_isa isa = (lk_isa)i;
        bool in_use = known && isa == used;
        snprintf(note, sizeof note, "%s%s %s%s", in_use ? why : "",
                 lk_isa_is_built(isa) ? "needs" : "not in this build, needs", lk_isa_needs(isa),
                 lk_isa_is_emulated(isa) ? "; emulated, for tests" : "");
        const char *state = lk_isa_is_available(isa) ? "available" : "not available";
        row(info, "instruction set", lk_isa_name(isa), cell_text(in_use ? "in use" : state), note);
    }
}

static void thread_rows(struct info *info)
{
    int n;
    const char *env = secure_getenv("LK_THREADS");
    if (lk_threads_now(&n) != LK_OK) {
        row(info, "threads", "in use", cell_text("error"), lk_error_message());
        info->broken = true;
        return;
    }
    row(info, "threads", "in use", cell_int(n),
        env && *env ? "because LK_THREADS says so"
                    : "this process's share of the cores, among the ranks of this node");
}

/* Only where it is so: the environment of most processes says nothing. */
static void openmp_row(struct info *info)
{
    char note[512];
    const openmp_spin *s = &info->spin;
    if (!info->openmp_spins)
        return;
    snprintf(note, sizeof note,
             "because %s is %s: threads of OpenMP that wait take cores from ours; %s=%s lets them "
             "sleep",
             s->name, s->value, s->name, s->passive);
    row(info, "threads", "OpenMP", cell_text("spins"), note);
}

static void arithmetic_row(struct info *info)
{
    /* A kernel without elements does nothing but look at its thread's environment. */
    float none = 0;
    bool ok = lk_map1(LK_F32, LK_MAP1_COPY, 0, 0, &none, &none) == LK_OK;
    row(info, "arithmetic", "environment", cell_text(ok ? "canonical" : "error"),
        ok ? "rounds to nearest, keeps denormals" : lk_error_message());
    info->broken = info->broken || !ok;
}

static void cache_row(struct info *info, const char *name, int level)
{
    long bytes = sysconf(level);
    row(info, "machine", name, bytes > 0 ? cell_int(bytes / 1024) : cell_text("unknown"), "KiB");
}

static void machine_rows(struct info *info)
{
    char note[64];
    cpu_set_t mask;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int usable = sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : (int)cores;
    snprintf(note, sizeof note, "in the affinity mask, of %ld", cores);
    row(info, "machine", "cores", cell_int(usable), note);
    double gib = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE) / (1 << 30);
    row(info, "machine", "memory", cell_real(gib, 1), "GiB");
    cache_row(info, "L1 data", _SC_LEVEL1_DCACHE_SIZE);
    cache_row(info, "L2", _SC_LEVEL2_CACHE_SIZE);
    cache_row(info, "L3", _SC_LEVEL3_CACHE_SIZE);
}

static void transport_rows(struct info *info)
{
    static const char *const mpis[] = {"openmpi", "mpich"};
    row(info, "transport", "local", cell_text("available"), "ranks as threads of one process");
    for (size_t i = 0; i < sizeof mpis / sizeof mpis[0]; i++) {
        launcher l;
        char why[256];
        bool found = launcher_find(mpis[i], &l, why, sizeof why);
        row(info, "transport", mpis[i], cell_text(found ? "available" : "not available"),
            found ? l.path : why);
    }
}

static void peer_rows(struct info *info)
{
    for (const peer_entry *e = peer_entries; e->name; e++) {
        char why[512], note[640];
        const lk__peer *peer = peer_open(e, why, sizeof why);
        snprintf(note, sizeof note, "%s (Debian package %s)", why, e->package);
        row(info, "peer", e->name, cell_text(peer ? "found" : "not found"),
            peer ? peer->about() : note);
    }
}

static void all_rows(struct info *info)
{
    build_rows(info);
    isa_rows(info);
    thread_rows(info);
    openmp_row(info);
    arithmetic_row(info);
    machine_rows(info);
    transport_rows(info);
    peer_rows(info);
}

static int info_experiment(bool json, int n, char **operand)
{
    static const report_column of_experiment[] = {
        {"section", "section", -1}, {"name", "name", -1}, {"value", "value", -1}};
    lk_experiment *e;
    int status = experiment_open(n, operand, &e);
    if (status != LK_EXIT_DONE)
        return status;
    report out;
    report_measure(&out, of_experiment, 3, json);
    experiment_rows(e, &out);
    report_print(&out);
    experiment_rows(e, &out);
    lk_experiment_free(e);
    return LK_EXIT_DONE;
}

static int info_host(const char *program)
{
    lk_arena *arena = NULL;
    host_facts facts;
    bool found = lk_arena_new(&arena) == LK_OK && host_facts_collect(program, arena, &facts);
    if (found)
        host_facts_print(&facts, stdout);
    lk_arena_free(arena);
    return found ? LK_EXIT_DONE : verb_failed();
}

static int info_run(const void *given, int n, char **operand)
{
    const struct info_options *o = given;
    if (o->host)
        return info_host(o->program);
    if (n > 0)
        return info_experiment(o->json, n, operand);
    struct info info = {.broken = false};
    info.openmp_spins = openmp_spins(&info.spin);
    report_measure(&info.out, columns, 4, o->json);
    all_rows(&info);
    report_print(&info.out);
    all_rows(&info);
    lk_error_clear();
    return info.broken ? LK_EXIT_USAGE : LK_EXIT_DONE;
}

const lk__verb lk__verb_info = {
    .name = "info",
    .summary = "what this build is, what it found here and what it will use",
    .operands = "[FILE.yaml [KEY=VALUE...]]",
    .about =
        "Prints version, numerics epoch and hash format, compiler, the instruction sets and which "
        "one is in "
        "use and why, the number of threads and why, whether the environment lets threads of "
        "OpenMP spin, which "
        "takes cores from ours, whether this process's floating-point "
        "environment is canonical, the machine as seen, what \"lockstep run\" can start ranks on, "
        "and the libraries found for \"lockstep bench\".\n"
        "With FILE.yaml it checks an experiment and prints all that is set in it, by the file, by "
        "KEY=VALUE, or by default; nothing is opened but the file.\n"
        "The exit status is 2 if LK_ISA or LK_THREADS in the environment cannot be followed.",
    .options = options,
    .options_size = sizeof(struct info_options),
    .max_operands = 1000,
    .run = info_run,
};
