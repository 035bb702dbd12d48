/* Pooling: for each position of the result, the box of positions it takes from, then the kernel.
 *
 *   forward    output o takes from inputs   [o stride - pad, o stride - pad + kernel)  within `in`
 *   backward   input i takes from outputs o with  o stride <= i + pad < o stride + kernel, in `out`
 *
 * Where windows do not overlap, the backward pass of max goes the other way: from each window to its
 * positions, which costs a visit for each window instead of each position.
 *
 * Positions are independent of each other and are split over threads; where they are few, so are
 * the channels of each.
 */
#include "kernel/pool/pool.h"

#include "base/fpenv.h"
#include "kernel/runtime/parallel.h"

#include <string.h>

enum {
    CHANNEL_BLOCK = 64, /* channels of a task where positions are few */
    FEW_POSITIONS = 64,
};

/* Operands as the kernels name them; see lk__pool_args. */
struct operands {
    const void *from, *x, *y;
    const int64_t *take, *chosen;
    void *to, *box;
    int64_t *index;
};

struct job {
    lk__pool_shape s;
    struct operands op;
    lk__pool_fn *fn;
    bool backward;
    const int64_t *from_size, *to_size, *from_step, *to_step;
    int64_t from_sample, to_sample;
    int64_t n_from, n_to;    /* positions of a sample */
    int64_t block, n_blocks; /* channels */
};

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

/* The output positions [*first, *first + count) of axis d whose windows cover input i. */
static int64_t windows_over(const lk__pool_shape *s, int d, int64_t i, int64_t *first)
{
    int64_t lo = floor_div(i + s->window.pad_lo[d] - s->window.kernel[d], s->window.stride[d]) + 1;
    int64_t hi = floor_div(i + s->window.pad_lo[d], s->window.stride[d]) + 1;
    *first = lo > 0 ? lo : 0;
    hi = hi < s->out[d] ? hi : s->out[d];
    return hi > *first ? hi - *first : 0;
}

static const void *element(const void *p, int64_t i, int64_t elem)
{
    return p ? (const char *)p + i * elem : NULL;
}

/* A position of the result and where it and its box begin.  Entry d + 1 of a sum is after axis d, so
 * that a step along the last axis costs one term of each; entry 0 is the sample's. */
struct cursor {
    int64_t at[3], place;   /* the position, and its number in the sample */
    int64_t to[4], from[4]; /* in elements */
    int64_t source[4];      /* where the box begins, in positions of the sample */
};

/* The box along axis d, and what follows from it; an empty one begins at 0. */
static inline void box_find(const struct job *j, int d, struct cursor *u, lk__pool_args *t)
{
    t->n[d] = j->backward ? windows_over(&j->s, d, u->at[d], &t->first[d])
                          : lk__pool_taps(&j->s, d, u->at[d], &t->first[d]);
    if (t->n[d] == 0)
        t->first[d] = 0;
    u->to[d + 1] = u->to[d] + u->at[d] * j->to_step[d];
    u->from[d + 1] = u->from[d] + t->first[d] * t->step[d];
    u->source[d + 1] = u->source[d] + t->first[d] * t->place_step[d];
}

/* One position of the result, channels from `c` on; the box is in `t`. */
static void position_run(const struct job *j, lk__pool_args *t, const struct cursor *u, int64_t c)
{
    const lk__pool_shape *s = &j->s;
    int64_t from = u->from[3] + c, to = u->to[3] + c;
    t->channels = s->channels - c < j->block ? s->channels - c : j->block;
    t->place = j->backward ? u->place : u->source[3];
    t->from = element(j->op.from, from, s->elem);
    t->y = element(j->op.y, from, s->elem);
    t->take = element(j->op.take, from, sizeof(int64_t));
    t->x = element(j->op.x, to, s->elem);
    t->chosen = element(j->op.chosen, to, sizeof(int64_t));
    t->to = j->op.to ? (char *)j->op.to + to * s->elem : NULL;
    t->box = j->op.box ? (char *)j->op.box + from * s->elem : NULL;
    t->index = j->op.index ? j->op.index + to : NULL;
    j->fn(t);
}

/* The next position, through axes and samples. */
static void cursor_next(const struct job *j, struct cursor *u, lk__pool_args *t)
{
    const int64_t *size = j->to_size;
    u->place++;
    if (u->at[2] + 1 < size[2]) { /* nearly always, so it has a path without loops */
        u->at[2]++;
        box_find(j, 2, u, t);
        return;
    }
    if (u->place == j->n_to) {
        u->place = 0;
        u->to[0] += j->to_sample;
        u->from[0] += j->from_sample;
    }
    int d = 2;
    while (d > 0 && u->at[d] + 1 == size[d])
        u->at[d--] = 0;
    u->at[d] = u->at[d] + 1 < size[d] ? u->at[d] + 1 : 0;
    for (; d < 3; d++)
        box_find(j, d, u, t);
}

/* Task i is block i mod n_blocks of position i / n_blocks, counted through samples and axes. */
static void pool_tasks(void *arg, int64_t first, int64_t last)
{
    const struct job *j = arg;
    const int64_t *size = j->to_size;
    lk__pool_args t = {.s = &j->s};
    for (int d = 2; d >= 0 && j->n_from > 0; d--) {
        t.place_step[d] = d == 2 ? 1 : t.place_step[d + 1] * j->from_size[d + 1];
        t.step[d] = j->from_step[d];
    }
    int64_t block = first % j->n_blocks, place = first / j->n_blocks % j->n_to;
    int64_t b = first / j->n_blocks / j->n_to;
    struct cursor u = {
        .at = {place / size[2] / size[1], place / size[2] % size[1], place % size[2]},
        .place = place,
        .to = {b * j->to_sample},
        .from = {b * j->from_sample}};
    for (int d = 0; d < 3; d++)
        box_find(j, d, &u, &t);
    for (int64_t i = first; i < last; i++) {
        position_run(j, &t, &u, block * j->block);
        if (++block < j->n_blocks)
            continue;
        block = 0;
        cursor_next(j, &u, &t);
    }
}

static lk_status job_run(struct job *j)
{
    LK_FP_GUARD();
    const lk__pool_shape *s = &j->s;
    j->from_size = j->backward ? s->out : s->in;
    j->to_size = j->backward ? s->in : s->out;
    j->from_step = j->backward ? s->y_step : s->x_step;
    j->to_step = j->backward ? s->x_step : s->y_step;
    j->from_sample = j->backward ? s->y_sample : s->x_sample;
    j->to_sample = j->backward ? s->x_sample : s->y_sample;
    j->n_from = j->backward ? s->n_out : s->n_in;
    j->n_to = j->backward ? s->n_in : s->n_out;
    if (j->n_to == 0)
        return LK_OK;
    bool few = s->batch * j->n_to < FEW_POSITIONS && s->channels > CHANNEL_BLOCK;
    j->block = few ? CHANNEL_BLOCK : s->channels;
    j->n_blocks = (s->channels - 1) / j->block + 1;
    int64_t taps = 1;
    for (int d = 0; d < 3 && j->n_from > 0; d++) {
        int64_t n = j->backward ? s->window.kernel[d] / s->window.stride[d] + 1
                                : s->window.kernel[d];
        taps *= n < j->from_size[d] ? n : j->from_size[d];
    }
    const int64_t tasks = s->batch * j->n_to * j->n_blocks;
    return LK_TRACE(lk__parallel(lk__tasks_bytes(tasks, taps * j->block * s->elem), pool_tasks, j));
}

/* Positions of f32 maxima are carried through vectors as 32-bit integers, from the first tap. */
static lk_status max_check(const lk__pool_shape *s)
{
    int64_t span = 0, step = 1;
    for (int d = 2; d >= 0 && s->n_in > 0; d--) {
        int64_t taps = s->window.kernel[d] < s->in[d] ? s->window.kernel[d] : s->in[d];
        span += (taps - 1) * step;
        step *= s->in[d];
    }
    LK_CHECK(s->dtype != LK_F32 || span <= INT32_MAX, LK_EOVERFLOW,
             "a window of %lld x %lld x %lld taps spans %lld positions of %lld x %lld x %lld; f32 "
             "maxima allow %d",
             (long long)s->window.kernel[0], (long long)s->window.kernel[1],
             (long long)s->window.kernel[2], (long long)span, (long long)s->in[0],
             (long long)s->in[1], (long long)s->in[2], INT32_MAX);
    return LK_OK;
}

/* What every public function begins with. */
static lk_status job_begin(const lk_pool_shape *p, struct job *j, const lk__pool_type **type)
{
    const lk__pool_table *table = NULL;
    LK_TRY(lk__fp_check());
    LK_TRY(lk__pool_check(p, &j->s));
    LK_TRY(lk__pool_get(&table));
    *type = &table->of[p->dtype];
    return LK_OK;
}

lk_status lk_pool_max(const lk_pool_shape *p, const void *x, void *y, int64_t *index)
{
    struct job j = {.op = {.from = x, .to = y, .index = index}};
    const lk__pool_type *type = NULL;
    LK_TRY(job_begin(p, &j, &type));
    LK_TRY(max_check(&j.s));
    const lk__pool_operand operand[] = {{.name = "x", .p = x},
                                        {.name = "y", .p = y, .is_out = true, .is_written = true},
                                        {.name = "index",
                                         .p = index,
                                         .is_out = true,
                                         .is_index = true,
                                         .is_written = true,
                                         .may_be_null = true}};
    LK_TRY(lk__pool_operands_check(&j.s, 3, operand));
    j.fn = p->relu ? type->max_relu : type->max;
    return LK_TRACE(job_run(&j));
}

/* avg and l2: from x to y. */
static lk_status forward(struct job *j, const void *x, void *y)
{
    const lk__pool_operand operand[] = {{.name = "x", .p = x},
                                        {.name = "y", .p = y, .is_out = true, .is_written = true}};
    LK_TRY(lk__pool_operands_check(&j->s, 2, operand));
    return LK_TRACE(job_run(j));
}

lk_status lk_pool_avg(const lk_pool_shape *p, const void *x, void *y)
{
    struct job j = {.op = {.from = x, .to = y}};
    const lk__pool_type *type = NULL;
    LK_TRY(job_begin(p, &j, &type));
    j.fn = type->avg;
    return LK_TRACE(forward(&j, x, y));
}

lk_status lk_pool_l2(const lk_pool_shape *p, const void *x, void *y)
{
    struct job j = {.op = {.from = x, .to = y}};
    const lk__pool_type *type = NULL;
    LK_TRY(job_begin(p, &j, &type));
    j.fn = type->l2;
    return LK_TRACE(forward(&j, x, y));
}

/* Whether no position is in two windows; `*all`: and each in one. */
static bool windows_are_apart(const lk__pool_shape *s, bool *all)
{
    bool apart = true;
    *all = true;
    for (int d = 0; d < 3; d++) {
        apart = apart && s->window.stride[d] >= s->window.kernel[d];
        *all = *all && s->window.stride[d] == s->window.kernel[d] && s->window.pad_lo[d] == 0 &&
               s->out[d] * s->window.stride[d] == s->in[d];
    }
    return apart;
}

/* Every position of dx's box is 0. */
static void box_clear(const lk__pool_shape *s, char *dx)
{
    int64_t row = s->channels * s->elem, n = s->in[2];
    if (s->x_extent == s->batch * s->n_in * s->channels) {
        memset(dx, 0, (size_t)(s->x_extent * s->elem));
        return;
    }
    if (s->x_step[2] == s->channels) { /* positions side by side */
        row *= n;
        n = 1;
    }
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t i0 = 0; i0 < s->in[0]; i0++)
            for (int64_t i1 = 0; i1 < s->in[1]; i1++) {
                int64_t at = b * s->x_sample + i0 * s->x_step[0] + i1 * s->x_step[1];
                for (int64_t i2 = 0; i2 < n; i2++, at += s->x_step[2])
                    memset(dx + at * s->elem, 0, (size_t)row);
            }
}

lk_status lk_pool_max_backward(const lk_pool_shape *p, const void *dy, const int64_t *index,
                               void *dx)
{
    struct job j = {.op = {.from = dy, .take = index, .to = dx}, .backward = true};
    const lk__pool_type *type = NULL;
    LK_TRY(job_begin(p, &j, &type));
    const lk__pool_operand operand[] = {
        {.name = "dy", .p = dy, .is_out = true},
        {.name = "index", .p = index, .is_out = true, .is_index = true},
        {.name = "dx", .p = dx, .is_written = true}};
    LK_TRY(lk__pool_operands_check(&j.s, 3, operand));
    j.fn = type->max_backward;
    bool all;
    if (windows_are_apart(&j.s, &all) && j.s.n_in > 0) {
        if (!all)
            box_clear(&j.s, dx);
        j.op = (struct operands){.x = dy, .chosen = index, .box = dx};
        j.fn = type->max_spread;
        j.backward = false;
    }
    return LK_TRACE(job_run(&j));
}

lk_status lk_pool_avg_backward(const lk_pool_shape *p, const void *dy, void *dx)
{
    struct job j = {.op = {.from = dy, .to = dx}, .backward = true};
    const lk__pool_type *type = NULL;
    LK_TRY(job_begin(p, &j, &type));
    const lk__pool_operand operand[] = {{.name = "dy", .p = dy, .is_out = true},
                                        {.name = "dx", .p = dx, .is_written = true}};
    LK_TRY(lk__pool_operands_check(&j.s, 2, operand));
    j.fn = type->avg_backward;
    return LK_TRACE(job_run(&j));
}

lk_status lk_pool_l2_backward(const lk_pool_shape *p, const void *x, const void *y, const void *dy,
                              void *dx)
{
    struct job j = {.op = {.from = dy, .x = x, .y = y, .to = dx}, .backward = true};
    const lk__pool_type *type = NULL;
    LK_TRY(job_begin(p, &j, &type));
    const lk__pool_operand operand[] = {{.name = "x", .p = x},
                                        {.name = "y", .p = y, .is_out = true},
                                        {.name = "dy", .p = dy, .is_out = true},
                                        {.name = "dx", .p = dx, .is_written = true}};
    LK_TRY(lk__pool_operands_check(&j.s, 4, operand));
    j.fn = type->l2_backward;
    return LK_TRACE(job_run(&j));
}
