/* Pools: windows, and backward the windows over a position. */
#include "kernel/reference/chain.h"
#include "kernel/reference/place.h"

/* The convolution, of each channel by itself, that reads the same positions. */
static lk_conv_shape geometry_of(const lk_pool_shape *p)
{
    lk_conv_shape s = {.dtype = p->dtype,
                       .window = p->window,
                       .batch = p->batch,
                       .in_channels = p->channels,
                       .out_channels = p->channels,
                       .x_sample = p->x_sample,
                       .y_sample = p->y_sample};
    for (int d = 0; d < LK__REF_AXES; d++) {
        s.in[d] = p->in[d];
        s.out[d] = p->out[d];
        s.window.dilation[d] = 1;
        s.x_step[d] = p->x_step[d];
        s.y_step[d] = p->y_step[d];
    }
    return lk__ref_conv_shape(&s);
}

/* A pass, with the operands that it has, at channel c of sample n. */
struct pass {
    const lk_pool_shape *pool;
    lk_conv_shape s;
    const void *x, *y, *dy;
    const int64_t *index;
    int64_t *found; /* the index that max writes, or NULL */
    int64_t n, c;
    bool traced;
};

static int64_t x_at(const struct pass *p, lk__ref_place i)
{
    return p->n * p->s.x_sample + place_offset(i, p->s.x_step) + p->c;
}

static int64_t y_at(const struct pass *p, lk__ref_place o)
{
    return p->n * p->s.y_sample + place_offset(o, p->s.y_step) + p->c;
}

/* The number of a position of x in raster order. */
static int64_t number_of(const struct pass *p, lk__ref_place i)
{
    return (i.at[0] * p->s.in[1] + i.at[1]) * p->s.in[2] + i.at[2];
}

/* What window o is divided by. */
static double divisor_of(const struct pass *p, lk__ref_place o)
{
    const int64_t *kernel = p->s.window.kernel;
    int64_t n = 0;
    for (lk__ref_place t = place_first(kernel); t.is; t = place_next(t, kernel))
        n += p->pool->count_padding || place_read(&p->s, o, t).is;
    return (double)n;
}

/* An element of y at `at`, or one of dx. */
typedef lk__ref_chain element_fn(const struct pass *p, lk__ref_place at);

static void y_each(struct pass p, element_fn *fn, void *y, lk__ref_value *exact)
{
    p.s = geometry_of(p.pool);
    p.traced = exact != NULL;
    for (p.n = 0; p.n < p.s.batch; p.n++)
        for (lk__ref_place o = place_first(p.s.out); o.is; o = place_next(o, p.s.out))
            for (p.c = 0; p.c < p.s.in_channels; p.c++) {
                const lk__ref_chain c = fn(&p, o);
                chain_store(&c, LK_ACT_NONE, y_at(&p, o), y, exact);
            }
}

/* An element of dx: a chain over the windows o that have it, each of which `add` adds. */
typedef void window_fn(const struct pass *p, lk__ref_place i, lk__ref_place o, lk__ref_chain *c);

static void dx_each(struct pass p, window_fn *add, void *dx, lk__ref_value *exact)
{
    p.s = geometry_of(p.pool);
    p.traced = exact != NULL;
    for (p.n = 0; p.n < p.s.batch; p.n++)
        for (lk__ref_place i = place_first(p.s.in); i.is; i = place_next(i, p.s.in))
            for (p.c = 0; p.c < p.s.in_channels; p.c++) {
                lk__ref_chain c = chain_start(p.s.dtype, 0, p.traced);
                for (lk__ref_place o = place_first(p.s.out); o.is; o = place_next(o, p.s.out))
                    if (place_tap(&p.s, o, i).is)
                        add(&p, i, o, &c);
                chain_store(&c, LK_ACT_NONE, x_at(&p, i), dx, exact);
            }
}

/* ---- forward ---- */

static lk__ref_chain max_of(const struct pass *p, lk__ref_place o)
{
    const int64_t *kernel = p->s.window.kernel;
    double best = (double)-INFINITY;
    int64_t number = -1;
    for (lk__ref_place t = place_first(kernel); t.is; t = place_next(t, kernel)) {
        const lk__ref_place i = place_read(&p->s, o, t);
        if (!i.is)
            continue;
        double v = real_get(p->s.dtype, p->x, x_at(p, i));
        if (p->pool->relu && v < 0)
            v = 0;
        if (number < 0 || v > best || (isnan(v) && !isnan(best))) {
            best = v;
            number = number_of(p, i);
        }
    }
    if (p->found)
        p->found[y_at(p, o)] = number;
    return chain_start(p->s.dtype, best, p->traced);
}

static lk__ref_chain avg_of(const struct pass *p, lk__ref_place o)
{
    const int64_t *kernel = p->s.window.kernel;
    lk__ref_chain c = chain_start(p->s.dtype, 0, p->traced);
    for (lk__ref_place t = place_first(kernel); t.is; t = place_next(t, kernel)) {
        const lk__ref_place i = place_read(&p->s, o, t);
        if (i.is)
            chain_add(&c, real_get(p->s.dtype, p->x, x_at(p, i)));
    }
    const double n = divisor_of(p, o);
    return n > 0 ? chain_divided(c, n) : c;
}

static lk__ref_chain l2_of(const struct pass *p, lk__ref_place o)
{
    const int64_t *kernel = p->s.window.kernel;
    lk__ref_chain c = chain_start(p->s.dtype, 0, p->traced);
    for (lk__ref_place t = place_first(kernel); t.is; t = place_next(t, kernel)) {
        const lk__ref_place i = place_read(&p->s, o, t);
        const double v = i.is ? real_get(p->s.dtype, p->x, x_at(p, i)) : 0;
        if (i.is)
            chain_fma(&c, v, v);
    }
    /* The root halves the relative error and adds its own. */
    const double root = sqrt(c.hi);
    c.acc = real_sqrt(c.dtype, c.acc);
    c.lo = root > 0 ? (fma(-root, root, c.hi) + c.lo) / (2 * root) : 0;
    c.hi = c.magnitude = root;
    c.length++;
    return c;
}

void lk__ref_pool_max(const lk_pool_shape *s, const void *x, void *y, int64_t *index,
                      lk__ref_value *exact)
{
    y_each((struct pass){.pool = s, .x = x, .found = index}, max_of, y, exact);
}

void lk__ref_pool_avg(const lk_pool_shape *s, const void *x, void *y, lk__ref_value *exact)
{
    y_each((struct pass){.pool = s, .x = x}, avg_of, y, exact);
}

void lk__ref_pool_l2(const lk_pool_shape *s, const void *x, void *y, lk__ref_value *exact)
{
    y_each((struct pass){.pool = s, .x = x}, l2_of, y, exact);
}

/* ---- backward ---- */

static void max_add(const struct pass *p, lk__ref_place i, lk__ref_place o, lk__ref_chain *c)
{
    if (p->index[y_at(p, o)] == number_of(p, i))
        chain_add(c, real_get(p->s.dtype, p->dy, y_at(p, o)));
}

static void avg_add(const struct pass *p, lk__ref_place i, lk__ref_place o, lk__ref_chain *c)
{
    (void)i;
    const double dy = real_get(p->s.dtype, p->dy, y_at(p, o));
    *c = lk__ref_chain_join(*c,
                            chain_divided(chain_start(c->dtype, dy, c->traced), divisor_of(p, o)));
}

static void l2_add(const struct pass *p, lk__ref_place i, lk__ref_place o, lk__ref_chain *c)
{
    const lk_dtype t = c->dtype;
    const double x = real_get(t, p->x, x_at(p, i)), y = real_get(t, p->y, y_at(p, o)),
                 dy = real_get(t, p->dy, y_at(p, o));
    if (y == 0)
        return;
    const double q = real_div(t, x, y);
    chain_fma(c, dy, q);
    if (!c->traced)
        return;
    const lk__ref_chain norm = l2_of(p, o);
    const lk__ref_value exact = lk__ref_chain_value(&norm);
    const long double true_y = (long double)exact.hi + (long double)exact.lo;
    c->lo += (double)((long double)dy * ((long double)x / true_y - (long double)q));
    c->slack += fabs(dy * q) * (exact.bound / exact.hi + 2 * real_epsilon(t));
}

void lk__ref_pool_max_backward(const lk_pool_shape *s, const void *dy, const int64_t *index,
                               void *dx, lk__ref_value *exact)
{
    dx_each((struct pass){.pool = s, .dy = dy, .index = index}, max_add, dx, exact);
}

void lk__ref_pool_avg_backward(const lk_pool_shape *s, const void *dy, void *dx,
                               lk__ref_value *exact)
{
    dx_each((struct pass){.pool = s, .dy = dy}, avg_add, dx, exact);
}

void lk__ref_pool_l2_backward(const lk_pool_shape *s, const void *x, const void *y, const void *dy,
                              void *dx, lk__ref_value *exact)
{
    dx_each((struct pass){.pool = s, .x = x, .y = y, .dy = dy}, l2_add, dx, exact);
}
