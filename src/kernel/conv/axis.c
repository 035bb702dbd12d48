/* Sort the positions of one axis into tap-validity classes. */
#include "kernel/conv/axis.h"

#include <lockstep/extra/alloc.h>

#include <string.h>

/* What is known of a position of C while the classes are being found. */
typedef struct position {
    int64_t a;    /* position of A under its first valid tap */
    int64_t kind; /* index of its class */
} position;

typedef struct builder {
    lk__conv_axis *axis;
    int64_t n_a, n_c;
    position *at;
    int64_t capacity; /* of classes */
} builder;

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

/* Elements of A between taps.  If that does not fit, no position has two valid taps. */
static int64_t step_between(int64_t move, int64_t step)
{
    int64_t elements;
    return __builtin_mul_overflow(move, step, &elements) ? 0 : elements;
}

static int64_t clamp(int64_t v, int64_t low, int64_t high)
{
    return v < low ? low : v > high ? high : v;
}

static lk_status class_add(builder *b, int64_t tap, int64_t n_taps)
{
    lk__conv_axis *axis = b->axis;
    if (axis->n_classes == b->capacity) {
        int64_t capacity = b->capacity == 0 ? 8 : 2 * b->capacity;
        lk__conv_class *more;
        LK_TRY(lk_alloc(&more, capacity, sizeof *more));
        if (axis->n_classes > 0)
            memcpy(more, axis->classes, (size_t)axis->n_classes * sizeof *more);
        lk_free(axis->classes);
        axis->classes = more;
        b->capacity = capacity;
    }
    axis->classes[axis->n_classes++] = (lk__conv_class){.tap = tap, .n_taps = n_taps};
    return LK_OK;
}

/* Position `c` has `n_taps` taps from place `tap` on; the first of them is over `a`, the next over
 * a + a_move, ...  Find its valid ones and its class. */
static lk_status position_put(builder *b, int64_t c, int64_t tap, int64_t n_taps, int64_t a,
                              int64_t a_move)
{
    int64_t low = clamp(-floor_div(a, a_move), 0, n_taps);
    int64_t high = clamp(floor_div(b->n_a - 1 - a, a_move) + 1, low, n_taps);
    lk__conv_axis *axis = b->axis;
    position *p = &b->at[c];
    p->a = low < high ? a + low * a_move : 0;
    tap = low < high ? tap + low : 0;
    for (p->kind = axis->n_classes - 1; p->kind >= 0; p->kind--) {
        const lk__conv_class *k = &axis->classes[p->kind];
        if (k->tap == tap && k->n_taps == high - low)
            break;
    }
    if (p->kind < 0) {
        LK_TRY(class_add(b, tap, high - low));
        p->kind = axis->n_classes - 1;
    }
    axis->classes[p->kind].n++;
    return LK_OK;
}

/* Lay the positions out by class. */
static void positions_sort(builder *b, int64_t a_step, int64_t c_step)
{
    lk__conv_axis *axis = b->axis;
    int64_t first = 0;
    for (int64_t k = 0; k < axis->n_classes; k++) {
        axis->classes[k].first = first;
        first += axis->classes[k].n;
        axis->classes[k].n = 0;
    }
    for (int64_t c = 0; c < b->n_c; c++) {
        lk__conv_class *k = &axis->classes[b->at[c].kind];
        axis->a_off[k->first + k->n] = b->at[c].a * a_step;
        axis->c_off[k->first + k->n++] = c * c_step;
    }
}

static lk_status builder_start(builder *b, const lk__conv_shape *s, int d)
{
    lk__conv_axis *axis = b->axis;
    memset(axis, 0, sizeof *axis);
    axis->n_taps = s->window.kernel[d];
    LK_TRY(lk_alloc(&axis->order, axis->n_taps, sizeof *axis->order));
    LK_TRY(lk_alloc(&axis->a_off, b->n_c, sizeof *axis->a_off));
    LK_TRY(lk_alloc(&axis->c_off, b->n_c, sizeof *axis->c_off));
    return LK_TRACE(lk_alloc(&b->at, b->n_c, sizeof *b->at));
}

lk_status lk__conv_axis_forward(const lk__conv_shape *s, int d, lk__conv_axis *out)
{
    lk_status st = LK_OK;
    builder b = {.axis = out, .n_a = s->in[d], .n_c = s->out[d]};
    LK_TRY_TO(done, builder_start(&b, s, d));
    for (int64_t t = 0; t < s->window.kernel[d]; t++)
        out->order[t] = t;
    for (int64_t o = 0; o < s->out[d]; o++)
        LK_TRY_TO(done, position_put(&b, o, 0, s->window.kernel[d],
                                     o * s->window.stride[d] - s->window.pad_lo[d],
                                     s->window.dilation[d]));
    out->a_step = step_between(s->window.dilation[d], s->x_step[d]);
    positions_sort(&b, s->x_step[d], s->y_step[d]);
done:
    lk_free(b.at);
    return st;
}

/* Put the positions whose taps are `tap` and every `apart` further, from `place` of the order on. */
static lk_status residue_put(builder *b, const lk__conv_shape *s, int d, int64_t tap, int64_t apart,
                             int64_t place)
{
    int64_t n_taps = (s->window.kernel[d] - 1 - tap) / apart + 1;
    for (int64_t j = 0; j < n_taps; j++)
        b->axis->order[place + j] = tap + (n_taps - 1 - j) * apart;
    int64_t stride = s->window.stride[d], dilation = s->window.dilation[d];
    int64_t a_move = dilation / (stride / apart);
    int64_t i = tap * dilation - s->window.pad_lo[d];
    i -= floor_div(i, stride) * stride;
    for (; i < s->in[d]; i += stride) {
        int64_t a = (i + s->window.pad_lo[d] - b->axis->order[place] * dilation) / stride;
        LK_TRY(position_put(b, i, place, n_taps, a, a_move));
    }
    return LK_OK;
}

lk_status lk__conv_axis_data(const lk__conv_shape *s, int d, lk__conv_axis *out)
{
    lk_status st = LK_OK;
    builder b = {.axis = out, .n_a = s->out[d], .n_c = s->in[d]};
    LK_TRY_TO(done, builder_start(&b, s, d));
    for (int64_t i = 0; i < s->in[d]; i++)
        b.at[i].kind = -1;
    int64_t common = lk__conv_gcd(s->window.stride[d], s->window.dilation[d]),
            apart = s->window.stride[d] / common;
    int64_t place = 0;
    for (int64_t tap = 0; tap < apart && tap < s->window.kernel[d]; tap++) {
        LK_TRY_TO(done, residue_put(&b, s, d, tap, apart, place));
        place += (s->window.kernel[d] - 1 - tap) / apart + 1;
    }
    for (int64_t i = 0; i < s->in[d]; i++)
        if (b.at[i].kind < 0)
            LK_TRY_TO(done, position_put(&b, i, 0, 0, 0, 1));
    out->a_step = step_between(s->window.dilation[d] / common, s->y_step[d]);
    positions_sort(&b, s->y_step[d], s->x_step[d]);
done:
    lk_free(b.at);
    return st;
}

void lk__conv_axis_free(lk__conv_axis *axis)
{
    lk_free(axis->order);
    lk_free(axis->a_off);
    lk_free(axis->c_off);
    lk_free(axis->classes);
}
