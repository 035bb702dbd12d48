/* Windows along one axis: which positions read which.
 *
 *     i = o * stride - pad_lo + t * dilation
 *
 * Tap by tap, the first and the last position of a range that the tap takes from within the other axis;
 * each tap ascends, so that the hull over all taps is exact.
 */
#include "base/integer.h"

#include <lockstep/extra/conv.h>

typedef struct axis {
    int64_t kernel, stride, dilation, pad, grid;
} axis;

static axis axis_of(const lk_window *w, int d)
{
    return (axis){.kernel = w->kernel[d],
                  .stride = w->stride[d] == 0 ? 1 : w->stride[d],
                  .dilation = w->dilation[d] == 0 ? 1 : w->dilation[d],
                  .pad = w->pad_lo[d],
                  .grid = w->grid == 0 ? 1 : w->grid};
}

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

static lk_range range_between(int64_t first, int64_t end)
{
    return end > first ? (lk_range){first, end - first} : (lk_range){0, 0};
}

/* What whole groups from range.first on read of an axis of n, with `pad` before it: all of their taps,
 * also those of positions behind the range. */
static lk_range groups_read(const axis *a, int64_t pad, lk_range range, int64_t n)
{
    int64_t from = range.first - pad, groups = lk__div_up(range.n, a->grid);
    return range_between(lk__max(0, from), lk__min(n, from + groups * a->grid + a->kernel - 1));
}

lk_range lk_window_needs(const lk_window *window, int d, lk_range out, int64_t in)
{
    axis a = axis_of(window, d);
    int64_t first = INT64_MAX, end = 0;
    if (out.n <= 0 || in <= 0)
        return (lk_range){0, 0};
    if (a.grid > 1)
        return groups_read(&a, a.pad, out, in);
    for (int64_t t = 0; t < a.kernel; t++) {
        int64_t shift = a.pad - t * a.dilation; /* i = o * stride - shift */
        int64_t low = lk__max(out.first, lk__div_up(shift, a.stride));
        int64_t high = lk__min(out.first + out.n - 1, floor_div(in - 1 + shift, a.stride));
        if (low <= high) {
            first = lk__min(first, low * a.stride - shift);
            end = lk__max(end, high * a.stride - shift + 1);
        }
    }
    return range_between(first, end);
}

lk_range lk_window_feeds(const lk_window *window, int d, lk_range in, int64_t out)
{
    axis a = axis_of(window, d);
    int64_t first = INT64_MAX, end = 0;
    if (in.n <= 0 || out <= 0)
        return (lk_range){0, 0};
    if (a.grid > 1) /* dx is a convolution of dy with the rest of the kernel as padding */
        return groups_read(&a, a.kernel - 1 - a.pad, in, out);
    for (int64_t t = 0; t < a.kernel; t++) {
        int64_t shift = a.pad - t * a.dilation; /* o * stride = i + shift */
        int64_t low = lk__max(0, lk__div_up(in.first + shift, a.stride));
        int64_t high = lk__min(out - 1, floor_div(in.first + in.n - 1 + shift, a.stride));
        if (low <= high) {
            first = lk__min(first, low);
            end = lk__max(end, high + 1);
        }
    }
    return range_between(first, end);
}
