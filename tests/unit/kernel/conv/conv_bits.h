/* Convolution passes against their definition, bit for bit, on every instruction set and number of threads. */
#ifndef LK_TEST_CONV_BITS_H
#define LK_TEST_CONV_BITS_H

#include "conv_cases.h"
#include "guard.h"

#include <lockstep/extra/isa.h>
#include <lockstep/thread.h>

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
    int64_t n; /* elements of the result */
    struct guard a, w, bias, got, before, want;
} check;

static inline check check_new(const conv_case *c, lk_dtype dtype, variant v, bool odd)
{
    const bool data = v >= DATA;
    check k = {.c = c, .s = c->s, .v = v};
    k.s.dtype = dtype;
    const lk_conv_shape full = lk__ref_conv_shape(&k.s);
    k.n = lk__ref_conv_extent(&full, !data);
    k.a = guard_real(dtype, lk__ref_conv_extent(&full, data), 1, odd);
    k.w = guard_real(dtype, lk__ref_conv_weights(&full), 2, odd);
    k.bias = guard_real(dtype, data ? k.s.in_channels : k.s.out_channels, 3, odd);
    k.got = guard_real(dtype, k.n, 4, odd);
    k.before = guard_real(dtype, k.n, 4, odd);
    k.want = guard_real(dtype, k.n, 4, odd);
    const void *bias = v == FORWARD_BIAS_RELU || v == DATA_BIAS ? k.bias.data : NULL;
    if (data)
        ASSERT_OK(lk__ref_conv_backward_data(&k.s, k.a.data, k.w.data, bias, v == DATA_ACCUMULATE,
                                             k.want.data, NULL));
    else
        ASSERT_OK(lk__ref_conv_forward(&k.s, k.a.data, k.w.data, bias,
                                       bias ? LK_ACT_RELU : LK_ACT_NONE, k.want.data, NULL));
    ASSERT_OK(lk_conv_plan_new(&k.s, &k.plan));
    return k;
}

static inline void check_free(check *k)
{
    lk_conv_plan_free(k->plan);
    struct guard *all[] = {&k->a, &k->w, &k->bias, &k->got, &k->before, &k->want};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        guard_free(all[i]);
}

static inline void check_run(check *k, lk_isa isa, int threads)
{
    const void *a = k->a.data, *w = k->w.data, *bias = k->bias.data;
    void *got = k->got.data;
    memcpy(got, k->before.data, (size_t)k->n * lk_dtype_size(k->s.dtype));
    switch (k->v) {
    case FORWARD: ASSERT_OK(lk_conv_forward(k->plan, a, w, NULL, LK_ACT_NONE, got)); break;
    case FORWARD_BIAS_RELU:
        ASSERT_OK(lk_conv_forward(k->plan, a, w, bias, LK_ACT_RELU, got));
        break;
    case DATA: ASSERT_OK(lk_conv_backward_data(k->plan, a, w, NULL, false, got)); break;
    case DATA_BIAS: ASSERT_OK(lk_conv_backward_data(k->plan, a, w, bias, false, got)); break;
    default: ASSERT_OK(lk_conv_backward_data(k->plan, a, w, NULL, true, got)); break;
    }
    if (real_differ(k->s.dtype, got, k->want.data, k->n) < k->n)
        TEST_FAIL("%s: %s, %s, %s, %d threads", k->c->name, variant_name[k->v],
                  lk_dtype_name(k->s.dtype), lk_isa_name(isa), threads);
}

/* All n cases on everything that must not change a bit. */
static inline void check_cases(const conv_case *cases, int n, lk_dtype dtype, bool odd)
{
    check *k = malloc((size_t)(n * N_VARIANTS) * sizeof *k);
    ASSERT_TRUE(k);
    for (int i = 0; i < n * N_VARIANTS; i++)
        k[i] = check_new(&cases[i / N_VARIANTS], dtype, (variant)(i % N_VARIANTS), odd);
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
