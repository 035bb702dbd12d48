/* Convolution passes against a reference, bit for bit, on every instruction set and number of threads. */
#ifndef LK_TEST_CONV_BITS_H
#define LK_TEST_CONV_BITS_H

#include "conv_cases.h"

#include <lockstep/extra/isa.h>
#include <lockstep/thread.h>

/* What forward, or (`data`) backward data, must give. */
typedef void conv_ref_fn(const lk_conv_shape *s, bool data, const void *in, const void *w,
                         const void *bias, bool accumulate, bool relu, void *out);

typedef enum variant {
    FORWARD,
    FORWARD_BIAS_RELU,
    DATA,
    DATA_BIAS,
    DATA_ACCUMULATE,
    N_VARIANTS
} variant;

static const char *const variant_name[N_VARIANTS] = {"forward", "forward with bias and relu",
                                                     "backward data", "backward data with bias",
                                                     "backward data, accumulating"};

/* One call, its operands, and what it must give. */
typedef struct check {
    const conv_case *c;
    lk_conv_shape s;
    variant v;
    lk_conv_plan *plan;
    guarded a, w, bias, got, before, want;
} check;

static inline guarded random_values(lk_dtype dtype, int64_t n, uint64_t seed, bool spice)
{
    guarded g = guarded_new(n * (int64_t)lk_dtype_size(dtype));
    values_fill(dtype, g.data, n, seed, spice);
    return g;
}

static inline check check_new(conv_ref_fn *reference, const conv_case *c, lk_dtype dtype, variant v,
                              bool spice)
{
    check k = {.c = c, .s = c->s, .v = v};
    k.s.dtype = dtype;
    conv_side xs = conv_side_of(&k.s, false), ys = conv_side_of(&k.s, true);
    int64_t nx = conv_side_extent(&k.s, &xs), ny = conv_side_extent(&k.s, &ys);
    int64_t na = v >= DATA ? ny : nx, nc = v >= DATA ? nx : ny;
    k.a = random_values(dtype, na, 1, spice);
    k.w = random_values(dtype, conv_w_count(&k.s), 2, spice);
    k.bias = random_values(dtype, v >= DATA ? k.s.in_channels : k.s.out_channels, 3, spice);
    k.got = random_values(dtype, nc, 4, spice);
    k.before = random_values(dtype, nc, 4, spice);
    k.want = random_values(dtype, nc, 4, spice);
    bool with_bias = v == FORWARD_BIAS_RELU || v == DATA_BIAS;
    reference(&k.s, v >= DATA, k.a.data, k.w.data, with_bias ? k.bias.data : NULL,
              v == DATA_ACCUMULATE, v == FORWARD_BIAS_RELU, k.want.data);
    ASSERT_OK(lk_conv_plan_new(&k.s, &k.plan));
    return k;
}

static inline void check_free(check *k)
{
    lk_conv_plan_free(k->plan);
    guarded *all[] = {&k->a, &k->w, &k->bias, &k->got, &k->before, &k->want};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        guarded_free(all[i]);
}

static inline void check_run(check *k, lk_isa isa, int threads)
{
    const void *a = k->a.data, *w = k->w.data, *bias = k->bias.data;
    void *got = k->got.data;
    memcpy(got, k->before.data, k->got.bytes);
    switch (k->v) {
    case FORWARD: ASSERT_OK(lk_conv_forward(k->plan, a, w, NULL, LK_ACT_NONE, got)); break;
    case FORWARD_BIAS_RELU:
        ASSERT_OK(lk_conv_forward(k->plan, a, w, bias, LK_ACT_RELU, got));
        break;
    case DATA: ASSERT_OK(lk_conv_backward_data(k->plan, a, w, NULL, false, got)); break;
    case DATA_BIAS: ASSERT_OK(lk_conv_backward_data(k->plan, a, w, bias, false, got)); break;
    default: ASSERT_OK(lk_conv_backward_data(k->plan, a, w, NULL, true, got)); break;
    }
    if (!values_equal(k->s.dtype, got, k->want.data,
                      (int64_t)(k->got.bytes / lk_dtype_size(k->s.dtype))))
        TEST_FAIL("%s: %s, %s, %s, %d threads", k->c->name, variant_name[k->v],
                  lk_dtype_name(k->s.dtype), lk_isa_name(isa), threads);
}

/* All n cases on everything that must not change a bit. */
static inline void check_cases(conv_ref_fn *reference, const conv_case *cases, int n,
                               lk_dtype dtype, bool spice)
{
    check *k = malloc((size_t)(n * N_VARIANTS) * sizeof *k);
    ASSERT_TRUE(k);
    for (int i = 0; i < n * N_VARIANTS; i++)
        k[i] = check_new(reference, &cases[i / N_VARIANTS], dtype, (variant)(i % N_VARIANTS),
                         spice);
    for (int threads = 1; threads <= 4; threads++) {
        ASSERT_OK(lk_threads_set(threads));
        for (int isa = 0; isa < LK_N_ISAS; isa++) {
            if (!lk_isa_is_available((lk_isa)isa))
                continue;
            ASSERT_OK(lk_isa_set((lk_isa)isa));
            for (int i = 0; i < n * N_VARIANTS; i++)
                check_run(&k[i], (lk_isa)isa, threads);
        }
    }
    for (int i = 0; i < n * N_VARIANTS; i++)
        check_free(&k[i]);
    free(k);
}

#endif /* LK_TEST_CONV_BITS_H */
