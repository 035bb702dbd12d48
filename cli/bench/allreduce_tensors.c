/* lockstep bench allreduce --tensors N: one lk_ddl_allreduce_n() next to N times lk_ddl_allreduce().
 *
 * Both sum the same tensors, in place; what they hold stays 0.  A round times a batch of each, in turns
 * who comes first.  The mode is that of DDL_OPTIONS, so that `lockstep run -m MODE` says it.
 */
#include "bench/allreduce.h"
#include "report.h"
#include "term.h"

#include <lockstep/ddl.h>
#include <lockstep/extra/alloc.h>
#include <lockstep/extra/clock.h>
#include <lockstep/pieces.h>

#include <string.h>

enum { ONE, EACH, N_SIDES };

struct bench {
    lk_comm *comm;
    const bench_allreduce_setting *s;
    lk_ddl *ddl;
    lk_ddl_tensor *tensor; /* [tensors] */
    float *vector;
    int64_t bytes; /* of this size */
    char mode[LK_TIER_SPEC_TEXT];
    report report;
};

/* So that a turn of one call for each tensor has as many calls as it has of a whole vector elsewhere. */
static int64_t batches_of(const struct bench *b)
{
    int64_t calls = b->bytes <= 65536 ? 64 : b->bytes <= 1 << 20 ? 8 : 1;
    return calls > b->s->tensors ? calls / b->s->tensors : 1;
}

static lk_status batch(struct bench *b, int side)
{
    const lk_ddl_allreduce_options how = {.op = LK_REDUCE_SUM};
    if (side == ONE) {
        return LK_TRACE(lk_ddl_allreduce_n(b->ddl, b->s->tensors, b->tensor, &how));
    }
    for (int64_t i = 0; i < b->s->tensors; i++)
        LK_TRY(lk_ddl_allreduce(b->ddl, &b->tensor[i], &how));
    return LK_OK;
}

static lk_status turn(void *arg, int side, double *seconds)
{
    struct bench *b = arg;
    int64_t n = batches_of(b);
    LK_TRY(batch(b, side)); /* for the caches */
    LK_TRY(lk_barrier(b->comm, "round"));
    int64_t start = lk_clock_ns();
    for (int64_t k = 0; k < n; k++)
        LK_TRY(batch(b, side));
    *seconds = 1e-9 * (double)(lk_clock_ns() - start) / (double)n;
    return LK_TRACE(lk_allreduce(b->comm, NULL, seconds, 1, LK_F64, LK_REDUCE_MAX, "slowest"));
}

static void row(struct bench *b, const bench_rounds *r)
{
    bench_figure one = bench_median(r->seconds[ONE], r->n);
    bench_figure each = bench_median(r->seconds[EACH], r->n);
    char name[96];
    snprintf(name, sizeof name, "allreduce %lld B, %lld tensor%s", (long long)b->bytes,
             (long long)b->s->tensors, plural(b->s->tensors));
    report_row(&b->report,
               (report_cell[]){cell_text(name), cell_int(b->bytes), cell_int(b->s->tensors),
                               cell_text(b->mode), cell_figure(bench_scaled(1e6, one), 2),
                               cell_figure(bench_rate(1e-9 * (double)b->bytes, one), 2),
                               cell_text("calls"), cell_figure(bench_scaled(1e6, each), 2),
                               cell_figure(bench_ratio(r->seconds[EACH], r->seconds[ONE], r->n), 2),
                               cell_int(r->n)});
    report_flush();
}

/* As even as they can be; of a short vector some have no element. */
static void vector_cut(struct bench *b)
{
    for (int64_t i = 0; i < b->s->tensors; i++) {
        lk_range part = lk_range_split(b->bytes / 4, i, b->s->tensors);
        b->tensor[i] = (lk_ddl_tensor){
            .name = "bench", .out = b->vector + part.first, .count = part.n, .dtype = LK_F32};
    }
}

static lk_status size_run(struct bench *b, int64_t bytes)
{
    lk_status st;
    bench_rounds rounds;
    b->bytes = bytes;
    LK_TRY_TO(done, lk_alloc_zero(&b->vector, bytes, 1));
    vector_cut(b);
    LK_TRY_TO(done, bench_rounds_run(b->comm, N_SIDES, b->s->seconds, turn, b, &rounds));
    if (lk_comm_rank(b->comm) == 0)
        row(b, &rounds);
done:
    lk_free(b->vector);
    b->vector = NULL;
    return st;
}

static void head_print(const struct bench *b)
{
    int size = lk_comm_size(b->comm), nodes = lk_comm_nodes(b->comm);
    printf("%d rank%s on %d node%s, transport %s, private memory, mode %s; medians, on the slowest "
           "rank\n\n",
           size, plural(size), nodes, plural(nodes), lk_comm_transport(b->comm), b->mode);
}

lk_status bench_allreduce_tensors(lk_comm *comm, const bench_allreduce_setting *s)
{
    static const report_column columns[] = {
        {"case", NULL, 0},      {"bytes", "bytes", 9},           {"tensors", "tensors", 7},
        {"mode", NULL, 0},      {"microseconds", "us", 15},      {"gbytes_per_s", "GB/s", 12},
        {"peer", "peer", -5},   {"peer_microseconds", "us", 15}, {"ratio", "ratio", 12},
        {"rounds", "rounds", 6}};
    lk_status st;
    struct bench b = {.comm = comm, .s = s};
    bool first = lk_comm_rank(comm) == 0;
    LK_TRY_TO(done, lk_alloc(&b.tensor, s->tensors, sizeof *b.tensor));
    LK_TRY_TO(done, lk_ddl_init(comm, 0, NULL, &b.ddl));
    lk_tier_spec mode = lk_ddl_mode(b.ddl);
    lk_tier_spec_text(&mode, b.mode);
    if (first && !s->json)
        head_print(&b);
    if (first)
        report_begin(&b.report, columns, sizeof columns / sizeof columns[0], s->json);
    for (int i = 0; i < s->n_sizes; i++)
        LK_TRY_TO(done, size_run(&b, s->bytes[i]));
done:
    lk_ddl_free(b.ddl);
    lk_free(b.tensor);
    return st;
}
