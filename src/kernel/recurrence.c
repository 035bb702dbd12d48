/* Recurrent cells: check the operands, pack the recurrent weights, once for all times, and give blocks of
 * samples to the pool.  A task runs all times of its block, so threads meet once a sequence. */
#include "kernel/recurrence.h"

#include "base/fpenv.h"
#include "kernel/cross.h"
#include "kernel/parallel.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/checked.h>

/* Most samples of a block; work that is worth the wake-up of a thread, in multiply-adds. */
enum { BLOCK = 48 };
static const double grain_work = 1 << 20;

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

/* Sizes, and how much room they take. */
static lk_status job_size(const lk_recurrence *r, lk__recurrence_job *j, int64_t *packed,
                          int64_t *bytes)
{
    const lk__rows_table *rows = NULL;
    int64_t n;
    LK_CHECK(r, LK_EINVAL, "r is NULL");
    LK_CHECK(lk_dtype_is_real(r->dtype), LK_EDTYPE, "dtype is %s, a recurrence needs f32 or f64",
             lk_dtype_name(r->dtype));
    LK_CHECK((unsigned)r->cell < LK_N_CELLS, LK_EINVAL, "cell is %d, there are %d", (int)r->cell,
             LK_N_CELLS);
    LK_CHECK(r->samples >= 0 && r->times >= 0 && r->units >= 0, LK_EINVAL,
             "%lld samples of %lld times with %lld units: must not be negative",
             (long long)r->samples, (long long)r->times, (long long)r->units);
    LK_TRY(lk__rows_get(&rows));
    j->r = r;
    j->elem = (int64_t)lk_dtype_size(r->dtype);
    j->rows = &rows->of[r->dtype];
    int64_t steps = r->times > 0 ? r->times : 1;
    LK_TRY(lk_mul_i64(8 * j->elem, r->units, &n)); /* no operand is larger than all this */
    LK_TRY(lk_mul_i64(n, r->units > r->samples ? r->units : r->samples, &n));
    LK_TRY(lk_mul_i64(n, steps, &n));
    j->wide = lk_recurrence_gates(r->cell) * r->units;
    j->kept = lk_recurrence_kept(r->cell, r->units);
    j->ld_s = row_room(j->wide, j->elem);
    j->ld_kept = row_room(j->kept, j->elem);
    j->ld_h = row_room(r->units, j->elem);
    j->row_bytes = (j->ld_s + j->ld_kept + 2 * j->ld_h) * j->elem;
    int64_t there = packed_room(j->rows, r->units, j->wide) * j->elem,
            back = packed_room(j->rows, j->wide, r->units) * j->elem;
    *packed = ((there > back ? there : back) + LK_ALIGN - 1) / LK_ALIGN * LK_ALIGN;
    LK_TRY(lk_mul_i64(j->row_bytes, r->samples, bytes));
    LK_TRY(lk_add_i64(*bytes, *packed, bytes));
    return LK_OK;
}

lk_status lk_recurrence_room(const lk_recurrence *r, int64_t *bytes)
{
    lk__recurrence_job j = {0};
    int64_t packed;
    LK_TRY(job_size(r, &j, &packed, bytes));
    return LK_OK;
}

/* ---- the passes ---- */

static void weights_pack(const lk__recurrence_job *j, const lk__cross_type *cross)
{
    const lk__rows_type *r = j->rows;
    const char *u = j->v->u;
    const int64_t width = r->width[r->usual], k = j->g ? j->wide : j->r->units,
                  n = j->g ? j->r->units : j->wide;
    for (int64_t p = 0; p < n; p += width) {
        const int valid = (int)(n - p < width ? n - p : width);
        char *to = j->packed + p * k * j->elem;
        if (j->g)
            r->transpose(to, u + p * j->wide * j->elem, j->wide, k, valid, (int)width);
        else
            cross->pack(to, u + p * j->elem, j->wide, k, valid, (int)width);
    }
}

static lk_status recurrence_run(lk__recurrence_job *j, void *room)
{
    const lk__cross_table *cross = NULL;
    const lk__gates_table *gates = NULL;
    const lk_recurrence *r = j->r;
    int64_t packed, bytes;
    int threads = 1;
    LK_FP_GUARD();
    LK_TRY(LK_FP_CHECK());
    LK_TRY(job_size(r, j, &packed, &bytes));
    if (r->samples == 0 || r->units == 0)
        return LK_OK;
    LK_CHECK(room, LK_EINVAL, "room is NULL");
    LK_TRY(lk__cross_get(&cross));
    LK_TRY(lk__gates_get(&gates));
    LK_TRY(lk_threads_now(&threads));
    j->gates = j->g ? gates->backward[r->dtype][r->cell] : gates->forward[r->dtype][r->cell];
    j->add = gates->add[r->dtype];
    j->packed = room;
    j->room = j->packed + packed;
    j->block = (r->samples + threads - 1) / threads;
    if (j->block > BLOCK)
        j->block = BLOCK;
    weights_pack(j, &cross->of[r->dtype]);
    const double work = (double)j->block * (double)r->times * (double)r->units * (double)j->wide;
    LK_TRY(lk__parallel((r->samples + j->block - 1) / j->block,
                        work >= grain_work ? 1 : (int64_t)(grain_work / (work + 1)) + 1,
                        lk__recurrence_blocks, j));
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
    LK_TRY(recurrence_run(&j, room));
    return LK_OK;
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
    LK_TRY(recurrence_run(&j, room));
    return LK_OK;
}
