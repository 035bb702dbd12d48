/* Windows along an axis: what outputs read and who reads inputs, against all pairs of positions. */
#include "harness.h"

#include <lockstep/extra/conv.h>

typedef struct axis {
    int64_t kernel, stride, dilation, pad;
    int64_t in, out;
} axis;

static lk_window window_of(const axis *a, int64_t grid)
{
    return (lk_window){.ndim = 2,
                       .kernel = {1, a->kernel},
                       .stride = {0, a->stride},
                       .dilation = {0, a->dilation},
                       .pad_lo = {0, a->pad},
                       .grid = grid};
}

static void hull_add(lk_range *hull, int64_t i)
{
    if (hull->n == 0)
        *hull = (lk_range){i, 1};
    else if (i < hull->first)
        *hull = (lk_range){i, hull->n + hull->first - i};
    else if (i >= hull->first + hull->n)
        hull->n = i - hull->first + 1;
}

/* Outputs up to `outputs`, some of which there may not be. */
static lk_range by_hand(const axis *a, bool needs, lk_range r, int64_t outputs)
{
    lk_range hull = {0, 0};
    for (int64_t o = 0; o < outputs; o++)
        for (int64_t t = 0; t < a->kernel; t++) {
            int64_t i = o * a->stride - a->pad + t * a->dilation;
            int64_t from = needs ? o : i, to = needs ? i : o, end = needs ? a->in : a->out;
            if (from >= r.first && from < r.first + r.n && to >= 0 && to < end &&
                (needs || i < a->in))
                hull_add(&hull, to);
        }
    return hull;
}

static void assert_range(lk_range got, lk_range want)
{
    ASSERT_EQ(got.n, want.n);
    ASSERT_EQ(got.first, want.first);
}

static void check(const axis *a)
{
    lk_window w = window_of(a, a->kernel % 2);
    for (int64_t first = 0; first <= a->out; first++)
        for (int64_t n = 0; first + n <= a->out; n++) {
            lk_range r = {first, n};
            assert_range(lk_window_needs(&w, 1, r, a->in), by_hand(a, true, r, a->out));
        }
    for (int64_t first = 0; first <= a->in; first++)
        for (int64_t n = 0; first + n <= a->in; n++) {
            lk_range r = {first, n};
            assert_range(lk_window_feeds(&w, 1, r, a->out), by_hand(a, false, r, a->out));
        }
}

/* All windows of small sizes. */
TEST(ranges_are_the_smallest_that_have_all_positions)
{
    for (int64_t k = 1; k <= 5; k++)
        for (int64_t s = 1; s <= 6; s++)
            for (int64_t d = 1; d <= 3; d++)
                for (int64_t p = -4; p <= 7; p++)
                    for (int64_t in = 0; in <= 9; in++)
                        for (int64_t out = 0; out <= 8; out++)
                            check(&(axis){k, s, d, p, in, out});
}

/* Of a group of four all outputs count, the sums of which there are no outputs too. */
TEST(winograd_takes_whole_groups)
{
    for (int64_t pad = -3; pad <= 5; pad++)
        for (int64_t in = 1; in <= 14; in++)
            for (int64_t out = 1; out <= 12; out++) {
                axis a = {3, 1, 1, pad, in, out};
                lk_window w = window_of(&a, 4);
                for (int64_t first = 0; first < out; first += 4)
                    for (int64_t n = 1; first + n <= out; n++) {
                        lk_range whole = {first, (n + 3) / 4 * 4};
                        assert_range(lk_window_needs(&w, 1, (lk_range){first, n}, in),
                                     by_hand(&a, true, whole, first + whole.n));
                    }
                for (int64_t first = 0; first < in; first += 4)
                    for (int64_t n = 1; first + n <= in; n++) {
                        lk_range whole = {first, (n + 3) / 4 * 4};
                        axis wide = a;
                        wide.in = first + whole.n;
                        assert_range(lk_window_feeds(&w, 1, (lk_range){first, n}, out),
                                     by_hand(&wide, false, whole, out));
                    }
            }
}
