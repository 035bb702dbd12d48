/* A matrix product for tests: guarded operands, and the result by the definition. */
#ifndef LK_TEST_GEMM_CASE_H
#define LK_TEST_GEMM_CASE_H

#include "guard.h"
#include "kernel/reference/reference.h"
#include "real.h"

#include <lockstep/extra/isa.h>
#include <lockstep/thread.h>

struct gemm_case {
    lk_gemm g;
    struct guard a, b, bias, c;
    bool has_bias;
    int64_t c_len;
};

static inline struct guard case_operand(lk_dtype dtype, int64_t rows, int64_t cols, int64_t ld,
                                        uint64_t seed, bool odd)
{
    return guard_real(dtype, rows > 0 && cols > 0 ? (rows - 1) * ld + cols : 0, seed, odd);
}

/* Leading dimensions exceed the rows by `gap`. */
static inline struct gemm_case case_new(lk_gemm g, int64_t gap, bool has_bias, bool odd)
{
    g.lda = (g.trans_a ? g.m : g.k) + gap;
    g.ldb = (g.trans_b ? g.k : g.n) + 2 * gap;
    g.ldc = g.n + gap;
    struct gemm_case x = {.g = g, .has_bias = has_bias};
    x.a = case_operand(g.dtype, g.trans_a ? g.k : g.m, g.trans_a ? g.m : g.k, g.lda, 1, odd);
    x.b = case_operand(g.dtype, g.trans_b ? g.n : g.k, g.trans_b ? g.k : g.n, g.ldb, 2, odd);
    x.bias = case_operand(g.dtype, 1, g.n, g.n, 3, odd);
    x.c = case_operand(g.dtype, g.m, g.n, g.ldc, 4, odd);
    x.c_len = g.m > 0 && g.n > 0 ? (g.m - 1) * g.ldc + g.n : 0;
    return x;
}

static inline void case_free(struct gemm_case *x)
{
    guard_free(&x->a);
    guard_free(&x->b);
    guard_free(&x->bias);
    guard_free(&x->c);
}

/* A fresh copy of C, guarded, and C by the definition in it. */
static inline struct guard case_copy(const struct gemm_case *x)
{
    const size_t bytes = (size_t)x->c_len * lk_dtype_size(x->g.dtype);
    struct guard c = guard_new(bytes);
    memcpy(c.data, x->c.data, bytes);
    return c;
}

static inline struct guard case_result(const struct gemm_case *x)
{
    struct guard c = case_copy(x);
    lk__ref_gemm(&x->g, x->a.data, x->b.data, x->has_bias ? x->bias.data : NULL, c.data, NULL);
    return c;
}

/* Runs the product on a copy of C and compares all of it, gaps included, with `expect`. */
static inline void case_check(const struct gemm_case *x, const struct guard *expect)
{
    const lk_gemm *g = &x->g;
    struct guard c = case_copy(x);
    ASSERT_OK(lk_gemm_run(g, x->a.data, x->b.data, x->has_bias ? x->bias.data : NULL, c.data));
    const int64_t i = real_differ(g->dtype, c.data, expect->data, x->c_len);
    if (i < x->c_len) {
        lk_isa isa = LK_ISA_SCALAR;
        ASSERT_OK(lk_isa_now(&isa));
        TEST_FAIL("%s %s%s%s m %d n %d k %d piece %d%s%s: C[%d][%d] is %a, not %a",
                  lk_isa_name(isa), lk_dtype_name(g->dtype), g->trans_a ? " A^T" : "",
                  g->trans_b ? " B^T" : "", (int)g->m, (int)g->n, (int)g->k, (int)g->piece,
                  g->accumulate ? " accumulate" : "", x->has_bias ? " bias" : "", (int)(i / g->ldc),
                  (int)(i % g->ldc), real_get(g->dtype, c.data, i),
                  real_get(g->dtype, expect->data, i));
    }
    guard_free(&c);
}

/* The product in every instruction set on 1 to `threads` threads. */
static inline void case_check_everywhere(struct gemm_case *x, int threads)
{
    struct guard expect = case_result(x);
    for (int isa = 0; isa < LK_N_ISAS; isa++) {
        if (!lk_isa_is_available((lk_isa)isa))
            continue;
        ASSERT_OK(lk_isa_set((lk_isa)isa));
        for (int n = 1; n <= threads; n++) {
            ASSERT_OK(lk_threads_set(n));
            case_check(x, &expect);
        }
    }
    guard_free(&expect);
}

/* All element types, transposes and starts of one shape. */
static inline void case_check_shape(int64_t m, int64_t n, int64_t k, int64_t piece, int64_t gap,
                                    bool odd)
{
    for (int kind = 0; kind < 24; kind++) {
        const int start = kind % 3;
        const lk_gemm g = {.dtype = kind / 12 ? LK_F64 : LK_F32,
                           .trans_a = kind / 3 & 1,
                           .trans_b = kind / 6 & 1,
                           .accumulate = start == 1,
                           .m = m,
                           .n = n,
                           .k = k,
                           .piece = piece};
        struct gemm_case x = case_new(g, gap, start == 2, odd);
        case_check_everywhere(&x, 1);
        case_free(&x);
    }
}

#endif /* LK_TEST_GEMM_CASE_H */
