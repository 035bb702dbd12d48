/* A small program on a tape, for tests of ops: random leaves of either real dtype, backward from a
 * random seed, and a hash of everything it has computed. */
#ifndef LK_TEST_OP_PROGRAM_H
#define LK_TEST_OP_PROGRAM_H

#include "real.h"

#include <lockstep/extra/isa.h>
#include <lockstep/lockstep.h>

enum { PROGRAM_LEAVES = 8 };

struct program {
    lk_tape *tape;
    lk_dtype dtype;
    bool whole; /* values are small integers, so that sums in any order are exact */
    int n;
    lk_tensor *value[PROGRAM_LEAVES], *grad[PROGRAM_LEAVES], *seed;
};

static inline struct program program_new(lk_dtype dtype, bool whole)
{
    struct program p = {.dtype = dtype, .whole = whole};
    ASSERT_OK(lk_tape_new(&p.tape));
    return p;
}

/* Values in [-1, 1), or integers from -4 to 3. */
static inline lk_tensor *program_tensor(const struct program *p, lk_shape shape, uint64_t seed)
{
    lk_tensor *t = NULL;
    void *data = NULL;
    ASSERT_OK(lk_tensor_new(p->dtype, shape, &t));
    ASSERT_OK(lk_tensor_writable_data(t, &data));
    real_fill(p->dtype, data, lk_tensor_count(t), seed, false);
    for (int64_t i = 0; p->whole && i < lk_tensor_count(t); i++)
        real_set(p->dtype, data, i, floor(4 * real_get(p->dtype, data, i)));
    return t;
}

/* A leaf of the program's tensor `t`, with a gradient of zeros. */
static inline lk_var program_own(struct program *p, lk_tensor *t)
{
    lk_var v;
    ASSERT_TRUE(p->n < PROGRAM_LEAVES);
    p->value[p->n] = t;
    ASSERT_OK(lk_tensor_zeros(p->dtype, lk_tensor_shape(t), &p->grad[p->n]));
    ASSERT_OK(lk_leaf(p->tape, p->value[p->n], p->grad[p->n], &v));
    p->n++;
    return v;
}

static inline lk_var program_leaf(struct program *p, lk_shape shape)
{
    return program_own(p, program_tensor(p, shape, 11 + (uint64_t)p->n));
}

/* Backward from y with a random seed, which p->seed then is. */
static inline void program_backward(struct program *p, lk_var y, unsigned flags)
{
    lk_tensor_free(p->seed);
    p->seed = program_tensor(p, lk_shape_of(y), 5);
    ASSERT_OK(lk_backward(p->tape, &(lk_seed){y, p->seed}, 1, flags));
}

static inline void program_free(struct program *p)
{
    lk_tape_free(p->tape);
    for (int i = 0; i < p->n; i++) {
        lk_tensor_free(p->value[i]);
        lk_tensor_free(p->grad[i]);
    }
    lk_tensor_free(p->seed);
}

/* Element `i` of a contiguous tensor, and of a value. */
static inline double tensor_at(const lk_tensor *t, int64_t i)
{
    ASSERT_TRUE(lk_tensor_is_contiguous(t) && i < lk_tensor_count(t));
    return real_get(lk_tensor_dtype(t), lk_tensor_data(t), i);
}

static inline const lk_tensor *value_of(lk_var v)
{
    const lk_tensor *t = NULL;
    ASSERT_OK(lk_value(v, &t));
    return t;
}

static inline double value_at(lk_var v, int64_t i)
{
    return tensor_at(value_of(v), i);
}

/* Makes values from leaves; *y is differentiated. */
typedef void test_program(struct program *p, lk_var *y);

static inline uint64_t program_hash(test_program *program, lk_dtype dtype)
{
    struct program p = program_new(dtype, false);
    lk_hash h = lk_hash_start();
    lk_var y;
    program(&p, &y);
    lk_tensor_hash(value_of(y), "y", &h);
    program_backward(&p, y, 0);
    for (int i = 0; i < p.n; i++)
        lk_tensor_hash(p.grad[i], "grad", &h);
    program_free(&p);
    return lk_hash_value(&h);
}

/* Values and gradients have the same bits on 1, 2 and 4 threads and every instruction set. */
static inline void test_same_bits_everywhere(test_program *program)
{
    lk_isa best = LK_ISA_SCALAR;
    ASSERT_OK(lk_isa_now(&best));
    for (lk_dtype dtype = LK_F32; dtype <= LK_F64; dtype = (lk_dtype)(dtype + 1)) {
        ASSERT_OK(lk_isa_set(LK_ISA_SCALAR));
        ASSERT_OK(lk_threads_set(1));
        const uint64_t want = program_hash(program, dtype);
        for (int isa = 0; isa < LK_N_ISAS; isa++)
            for (int threads = 1; threads <= 4; threads *= 2) {
                if (!lk_isa_is_available((lk_isa)isa))
                    continue;
                ASSERT_OK(lk_isa_set((lk_isa)isa));
                ASSERT_OK(lk_threads_set(threads));
                if (program_hash(program, dtype) != want)
                    TEST_FAIL("%s, %s, %d threads: other bits", lk_dtype_name(dtype),
                              lk_isa_name((lk_isa)isa), threads);
            }
    }
    ASSERT_OK(lk_isa_set(best));
    ASSERT_OK(lk_threads_set(0));
}

#endif /* LK_TEST_OP_PROGRAM_H */
