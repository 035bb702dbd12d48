/* lockstep bench step: training steps on one rank and on many, where their time goes, and PyTorch's in
 * turn. */
#include "bench/options.h"
#include "bench/step_ranks.h"
#include "bench/steps.h"
#include "experiment.h"
#include "layout.h"
#include "ranks.h"
#include "report.h"
#include "term.h"
#include "verb.h"

#include <lockstep/thread.h>

#include <string.h>

struct step_options {
    bool json;
    double seconds;
    int64_t threads;
    lk_option_names against, mode;
    const char *filter, *python, *layout;
};

#define FIELD(name) offsetof(struct step_options, name)

static const lk_option options[] = {
    {"against", LK_OPTION_NAMES, FIELD(against), .value = "NAME,...",
     .help = "torch, ddp (PyTorch's DistributedDataParallel), or none; by default torch, with "
             "several ranks both, if it is found",
     .flags = LK_OPTION_ONCE},
    {"mode", LK_OPTION_NAMES, FIELD(mode), .value = "NAME,...", .def = "canonical",
     .help = "how ranks are joined: canonical, fast, or both", .flags = LK_OPTION_ONCE},
    {"layout", LK_OPTION_TEXT, FIELD(layout), .value = "WORD",
     .help = "what ranks share, as verify has it: features2, stages2, data2.features2; of as many "
             "ranks as there are. Features of the cases are in 4 blocks then, on one rank too. By "
             "default the batch, of the U-Nets the images"},
    BENCH_FILTER_OPTION(FIELD(filter), ""),
    BENCH_SECONDS_OPTION(FIELD(seconds), "3", "each case, everybody together"),
    {"threads", LK_OPTION_INT, FIELD(threads), .value = "N", .def = "1", .min = 1, .max = 1024,
     .help = "threads of each rank; 1: each rank on its own core, with one rank PyTorch too"},
    BENCH_PYTHON_OPTION(FIELD(python), "torch"),
    BENCH_JSON_OPTION(FIELD(json)),
    {.name = NULL},
};

static const char *const mode_names[STEP_MODES] = {"canonical", "fast"};
/* The columns of shares are the last. */
enum { STEP_FIRST_SHARE = 15 };

static const char *const peer_names[STEP_PEERS] = {"torch", "ddp"};

/* All of a run: what was asked for, the ranks, and the table on rank 0. */
struct bench {
    const struct step_options *o;
    step_bench with;
    int ranks;
    bool leader;
    report out;
};

/* ---- rows ---- */

static report_cell cell_brief(bench_figure f, int decimals)
{
    report_cell c = cell_figure(f, decimals);
    c.brief = true;
    return c;
}

/* A part that there never is has no share, and that is known. */
static report_cell cell_share(bench_figure f)
{
    return f.value == 0 && f.noise == 0 ? cell_real(0, 3) : cell_brief(f, 3);
}

/* The row of a mode, next to a peer; peer -1: alone. */
static void print_row(struct bench *b, const char *name, int mode, int peer, const step_figures *f)
{
    static const bench_figure none;
    static const bench_path no_path;
    const bench_path *path = peer >= 0 ? &b->with.peer[peer].path : &no_path;
    bench_figure theirs = peer >= 0 ? f->seconds[STEP_OURS + peer] : none;
    report_cell cells[REPORT_MAX_COLUMNS] = {
        cell_text(name),
        cell_text(mode_names[mode]),
        cell_int(b->ranks),
        peer >= 0 ? cell_text(b->with.peers[peer]) : cell_none(),
        cell_figure(bench_rate(f->samples, f->seconds[mode]), 0),
        cell_figure(bench_rate(f->samples, theirs), 0),
        cell_figure(peer >= 0 ? f->ratio[mode][peer] : none, 2),
        cell_brief(bench_scaled(1e3, f->seconds[mode]), 3),
        cell_figure(f->efficiency[mode], 2),
        cell_figure(f->threaded[mode], 2),
        cell_figure(f->limit, 2),
        cell_figure(mode == STEP_CANONICAL ? f->price : none, 3),
        cell_path(path),
        cell_path_warning(path),
        cell_int(f->rounds),
    };
    for (int i = 0; i < STEP_PARTS; i++)
        cells[STEP_FIRST_SHARE + i] = cell_share(f->share[mode][i]);
    report_row(&b->out, cells);
}

static void print_rows(struct bench *b, const char *name, bool against, const step_figures *f)
{
    int peers = against ? b->with.n_peers : 0;
    for (int mode = 0; mode < STEP_MODES && b->leader; mode++)
        for (int peer = peers > 0 ? 0 : -1; b->with.on[mode] && peer < peers; peer++)
            print_row(b, name, mode, peer, f);
}

static void print_head(struct bench *b, const char *what)
{
    static const report_column columns[] = {
        {"case", "case", -23},
        {"mode", "mode", -9},
        {"ranks", NULL, 0},
        {"peer", "peer", -5},
        {"samples_per_s", "samples/s", 12},
        {"peer_samples_per_s", "peer's", 12},
        {"ratio", "ratio", 10},
        {"milliseconds", "ms", 8},
        {"efficiency", "effic.", 10},
        {"threads", "threads", 10},
        {"limit", "limit", 10},
        {"price", "price", 11},
        BENCH_PATH_COLUMNS,
        {"rounds", NULL, 0},
        {"data", "data", 6},
        {"forward", "forward", 7},
        {"backward", "backward", 8},
        {"wait", "wait", 6},
        {"exchange", "exchange", 8},
        {"update", "update", 6},
        {"rest", "rest", 6},
    };
    int threads = (int)b->o->threads;
    if (!b->leader)
        return;
    if (!b->o->json) {
        printf("%s, ", what);
        if (b->ranks > 1)
            printf("%d ranks, ", b->ranks);
        printf("%d thread%s, medians of %s; parts of a step as shares of it\n", threads,
               plural(threads), b->with.processor_time ? "processor time" : "time");
        for (int i = 0; i < STEP_PEERS; i++)
            if (i == 0 || *b->with.peer[i].about)
                bench_path_print(&b->with.peer[i].path, b->with.peers[i], b->with.peer[i].about);
        putchar('\n');
    }
    report_begin(&b->out, columns, sizeof columns / sizeof columns[0], b->o->json);
}

/* ---- peers ---- */

static bool has(const lk_option_names *names, const char *name)
{
    for (int i = 0; i < names->n; i++)
        if (strcmp(names->item[i], name) == 0)
            return true;
    return false;
}

/* Whether all names are known, and `alone` is the only one if it is among them; n names. */
static bool names_right(const lk_option_names *names, const char *const *known, int n,
                        const char *alone)
{
    for (int i = 0; i < names->n; i++) {
        bool found = alone && strcmp(names->item[i], alone) == 0 && names->n == 1;
        for (int k = 0; k < n; k++)
            found = found || strcmp(names->item[i], known[k]) == 0;
        if (!found)
            return false;
    }
    return true;
}

/* On rank 0: start PyTorch, as --against says.  Without it, what is not found is left out. */
static int peers_start(struct bench *b)
{
    const lk_option_names *against = &b->o->against;
    int by_default = b->ranks > 1 ? STEP_PEERS : 1;
    for (int i = 0; i < STEP_PEERS; i++) {
        bench_torch *t = &b->with.peer[b->with.n_peers];
        bool named = has(against, peer_names[i]);
        if (!named && (against->n > 0 || i >= by_default))
            continue;
        b->with.peers[b->with.n_peers] = peer_names[i];
        if (torch_start(t, b->o->python, "lockstep-peer-torch-steps.py", peer_names[i], b->ranks)) {
            b->with.n_peers++;
            continue;
        }
        if (!named)
            break;
        fprintf(stderr, "error: lockstep bench step: PyTorch: %s\n", t->about);
        return LK_EXIT_FAILED;
    }
    return LK_EXIT_DONE;
}

/* All ranks know how many there are, and whether one that was named did not start. */
static int peers_open(struct bench *b)
{
    int32_t outcome[2] = {LK_EXIT_DONE, 0};
    if (b->leader) {
        outcome[0] = peers_start(b);
        outcome[1] = b->with.n_peers;
    }
    if (lk_bcast(b->with.comm, outcome, 2, LK_I32, 0, "peers") != LK_OK)
        return verb_failed();
    b->with.n_peers = outcome[1];
    return outcome[0];
}

/* ---- experiments ---- */

enum { LAYOUT_WORDS = 5 };

/* What was assigned, and behind it what the layout says. */
typedef struct assigned {
    char text[LAYOUT_WORDS][64 + LAYOUT_GRID];
    char *word[LAYOUT_WORDS + 256];
    int n;
} assigned;

static void assign(assigned *a, int i, const char *key, const char *value)
{
    snprintf(a->text[i], sizeof a->text[i], "%s=%s", key, value);
    a->word[a->n++] = a->text[i];
}

static int layout_assign(const struct bench *b, bool file, int n, char **operand, assigned *out)
{
    lk_mesh_shape s;
    char number[32], grid[LAYOUT_GRID];
    out->n = 0;
    if (n > 256)
        return verb_refuse("lockstep bench step: %d assignments, at most 256", n);
    for (int i = 0; i < n; i++)
        out->word[out->n++] = operand[i];
    if (!b->o->layout)
        return LK_EXIT_DONE;
    if (lk_mesh_shape_read(b->o->layout, &s) != LK_OK)
        return verb_refuse("lockstep bench step: option --layout: %s", lk_error_message());
    if (layout_ranks(&s) != b->ranks)
        return verb_refuse("lockstep bench step: option --layout: %s is of %lld ranks, and there "
                           "%s %d: lockstep run -n %lld -- bench step ...",
                           b->o->layout, (long long)layout_ranks(&s), b->ranks == 1 ? "is" : "are",
                           b->ranks, (long long)layout_ranks(&s));
    snprintf(number, sizeof number, "%lld", (long long)s.data);
    assign(out, 0, "parallel.data", number);
    assign(out, 1, "parallel.spatial", layout_grid_text(s.ndim, s.space, grid));
    snprintf(number, sizeof number, "%lld", (long long)s.features);
    assign(out, 2, "parallel.features", number);
    snprintf(number, sizeof number, "%lld", (long long)s.stages);
    assign(out, 3, "parallel.stages", number);
    if (s.features > 1 && !file)
        assign(out, 4, "pieces.blocks", "4");
    return LK_EXIT_DONE;
}

/* Measure an experiment and print its rows. */
static int experiment_run(struct bench *b, const lk_experiment *e, const char *name,
                          const char *request)
{
    step_figures f;
    lk_status st = step_measure(&b->with, e, request, &f);
    if (st != LK_OK)
        return verb_failed_with(st, NULL);
    print_rows(b, name, request != NULL, &f);
    return LK_EXIT_DONE;
}

static int file_run(struct bench *b, int n, char **operand)
{
    lk_experiment *e = NULL;
    int status = experiment_open(n, operand, &e);
    if (status != LK_EXIT_DONE)
        return status;
    print_head(b, "own experiment");
    status = experiment_run(b, e, operand[0], NULL);
    lk_experiment_free(e);
    return status;
}

/* The cases, with what the operands assign. */
static int cases_run(struct bench *b, int n, char **operand)
{
    int status = LK_EXIT_DONE, matching = 0;
    for (const bench_steps *c = bench_step_cases; c->name; c++)
        matching += !b->o->filter || strstr(c->name, b->o->filter);
    if (matching == 0)
        return verb_refuse("lockstep bench step: option --filter: no case contains \"%s\"",
                           b->o->filter);
    print_head(b, "f32");
    for (const bench_steps *c = bench_step_cases; c->name && status == LK_EXIT_DONE; c++) {
        lk_experiment *e = NULL;
        if (b->o->filter && !strstr(c->name, b->o->filter))
            continue;
        if (bench_steps_open(c, b->ranks, (const char *const *)operand, n, &e) != LK_OK)
            return verb_refuse("lockstep bench step: %s", lk_error_message());
        status = experiment_run(b, e, c->name, c->request);
        lk_experiment_free(e);
    }
    return status;
}

/* Threads, cores and peers; a peer on several cores is started before this rank has only one. */
static int prepare(struct bench *b, bool file)
{
    bool several = b->ranks > 1, binds = b->o->threads == 1;
    bool against = !file && !has(&b->o->against, "none");
    int status = LK_EXIT_DONE;
    snprintf(b->with.peer[0].about, sizeof b->with.peer[0].about, "%s",
             file ? "knows no experiments" : "not asked for");
    if (binds && !several)
        step_bind(b->with.comm);
    if (against)
        status = peers_open(b);
    if (binds && several)
        step_bind(b->with.comm);
    if (status != LK_EXIT_DONE)
        return status;
    if ((b->leader || !ranks_are_threads()) && lk_threads_set((int)b->o->threads) != LK_OK)
        return verb_failed();
    return lk_barrier(b->with.comm, "threads") == LK_OK ? LK_EXIT_DONE : verb_failed();
}

static int bench_start(struct bench *b, int n, char **operand)
{
    bool file = n > 0 && !strchr(operand[0], '=');
    int status = ranks_open(&b->with.comm);
    if (status != LK_EXIT_DONE)
        return status;
    b->ranks = lk_comm_size(b->with.comm);
    b->leader = lk_comm_rank(b->with.comm) == 0;
    b->with.processor_time = b->ranks == 1 && b->o->threads == 1;
    assigned all;
    status = layout_assign(b, file, n, operand, &all);
    if (status == LK_EXIT_DONE)
        status = prepare(b, file);
    if (status != LK_EXIT_DONE)
        return status;
    return file ? file_run(b, all.n, all.word) : cases_run(b, all.n, all.word);
}

static int step_run(const void *given, int n_operands, char **operand)
{
    const struct step_options *o = given;
    struct bench b = {.o = o, .with = {.seconds = o->seconds, .threads = (int)o->threads}};
    if (!names_right(&o->against, peer_names, STEP_PEERS, "none"))
        return verb_refuse("lockstep bench step: option --against: torch, ddp, or none");
    if (!names_right(&o->mode, mode_names, STEP_MODES, NULL))
        return verb_refuse("lockstep bench step: option --mode: canonical, fast, or both");
    for (int i = 0; i < STEP_MODES; i++)
        b.with.on[i] = has(&o->mode, mode_names[i]);
    for (int i = 0; i < STEP_PEERS; i++) {
        b.with.peer[i].pid = -1;
        b.with.peers[i] = peer_names[i];
    }
    int status = bench_start(&b, n_operands, operand);
    for (int i = 0; i < STEP_PEERS; i++)
        torch_stop(&b.with.peer[i]);
    ranks_close(b.with.comm);
    return status;
}

const lk__verb lk__bench_kind_step = {
    .computes = true,
    .ranks = true,
    .name = "step",
    .summary = "training steps on one rank or many, against PyTorch's, and where their time goes",
    .operands = "[FILE.yaml] [KEY=VALUE...]",
    .about =
        "Trains perceptrons, convnets, ResNet-20, an LSTM, a GRU and U-Nets of images and volumes "
        "on "
        "generated data, or the experiment FILE.yaml, and prints how fast. KEY=VALUE sets what an "
        "experiment can, as in "
        "parallel.update=each.\n"
        "Where PyTorch is installed (see --python), Python processes do the same steps in PyTorch, "
        "with batches that are in memory already: torch in one process with as many threads as we "
        "have ranks, ddp in as many processes. On several ranks (lockstep run -n 2 -- bench step) "
        "one rank alone has a turn too, again with the threads of all ranks, and all ranks apart, "
        "each with whole batches of its own. Ranks share the batch; of the U-Nets 2, 4 or 8 ranks "
        "share the images, cut into tiles. "
        "All are timed in turn, in rounds: processor time of one rank with one thread, otherwise "
        "the clock's, on the slowest rank.\n" BENCH_NOISE_ABOUT BENCH_PATH_ABOUT "\n"
        "Columns: samples/s, peer's and ms are of the median round. The next five are medians of "
        "what is divided within each round, not quotients of medians: ratio, the peer's time by "
        "ours; effic. (on several ranks), the time of one rank alone by that of all, by their "
        "number; threads, the time of one rank with the threads of all by that of all; limit, the "
        "time of one rank alone by that of ranks apart, which is what the "
        "machine gives; price (with --mode canonical,fast), canonical's time by that of fast.\n"
        "The others, without their noise in the table, are shares of the time of rank 0, medians "
        "too: data, waiting for a batch; forward; "
        "backward; wait, for other ranks; exchange, of gradients; update; rest. exchange is 0 on "
        "one rank, and where the ranks of a node share the update (parallel.update=shared, and "
        "auto "
        "but for few parameters): each takes what it updates from the others' memory, within "
        "update. Where gradients travel "
        "during backward (parallel.overlap=yes), it is what is left behind it.\n"
        "JSON: case, mode, ranks, peer, ratio, samples_per_s, peer_samples_per_s, milliseconds, "
        "efficiency, threads, limit, price, peer_path, peer_warning, rounds, data, forward, "
        "backward, wait, "
        "exchange, update, rest.",
    .options = options,
    .options_size = sizeof(struct step_options),
    .max_operands = 1000,
    .run = step_run,
};
