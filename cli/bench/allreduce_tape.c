/* lockstep bench allreduce --tape: lk_dist_allreduce() next to lk_allreduce(), by size.
 *
 * Both read a vector in private memory and write the sum to another; the node makes its output on the
 * tape and is recorded.  A round times a batch of calls of each, in turns who comes first; the tape is
 * reset once a batch, inside the time.
 */
#include "bench/allreduce.h"
#include "report.h"
#include "term.h"

#include <lockstep/dist.h>
#include <lockstep/extra/alloc.h>
#include <lockstep/extra/clock.h>
#include <lockstep/op.h>

#include <string.h>

enum { TAPE, BARE, N_SIDES };

struct bench {
    lk_comm *comm;
    const bench_allreduce_setting *s;
    lk_tape *tape;
    lk_tensor *x;
    void *out;
    int64_t bytes;      /* of this size */
    int64_t tape_bytes; /* elements on the tape for each call */
    report report;
};

/* Small outputs of a batch together stay in the cache; of large ones there is one at a time. */
static int calls_of(int64_t bytes)
{
    return bytes <= 1024 ? 64 : 1;
}

static int batches_of(int64_t bytes)
{
    return bytes <= 1024 ? 4 : bytes <= 65536 ? 64 : bytes <= 1 << 20 ? 8 : 1;
}

static lk_status batch(struct bench *b, int side)
{
    int calls = calls_of(b->bytes);
    lk_var x, y;
    if (side == BARE) {
        for (int k = 0; k < calls; k++)
            LK_TRY(lk_allreduce(b->comm, lk_tensor_data(b->x), b->out, b->bytes / 4, LK_F32,
                                LK_REDUCE_SUM, "bench"));
        return LK_OK;
    }
    lk_tape_reset(b->tape);
    LK_TRY(lk_leaf(b->tape, b->x, NULL, &x));
    for (int k = 0; k < calls; k++)
        LK_TRY(lk_dist_allreduce(b->comm, x, LK_REDUCE_SUM, "bench", &y));
    b->tape_bytes = lk_tape_stats_of(b->tape).peak_bytes / calls;
    return LK_OK;
}

static lk_status turn(void *arg, int side, double *seconds)
{
    struct bench *b = arg;
    int n = batches_of(b->bytes);
    LK_TRY(batch(b, side)); /* for the caches */
    LK_TRY(lk_barrier(b->comm, "round"));
    int64_t start = lk_clock_ns();
    for (int k = 0; k < n; k++)
        LK_TRY(batch(b, side));
    *seconds = 1e-9 * (double)(lk_clock_ns() - start) / n / calls_of(b->bytes);
    return LK_TRACE(lk_allreduce(b->comm, NULL, seconds, 1, LK_F64, LK_REDUCE_MAX, "slowest"));
}

static void row(struct bench *b, const bench_rounds *r)
{
    bench_figure overhead = bench_ratio(r->seconds[TAPE], r->seconds[BARE], r->n);
    bench_figure us[N_SIDES];
    char name[64];
    for (int side = 0; side < N_SIDES; side++)
        us[side] = bench_scaled(1e6, bench_median(r->seconds[side], r->n));
    snprintf(name, sizeof name, "allreduce %lld B, tape", (long long)b->bytes);
    report_row(&b->report,
               (report_cell[]){cell_text(name), cell_int(b->bytes), cell_figure(us[TAPE], 2),
                               cell_text("bare"), cell_figure(us[BARE], 2),
                               cell_figure(bench_rate(1, overhead), 3), cell_figure(overhead, 3),
                               cell_int(b->tape_bytes), cell_int(r->n)});
    report_flush();
}

static lk_status size_run(struct bench *b, int64_t bytes)
{
    lk_status st;
    bench_rounds rounds;
    b->bytes = bytes;
    LK_TRY_TO(done, lk_tensor_new(LK_F32, LK_SHAPE(bytes / 4), &b->x));
    LK_TRY_TO(done, lk_tensor_fill_f64(b->x, 0));
    LK_TRY_TO(done, lk_alloc(&b->out, bytes, 1));
    memset(b->out, 0, (size_t)bytes);
    LK_TRY_TO(done, bench_rounds_run(b->comm, N_SIDES, b->s->seconds, turn, b, &rounds));
    if (lk_comm_rank(b->comm) == 0)
        row(b, &rounds);
done:
    lk_tape_reset(b->tape);
    lk_tensor_free(b->x);
    lk_free(b->out);
    b->x = NULL;
    b->out = NULL;
    return st;
}

lk_status bench_allreduce_tape(lk_comm *comm, const bench_allreduce_setting *s)
{
    static const report_column columns[] = {{"case", NULL, 0},
                                            {"bytes", "bytes", 9},
                                            {"microseconds", "us", 14},
                                            {"peer", "peer", -4},
                                            {"peer_microseconds", "us", 14},
                                            {"ratio", "ratio", 12},
                                            {"overhead", "overhead", 12},
                                            {"tape_bytes", "on tape", 9},
                                            {"rounds", "rounds", 6}};
    lk_status st;
    struct bench b = {.comm = comm, .s = s};
    bool first = lk_comm_rank(comm) == 0;
    LK_TRY(lk_tape_new(&b.tape));
    if (first && !s->json)
        printf(
            "%d rank%s on %d node%s, transport %s, private memory; medians, on the slowest rank\n"
            "\n",
            lk_comm_size(comm), plural(lk_comm_size(comm)), lk_comm_nodes(comm),
            plural(lk_comm_nodes(comm)), lk_comm_transport(comm));
    if (first)
        report_begin(&b.report, columns, sizeof columns / sizeof columns[0], s->json);
    st = LK_OK;
    for (int i = 0; i < s->n_sizes && st == LK_OK; i++)
        st = size_run(&b, s->bytes[i]);
    lk_tape_free(b.tape);
    return st;
}
