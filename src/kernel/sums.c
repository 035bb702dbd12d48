/* Sums of maps: rows are cut into sheets and spread over the pool's threads.
 *
 * Within a sheet the caller's function gets so few rows that they stay in the first cache.  Sums down
 * columns are of whole sheets, which stay in the second: four rows of a lane then share one pass over it.
 * Where there are such sums, threads share the pieces, or if these are few the lanes of each piece;
 * otherwise they share the rows.
 *
 * Narrow rows are folded: 16 of them, one for each lane, are one line of 16 n elements, which belong to
 * 16 n chains.  Inputs that rows share are repeated for that.
 */
#include "kernel/sums.h"

#include "base/fpenv.h"
#include "base/integer.h"
#include "kernel/maps.h"
#include "kernel/runtime/parallel.h"

#include <lockstep/extra/reduce.h>

#include <string.h>

enum {
    SMALL = 1 << 16,       /* bytes of an input whose sums down columns are not shared */
    FEW_BYTES = 8192,      /* of an input, for one call of the function */
    SHEET_BYTES = 1 << 17, /* of an input, for sums down columns */
    PAST = 16 << 20,       /* bytes of y that is written around the cache */
    NARROW = 256           /* elements of a row that is not folded */
};

const lk__sum_term lk__down_terms[LK__N_SUMS_DOWN][2] = {
#define X(code, first, second) [LK__DOWN_##code] = {LK__TERM_##first, LK__TERM_##second},
    LK__SUMS_DOWN(X)
#undef X
};

typedef struct sums_job {
    const lk__map_sums *s;
    lk__act_fn *act; /* of y, or NULL */
    lk__sheet sheet; /* what all sheets share */
    int64_t elem;
    int64_t piece, n_pieces; /* rows of a piece but the last */
    int64_t fold, lines;     /* rows of a line, lines of a piece but the last */
    int64_t few, most;       /* lines for the function, lines of a sheet */
    const char *x[LK_SUMS_MAX_IN];
    int64_t x_piece[LK_SUMS_MAX_IN]; /* elements of an input for a piece, if it is one of pieces */
    int64_t threads;                 /* that sums down columns are worth */
    int64_t chunk, n_chunks; /* pieces that one task has; one each, if tasks are lanes of pieces */
    char *lanes;             /* of each chunk: [terms][16][n] */
} sums_job;

static int64_t lane_bytes(const sums_job *j)
{
    return j->s->n * j->elem;
}

static int64_t rows_of(const sums_job *j, int64_t piece)
{
    return lk__min(j->piece, j->s->rows - piece * j->piece);
}

/* Lines line ... line + count - 1 of a piece, of these the elements from `column` on. */
static void sheet_set(const sums_job *j, lk__sheet *t, int64_t piece, int64_t line, int64_t count,
                      int64_t column)
{
    const lk__map_sums *s = j->s;
    const int64_t width = j->fold * s->n;
    t->rows = count;
    t->row = piece * j->piece + line * j->fold;
    for (int k = 0; k < LK_SUMS_MAX_IN; k++) {
        const int i = s->x[k] ? k : 0;
        const int64_t at = s->of[i] == LK_SUMS_ROWS ? t->row * s->n : piece * j->x_piece[i];
        t->x[k] = j->x[i] + (at + column) * j->elem;
        t->step[k] = s->x[k] && s->of[k] == LK_SUMS_ROWS ? width : 0;
    }
    t->y = s->y ? (char *)s->y + (t->row * s->n + column) * j->elem : NULL;
    t->step_y = width;
}

/* The activation of what the function has made. */
static void sheet_act(const sums_job *j, const lk__sheet *t)
{
    const bool dense = t->step_y == t->n;
    const int64_t rows = dense ? 1 : t->last - t->first,
                  n = dense ? (t->last - t->first) * t->n : t->n;
    char *y = (char *)t->y + t->first * t->step_y * j->elem;
    for (int64_t r = 0; r < rows; r++)
        j->act(y + r * t->step_y * j->elem, n);
}

/* The function on rows first ... last - 1 of a sheet. */
static void sheet_run(const sums_job *j, lk__sheet *t, int64_t first, int64_t last)
{
    for (t->first = first; t->first < last && j->s->fn; t->first += j->few) {
        t->last = lk__min(t->first + j->few, last);
        j->s->fn(t);
        if (j->act)
            sheet_act(j, t);
    }
}

/* Lines first ... last - 1 of all pieces. */
static void lines_task(void *arg, int64_t first, int64_t last)
{
    const sums_job *j = arg;
    lk__sheet t = j->sheet;
    for (int64_t i = first; i < last; i += t.rows) {
        const int64_t piece = lk__min(i / j->lines, j->n_pieces - 1), line = i - piece * j->lines;
        const int64_t rows = rows_of(j, piece) - line * j->fold, whole = rows / j->fold;
        t.n = whole > 0 ? j->fold * j->s->n : rows * j->s->n;
        sheet_set(j, &t, piece, line, whole > 0 ? lk__min(lk__min(whole, j->few), last - i) : 1, 0);
        sheet_run(j, &t, 0, t.rows);
    }
}

/* ---- sums down columns ---- */

int64_t lk__map_sums_pieces(const lk__map_sums *s)
{
    return s->rows == 0 ? 0 : s->piece > 0 ? (s->rows - 1) / s->piece + 1 : 1;
}

static int n_terms(const sums_job *j)
{
    return lk__down_terms[j->s->down][1] == LK__TERM_NONE ? 1 : 2;
}

static int64_t lanes_bytes(const sums_job *j)
{
    return LK_LANES * lane_bytes(j);
}

/* A sheet of which the function has seen nothing yet; `lanes` has been set. */
static void sheet_add(const sums_job *j, lk__sheet *t)
{
    const bool all = t->lane_last - t->lane_first == t->lanes;
    const int64_t every = all ? t->rows : t->lanes;
    for (int64_t r = 0; r < t->rows; r += every)
        sheet_run(j, t, all ? 0 : r + t->lane_first,
                  all ? t->rows : lk__min(r + t->lane_last, t->rows));
    t->type->down[j->s->down](t);
}

/* Lanes first ... last - 1 of a piece whose rows are not folded. */
static void rows_add(const sums_job *j, lk__sheet *t, int64_t piece, int64_t first, int64_t last)
{
    const int64_t rows = rows_of(j, piece);
    t->lanes = LK_LANES;
    t->lane_first = first;
    t->lane_last = last;
    for (int64_t r = 0; r < rows; r += j->most) {
        sheet_set(j, t, piece, r, lk__min(j->most, rows - r), 0);
        sheet_add(j, t);
    }
}

/* The same of lines: lanes are columns, and the last line may be shorter. */
static void lines_add(const sums_job *j, lk__sheet *t, int64_t piece, int64_t first, int64_t last)
{
    const int64_t rows = rows_of(j, piece), whole = rows / j->fold, n = j->s->n;
    t->lanes = t->lane_last = 1;
    t->lane_first = 0;
    t->n = (last - first) * n;
    for (int64_t i = 0; i < whole; i += j->most) {
        sheet_set(j, t, piece, i, lk__min(j->most, whole - i), first * n);
        sheet_add(j, t);
    }
    t->n = (lk__min(last, rows % j->fold) - first) * n;
    if (t->n > 0) {
        sheet_set(j, t, piece, whole, 1, first * n);
        sheet_add(j, t);
    }
}

/* Lanes first ... last - 1 of a piece. */
static void lanes_run(const sums_job *j, int64_t piece, char *lanes, int64_t first, int64_t last)
{
    lk__sheet t = j->sheet;
    for (int k = 0; k < n_terms(j); k++, lanes += lanes_bytes(j)) {
        memset(lanes + first * lane_bytes(j), 0, (size_t)((last - first) * lane_bytes(j)));
        t.lane[k] = lanes + (j->fold > 1 ? first * lane_bytes(j) : 0);
    }
    (j->fold > 1 ? lines_add : rows_add)(j, &t, piece, first, last);
}

/* The fixed tree over the lanes of a piece. */
static void lanes_join(const sums_job *j, int64_t piece, char *lanes)
{
    const int64_t bytes = lane_bytes(j);
    for (int k = 0; k < n_terms(j); k++, lanes += lanes_bytes(j)) {
        for (int64_t d = 1; d < LK_LANES; d *= 2)
            for (int64_t l = 0; l < LK_LANES; l += 2 * d)
                j->sheet.type->join(j->s->n, lanes + l * bytes, lanes + (l + d) * bytes);
        memcpy((char *)j->s->sums + (k * j->n_pieces + piece) * bytes, lanes, (size_t)bytes);
    }
}

static char *lanes_of(const sums_job *j, int64_t chunk)
{
    return j->lanes + chunk * n_terms(j) * lanes_bytes(j);
}

static void pieces_task(void *arg, int64_t first, int64_t last)
{
    const sums_job *j = arg;
    for (int64_t i = first; i < last; i++) {
        const int64_t end = lk__min((i + 1) * j->chunk, j->n_pieces);
        for (int64_t piece = i * j->chunk; piece < end; piece++) {
            lanes_run(j, piece, lanes_of(j, i), 0, LK_LANES);
            lanes_join(j, piece, lanes_of(j, i));
        }
    }
}

/* Task i is lane i mod 16 of piece i / 16. */
static void lanes_task(void *arg, int64_t first, int64_t last)
{
    const sums_job *j = arg;
    for (int64_t i = first, next; i < last; i = next) {
        const int64_t piece = i / LK_LANES, begin = piece * LK_LANES;
        next = lk__min(begin + LK_LANES, last);
        lanes_run(j, piece, lanes_of(j, piece), i - begin, next - begin);
    }
}

/* All pieces: each by one thread, or each by all. */
static lk_status sums_run(sums_job *j)
{
    const int64_t bytes = j->s->rows * j->s->n * j->elem;
    if (j->n_pieces >= j->threads) {
        return LK_TRACE(
            lk__parallel(lk__tasks_bytes(j->n_chunks, bytes / j->n_chunks), pieces_task, j));
    }
    lk__tasks lanes = lk__tasks_bytes(LK_LANES * j->n_pieces, bytes / (LK_LANES * j->n_pieces));
    lanes.least = (lanes.n - 1) / j->threads + 1;
    LK_TRY(lk__parallel(lanes, lanes_task, j));
    for (int64_t piece = 0; piece < j->n_pieces; piece++)
        lanes_join(j, piece, lanes_of(j, piece));
    return LK_OK;
}

/* ---- all rows ---- */

/* Vectors of an input that are to be repeated. */
static int64_t vectors_of(const sums_job *j, int k)
{
    const lk__map_sums *s = j->s;
    if (!s->x[k] || s->of[k] == LK_SUMS_ROWS || j->fold == 1)
        return 0;
    return s->of[k] == LK_SUMS_PIECES ? j->n_pieces : 1;
}

/* Repeat what rows share as often as there are rows in a line. */
static void inputs_repeat(sums_job *j, char *to)
{
    const int64_t bytes = lane_bytes(j), times = lk__min(j->fold, j->piece);
    for (int k = 0; k < LK_SUMS_MAX_IN; k++) {
        const int64_t n = vectors_of(j, k) * times;
        const char *from = j->x[k];
        if (n == 0)
            continue;
        j->x[k] = to;
        j->x_piece[k] *= times;
        for (int64_t i = 0; i < n; i++, to += bytes)
            memcpy(to, from + i / times * bytes, (size_t)bytes);
    }
}

static sums_job job_plan(const lk__map_sums *s)
{
    sums_job job = {.s = s, .elem = (int64_t)lk_dtype_size(s->dtype)}, *j = &job;
    j->piece = s->piece > 0 ? lk__min(s->piece, s->rows) : s->rows;
    j->n_pieces = (s->rows - 1) / j->piece + 1;
    j->fold = s->folds && s->n < NARROW ? LK_LANES : 1;
    j->lines = (j->piece - 1) / j->fold + 1;
    const int64_t bytes = j->fold * s->n * j->elem;
    j->few = lk__min(FEW_BYTES / bytes + 1, LK_SHEET_ROWS);
    j->most = lk__min((SHEET_BYTES / bytes / LK_LANES + 1) * LK_LANES, LK_SHEET_ROWS);
    j->threads = s->rows * s->n * j->elem <= SMALL ? 1 : s->threads;
    j->chunk = j->n_pieces <= j->threads ? 1 : (j->n_pieces - 1) / (4 * j->threads) + 1;
    j->chunk = j->threads == 1 ? j->n_pieces : j->chunk; /* few lanes stay in cache */
    j->n_chunks = (j->n_pieces - 1) / j->chunk + 1;
    for (int k = 0; k < LK_SUMS_MAX_IN; k++) {
        j->x[k] = s->x[k];
        j->x_piece[k] = s->of[k] == LK_SUMS_PIECES ? s->n : 0;
    }
    return job;
}

/* Bytes of the lanes of all chunks. */
static int64_t lanes_room(const sums_job *j)
{
    return j->s->sums ? j->n_chunks * n_terms(j) * lanes_bytes(j) : 0;
}

lk_status lk__map_sums_room(lk__map_sums *s, int64_t *bytes)
{
    *bytes = 0;
    LK_TRY(lk_threads_now(&s->threads));
    if (s->rows == 0 || s->n == 0)
        return LK_OK;
    sums_job j = job_plan(s);
    *bytes = lanes_room(&j);
    for (int k = 0; k < LK_SUMS_MAX_IN; k++)
        *bytes += vectors_of(&j, k) * lk__min(j.fold, j.piece) * lane_bytes(&j);
    return LK_OK;
}

lk_status lk__map_sums_run(const lk__map_sums *s, void *room)
{
    const lk__map_sums_table *table = NULL;
    const lk__softmax_table *softmax = NULL;
    const lk__loops_table *loops = NULL;
    LK_TRY(lk__fp_check());
    LK_TRY(lk__map_sums_get(&table));
    LK_TRY(lk__softmax_get(&softmax));
    LK_TRY(lk__loops_get(&loops));
    if (s->rows == 0 || s->n == 0)
        return LK_OK;
    sums_job j = job_plan(s);
    LK_TRY(lk__act_get(s->dtype, s->act, &j.act));
    j.sheet = (lk__sheet){.dtype = s->dtype,
                          .n = s->n,
                          .overwrite = s->overwrite,
                          .past = !j.act && s->rows * s->n * j.elem >= PAST,
                          .type = &table->of[s->dtype],
                          .softmax = softmax,
                          .loops = loops->of[s->dtype],
                          .arg = s->arg};
    j.lanes = room;
    if (room) /* otherwise there is nothing to repeat */
        inputs_repeat(&j, (char *)room + lanes_room(&j));
    if (s->sums) {
        return LK_TRACE(sums_run(&j));
    }
    const int64_t last = rows_of(&j, j.n_pieces - 1);
    const int64_t lines = (j.n_pieces - 1) * j.lines + (last - 1) / j.fold + 1;
    return LK_TRACE(lk__parallel(lk__tasks_bytes(lines, j.fold * s->n * j.elem), lines_task, &j));
}
