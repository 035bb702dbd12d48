/* lockstep bench halo: convolutions on tiles over two ranks, against two threads of one. */
#include "bench/halo.h"

#include "bench/options.h"
#include "bench/path.h"
#include "bench/peers/peers.h"
#include "verb.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

struct halo_options {
    bool json;
    lk_option_names sizes;
    const char *against;
    int64_t channels;
    double seconds;
};

#define FIELD(name) offsetof(struct halo_options, name)

static const lk_option options[] = {
    {"sizes", LK_OPTION_NAMES, FIELD(sizes), .value = "NxN,...", .def = "512x512,64x64x64",
     .help = "of the sample: two or three axes, at least 4 along each", .flags = LK_OPTION_ONCE},
    {"channels", LK_OPTION_INT, FIELD(channels), .value = "N", .def = "16", .min = 1, .max = 4096,
     .help = "of every layer"},
    {"against", LK_OPTION_TEXT, FIELD(against), .value = "NAME", .def = "none",
     .help = "onednn, which does the convolutions with two threads, or none"},
    BENCH_SECONDS_OPTION(FIELD(seconds), "20", "each case, everybody together"),
    BENCH_JSON_OPTION(FIELD(json)),
    {.name = NULL},
};

struct bench {
    const struct halo_options *o;
    const lk__peer *peer;
    bench_path path;
    report out;
};

static int refuse(const char *option, const char *why)
{
    return verb_refuse("lockstep bench halo: option --%s: %s", option, why);
}

/* "512x512" or "64x64x64"; false: it is no size. */
static bool case_read(const char *text, halo_case *c)
{
    const char *at = text;
    for (c->ndim = 0; c->ndim < 3; at++) {
        char *end;
        long long n = strtoll(at, &end, 10);
        if (end == at || n < 4 || n > 65536)
            return false;
        c->size[c->ndim++] = n;
        at = end;
        if (*at != 'x')
            return c->ndim >= 2 && *at == '\0';
    }
    return false;
}

/* Keep the first processors of those that the process may use; false: there are fewer. */
static bool processors_keep(int n)
{
    cpu_set_t allowed, own;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < n)
        return false;
    CPU_ZERO(&own);
    for (size_t cpu = 0; cpu < CPU_SETSIZE && n > 0; cpu++)
        if (CPU_ISSET(cpu, &allowed)) {
            CPU_SET(cpu, &own);
            n--;
        }
    return sched_setaffinity(0, sizeof own, &own) == 0;
}

static report_cell cell_ms(bench_figure seconds)
{
    return cell_figure(bench_scaled(1e3, seconds), 1);
}

static void row_print(struct bench *b, const char *size, const halo_case *c, const halo_figures *f)
{
    char name[64];
    bool asked = b->peer != NULL, done = f->ratio.measured;
    snprintf(name, sizeof name, "%sx%lld", size, (long long)c->channels);
    report_row(&b->out, (report_cell[]){
                            cell_text(name),
                            cell_ms(f->seconds[HALO_ONE]),
                            cell_ms(f->seconds[HALO_FAST]),
                            cell_figure(f->ranks, 2),
                            cell_figure(f->limit, 2),
                            cell_figure(f->price, 2),
                            cell_figure(f->tiles[0], 2),
                            cell_figure(f->tiles[1], 2),
                            cell_figure(f->ratio, 2),
                            cell_ms(f->seconds[HALO_APART]),
                            cell_ms(f->seconds[HALO_CANON]),
                            cell_ms(f->seconds[HALO_PEER]),
                            asked ? cell_text(b->peer->name) : cell_none(),
                            asked ? cell_text(f->peer_about) : cell_none(),
                            asked ? cell_path(&b->path) : cell_none(),
                            asked ? cell_path_warning(&b->path) : cell_none(),
                            cell_int(f->rounds),
                        });
    if (asked && !done && !b->o->json)
        printf("  %s: %s\n", b->peer->name, f->peer_about);
    report_flush();
}

/* One of the two ranks. */
static lk_status rank_run(lk_comm *comm, void *arg)
{
    struct bench *b = arg;
    for (int i = 0; i < b->o->sizes.n; i++) {
        halo_case c = {.channels = b->o->channels, .seconds = b->o->seconds, .peer = b->peer};
        halo_figures f;
        (void)case_read(b->o->sizes.item[i], &c); /* it was read before */
        LK_TRY(halo_measure(comm, &c, &f));
        if (lk_comm_rank(comm) == 0)
            row_print(b, b->o->sizes.item[i], &c, &f);
    }
    return LK_OK;
}

static int peer_choose(struct bench *b)
{
    char why[512];
    if (strcmp(b->o->against, "none") == 0)
        return LK_EXIT_DONE;
    const peer_entry *e = peer_find(b->o->against);
    if (!e || strcmp(e->name, "onednn") != 0)
        return refuse("against", "onednn or none");
    b->peer = peer_open(e, why, sizeof why);
    if (!b->peer)
        return verb_refuse("%s cannot be measured: %s\n  install the package %s and build again",
                           e->name, why, e->package);
    bench_path_set(&b->path, b->peer->name, b->peer->path());
    bench_path_warn(&b->path);
    return LK_EXIT_DONE;
}

static int halo_run(const void *given, int n_operands, char **operand)
{
    static const report_column columns[] = {
        {"case", "case", -12},
        {"milliseconds", "1 rank ms", 14},
        {"ranks_milliseconds", "2 ranks ms", 14},
        {"ranks", "ranks", 11},
        {"copies", "copies", 11},
        {"price", "price", 11},
        {"tiles_2x2", "2x2", 11},
        {"tiles_4x4", "4x4", 11},
        {"ratio", "ratio", 11},
        {"copies_milliseconds", NULL, 0},
        {"canonical_milliseconds", NULL, 0},
        {"peer_milliseconds", NULL, 0},
        {"peer", NULL, 0},
        {"peer_kernel", NULL, 0},
        BENCH_PATH_COLUMNS,
        {"rounds", NULL, 0},
    };
    struct bench b = {.o = given};
    halo_case c;
    (void)n_operands;
    (void)operand;
    for (int i = 0; i < b.o->sizes.n; i++)
        if (!case_read(b.o->sizes.item[i], &c))
            return refuse("sizes", "a size is such as 512x512 or 64x64x64, at least 4 each");
    int status = peer_choose(&b);
    if (status != LK_EXIT_DONE)
        return status;
    if (!processors_keep(HALO_RANKS))
        return verb_refuse("lockstep bench halo: it needs two processors");
    if (!b.o->json) {
        printf("f32, %d convolutions with relu, forward and backward, on two processors; medians "
               "of time\n",
               HALO_LAYERS);
        if (b.peer)
            bench_path_print(&b.path, b.peer->name, b.peer->about());
        putchar('\n');
    }
    report_begin(&b.out, columns, sizeof columns / sizeof columns[0], b.o->json);
    lk_status st = lk_run_local(HALO_RANKS, rank_run, &b);
    return st == LK_OK ? LK_EXIT_DONE : verb_failed_with(st, NULL);
}

const lk__verb lk__bench_kind_halo = {
    .computes = true,
    .name = "halo",
    .summary = "convolutions on tiles over two ranks, against two threads of one",
    .operands = "",
    .about =
        "Measures 4 convolutions of 3x3 (or 3x3x3) with relu on one sample, forward and backward "
        "with the gradients of all weights, on the same two processors in turn: one rank with two "
        "threads, and two ranks, threads of this process with one thread each, which have half the "
        "rows each and fetch the border rows of each other. It needs about 1 GB of memory.\n"
        "Columns: 1 rank, 2 ranks: milliseconds of a pass. ranks: the time of one rank divided by "
        "that of two; 1 if fetching costs nothing. copies: the time of two stacks that have half "
        "the rows each and never meet, on one thread each, divided by that of the two ranks; it "
        "is what they could reach. price: the time of two ranks in canonical mode, with 4x4 tiles, "
        "which up to 16 ranks give the same bits, divided by that in fast mode, with as many tiles "
        "as ranks. Both compute and send the same values; what differs is that gradients of "
        "weights are added up for each tile, and joined over the tiles. 2x2, 4x4: the time "
        "of one rank that has so many tiles divided by that with the whole sample. ratio: the "
        "time of the library's convolutions alone, with two threads, without relu, divided by "
        "that of one rank; for two axes.\n" BENCH_NOISE_ABOUT BENCH_PATH_ABOUT "\n"
        "JSON: case, milliseconds, ranks_milliseconds, ranks, copies, price, tiles_2x2, tiles_4x4, "
        "ratio, copies_milliseconds, canonical_milliseconds, peer_milliseconds, peer, peer_kernel, "
        "peer_path, peer_warning, rounds.",
    .options = options,
    .options_size = sizeof(struct halo_options),
    .run = halo_run,
};
