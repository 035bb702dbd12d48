/* The loops of gates.c for the element type T; included there once per type.
 *
 * Kept for backward, u elements each: of a gru r, z, n, q; of an lstm i, f, g, o, tanh(c), c'.
 */

/* A gradient that came through a sum with zeros: never -0. */
#define PLUS(x) ((T)0 + (x))

static void NAME(add)(void *to, const void *from, int64_t n)
{
    T *restrict y = to;
    const T *restrict x = from;
    for (int64_t k = 0; k < n; k++)
        y[k] = y[k] + x[k];
}

static void NAME(rnn_forward)(const lk__gates_row *r)
{
    const int64_t u = r->units;
    const T *restrict x = r->x, *restrict s = r->s;
    T *restrict h = r->before, *restrict y = r->y;
    LK_INDEPENDENT
    for (int64_t k = 0; k < u; k++) {
        const T new = MATH(tanh)(x[k] + s[k]);
        h[k] = new;
        y[k] = new;
    }
}

static void NAME(rnn_backward)(const lk__gates_row *r)
{
    const int64_t u = r->units;
    const T *restrict d = r->d, *restrict y = r->y;
    T *restrict s = r->s, *restrict dx = r->dx;
    LK_INDEPENDENT
    for (int64_t k = 0; k < u; k++) {
        const T ds = PLUS(d[k] * (1 - y[k] * y[k]));
        s[k] = ds;
        dx[k] = ds;
    }
}

static void NAME(gru_forward)(const lk__gates_row *g)
{
    const int64_t u = g->units;
    const T *restrict x = g->x, *restrict s = g->s, *restrict bias = g->bias;
    T *restrict h = g->before, *restrict y = g->y, *restrict kept = g->kept;
    LK_INDEPENDENT
    for (int64_t k = 0; k < u; k++) {
        const T r = MATH(sigmoid)(x[k] + s[k]), z = MATH(sigmoid)(x[u + k] + s[u + k]);
        const T q = s[2 * u + k] + bias[k], rq = r * q;
        const T n = MATH(tanh)(x[2 * u + k] + rq);
        const T part = z * (h[k] - n);
        const T new = n + part;
        h[k] = new;
        y[k] = new;
        kept[k] = r;
        kept[u + k] = z;
        kept[2 * u + k] = n;
        kept[3 * u + k] = q;
    }
}

static void NAME(gru_backward)(const lk__gates_row *g)
{
    const int64_t u = g->units;
    const T *restrict kept = g->kept, *restrict h = g->before;
    T *restrict d = g->d, *restrict s = g->s, *restrict dx = g->dx;
    LK_INDEPENDENT
    for (int64_t k = 0; k < u; k++) {
        const T r = kept[k], z = kept[u + k], n = kept[2 * u + k], q = kept[3 * u + k];
        const T dh = d[k], e = dh * z;
        const T t = (dh - e) * (1 - n * n);
        const T dr = PLUS((t * q) * (r * (1 - r))), dz = PLUS((dh * (h[k] - n)) * (z * (1 - z)));
        d[k] = e;
        s[k] = dr;
        s[u + k] = dz;
        s[2 * u + k] = PLUS(t * r);
        dx[k] = dr;
        dx[u + k] = dz;
        dx[2 * u + k] = PLUS(t);
    }
}

static void NAME(lstm_forward)(const lk__gates_row *r)
{
    const int64_t u = r->units;
    const T forget = (T)r->forget;
    const T *restrict x = r->x, *restrict s = r->s;
    T *restrict h = r->before, *restrict y = r->y, *restrict c = r->c, *restrict kept = r->kept;
    LK_INDEPENDENT
    for (int64_t k = 0; k < u; k++) {
        const T i = MATH(sigmoid)(x[k] + s[k]);
        const T f = MATH(sigmoid)((x[u + k] + s[u + k]) + forget);
        const T g = MATH(tanh)(x[2 * u + k] + s[2 * u + k]);
        const T o = MATH(sigmoid)(x[3 * u + k] + s[3 * u + k]);
        const T before = c[k], fc = f * before, ig = i * g;
        const T now = fc + ig, t = MATH(tanh)(now);
        const T new = o *t;
        c[k] = now;
        h[k] = new;
        y[k] = new;
        kept[k] = i;
        kept[u + k] = f;
        kept[2 * u + k] = g;
        kept[3 * u + k] = o;
        kept[4 * u + k] = t;
        kept[5 * u + k] = before;
    }
}

/* `first` is a constant, for a loop that looks at it is not made of vectors. */
LK_INLINE void NAME(lstm_back)(const lk__gates_row *r, const bool first)
{
    const int64_t u = r->units;
    const T *restrict kept = r->kept, *restrict d = r->d;
    T *restrict c = r->c, *restrict s = r->s, *restrict dx = r->dx;
    LK_INDEPENDENT
    for (int64_t k = 0; k < u; k++) {
        const T i = kept[k], f = kept[u + k], g = kept[2 * u + k], o = kept[3 * u + k];
        const T t = kept[4 * u + k], before = kept[5 * u + k];
        const T through = (d[k] * o) * (1 - t * t), old = c[k];
        const T dc = first ? through : old + through;
        const T di = PLUS((dc * g) * (i * (1 - i))), df = PLUS((dc * before) * (f * (1 - f)));
        const T dg = PLUS((dc * i) * (1 - g * g)), open = PLUS((d[k] * t) * (o * (1 - o)));
        c[k] = dc * f;
        s[k] = di;
        s[u + k] = df;
        s[2 * u + k] = dg;
        s[3 * u + k] = open;
        dx[k] = di;
        dx[u + k] = df;
        dx[2 * u + k] = dg;
        dx[3 * u + k] = open;
    }
}

static void NAME(lstm_backward)(const lk__gates_row *r)
{
    if (r->first)
        NAME(lstm_back)(r, true);
    else
        NAME(lstm_back)(r, false);
}

#undef PLUS
