/* lockstep topo: the tiers of the ranks as a tree, rank files, and the list of devices.
 *
 * Under a launcher all ranks take part, and rank 0 prints.  With --hosts nothing runs: the tree and
 * the rank file are of a job that is still to be started.
 */
#include "launch/host_facts.h"
#include "launch/rankfile.h"
#include "ranks.h"
#include "report.h"
#include "term.h"
#include "verb.h"

#include <lockstep/device.h>

#include <stdlib.h>
#include <string.h>

#define COMMAND "lockstep topo"

struct topo_options {
    const char *mode, *hosts, *hostfile;
    int64_t sockets, cores;
    bool rankfile, devices, json;
};

static const lk_option options[] = {
    {"mode", LK_OPTION_TEXT, offsetof(struct topo_options, mode), .value = "MODE",
     .help = "declare the tiers, such as b:4x3: 4 ranks on each of 3 hosts"},
    {"hosts", LK_OPTION_TEXT, offsetof(struct topo_options, hosts), .value = "LIST",
     .help = "show a job on these hosts, not the one that runs"},
    {"hostfile", LK_OPTION_TEXT, offsetof(struct topo_options, hostfile), .value = "FILE",
     .help = "the same, with the hosts of a file: a, a slots=4 or a:4 in each line"},
    {"rankfile", LK_OPTION_FLAG, offsetof(struct topo_options, rankfile),
     .help = "print an Open MPI rank file for --mode on --hosts"},
    {"sockets", LK_OPTION_INT, offsetof(struct topo_options, sockets), .value = "N", .def = "0",
     .min = 0, .max = 1024, .help = "sockets of each host, for the rank file; 0: as many as here"},
    {"cores", LK_OPTION_INT, offsetof(struct topo_options, cores), .value = "N", .def = "0",
     .min = 0, .max = 4096, .help = "cores of each socket, for the rank file; 0: as many as here"},
    {"devices", LK_OPTION_FLAG, offsetof(struct topo_options, devices),
     .help = "list the devices of this process: its cores, or what LK_DEVICES says"},
    {"json", LK_OPTION_FLAG, offsetof(struct topo_options, json),
     .help = "print one JSON object for each tier, then one for each rank; or one for each device"},
    {.name = NULL},
};

static const report_column tier_columns[] = {
    {"tier", "tier", 0}, {"name", "name", -1}, {"size", "size", 0}};

static const report_column rank_columns[] = {
    {"rank", "rank", 0},       {"at", "at", -1},      {"host", "host", -1},  {"node", "node", 0},
    {"package", "package", 0}, {"cache", "cache", 0}, {"cores", "cores", -1}};

static report_cell number(int v)
{
    return v >= 0 ? cell_int(v) : cell_none();
}

/* The place of a rank in the tiers, the nearest first, as in a mode. */
static void coordinates(const lk_topology *t, int rank, char *out, size_t size)
{
    int n = 0;
    out[0] = '\0';
    for (int i = 0; i < t->n_tiers; i++) {
        n += snprintf(out + n, size - (size_t)n, "%s%d", i ? "," : "", rank % t->tier[i].size);
        rank /= t->tier[i].size;
    }
}

static void print_json(const lk_topology *t)
{
    report out;
    report_begin(&out, tier_columns, 3, true);
    for (int i = 0; i < t->n_tiers; i++)
        report_row(&out, (report_cell[]){cell_int(i), cell_text(t->tier[i].name),
                                         cell_int(t->tier[i].size)});
    report_begin(&out, rank_columns, 7, true);
    for (int r = 0; r < t->size; r++) {
        const lk_location *p = &t->location[r];
        char at[64];
        coordinates(t, r, at, sizeof at);
        report_row(&out,
                   (report_cell[]){cell_int(r), cell_text(at), cell_text(p->host), number(p->node),
                                   number(p->package), number(p->cache), cell_text(p->cores)});
    }
}

/* What a line of the tree is drawn with. */
struct branch {
    const struct branch *above;
    bool last;
};

static void indent(const struct branch *b)
{
    if (!b)
        return;
    indent(b->above);
    fputs(b->last ? "   " : "│  ", stdout);
}

static void line_begin(const struct branch *b)
{
    indent(b->above);
    fputs(b->last ? "└─ " : "├─ ", stdout);
}

static int digits(int v)
{
    return snprintf(NULL, 0, "%d", v);
}

/* What is drawn, and how wide the places of its ranks are, so that they lie below each other. */
struct tree {
    const lk_topology *t;
    int rank, host, package, cache;
};

static struct tree tree_of(const lk_topology *t)
{
    struct tree tree = {.t = t, .rank = digits(t->size - 1)};
    for (int r = 0; r < t->size; r++) {
        const lk_location *p = &t->location[r];
        int host = (int)strlen(p->host), package = digits(p->package), cache = digits(p->cache);
        tree.host = host > tree.host ? host : tree.host;
        tree.package = package > tree.package ? package : tree.package;
        tree.cache = cache > tree.cache ? cache : tree.cache;
    }
    return tree;
}

/* Each part is as wide as it is for all ranks, but the last of a line. */
static void print_rank(const struct tree *tree, int rank, bool host, const struct branch *b)
{
    const lk_location *p = &tree->t->location[rank];
    bool cores = p->cores[0] != '\0', cache = p->cache >= 0, package = p->package >= 0;
    line_begin(b);
    printf("rank %-*d", host || package || cache || cores ? tree->rank : 0, rank);
    if (host)
        printf("  %-*s", package || cache || cores ? tree->host : 0, p->host);
    if (package)
        printf("  package %-*d", cache || cores ? tree->package : 0, p->package);
    if (cache)
        printf("  cache %-*d", cores ? tree->cache : 0, p->cache);
    if (cores)
        printf("  core%s %s", plural(p->n_cores), p->cores);
    putchar('\n');
}

/* The host of `n` ranks from `first` on; NULL if they have several. */
static const char *common_host(const lk_topology *t, int first, int n)
{
    for (int r = first + 1; r < first + n; r++)
        if (t->location[r].node != t->location[first].node)
            return NULL;
    return t->location[first].host;
}

/* The members of a group of tier `tier`, whose ranks begin at `first`; `host`: already said. */
static void print_members(const struct tree *tree, int tier, int first, bool host,
                          const struct branch *above)
{
    const lk_topology *t = tree->t;
    int below = 1;
    for (int i = 0; i < tier; i++)
        below *= t->tier[i].size;
    for (int i = 0; i < t->tier[tier].size; i++) {
        struct branch b = {above, i == t->tier[tier].size - 1};
        int at = first + i * below;
        if (tier == 0) {
            print_rank(tree, at, !host, &b);
            continue;
        }
        const char *name = host ? NULL : common_host(t, at, below);
        line_begin(&b);
        printf("%s %d%s%s\n", t->tier[tier - 1].name, i, name ? ": " : "", name ? name : "");
        print_members(tree, tier - 1, at, host || name, &b);
    }
}

static void print_tree(const lk_topology *t)
{
    lk_tier_spec mode = {.algorithm = t->algorithm, .n_tiers = t->n_tiers};
    char text[LK_TIER_SPEC_TEXT];
    for (int i = 0; i < t->n_tiers; i++)
        mode.size[i] = t->tier[i].size;
    lk_tier_spec_text(&mode, text);
    printf("%d rank%s on %d host%s, tiers %s %s\n", t->size, plural(t->size), t->n_nodes,
           plural(t->n_nodes), text, t->declared ? "as declared" : "as found");
    if (t->flat_reason)
        printf("one tier: %s\n", t->flat_reason);
    if (t->hardware_source && strcmp(t->hardware_source, "hwloc") != 0)
        printf("packages and caches are not known: %s\n", t->hardware_source);
    const char *host = common_host(t, 0, t->size);
    const char *top = t->tier[t->n_tiers - 1].name;
    printf("\n%s%s%s\n", top, host ? ": " : "", host ? host : "");
    struct tree tree = tree_of(t);
    print_members(&tree, t->n_tiers - 1, 0, host != NULL, NULL);
}

static int print_topology(const lk_topology *t, bool json)
{
    if (json)
        print_json(t);
    else
        print_tree(t);
    return LK_EXIT_DONE;
}

/* ---- the job that runs ---- */

static int topo_of(lk_comm *comm, const struct topo_options *o)
{
    lk_topology *t = NULL;
    lk_tier_spec mode;
    if (o->mode && (lk_tier_spec_parse(o->mode, &mode) != LK_OK ||
                    lk_tier_spec_fit(&mode, lk_comm_size(comm)) != LK_OK))
        return verb_refuse(COMMAND ": %s", lk_error_message());
    if (lk_topology_new_spec(comm, o->mode ? &mode : NULL, &t) != LK_OK)
        return verb_failed();
    int status = t->rank == 0 ? print_topology(t, o->json) : LK_EXIT_DONE;
    lk_topology_free(t);
    return status;
}

static int topo_running(const struct topo_options *o)
{
    lk_comm *comm;
    int status = ranks_open(&comm);
    if (status == LK_EXIT_DONE)
        status = topo_of(comm, o);
    ranks_close(comm);
    return status;
}

/* ---- a job to come ---- */

/* As many sockets and cores as here, where the options do not say. */
static int hosts_default(const struct topo_options *o, lk_arena *arena, rankfile *f)
{
    host_facts here;
    if (!host_facts_collect(NULL, arena, &here))
        return verb_failed();
    f->sockets = o->sockets > 0 ? (int)o->sockets : here.sockets;
    f->cores = o->cores > 0 ? (int)o->cores : here.cores / here.sockets;
    return LK_EXIT_DONE;
}

/* What lk_topology_new() would find, were each rank bound as the rank file says. */
static int topo_planned(const rankfile *f, bool json)
{
    static const char *const names[LK_MAX_TIERS] = {"X", "Y", "Z", "W"};
    int on_host = f->mode.size[0], size = on_host * f->hosts.n;
    lk_topology t = {
        .size = size, .n_nodes = f->hosts.n, .declared = true, .algorithm = f->mode.algorithm};
    t.n_tiers = f->mode.n_tiers;
    for (int i = 0; i < t.n_tiers; i++)
        t.tier[i] = (lk_tier){names[i], f->mode.size[i]};
    t.location = calloc((size_t)size, sizeof *t.location);
    if (!t.location) {
        fprintf(stderr, "error: " COMMAND ": no memory for %d ranks\n", size);
        return LK_EXIT_FAILED;
    }
    for (int r = 0; r < size; r++) {
        lk_location *p = &t.location[r];
        int first, last;
        *p = (lk_location){.node = r / on_host, .cache = -1};
        rankfile_slot(f, r % on_host, &p->package, &first, &last);
        p->n_cores = last - first + 1;
        snprintf(p->host, sizeof p->host, "%s", f->hosts.item[r / on_host].name);
        int n = snprintf(p->cores, sizeof p->cores, "%d", first);
        if (last > first)
            snprintf(p->cores + n, sizeof p->cores - (size_t)n, "-%d", last);
    }
    int status = print_topology(&t, json);
    free(t.location);
    return status;
}

static int topo_hosts(const struct topo_options *o, lk_arena *arena)
{
    rankfile f = {.sets = 0};
    if (lk_tier_spec_parse(o->mode, &f.mode) != LK_OK) {
        fprintf(stderr, "error: " COMMAND ": %s\n", lk_error_message());
        return LK_EXIT_USAGE;
    }
    if (f.mode.n_tiers == 0) {
        fprintf(stderr,
                "error: " COMMAND ": --hosts needs a --mode with dimensions, such as 4x3\n");
        return LK_EXIT_USAGE;
    }
    int status = hosts_default(o, arena, &f);
    if (status != LK_EXIT_DONE)
        return status;
    f.sets = f.mode.size[0];
    bool read = o->hosts ? hosts_parse(COMMAND, "hosts", o->hosts, arena, &f.hosts)
                         : hosts_read(COMMAND, o->hostfile, arena, &f.hosts);
    if (!read || !rankfile_check_hosts(&f, COMMAND) || !rankfile_check_cores(&f, COMMAND))
        return LK_EXIT_USAGE;
    if (!o->rankfile)
        return topo_planned(&f, o->json);
    rankfile_write(&f, stdout);
    return LK_EXIT_DONE;
}

/* ---- devices ---- */

enum { PROCESSORS_TEXT = 5 * LK_MAX_PROCESSORS }; /* "1000,1002,...": room for any set */

static const report_column device_columns[] = {{"device", "device", 0},
                                               {"name", "name", -1},
                                               {"kind", NULL, 0},
                                               {"processors", "processors", -1}};

static void devices_rows(const lk_device *list, int n, bool json)
{
    static char text[PROCESSORS_TEXT];
    report r;
    report_keep(&r, device_columns, 4, json);
    for (int i = 0; i < n; i++) {
        lk_device_processors_text(&list[i], text, sizeof text);
        report_row(&r, (report_cell[]){cell_int(i), cell_text(list[i].name), cell_text("cpu"),
                                       cell_text(text)});
    }
    report_end(&r);
}

static int devices_print(bool json)
{
    int n, room;
    if (lk_devices_available(NULL, 0, &room) != LK_OK)
        return verb_refuse(COMMAND ": %s", lk_error_message());
    lk_device *list = calloc((size_t)room, sizeof *list);
    if (!list) {
        fprintf(stderr, "error: " COMMAND ": no memory for a list of %d devices\n", room);
        return LK_EXIT_FAILED;
    }
    int status = LK_EXIT_DONE;
    if (lk_devices_available(list, room, &n) == LK_OK)
        devices_rows(list, n < room ? n : room, json);
    else
        status = verb_failed();
    free(list);
    return status;
}

/* ---- the verb ---- */

static int topo_run(const void *given, int n, char **operand)
{
    const struct topo_options *o = given;
    (void)n;
    (void)operand;
    bool hosts = o->hosts || o->hostfile;
    if (!hosts && !o->rankfile && !o->devices)
        return topo_running(o);
    if (!ranks_is_root())
        return LK_EXIT_DONE;
    if (o->devices && (hosts || o->mode || o->rankfile)) {
        fprintf(stderr, "error: " COMMAND ": --devices is a list of this process: it goes with "
                        "--json alone\n");
        return LK_EXIT_USAGE;
    }
    if (o->devices)
        return devices_print(o->json);
    if (!hosts || !o->mode || (o->hosts && o->hostfile) || (o->rankfile && o->json)) {
        fprintf(stderr, "error: " COMMAND ": %s\n",
                !hosts                    ? "--rankfile needs --hosts, such as a,b,c"
                : !o->mode                ? "--hosts needs --mode, such as 4x3"
                : o->hosts && o->hostfile ? "options --hosts and --hostfile: give one of them"
                                          : "a rank file is no JSON");
        return LK_EXIT_USAGE;
    }
    lk_arena *arena = NULL;
    int status = lk_arena_new(&arena) == LK_OK ? topo_hosts(o, arena) : verb_failed();
    lk_arena_free(arena);
    return status;
}

const lk__verb lk__verb_topo = {
    .name = "topo",
    .summary = "where the ranks are and in which tiers they talk; rank files; devices",
    .operands = "",
    .about =
        "Shows the tiers of the ranks as a tree, as found or as --mode declares them: which ranks "
        "are on one package, on one host, on several. Under mpirun or srun it shows that job; rank "
        "0 prints.\n"
        "With --hosts or --hostfile it shows a job that is still to be started, X ranks of the "
        "mode's XxYxZ on "
        "each host, and with --rankfile it prints the file for mpirun's -rf: mpirun -n 12 -rf "
        "FILE. The hosts are listed in the order of the ranks; there are Y times Z of them.\n"
        "With --devices it lists what threads and ranks can be bound to, as programs see it with "
        "this affinity mask and LK_DEVICES. JSON: device, name, kind, processors.",
    .options = options,
    .options_size = sizeof(struct topo_options),
    .ranks = true,
    .run = topo_run,
};
