/* Pooling in parts: samples of a batch and tiles of an image give the bits of the whole. */
#include "harness.h"
#include "real.h"

#include <lockstep/extra/pool.h>

enum { BATCH = 3, IN = 13, CHANNELS = 10, OUT_MAX = 16 };

static float x[BATCH][IN][IN][CHANNELS], dx[3][BATCH][IN][IN][CHANNELS];
static float y[3][BATCH * OUT_MAX * OUT_MAX * CHANNELS], dy[BATCH * OUT_MAX * OUT_MAX * CHANNELS];
static int64_t index_of[BATCH * OUT_MAX * OUT_MAX * CHANNELS];

enum { MAX, AVG, L2 };

static void forward(const lk_pool_shape *s, const void *from, float *to[3], int64_t *index)
{
    ASSERT_OK(lk_pool_max(s, from, to[MAX], index));
    ASSERT_OK(lk_pool_avg(s, from, to[AVG]));
    ASSERT_OK(lk_pool_l2(s, from, to[L2]));
}

struct backward_operands {
    const float *x, *y, *dy; /* y of l2 */
    const int64_t *index;
};

static void backward(const lk_pool_shape *s, const struct backward_operands *p, float *to[3])
{
    ASSERT_OK(lk_pool_max_backward(s, p->dy, p->index, to[MAX]));
    ASSERT_OK(lk_pool_avg_backward(s, p->dy, to[AVG]));
    ASSERT_OK(lk_pool_l2_backward(s, p->x, p->y, p->dy, to[L2]));
}

/* Overlapping and gapped windows, padded and cropped, with and without count_padding. */
static const lk_pool_shape shapes[] = {
    {.out = {13, 13}, .window.kernel = {3, 3}, .window.stride = {1, 1}, .window.pad_lo = {1, 1}},
    {.out = {7, 7}, .window.kernel = {3, 3}, .window.stride = {2, 2}, .window.pad_lo = {1, 1}},
    {.out = {6, 6}, .window.kernel = {2, 2}, .window.stride = {2, 2}},
    {.out = {5, 4}, .window.kernel = {2, 3}, .window.stride = {3, 4}, .window.pad_lo = {1, 0}},
    {.out = {8, 9}, .window.kernel = {4, 5}, .window.stride = {1, 1}, .window.pad_lo = {-1, 0}},
    {.out = {7, 7},
     .window.kernel = {3, 4},
     .window.stride = {2, 2},
     .window.pad_lo = {1, 2},
     .count_padding = true},
};

enum { N_SHAPES = sizeof shapes / sizeof shapes[0] };

static lk_pool_shape whole_shape(int i)
{
    lk_pool_shape s = shapes[i];
    s.dtype = LK_F32;
    s.window.ndim = 2;
    s.batch = BATCH;
    s.channels = CHANNELS;
    s.in[0] = s.in[1] = IN;
    return s;
}

/* Pool the whole batch and its gradients. */
static void run_whole(const lk_pool_shape *s)
{
    real_fill(LK_F32, x, sizeof x / 4, 1, false);
    real_fill(LK_F32, dy, sizeof dy / 4, 2, false);
    forward(s, x, (float *[]){y[MAX], y[AVG], y[L2]}, index_of);
    struct backward_operands p = {&x[0][0][0][0], y[L2], dy, index_of};
    backward(s, &p, (float *[]){&dx[MAX][0][0][0][0], &dx[AVG][0][0][0][0], &dx[L2][0][0][0][0]});
}

TEST(samples_pool_alone_as_in_a_batch)
{
    for (int i = 0; i < N_SHAPES; i++) {
        lk_pool_shape s = whole_shape(i);
        run_whole(&s);
        s.batch = 1;
        int64_t n_y = s.out[0] * s.out[1] * CHANNELS, n_x = IN * IN * CHANNELS;
        for (int b = 0; b < BATCH; b++) {
            static float part[3][OUT_MAX * OUT_MAX * CHANNELS], grad[3][IN * IN * CHANNELS];
            static int64_t index[OUT_MAX * OUT_MAX * CHANNELS];
            forward(&s, x[b], (float *[]){part[0], part[1], part[2]}, index);
            struct backward_operands p = {&x[b][0][0][0], part[L2], dy + b * n_y, index};
            backward(&s, &p, (float *[]){grad[0], grad[1], grad[2]});
            ASSERT_TRUE(memcmp(index, index_of + b * n_y, (size_t)n_y * sizeof *index) == 0);
            for (int k = 0; k < 3; k++) {
                ASSERT_TRUE(memcmp(part[k], y[k] + b * n_y, (size_t)n_y * 4) == 0);
                ASSERT_TRUE(memcmp(grad[k], dx[k][b], (size_t)n_x * 4) == 0);
            }
        }
    }
}

/* Rows [lo, hi) of an axis. */
struct range {
    int64_t lo, hi;
};

/* Input positions of axis d that the windows of `out` reach. */
static struct range reached(const lk_pool_shape *s, int d, struct range out)
{
    lk_range in = lk_window_needs(&s->window, d, (lk_range){out.lo, out.hi - out.lo}, s->in[d]);
    return (struct range){in.first, in.first + in.n};
}

/* Windows of axis d that cover a position of `in`. */
static struct range covering(const lk_pool_shape *s, int d, struct range in)
{
    lk_range out = lk_window_feeds(&s->window, d, (lk_range){in.lo, in.hi - in.lo}, s->out[d]);
    return (struct range){out.first, out.first + out.n};
}

/* A tile: some windows of one sample and the inputs they reach. */
static lk_pool_shape tile_shape(const lk_pool_shape *s, const struct range out[2],
                                const struct range in[2])
{
    lk_pool_shape t = *s;
    t.batch = 1;
    for (int d = 0; d < 2; d++) {
        t.out[d] = out[d].hi - out[d].lo;
        t.in[d] = in[d].hi - in[d].lo;
        t.window.pad_lo[d] = s->window.pad_lo[d] + in[d].lo - out[d].lo * s->window.stride[d];
    }
    return t;
}

/* Copy a rectangle of positions from an image of `width` columns. */
static void cut(const void *image, int64_t width, const struct range at[2], size_t bytes, void *out)
{
    size_t row = (size_t)(at[1].hi - at[1].lo) * CHANNELS * bytes;
    for (int64_t r = at[0].lo; r < at[0].hi; r++)
        memcpy((char *)out + (size_t)(r - at[0].lo) * row,
               (const char *)image + (size_t)(r * width + at[1].lo) * CHANNELS * bytes, row);
}

/* A position of the image as one of the tile, or -1 if it is outside. */
static int64_t place_in_tile(int64_t place, const struct range in[2])
{
    int64_t row = place / IN, column = place % IN;
    if (place < 0 || row < in[0].lo || row >= in[0].hi || column < in[1].lo || column >= in[1].hi)
        return -1;
    return (row - in[0].lo) * (in[1].hi - in[1].lo) + column - in[1].lo;
}

static void check_forward_tile(const lk_pool_shape *s, const struct range out[2])
{
    static float from[IN * IN * CHANNELS], to[3][OUT_MAX * OUT_MAX * CHANNELS];
    static float want[OUT_MAX * OUT_MAX * CHANNELS];
    static int64_t index[OUT_MAX * OUT_MAX * CHANNELS], want_index[OUT_MAX * OUT_MAX * CHANNELS];
    const struct range in[2] = {reached(s, 0, out[0]), reached(s, 1, out[1])};
    lk_pool_shape t = tile_shape(s, out, in);
    cut(x[0], IN, in, sizeof(float), from);
    forward(&t, from, (float *[]){to[0], to[1], to[2]}, index);
    int64_t n = t.out[0] * t.out[1] * CHANNELS;
    for (int k = 0; k < 3; k++) {
        cut(y[k], s->out[1], out, sizeof(float), want);
        ASSERT_TRUE(memcmp(want, to[k], (size_t)n * sizeof(float)) == 0);
    }
    cut(index_of, s->out[1], out, sizeof(int64_t), want_index);
    for (int64_t i = 0; i < n; i++)
        ASSERT_EQ(index[i], place_in_tile(want_index[i], in));
}

/* The gradient of the inputs `wanted`: all windows over them, all inputs those reach. */
static void check_backward_tile(const lk_pool_shape *s, const struct range wanted[2])
{
    static float from[4][OUT_MAX * OUT_MAX * CHANNELS], to[3][IN * IN * CHANNELS];
    static int64_t index[OUT_MAX * OUT_MAX * CHANNELS];
    const struct range out[2] = {covering(s, 0, wanted[0]), covering(s, 1, wanted[1])};
    if (out[0].lo >= out[0].hi || out[1].lo >= out[1].hi)
        return;
    struct range in[2];
    for (int d = 0; d < 2; d++) {
        in[d] = reached(s, d, out[d]);
        in[d].lo = in[d].lo < wanted[d].lo ? in[d].lo : wanted[d].lo;
        in[d].hi = in[d].hi > wanted[d].hi ? in[d].hi : wanted[d].hi;
    }
    lk_pool_shape t = tile_shape(s, out, in);
    cut(x[0], IN, in, sizeof(float), from[0]);
    cut(y[L2], s->out[1], out, sizeof(float), from[1]);
    cut(dy, s->out[1], out, sizeof(float), from[2]);
    cut(index_of, s->out[1], out, sizeof(int64_t), index);
    for (int64_t i = 0; i < t.out[0] * t.out[1] * CHANNELS; i++)
        index[i] = place_in_tile(index[i], in);
    struct backward_operands p = {from[0], from[1], from[2], index};
    backward(&t, &p, (float *[]){to[0], to[1], to[2]});
    for (int k = 0; k < 3; k++)
        for (int64_t r = wanted[0].lo; r < wanted[0].hi; r++) {
            int64_t at = (r - in[0].lo) * t.in[1] + wanted[1].lo - in[1].lo;
            ASSERT_TRUE(memcmp(to[k] + at * CHANNELS, dx[k][0][r][wanted[1].lo],
                               (size_t)(wanted[1].hi - wanted[1].lo) * CHANNELS * 4) == 0);
        }
}

/* Cut n positions into three parts; part i. */
static struct range third(int64_t n, int i)
{
    return (struct range){n * i / 3, n * (i + 1) / 3};
}

TEST(tiles_pool_as_the_image)
{
    for (int i = 0; i < N_SHAPES; i++) {
        lk_pool_shape s = whole_shape(i);
        run_whole(&s);
        for (int r = 0; r < 3; r++)
            for (int c = 0; c < 3; c++) {
                check_forward_tile(&s, (struct range[]){third(s.out[0], r), third(s.out[1], c)});
                check_backward_tile(&s, (struct range[]){third(IN, r), third(IN, c)});
            }
    }
}
