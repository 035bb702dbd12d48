/* lockstep bench data: batches of records by several readers, against copies, memcpy, tf.data and PyTorch. */
#include "bench/data.h"

#include "bench/options.h"
#include "bench/peers/torch.h"
#include "bench/stats.h"
#include "verb.h"

#include <lockstep/lockstep.h>

#include <string.h>

enum { COPIES, MEMCPY, TENSORFLOW, TORCH, N_PEERS };

static const char *const peer_names[N_PEERS] = {"copies", "memcpy", "tensorflow", "torch"};

struct data_options {
    bool json;
    double seconds;
    int64_t samples;
    lk_option_ints readers;
    lk_option_names against;
    const char *filter, *python, *folder;
};

#define FIELD(name) offsetof(struct data_options, name)

static const lk_option options[] = {
    {"readers", LK_OPTION_INTS, FIELD(readers), .value = "N,...", .def = "1,2", .min = 1,
     .max = DATA_MOST_READERS, .help = "threads that prepare batches"},
    {"samples", LK_OPTION_INT, FIELD(samples), .value = "N", .def = "20000", .min = 4 * DATA_BATCH,
     .max = 1e9, .help = "samples of the set, of 3073 bytes each"},
    {"against", LK_OPTION_NAMES, FIELD(against), .value = "NAME,...",
     .help =
         "tensorflow, torch, or none; by default both, if they are found; copies and memcpy are "
         "always measured",
     .flags = LK_OPTION_ONCE},
    {"folder", LK_OPTION_TEXT, FIELD(folder), .value = "PATH",
     .help = "where the files are made, and removed again; default: TMPDIR, or /tmp"},
    BENCH_FILTER_OPTION(FIELD(filter), ""),
    BENCH_SECONDS_OPTION(FIELD(seconds), "3", "each case, everybody together"),
    BENCH_PYTHON_OPTION(FIELD(python), "tensorflow or torch"),
    BENCH_JSON_OPTION(FIELD(json)),
    {.name = NULL},
};

/* All of a run. */
struct bench {
    const struct data_options *o;
    char folder[DATA_PATH];
    bench_torch peer[N_PEERS];
    bool on[N_PEERS];
    data_blocks memory;
    report out;
};

/* ---- a case ---- */

struct figures {
    bench_figure ours, peer[N_PEERS], ratio[N_PEERS]; /* seconds of a batch; theirs / ours */
    int rounds;
};

/* All that take part in a case. */
struct sides {
    const data_case *c;
    int readers;
    data_side all, copy[DATA_MOST_READERS];
};

static bool has_peer(const struct bench *b, const struct sides *s, int peer)
{
    bool packed = strstr(s->c->name, "gzip"), stream = strstr(s->c->name, "stream");
    if (peer == COPIES)
        return s->readers > 1;
    return b->on[peer] && (peer != TORCH || (!packed && !stream));
}

/* The seconds of `n` batches of a peer. */
static lk_status peer_read(struct bench *b, struct sides *s, int peer, int64_t n, double *seconds)
{
    char request[128];
    double value;
    if (peer == MEMCPY)
        return LK_TRACE(data_memory_copy(&b->memory, n, seconds));
    if (peer == COPIES)
        return LK_TRACE(data_copies_read(s->copy, s->readers, n / s->readers, seconds));
    snprintf(request, sizeof request, "%s %d", s->c->name, s->readers);
    LK_CHECK(torch_sample(&b->peer[peer], request, (int)n, seconds, &value), LK_EIO, "%s: %s",
             peer_names[peer], b->peer[peer].about);
    LK_CHECK(value == (double)(n * DATA_BATCH), LK_EIO, "%s: gave %g samples, not %lld",
             peer_names[peer], value, (long long)(n * DATA_BATCH));
    return LK_OK;
}

static lk_status measure(struct bench *b, struct sides *s, struct figures *f)
{
    static double ours[BENCH_MAX_ROUNDS], theirs[N_PEERS][BENCH_MAX_ROUNDS];
    double once;
    int n = 0;
    LK_TRY(data_side_read(&s->all, 20, &once));
    double each = b->o->seconds > 0 ? 0.05 : 0.005; /* what a round takes us */
    int64_t batches = (int64_t)(each / (once / 20 + 1e-9)) + 1;
    if (strstr(s->c->name, "stream")) /* as many as are read, not only taken from a buffer */
        batches = b->o->samples / DATA_BATCH;
    batches += s->readers - batches % s->readers;
    double end = bench_now() + b->o->seconds;
    while (bench_goes_on(n, end)) {
        LK_TRY(data_side_read(&s->all, batches, &ours[n]));
        ours[n] /= (double)batches;
        for (int p = 0; p < N_PEERS; p++)
            if (has_peer(b, s, p)) {
                LK_TRY(peer_read(b, s, p, batches, &theirs[p][n]));
                theirs[p][n] /= (double)batches;
            }
        n++;
    }
    f->rounds = n;
    f->ours = bench_median(ours, n);
    for (int p = 0; p < N_PEERS; p++)
        if (has_peer(b, s, p)) {
            f->peer[p] = bench_median(theirs[p], n);
            f->ratio[p] = bench_ratio(theirs[p], ours, n);
        }
    return LK_OK;
}

static lk_status sides_open(struct bench *b, struct sides *s)
{
    LK_TRY(data_side_open(b->folder, s->c, s->readers, &s->all));
    for (int i = 0; s->readers > 1 && i < s->readers; i++)
        LK_TRY(data_side_open(b->folder, s->c, 1, &s->copy[i]));
    return LK_OK;
}

static lk_status case_run(struct bench *b, struct sides *s, struct figures *f)
{
    lk_status st = sides_open(b, s);
    if (st == LK_OK)
        st = measure(b, s, f);
    data_side_close(&s->all);
    for (int i = 0; i < s->readers; i++)
        data_side_close(&s->copy[i]);
    return LK_TRACE(st);
}

/* ---- the table ---- */

static void print_rows(struct bench *b, const struct sides *s, const struct figures *f)
{
    const double gbytes = 1e-9 * DATA_BATCH * DATA_BYTES;
    for (int p = 0; p < N_PEERS; p++)
        if (has_peer(b, s, p))
            report_row(&b->out, (report_cell[]){cell_text(s->c->name), cell_int(s->readers),
                                                cell_text(peer_names[p]),
                                                cell_figure(bench_rate(gbytes, f->ours), 3),
                                                cell_figure(bench_rate(gbytes, f->peer[p]), 3),
                                                cell_figure(f->ratio[p], 2),
                                                cell_figure(bench_rate(DATA_BATCH, f->ours), 0),
                                                cell_int(f->rounds)});
}

static int cases_run(struct bench *b)
{
    static const report_column columns[] = {
        {"case", "case", -14},
        {"readers", "readers", 7},
        {"peer", "peer", -10},
        {"gbytes_per_s", "GB/s", 14},
        {"peer_gbytes_per_s", "peer GB/s", 14},
        {"ratio", "ratio", 12},
        {"samples_per_s", NULL, 0},
        {"rounds", NULL, 0},
    };
    report_begin(&b->out, columns, sizeof columns / sizeof columns[0], b->o->json);
    for (const data_case *c = data_cases; c->name; c++)
        for (int i = 0; i < b->o->readers.n; i++) {
            static struct sides s;
            struct figures f = {.rounds = 0};
            if (b->o->filter && !strstr(c->name, b->o->filter))
                continue;
            s = (struct sides){.c = c, .readers = (int)b->o->readers.item[i]};
            if (case_run(b, &s, &f) != LK_OK)
                return verb_failed();
            print_rows(b, &s, &f);
        }
    return LK_EXIT_DONE;
}

/* ---- peers ---- */

/* Start those that are asked for. */
static int peers_open(struct bench *b)
{
    static const char *const script[N_PEERS] = {
        [TENSORFLOW] = "lockstep-peer-tensorflow-data.py", [TORCH] = "lockstep-peer-torch-data.py"};
    const lk_option_names *against = &b->o->against;
    b->on[MEMCPY] = true;
    for (int i = 0; i < against->n; i++)
        if (strcmp(against->item[i], "none") != 0 && strcmp(against->item[i], "torch") != 0 &&
            strcmp(against->item[i], "tensorflow") != 0)
            return verb_refuse("lockstep bench data: option --against: tensorflow, torch or none");
    for (int p = TENSORFLOW; p <= TORCH; p++) {
        bool named = false;
        for (int i = 0; i < against->n; i++)
            named = named || strcmp(against->item[i], peer_names[p]) == 0;
        b->peer[p] = (bench_torch){.pid = -1, .about = "not asked for"};
        if (against->n > 0 && !named)
            continue;
        b->on[p] = torch_start(&b->peer[p], b->o->python, script[p], b->folder, (int)b->o->samples);
        if (named && !b->on[p]) {
            fprintf(stderr, "error: lockstep bench data: %s: %s\n", peer_names[p],
                    b->peer[p].about);
            return LK_EXIT_FAILED;
        }
    }
    return LK_EXIT_DONE;
}

static int bench_run_in(struct bench *b)
{
    int status = peers_open(b);
    if (status == LK_EXIT_DONE) {
        if (!b->o->json) {
            printf("%lld images of 32x32x3 bytes in records, batches of %d as f32, medians of "
                   "time\n",
                   (long long)b->o->samples, DATA_BATCH);
            for (int p = TENSORFLOW; p <= TORCH; p++)
                printf("%s: %s\n", peer_names[p], b->peer[p].about);
            putchar('\n');
        }
        status = cases_run(b);
    }
    for (int p = TENSORFLOW; p <= TORCH; p++)
        torch_stop(&b->peer[p]);
    return status;
}

static int data_run(const void *given, int n_operands, char **operand)
{
    static struct bench b;
    const struct data_options *o = given;
    bool matches = !o->filter;
    (void)n_operands;
    (void)operand;
    b.o = o;
    for (const data_case *c = data_cases; c->name; c++)
        matches = matches || strstr(c->name, o->filter);
    if (!matches)
        return verb_refuse("lockstep bench data: option --filter: no case contains \"%s\"",
                           o->filter);
    if (data_folder_make(o->folder, o->samples, b.folder) != LK_OK)
        return verb_failed();
    int status = data_blocks_new(&b.memory) == LK_OK ? bench_run_in(&b) : verb_failed();
    data_blocks_free(&b.memory);
    scratch_remove(b.folder);
    return status;
}

const lk__verb lk__bench_kind_data = {
    .name = "data",
    .summary = "batches of records by several readers, against copies, memcpy, tf.data and PyTorch",
    .operands = "",
    .about =
        "Makes a set of records of CIFAR's size, plain and packed by gzip, in a folder that is "
        "removed again, and reads batches of it, from the page cache: shuffled, in order and as a "
        "stream. A loader "
        "reads, checks all checksums, decodes, shuffles and converts to f32. In turn as many "
        "independent loaders as it has readers, with one reader each, read as much (copies), "
        "memory is copied (memcpy), and where a Python has them, tf.data (tensorflow) and "
        "PyTorch's "
        "DataLoader (torch, plain files, without checksums) read the same files. The ratio is the "
        "median over the rounds of their time divided by ours. GB/s count 3073 bytes a "
        "sample.\n" BENCH_NOISE_ABOUT "\n"
        "JSON: case, readers, peer, gbytes_per_s, peer_gbytes_per_s, ratio, samples_per_s, rounds.",
    .options = options,
    .options_size = sizeof(struct data_options),
    .run = data_run,
};
