/* A batch in two calls and an image in tiles give the bits of one call on the whole. */
#include "conv_cases.h"

/* A whole convolution and its two results. */
typedef struct whole {
    lk_conv_shape s; /* complete */
    int64_t nx, ny;
    double *x, *w, *y, *dx;
} whole;

static whole whole_new(const conv_case *c)
{
    whole o = {.s = lk__ref_conv_shape(&c->s)};
    o.s.dtype = LK_F64;
    o.nx = lk__ref_conv_extent(&o.s, false);
    o.ny = lk__ref_conv_extent(&o.s, true);
    o.x = real_new(LK_F64, o.nx, 5, false);
    o.w = real_new(LK_F64, lk__ref_conv_weights(&o.s), 6, false);
    o.y = real_new(LK_F64, o.ny, 7, false);
    o.dx = real_new(LK_F64, o.nx, 8, false);
    return o;
}

static void whole_free(whole *o)
{
    free(o->x);
    free(o->y);
    free(o->dx);
    free(o->w);
}

static void run(const whole *o, const lk_conv_shape *s, bool data, int64_t x_at, int64_t y_at,
                double *out)
{
    lk_conv_plan *plan;
    ASSERT_OK(lk_conv_plan_new(s, &plan));
    if (data)
        ASSERT_OK(lk_conv_backward_data(plan, o->y + y_at, o->w, NULL, false, out + x_at));
    else
        ASSERT_OK(lk_conv_forward(plan, o->x + x_at, o->w, NULL, LK_ACT_NONE, out + y_at));
    lk_conv_plan_free(plan);
}

/* A part of the outputs of axis d, or (data) of the inputs, as a convolution of its own: the other side is
 * what they can meet of it. */
static void tile_axis(lk_conv_shape *s, int d, bool data, lk_range part, int64_t *i0, int64_t *o0)
{
    lk_range in = data ? part : lk_window_needs(&s->window, d, part, s->in[d]);
    lk_range out = data ? lk_window_feeds(&s->window, d, part, s->out[d]) : part;
    s->window.pad_lo[d] += in.first - out.first * s->window.stride[d];
    s->in[d] = in.n;
    s->out[d] = out.n;
    *i0 = in.first;
    *o0 = out.first;
}

/* Cut every axis in two, and compute the 2, 4 or 8 tiles. */
static void run_tiles(const whole *o, bool data, double *out)
{
    const int64_t *size = data ? o->s.in : o->s.out;
    for (int tile = 0; tile < 1 << o->s.window.ndim; tile++) {
        lk_conv_shape s = o->s;
        int64_t x_at = 0, y_at = 0;
        for (int d = 0; d < s.window.ndim; d++) {
            int64_t cut = (size[d] + 2) / 3, i0, o0;
            tile_axis(&s, d, data,
                      tile >> d & 1 ? (lk_range){cut, size[d] - cut} : (lk_range){0, cut}, &i0,
                      &o0);
            x_at += i0 * s.x_step[d];
            y_at += o0 * s.y_step[d];
        }
        run(o, &s, data, x_at, y_at, out);
    }
}

/* Samples [0, 1) and [1, batch). */
static void run_batches(const whole *o, bool data, double *out)
{
    lk_conv_shape s = o->s;
    s.batch = o->s.batch > 0;
    run(o, &s, data, 0, 0, out);
    s.batch = o->s.batch - s.batch;
    run(o, &s, data, s.x_sample, s.y_sample, out);
}

static void check(void (*run_pieces)(const whole *, bool, double *))
{
    for (int i = 0; i < N_CONV_CASES; i++)
        for (int data = 0; data < 2; data++) {
            whole o = whole_new(&conv_cases[i]);
            size_t bytes = (size_t)(data ? o.nx : o.ny) * sizeof(double);
            double *want = malloc(bytes), *got = malloc(bytes);
            memcpy(want, data ? o.dx : o.y, bytes);
            memcpy(got, data ? o.dx : o.y, bytes);
            run(&o, &o.s, data, 0, 0, want);
            run_pieces(&o, data, got);
            if (memcmp(got, want, bytes) != 0)
                TEST_FAIL("%s, %s", conv_cases[i].name, data ? "backward data" : "forward");
            free(want);
            free(got);
            whole_free(&o);
        }
}

TEST(a_batch_in_two_calls_gives_the_same_bits)
{
    check(run_batches);
}

TEST(an_image_in_tiles_gives_the_same_bits)
{
    check(run_tiles);
}
