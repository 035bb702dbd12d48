/* Charts as SVG: axes with ticks at round numbers, curves, and a legend in HTML.
 *
 *   TOP    |- - - - - - - - -       y grows upwards, from the round number below all values to the
 *          |    /\    _..--         one above them
 *          |- -/- -\/- - - -
 *   BOTTOM +--+-----+-----+-
 *          LEFT            RIGHT
 */
#include "io/report/report.h"

#include <math.h>

enum {
    WIDTH = 640,
    HEIGHT = 300,
    LEFT = 58,
    RIGHT = WIDTH - 14,
    TOP = 12,
    BOTTOM = HEIGHT - 42,
    COLOURS = 6,
    MOST_POINTS = 1000, /* of a curve that are drawn */
    MOST_DOTS = 60      /* up to here, each point has a dot */
};

/* Numbers beyond `most` are not drawn, and those below `tiny` are as good as zero. */
static const double most = 1e30, tiny = 1e-30;

/* From `low` to `high`, with ticks at k * digit * 10^power for k = first ... last. */
typedef struct axis {
    double low, high;
    int digit, power;
    int64_t first, last;
} axis;

static double tick_value(const axis *a, int64_t k)
{
    double scale = 1, v = (double)(k * a->digit);
    for (int i = 0; i < (a->power < 0 ? -a->power : a->power); i++)
        scale *= 10;
    return a->power < 0 ? v / scale : v * scale;
}

static bool drawn(double v)
{
    return fabs(v) <= most; /* not NaN either */
}

/* About `wanted` ticks over the range. */
static void axis_ticks(axis *a, int wanted, bool whole)
{
    static const int digits[] = {1, 2, 5, 10};
    double raw = (a->high - a->low) / wanted;
    a->power = (int)floor(log10(raw));
    if (whole && a->power < 0)
        a->power = 0;
    for (int i = 0; i < 4; i++) {
        a->digit = digits[i];
        if (tick_value(a, 1) >= raw * 0.999)
            break;
    }
    double step = tick_value(a, 1);
    a->first = (int64_t)ceil(a->low / step - 1e-9);
    a->last = (int64_t)floor(a->high / step + 1e-9);
}

/* A range of some width, whatever there was. */
static void axis_widen(axis *a)
{
    if (!(a->low <= a->high)) {
        a->low = 0;
        a->high = 1;
    }
    double largest = fmax(fabs(a->low), fabs(a->high));
    if (a->high - a->low <= fmax(1e-6 * largest, tiny)) {
        double more = largest <= tiny ? 0.5 : 0.05 * largest;
        a->low -= more;
        a->high += more;
    }
}

static void axes_fit(const lk_chart *c, axis *x, axis *y)
{
    bool whole = true;
    *x = *y = (axis){.low = HUGE_VAL, .high = -HUGE_VAL};
    for (int64_t k = 0; k < c->n; k++)
        for (int64_t i = 0; i < c->curve[k].n; i++) {
            double px = c->curve[k].x[i], py = c->curve[k].y[i];
            if (!drawn(px) || !drawn(py))
                continue;
            x->low = fmin(x->low, px);
            x->high = fmax(x->high, px);
            y->low = fmin(y->low, py);
            y->high = fmax(y->high, py);
            whole = whole && px == floor(px);
        }
    if (x->low == x->high) {
        x->low -= 0.5;
        x->high += 0.5;
    }
    axis_widen(x);
    axis_ticks(x, 8, whole);
    axis_widen(y);
    axis_ticks(y, 5, false);
    double step = tick_value(y, 1); /* up to the next ticks, so that curves end within the grid */
    y->first = (int64_t)floor(y->low / step + 1e-9);
    y->last = (int64_t)ceil(y->high / step - 1e-9);
    y->low = tick_value(y, y->first);
    y->high = tick_value(y, y->last);
}

static double place_x(const axis *a, double v)
{
    return LEFT + (v - a->low) / (a->high - a->low) * (RIGHT - LEFT);
}

static double place_y(const axis *a, double v)
{
    return BOTTOM - (v - a->low) / (a->high - a->low) * (BOTTOM - TOP);
}

static void put_grid(lk__out *o, const lk_chart *c, const axis *x, const axis *y)
{
    for (int64_t k = y->first; k <= y->last; k++) {
        double at = place_y(y, tick_value(y, k));
        lk__out_format(o, "<path class=\"%s\" d=\"M%d ", k == y->first ? "axis" : "grid", LEFT);
        lk__out_fixed(o, at, 1);
        lk__out_format(o, "H%d\"/><text x=\"%d\" y=\"", RIGHT, LEFT - 8);
        lk__out_fixed(o, at + 4, 1);
        lk__out_put(o, "\" text-anchor=\"end\">");
        lk__out_real(o, tick_value(y, k));
        lk__out_put(o, "</text>\n");
    }
    for (int64_t k = x->first; k <= x->last; k++) {
        lk__out_put(o, "<path class=\"axis\" d=\"M");
        lk__out_fixed(o, place_x(x, tick_value(x, k)), 1);
        lk__out_format(o, " %dv5\"/><text x=\"", BOTTOM);
        lk__out_fixed(o, place_x(x, tick_value(x, k)), 1);
        lk__out_format(o, "\" y=\"%d\" text-anchor=\"middle\">", BOTTOM + 19);
        lk__out_real(o, tick_value(x, k));
        lk__out_put(o, "</text>\n");
    }
    lk__out_format(o, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\" class=\"title\">",
                   (LEFT + RIGHT) / 2, HEIGHT - 6);
    lk__out_html(o, c->x_title ? c->x_title : "");
    lk__out_put(o, "</text>\n");
}

static void put_dot(lk__out *o, const lk_chart *c, const lk_curve *curve, int64_t i, double px,
                    double py)
{
    lk__out_put(o, "<circle r=\"2.6\" cx=\"");
    lk__out_fixed(o, px, 1);
    lk__out_put(o, "\" cy=\"");
    lk__out_fixed(o, py, 1);
    lk__out_put(o, "\"><title>");
    lk__out_html(o, curve->name);
    lk__out_put(o, ", ");
    lk__out_html(o, c->x_title ? c->x_title : "");
    lk__out_put(o, " ");
    lk__out_short(o, curve->x[i]);
    lk__out_put(o, ": ");
    lk__out_short(o, curve->y[i]);
    lk__out_put(o, "</title></circle>\n");
}

static void put_curve(lk__out *o, const lk_chart *c, int64_t k, const axis *x, const axis *y)
{
    const lk_curve *curve = &c->curve[k];
    int64_t stride = curve->n / MOST_POINTS + 1;
    bool pen_down = false;
    lk__out_format(o, "<g class=\"c%lld\"><path class=\"line\" d=\"", (long long)k % COLOURS);
    for (int64_t i = 0; i < curve->n; i++) {
        if (i % stride && i + 1 < curve->n)
            continue;
        if (!drawn(curve->x[i]) || !drawn(curve->y[i])) {
            pen_down = false;
            continue;
        }
        lk__out_put(o, pen_down ? "L" : "M");
        lk__out_fixed(o, place_x(x, curve->x[i]), 1);
        lk__out_put(o, " ");
        lk__out_fixed(o, place_y(y, curve->y[i]), 1);
        pen_down = true;
    }
    lk__out_put(o, "\"/>\n");
    for (int64_t i = 0; i < curve->n && curve->n <= MOST_DOTS; i++)
        if (drawn(curve->x[i]) && drawn(curve->y[i]))
            put_dot(o, c, curve, i, place_x(x, curve->x[i]), place_y(y, curve->y[i]));
    lk__out_put(o, "</g>\n");
}

void lk__report_chart(lk__out *o, const lk_chart *c)
{
    axis x, y;
    lk__out_put(o, "<figure><figcaption><b>");
    lk__out_html(o, c->title);
    lk__out_put(o, "</b>");
    for (int64_t k = 0; k < c->n; k++) {
        lk__out_format(o, "<span class=\"key c%lld\"><i></i>", (long long)k % COLOURS);
        lk__out_html(o, c->curve[k].name);
        if (c->curve[k].n > 0) {
            lk__out_put(o, " <em>");
            lk__out_short(o, c->curve[k].y[c->curve[k].n - 1]);
            lk__out_put(o, "</em>");
        }
        lk__out_put(o, "</span>");
    }
    lk__out_format(o, "</figcaption>\n<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", WIDTH,
                   HEIGHT);
    lk__out_html(o, c->title);
    lk__out_put(o, "\">\n");
    axes_fit(c, &x, &y);
    put_grid(o, c, &x, &y);
    for (int64_t k = 0; k < c->n; k++)
        put_curve(o, c, k, &x, &y);
    lk__out_put(o, "</svg></figure>\n");
}
