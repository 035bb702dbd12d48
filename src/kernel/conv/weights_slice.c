/* Slices of a weight gradient: which side gives the rows of tiles, what is packed, where channels
 * are cut.
 *
 * The choice is by an estimate of the time per output position, in multiply-adds of one vector:
 *
 *     taps * (sum over tiles of their time)  +  PACK per vector that is copied
 *
 * and for a columns side that is read in place a share of the first term instead of its copies, or nothing if
 * it lies there as a panel would.  Then the rows side is not copied either, unless its pixels are far apart.
 */
#include "base/integer.h"
#include "kernel/conv/weights_plan.h"

#include <lockstep/extra/alloc.h>

enum {
    FEW_CHANNELS = 8,  /* fewer make a tile of one tap too low */
    LATENCY = 8,       /* multiply-adds under way that keep the units busy */
    PACK = 6,          /* copying a vector, in multiply-adds */
    BAD_STRIDE = 2048, /* bytes; pixels such a distance apart share few sets of the cache */
    FAR_STRIDE = 256,  /* bytes; pixels further apart have lines of their own in each slice */
};

static const double in_place_cost = 0.05, masked_cost = 0.2, never = 1e30;

int lk__weights_width(const lk__columns_type *micro, int64_t rest)
{
    int i = 0;
    while (i + 1 < LK_MICRO_WIDTHS && micro->width[i + 1] > 0 && micro->width[i + 1] >= rest)
        i++;
    return i;
}

/* The highest tile that all widths of `n` columns have. */
static int height(const lk__columns_type *micro, int64_t n)
{
    int64_t tail = n % micro->width[0];
    int mr = n >= micro->width[0] ? micro->mr[0] : LK_COLUMNS_MR;
    if (tail > 0 && micro->mr[lk__weights_width(micro, tail)] < mr)
        mr = micro->mr[lk__weights_width(micro, tail)];
    return mr;
}

static double tile_time(int64_t mr, int64_t vectors)
{
    int64_t t = mr * vectors > LATENCY ? mr * vectors : LATENCY;
    return (double)(mr + vectors > t ? mr + vectors : t);
}

/* All tiles of one tap in one group. */
static double tiles_time(const lk__weights_plan *p, int64_t rows, int64_t cols)
{
    const lk__columns_type *micro = p->micro;
    int64_t slices = lk__div_up(rows, height(micro, cols)), high = rows % slices;
    int64_t low_mr = rows / slices;
    double time = 0;
    for (int64_t first = 0; first < cols; first += micro->width[0]) {
        int width = micro->width[lk__weights_width(micro, cols - first)];
        int64_t vectors = lk__div_up(width, p->lanes);
        time += (double)high * tile_time(low_mr + 1, vectors) +
                (double)(slices - high) * tile_time(low_mr, vectors);
    }
    return time;
}

/* Input positions per output position. */
static double x_ratio(const lk__conv_shape *s)
{
    double ratio = 1;
    for (int d = 0; d < LK_CONV_AXES; d++) {
        lk__range r = lk__weights_reach(s, d, (lk__range){0, s->out[d]});
        ratio *= (double)(r.hi - r.lo) / (double)s->out[d];
    }
    return ratio;
}

typedef struct choice {
    bool swapped, pack_rows, pack_cols;
    double time;
} choice;

static bool chosen(lk__weights_choice asked, bool best)
{
    return asked == LK_WEIGHTS_CHOOSE ? best : asked == LK_WEIGHTS_YES;
}

/* Bytes from a pixel of a side to the next. */
static int64_t pixel_step(const lk__conv_shape *s, bool x)
{
    int64_t stride = s->window.stride[2] < s->in[2] ? s->window.stride[2] : 1;
    return (x ? s->x_step[2] * stride : s->y_step[2]) * s->elem;
}

/* What it costs to read the columns side in place. */
static double place_time(const lk__weights_plan *p, bool swapped, int64_t cols, double compute)
{
    const int64_t step = pixel_step(&p->s, swapped);
    const int width = p->micro->width[lk__weights_width(p->micro, cols % p->micro->width[0])];
    if (step % BAD_STRIDE == 0)
        return never;
    if (cols <= p->micro->width[0] && cols % width == 0 && step == cols * p->s.elem)
        return 0;
    return compute * (cols % width == 0 ? in_place_cost : in_place_cost + masked_cost);
}

static choice choose(const lk__weights_plan *p, bool swapped)
{
    const lk__conv_shape *s = &p->s;
    int64_t rows = swapped ? s->group_out : p->tap_rows;
    int64_t cols = swapped ? s->group_in : s->group_out;
    double compute = (double)p->n_taps * tiles_time(p, rows, cols);
    double place = place_time(p, swapped, cols, compute);
    double rows_copied = (double)lk__div_up(rows, height(p->micro, cols));
    double cols_copied = (double)lk__div_up(cols, p->lanes);
    if (swapped)
        cols_copied *= x_ratio(s);
    else
        rows_copied *= x_ratio(s);
    bool near = place == 0 && pixel_step(s, !swapped) <= FAR_STRIDE;
    choice c = {.swapped = swapped,
                .pack_rows = !p->runs && chosen(p->aims.pack_rows, !near),
                .pack_cols = chosen(p->aims.pack_cols, PACK * cols_copied < place)};
    c.time = compute + (c.pack_rows ? PACK * rows_copied : 0) +
             (c.pack_cols ? PACK * cols_copied : place);
    return c;
}

static lk_status side_alloc(lk__weights_side *v, int64_t groups, int64_t per_group)
{
    int64_t n;
    LK_CHECK(!__builtin_mul_overflow(groups, per_group, &n), LK_EOVERFLOW,
             "%lld groups of %lld slices", (long long)groups, (long long)per_group);
    LK_TRY(lk_alloc(&v->slice, n, sizeof *v->slice));
    v->per_group = per_group;
    return LK_OK;
}

/* Repeat the first group's slices for the others, `channels` apart. */
static void side_finish(lk__weights_side *v, int64_t groups, int64_t channels)
{
    v->width = 0;
    for (int64_t i = 0; i < groups * v->per_group; i++) {
        if (i >= v->per_group) {
            v->slice[i] = v->slice[i - v->per_group];
            v->slice[i].first += channels;
        }
        v->width += v->slice[i].width;
    }
}

/* Slices of the rows side: heights differ by one at most. */
static lk_status rows_cut(const lk__weights_plan *p, int mr, lk__weights_side *v)
{
    int64_t n = p->n_rows, slices = lk__div_up(n, mr), first = 0;
    LK_TRY(side_alloc(v, p->groups, slices));
    for (int64_t i = 0; i < slices; i++) {
        int here = (int)(n / slices + (i < n % slices));
        v->slice[i] = (lk__panel){.first = first, .n = here};
        v->slice[i].width = (int)lk__div_up(here, p->lanes) * p->lanes;
        first += here;
    }
    side_finish(v, p->groups, n);
    return LK_OK;
}

/* Slices of the columns side: the widest as long as they are full, then one for the rest. */
static lk_status cols_cut(const lk__weights_plan *p, lk__weights_side *v)
{
    int64_t n = p->n_cols, slices = lk__div_up(n, p->micro->width[0]), first = 0;
    LK_TRY(side_alloc(v, p->groups, slices));
    for (int64_t i = 0; i < slices; i++) {
        int width = p->micro->width[lk__weights_width(p->micro, n - first)];
        v->slice[i] = (lk__panel){.first = first, .width = width};
        v->slice[i].n = n - first < width ? (int)(n - first) : width;
        first += width;
    }
    side_finish(v, p->groups, n);
    return LK_OK;
}

/* Which kind of tiles, and with it which taps there are. */
static void kind_choose(lk__weights_plan *p)
{
    const lk__conv_shape *s = &p->s;
    p->own = s->groups > 1 && s->group_in == 1;
    p->spread = p->own && s->group_out > 1;
    p->runs = s->groups == 1 && s->in_channels < FEW_CHANNELS && s->window.kernel[2] > 1 &&
              s->window.dilation[2] == 1 && s->x_step[2] == s->in_channels;
    for (int d = 0; d < LK_CONV_AXES; d++)
        p->taps[d] = s->window.kernel[d];
    p->tap_rows = s->group_in;
    if (p->runs || p->own) {
        p->tap_rows *= s->window.kernel[2];
        p->taps[2] = 1;
    }
    p->n_taps = p->taps[0] * p->taps[1] * p->taps[2];
}

static void sides_choose(lk__weights_plan *p)
{
    choice best = choose(p, false);
    if (!p->runs) {
        choice other = choose(p, true);
        bool wanted = p->aims.swapped == LK_WEIGHTS_YES;
        if (wanted || (p->aims.swapped == LK_WEIGHTS_CHOOSE && other.time < best.time))
            best = other;
    }
    p->swapped = best.swapped;
    lk__weights_rows(p)->packed = best.pack_rows;
    lk__weights_cols(p)->packed = best.pack_cols;
}

lk_status lk__weights_slice(lk__weights_plan *p)
{
    const lk__conv_shape *s = &p->s;
    kind_choose(p);
    if (!p->own)
        sides_choose(p);
    p->groups = p->own ? 1 : s->groups;
    p->n_rows = p->swapped ? s->group_out : p->tap_rows;
    p->n_cols = p->own ? s->out_channels : p->swapped ? s->group_in : s->group_out;
    int mr = height(p->micro, p->n_cols);
    if (p->own && mr > LK_MICRO_OWN)
        mr = LK_MICRO_OWN;
    if (p->own && s->window.dilation[2] >= s->in[2])
        mr = 1; /* of two kernel columns one is outside, and may be as far away as it likes */
    LK_TRY(rows_cut(p, mr, lk__weights_rows(p)));
    return LK_TRACE(cols_cut(p, lk__weights_cols(p)));
}
