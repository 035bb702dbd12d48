/* Recurrent cells: check the operands, pack the recurrent weights, once for all times, and give blocks of
 * samples to the pool.  A task runs all times of its block, so threads meet once a sequence; where others have
 * parts of the state, once a time. */
#include "kernel/recurrence.h"

#include "base/fpenv.h"
#include "kernel/cross.h"
#include "kernel/runtime/parallel.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/checked.h>

/* Most samples of a block. */
enum { BLOCK = 48 };

int64_t lk_recurrence_gates(lk_cell cell)
{
    static const int64_t gates[LK_N_CELLS] = {
        [LK_CELL_RNN] = 1, [LK_CELL_GRU] = 3, [LK_CELL_LSTM] = 4};
    return gates[cell];
}

int64_t lk_recurrence_kept(lk_cell cell, int64_t units)
{
    static const int64_t kept[LK_N_CELLS] = {[LK_CELL_GRU] = 4, [LK_CELL_LSTM] = 6};
    return kept[cell] * units;
}

/* ---- room ---- */

/* Elements of a row of n in the room: whole lines of the cache, an odd number of them, so that rows do not
 * share a set. */
static int64_t row_room(int64_t n, int64_t elem)
{
    int64_t line = LK_ALIGN / elem, lines = (n + line - 1) / line;
    return (lines | 1) * line;
}

static int64_t packed_room(const lk__rows_type *rows, int64_t k, int64_t n)
{
    int64_t width = rows->width[rows->usual];
    return (n + width - 1) / width * width * k;
}

/* Rows of sums that joining the pieces of ds u' needs at once: see kernel/recurrence_product.c. */
static int64_t sums_of(const lk_recurrence *r)
{
    int64_t n = 0;
    if (r->piece > 0 && r->piece < r->units)
        for (int64_t pieces = (r->units - 1) / r->piece + 1; pieces > 1; pieces /= 2)
            n++;
    return n;
}

static lk_status check_sizes(const lk_recurrence *r)
{
    LK_CHECK(r, LK_EINVAL, "r is NULL");
    LK_CHECK(lk_dtype_is_real(r->dtype), LK_EDTYPE, "dtype is %s, a recurrence needs f32 or f64",
             lk_dtype_name(r->dtype));
    LK_CHECK((unsigned)r->cell < LK_N_CELLS, LK_EINVAL, "cell is %d, there are %d", (int)r->cell,
             LK_N_CELLS);
    LK_CHECK(r->samples >= 0 && r->times >= 0 && r->units >= 0 && r->piece >= 0, LK_EINVAL,
             "%lld samples of %lld times with %lld units, by %lld: must not be negative",
             (long long)r->samples, (long long)r->times, (long long)r->units, (long long)r->piece);
    return LK_OK;
}

/* The weights as they are packed, in bytes: whole lines. */
static int64_t packed_bytes(const lk__recurrence_job *j)
{
    int64_t there = packed_room(j->rows, j->all, j->wide) * j->elem,
            back = packed_room(j->rows, j->wide, j->all) * j->elem;
    return ((there > back ? there : back) + LK_ALIGN - 1) / LK_ALIGN * LK_ALIGN;
}

lk_status lk__recurrence_size(lk__recurrence_job *j, int64_t *bytes)
{
    const lk__rows_table *rows = NULL;
    const lk_recurrence *r = j->r;
    int64_t n;
    LK_TRY(check_sizes(r));
    LK_TRY(lk__rows_get(&rows));
    j->elem = (int64_t)lk_dtype_size(r->dtype);
    j->rows = &rows->of[r->dtype];
    j->all = j->parts ? j->parts->all : r->units;
    int64_t steps = r->times > 0 ? r->times : 1;
    LK_TRY(lk_mul_i64(8 * j->elem, j->all, &n)); /* no operand is larger than all this */
    LK_TRY(lk_mul_i64(n, j->all > r->samples ? j->all : r->samples, &n));
    LK_TRY(lk_mul_i64(n, steps, &n));
    j->wide = lk_recurrence_gates(r->cell) * r->units;
    j->kept = lk_recurrence_kept(r->cell, r->units);
    j->ld_s = row_room(j->wide, j->elem);
    j->ld_kept = row_room(j->kept, j->elem);
    j->ld_h = row_room(r->units, j->elem);
    j->ld_all = row_room(j->all, j->elem);
    j->ld_sums = sums_of(r) > 0 ? row_room(sums_of(r) * j->rows->width[j->rows->usual], j->elem)
                                : 0;
    j->row_bytes = (j->ld_s + j->ld_kept + j->ld_h + j->ld_all + j->ld_sums) * j->elem;
    LK_TRY(lk_mul_i64(j->row_bytes, r->samples, bytes));
    return LK_TRACE(lk_add_i64(*bytes, packed_bytes(j), bytes));
}

lk_status lk_recurrence_room(const lk_recurrence *r, int64_t *bytes)
{
    lk__recurrence_job j = {.r = r};
    return LK_TRACE(lk__recurrence_size(&j, bytes));
}

/* ---- the passes ---- */

/* Columns of a panel of u', from the rows of u at `from`: by gates, in each piece. */
static void panel_transpose(const lk__recurrence_job *j, char *to, const char *from, int valid)
{
    const lk__rows_type *r = j->rows;
    const int width = r->width[r->usual];
    const int64_t units = j->r->units,
                  piece = j->r->piece > 0 && j->r->piece < units ? j->r->piece : units;
    if (piece == units) {
        r->transpose(to, from, j->wide, j->wide, valid, width);
        return;
    }
    for (int64_t first = 0; first < units; first += piece) {
        const int64_t len = units - first < piece ? units - first : piece;
        for (int64_t g = 0; g < j->wide; g += units, to += len * width * j->elem)
            r->transpose(to, from + (g + first) * j->elem, j->wide, len, valid, width);
    }
}

static void weights_pack(const lk__recurrence_job *j, const lk__cross_type *cross)
{
    const char *u = j->v->u;
    const int64_t width = j->rows->width[j->rows->usual], k = j->g ? j->wide : j->all,
                  n = j->g ? j->all : j->wide;
    for (int64_t p = 0; p < n; p += width) {
        const int valid = (int)(n - p < width ? n - p : width);
        char *to = j->packed + p * k * j->elem;
        if (j->g)
            panel_transpose(j, to, u + p * j->wide * j->elem, valid);
        else
            cross->pack(to, u + p * j->elem, j->wide, k, valid, (int)width);
    }
}

lk_status lk__recurrence_open(lk__recurrence_job *j, void *room)
{
    const lk__cross_table *cross = NULL;
    const lk__gates_table *gates = NULL;
    const lk_recurrence *r = j->r;
    int threads = 1;
    if (r->samples == 0 || r->units == 0)
        return LK_OK;
    LK_CHECK(room, LK_EINVAL, "room is NULL");
    LK_TRY(lk__cross_get(&cross));
    LK_TRY(lk__gates_get(&gates));
    LK_TRY(lk_threads_now(&threads));
    j->gates = j->g ? gates->backward[r->dtype][r->cell] : gates->forward[r->dtype][r->cell];
    j->add = gates->add[r->dtype];
    j->packed = room;
    j->room = j->packed + packed_bytes(j);
    j->block = (r->samples + threads - 1) / threads;
    if (j->block > BLOCK)
        j->block = BLOCK;
    const double times = j->parts ? 1 : (double)r->times,
                 work = (double)j->block * times * (double)j->all * (double)j->wide;
    j->tasks = lk__tasks_products((r->samples + j->block - 1) / j->block, work);
    weights_pack(j, &cross->of[r->dtype]);
    return LK_OK;
}

/* Give the blocks to the pool. */
static lk_status blocks_run(lk__recurrence_job *j, lk__task_fn *task)
{
    return LK_TRACE(lk__parallel(j->tasks, task, j));
}

lk_status lk__recurrence_step(lk__recurrence_job *j, int64_t n)
{
    LK_FP_GUARD();
    LK_TRY(LK_FP_CHECK());
    if (j->r->samples == 0 || j->r->units == 0)
        return LK_OK;
    j->now = n;
    return LK_TRACE(blocks_run(j, lk__recurrence_blocks_now));
}

static lk_status recurrence_run(lk__recurrence_job *j, void *room)
{
    int64_t bytes;
    LK_FP_GUARD();
    LK_TRY(LK_FP_CHECK());
    LK_TRY(lk__recurrence_size(j, &bytes));
    LK_TRY(lk__recurrence_open(j, room));
    if (j->r->samples > 0 && j->r->units > 0)
        LK_TRY(blocks_run(j, lk__recurrence_blocks));
    return LK_OK;
}

/* What a cell must have, whatever the sizes. */
static lk_status check_values(const lk_recurrence *r, const lk_recurrence_values *v, bool keeps)
{
    LK_CHECK(r && v, LK_EINVAL, "%s is NULL", r ? "v" : "r");
    if (r->samples == 0 || r->units == 0)
        return LK_OK;
    LK_CHECK(v->u && v->h0, LK_EINVAL, "%s is NULL", v->u ? "h0" : "u");
    LK_CHECK(v->y || r->times == 0, LK_EINVAL, "y is NULL");
    LK_CHECK(v->kept || !keeps || r->times == 0 || r->cell == LK_CELL_RNN, LK_EINVAL,
             "kept is NULL: backward needs what forward has kept");
    return LK_OK;
}

lk_status lk_recurrence_forward(const lk_recurrence *r, const lk_recurrence_values *v, void *room)
{
    LK_TRY(check_values(r, v, false));
    if (r->samples > 0 && r->units > 0) {
        LK_CHECK(v->h && (v->x || r->times == 0), LK_EINVAL, "%s is NULL", v->h ? "x" : "h");
        LK_CHECK(r->cell != LK_CELL_GRU || v->bias, LK_EINVAL, "a gru's bias is NULL");
        LK_CHECK(r->cell != LK_CELL_LSTM || (v->c0 && v->c), LK_EINVAL, "%s of an lstm is NULL",
                 v->c0 ? "c" : "c0");
    }
    lk__recurrence_job j = {.r = r, .v = v};
    return LK_TRACE(recurrence_run(&j, room));
}

lk_status lk_recurrence_backward(const lk_recurrence *r, const lk_recurrence_values *v,
                                 const lk_recurrence_grads *g, void *room)
{
    LK_TRY(check_values(r, v, true));
    LK_CHECK(g, LK_EINVAL, "g is NULL");
    if (r->samples > 0 && r->units > 0) {
        LK_CHECK(g->dh0 && (r->times == 0 || (g->dx && g->before)), LK_EINVAL,
                 "dh0, dx or before is NULL");
        LK_CHECK(r->cell != LK_CELL_GRU || g->ds || r->times == 0, LK_EINVAL,
                 "ds of a gru is NULL");
        LK_CHECK(r->cell != LK_CELL_LSTM || g->dc0, LK_EINVAL, "dc0 of an lstm is NULL");
    }
    lk__recurrence_job j = {.r = r, .v = v, .g = g};
    return LK_TRACE(recurrence_run(&j, room));
}
