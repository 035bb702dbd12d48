/* lockstep bench allreduce: ours next to MPI_Allreduce, by size. */
#include "bench/allreduce.h"

#include "bench/options.h"
#include "bench/path.h"
#include "ranks.h"
#include "report.h"
#include "term.h"
#include "verb.h"

#include <lockstep/coll.h>
#include <lockstep/extra/algorithms.h>
#include <lockstep/extra/alloc.h>
#include <lockstep/extra/clock.h>

#include <stdlib.h>
#include <string.h>

struct allreduce_options {
    bool json, is_private, tape;
    const char *against, *transport, *algorithm, *checks;
    lk_option_names sizes;
    int64_t ranks, tensors;
    double seconds;
};

#define FIELD(name) offsetof(struct allreduce_options, name)

static const lk_option options[] = {
    {"against", LK_OPTION_TEXT, FIELD(against), .value = "NAME",
     .help = "mpi, any other algorithm, unchecked (ours without checks), or none; "
             "mpi by default where the ranks are MPI's"},
    {"sizes", LK_OPTION_NAMES, FIELD(sizes), .value = "BYTES,...",
     .def = "8,256,1K,4K,16K,64K,256K,1M,4M,16M,64M",
     .help = "of the vector of f32, with K, M or G", .flags = LK_OPTION_ONCE},
    {"algorithm", LK_OPTION_TEXT, FIELD(algorithm), .value = "NAME",
     .help = "ours; by cost if it is not given"},
    {"private", LK_OPTION_FLAG, FIELD(is_private),
     .help =
         "our vectors in private memory too; otherwise they are in memory that the ranks share"},
    {"tape", LK_OPTION_FLAG, FIELD(tape),
     .help = "measure the node of the tape, recorded, next to the bare collective"},
    {"tensors", LK_OPTION_INT, FIELD(tensors), .def = "0", .max = 100000,
     .help = "cut the vector into N tensors, and measure DDL's call for all of them next to a call "
             "for each; 0: do not"},
    {"checks", LK_OPTION_TEXT, FIELD(checks), .value = "on|off", .def = "on",
     .help = "whether ranks compare their calls"},
    {"transport", LK_OPTION_TEXT, FIELD(transport), .value = "NAME",
     .help = "local, mpi or self; mpi under an MPI launcher by default, otherwise local"},
    {"ranks", LK_OPTION_INT, FIELD(ranks), .value = "N", .def = "2", .min = 1, .max = LK_MAX_LOCAL,
     .help = "on the transport local"},
    BENCH_SECONDS_OPTION(FIELD(seconds), "0.5", "each size, everybody together"),
    BENCH_JSON_OPTION(FIELD(json)),
    {.name = NULL},
};

/* What is timed: no call (filling and reading the vector), ours, the other, and for MPI the way there:
 * its calls go through ours, without elements.  The first and the last are what is taken off. */
enum { NOBODY, OURS, PEER, WAY, N_SIDES };

struct bench {
    const struct allreduce_options *o;
    lk_comm *comm;
    const char *against; /* NULL: no other */
    bool mpi;            /* against MPI */
    bool unchecked;      /* against ours, without checks */
    bench_path path;     /* of MPI */
    int64_t bytes[LK_OPTION_MAX_ITEMS];
    int n_sizes;
    bool checks;
    lk_shm *shared;
    float *memory, *ours, *theirs; /* vectors of the largest size */
    int64_t now, calls;            /* bytes of this row, and calls of a turn */
    report out;
};

static int refuse(const char *option, const char *why)
{
    return verb_refuse("lockstep bench allreduce: option --%s: %s", option, why);
}

/* "64M" in bytes; 0: it is no size. */
static int64_t size_of(const char *text)
{
    char *end;
    long long n = strtoll(text, &end, 10);
    int shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
    end += shift > 0;
    if (end == text || *end || n < 1 || n > (INT64_C(1) << 36) >> shift)
        return 0;
    int64_t bytes = (int64_t)n << shift;
    return bytes % 4 == 0 ? bytes : 0;
}

static bool sizes_read(struct bench *b)
{
    b->n_sizes = b->o->sizes.n;
    for (int i = 0; i < b->n_sizes; i++) {
        b->bytes[i] = size_of(b->o->sizes.item[i]);
        if (b->bytes[i] == 0)
            return false;
    }
    return true;
}

/* ---- measuring ---- */

static lk_status call(struct bench *b, int side, float *x, int64_t n)
{
    if (side == NOBODY)
        return LK_OK;
    bool ours = side == OURS || b->unchecked;
    if (side == WAY)
        n = 0;
    return LK_TRACE(
        lk_coll_run(b->comm, &(lk_collective){.call = LK_CALL_ALLREDUCE,
                                              .name = "bench",
                                              .algorithm = ours ? b->o->algorithm : b->against,
                                              .out = x,
                                              .count = n,
                                              .dtype = LK_F32}));
}

static volatile uint64_t sink;

/* Fill the vector, reduce it, read it: seconds for one. */
static lk_status turn(void *arg, int side, double *seconds)
{
    struct bench *b = arg;
    int64_t bytes = b->now;
    float *x = b->mpi && (side == PEER || side == WAY) ? b->theirs : b->ours;
    LK_TRY(lk_barrier(b->comm, "round"));
    LK_TRY(lk_coll_set_checks(b->comm, b->checks && !(b->unchecked && side == PEER)));
    LK_TRY(call(b, side == NOBODY ? OURS : side, x, 1));
    int64_t start = 0;
    for (int64_t k = -1; k < b->calls; k++) { /* once before, for the caches */
        if (k == 0)
            start = lk_clock_ns();
        memset(x, 0, (size_t)bytes);
        LK_TRY(call(b, side, x, bytes / 4));
        uint64_t sum = 0;
        for (int64_t i = 0; i < bytes / 4; i++)
            sum += x[i] != 0.0F;
        sink = sum;
    }
    *seconds = 1e-9 * (double)(lk_clock_ns() - start) / (double)b->calls;
    LK_TRY(lk_coll_set_checks(b->comm, true));
    return LK_TRACE(lk_allreduce(b->comm, NULL, seconds, 1, LK_F64, LK_REDUCE_MAX, "slowest"));
}

/* Of ours and of the peer: the whole, and without filling and reading. */
struct result {
    bench_figure whole[N_SIDES], alone[N_SIDES]; /* seconds; [OURS] and [PEER] */
    bench_figure fill;                           /* filling and reading our vector */
    bench_figure whole_ratio, ratio;
    int rounds;
};

static void evaluate(const struct bench *b, const bench_rounds *rounds, struct result *r)
{
    const double(*t)[BENCH_MAX_ROUNDS] = rounds->seconds;
    int n = rounds->n;
    *r = (struct result){.rounds = n};
    r->fill = bench_median(t[NOBODY], n);
    r->whole[OURS] = bench_median(t[OURS], n);
    r->alone[OURS] = bench_difference(t[OURS], t[NOBODY], n);
    if (!b->against)
        return;
    r->whole[PEER] = bench_median(t[PEER], n);
    r->alone[PEER] = bench_difference(t[PEER], t[b->mpi ? WAY : NOBODY], n);
    r->whole_ratio = bench_ratio(t[PEER], t[OURS], n);
    r->ratio = bench_quotient(r->alone[PEER], r->alone[OURS]);
}

static report_cell cell_us(bench_figure seconds)
{
    return cell_figure(bench_scaled(1e6, seconds), 2);
}

static lk_status row(struct bench *b, int i)
{
    struct result r;
    bench_rounds rounds;
    const char *algorithm = NULL;
    int sides = b->mpi ? WAY + 1 : b->against ? PEER + 1 : OURS + 1;
    b->now = b->bytes[i];
    b->calls = b->now <= 65536 ? 64 : b->now <= 1 << 20 ? 8 : 1;
    lk_collective c = {.call = LK_CALL_ALLREDUCE,
                       .algorithm = b->o->algorithm,
                       .out = b->ours,
                       .count = b->now / 4,
                       .dtype = LK_F32};
    LK_TRY(bench_rounds_run(b->comm, sides, b->o->seconds, turn, b, &rounds));
    evaluate(b, &rounds, &r);
    LK_TRY(lk_coll_selected(b->comm, &c, &algorithm));
    if (lk_comm_rank(b->comm) > 0)
        return LK_OK;
    char name[64];
    snprintf(name, sizeof name, "allreduce %lld B", (long long)b->now);
    report_row(&b->out, (report_cell[]){
                            cell_text(name),
                            cell_int(b->now),
                            cell_text(algorithm),
                            b->against ? cell_text(b->against) : cell_none(),
                            cell_us(r.whole[OURS]),
                            cell_us(r.whole[PEER]),
                            cell_figure(r.whole_ratio, 2),
                            cell_us(r.fill),
                            cell_us(r.alone[OURS]),
                            cell_figure(bench_rate(1e-9 * (double)b->now, r.alone[OURS]), 2),
                            cell_us(r.alone[PEER]),
                            cell_figure(r.ratio, 2),
                            cell_path(&b->path),
                            cell_path_warning(&b->path),
                            cell_int(r.rounds),
                        });
    report_flush();
    return LK_OK;
}

/* Ours in shared memory unless --private, as other algorithms of ours; MPI's is always private, as its
 * programs have it. */
static lk_status vectors_make(struct bench *b)
{
    int64_t most = 0;
    for (int i = 0; i < b->n_sizes; i++)
        most = b->bytes[i] > most ? b->bytes[i] : most;
    LK_TRY(lk_alloc(&b->memory, 2 * most, 1));
    b->ours = b->memory;
    b->theirs = b->memory + most / 4;
    memset(b->memory, 0, (size_t)(2 * most));
    if (b->o->is_private)
        return LK_OK;
    LK_TRY(lk_shm_open(b->comm, most, "vectors", &b->shared));
    b->ours = lk_shm_data(b->shared, lk_comm_node_rank(b->comm));
    return LK_OK;
}

static lk_status rows(struct bench *b)
{
    static const report_column columns[] = {
        {"case", NULL, 0},
        {"bytes", "bytes", 9},
        {"algorithm", "algorithm", -9},
        {"peer", "peer", -9},
        {"whole_microseconds", "whole us", 15},
        {"peer_whole_microseconds", "peer's", 15},
        {"whole_ratio", "ratio", 12},
        {"fill_microseconds", NULL, 0},
        {"microseconds", "us alone", 15},
        {"gbytes_per_s", "GB/s", 12},
        {"peer_microseconds", "peer's", 15},
        {"ratio", "ratio", 12},
        BENCH_PATH_COLUMNS,
        {"rounds", "rounds", 6},
    };
    bool first = lk_comm_rank(b->comm) == 0;
    LK_TRY(vectors_make(b));
    if (first && !b->o->json) {
        printf(
            "%d rank%s on %d node%s, transport %s, %s memory, checks %s; medians, on the slowest "
            "rank\n",
            lk_comm_size(b->comm), plural(lk_comm_size(b->comm)), lk_comm_nodes(b->comm),
            plural(lk_comm_nodes(b->comm)), lk_comm_transport(b->comm),
            b->o->is_private ? "private" : "shared", b->o->checks);
        if (b->mpi)
            bench_path_print(&b->path, "mpi", "");
        printf("whole: fill, allreduce and read; alone: without filling and reading\n\n");
    }
    if (first)
        report_begin(&b->out, columns, sizeof columns / sizeof columns[0], b->o->json);
    for (int i = 0; i < b->n_sizes; i++)
        LK_TRY(row(b, i));
    return LK_OK;
}

/* One rank. */
static lk_status rank_run(lk_comm *comm, void *arg)
{
    struct bench b = *(const struct bench *)arg;
    b.comm = comm;
    b.against = b.o->against ? b.o->against : "mpi";
    b.unchecked = strcmp(b.against, "unchecked") == 0;
    b.checks = strcmp(b.o->checks, "on") == 0;
    bool processes = strcmp(lk_comm_transport(comm), "mpi") == 0;
    if (strcmp(b.against, "none") == 0 || (!b.o->against && !processes))
        b.against = NULL;
    b.mpi = b.against && strcmp(b.against, "mpi") == 0;
    if (b.mpi)
        bench_path_mpi(&b.path);
    bench_allreduce_setting setting = {b.bytes, b.n_sizes, b.o->tensors, b.o->seconds, b.o->json};
    lk_status st = b.o->tape          ? bench_allreduce_tape(comm, &setting)
                   : b.o->tensors > 0 ? bench_allreduce_tensors(comm, &setting)
                                      : rows(&b);
    if (st == LK_OK)
        st = lk_barrier(comm, "end");
    lk_shm_close(b.shared);
    lk_free(b.memory);
    return st;
}

static int allreduce_run(const void *given, int n_operands, char **operand)
{
    (void)n_operands;
    (void)operand;
    struct bench b = {.o = given};
    if (!sizes_read(&b))
        return refuse("sizes", "a size is a multiple of 4 bytes, such as 8, 64K or 16M");
    if (strcmp(b.o->checks, "on") != 0 && strcmp(b.o->checks, "off") != 0)
        return refuse("checks", "give on or off");
    if (b.o->tape && b.o->tensors > 0)
        return refuse("tensors", "it does not go with --tape");
    lk_comm *comm = NULL;
    int status = ranks_open_on(b.o->transport, &comm);
    if (status == LK_EXIT_DONE) {
        bool threads = !comm || (!b.o->transport && strcmp(lk_comm_transport(comm), "self") == 0);
        lk_status st = threads ? lk_run_local((int)b.o->ranks, rank_run, &b) : rank_run(comm, &b);
        status = st == LK_OK ? LK_EXIT_DONE : verb_failed_with(st, NULL);
    }
    ranks_close(comm);
    return status;
}

const lk__verb lk__bench_kind_allreduce = {
    .computes = true,
    .ranks = true,
    .name = "allreduce",
    .summary = "sums over ranks, against MPI_Allreduce",
    .operands = "",
    .about =
        "Measures allreduce of f32 vectors, sum, in place, next to MPI_Allreduce in the same "
        "processes: start it with lockstep run, or let it run its ranks as threads (then without "
        "MPI). "
        "Each rank fills its vector, reduces it and reads the result: the whole. Filling and "
        "reading is measured by itself too, and what the whole takes longer is the allreduce "
        "alone. MPI is called through ours; that way, without elements, is in its whole time and "
        "not in that of its allreduce alone. Everybody is timed in turn; the time of a round is "
        "that of the slowest rank. Differences and the ratio of the wholes are taken within a "
        "round; the other ratio is that of the two differences. Against unchecked it shows what "
        "the checks cost (names, digests, the board).\n" BENCH_NOISE_ABOUT
        "JSON: case, bytes, algorithm, peer, whole_microseconds, peer_whole_microseconds, "
        "whole_ratio, fill_microseconds (filling and reading ours), microseconds (alone), "
        "gbytes_per_s (bytes of the vector by that), peer_microseconds, ratio, peer_path (the "
        "MPI), rounds.\n"
        "With --tape it measures lk_dist_allreduce(), recorded on a tape, next to lk_allreduce() "
        "(\"bare\"), both from and to private memory; no other option but those for ranks, sizes, "
        "seconds and JSON matters then. JSON: case, bytes, microseconds, peer, peer_microseconds, "
        "ratio, overhead (its inverse), tape_bytes (elements on the tape for each call), rounds.\n"
        "With --tensors N it cuts the vector into N tensors and measures one lk_ddl_allreduce_n() "
        "of all next to an lk_ddl_allreduce() of each (\"calls\"), in place, in private memory, in "
        "the mode of DDL_OPTIONS or else b; the same other options matter. JSON: case, bytes, "
        "tensors, mode, microseconds, gbytes_per_s, peer, peer_microseconds, ratio, rounds.",
    .options = options,
    .options_size = sizeof(struct allreduce_options),
    .run = allreduce_run,
};
