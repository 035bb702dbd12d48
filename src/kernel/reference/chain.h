/* Chains and the tree, with what they approximate beside them. */
#ifndef LK_KERNEL_REFERENCE_CHAIN_H
#define LK_KERNEL_REFERENCE_CHAIN_H

#include "kernel/reference/real.h"
#include "kernel/reference/reference.h"

/* A sum, or what else a reduction makes.  `acc` is what the arithmetic gives; the rest is only there if
 * the caller wants to know how far off it is. */
typedef struct lk__ref_chain {
    lk_dtype dtype;
    lk_reduce_axis_op op;
    bool traced;
    double acc;
    double hi, lo;    /* the true value, in twice the precision */
    double magnitude; /* of all terms together */
    int64_t length; /* operations, each of which may be off by half a unit; of a product: factors */
    double slack;   /* the error that terms bring with them */
} lk__ref_chain;

static inline lk__ref_chain chain_start(lk_dtype dtype, double start, bool traced)
{
    return (lk__ref_chain){.dtype = dtype,
                           .op = LK_REDUCE_AXIS_SUM,
                           .traced = traced,
                           .acc = start,
                           .hi = start,
                           .magnitude = fabs(start)};
}

/* hi + lo += v: the rounding error of the addition goes to lo (Knuth's TwoSum). */
static inline void chain_trace(lk__ref_chain *c, double v)
{
    double sum = c->hi + v, back = sum - c->hi;
    c->lo += (c->hi - (sum - back)) + (v - back);
    c->hi = sum;
}

/* acc = fma(a, b, acc) */
static inline void chain_fma(lk__ref_chain *c, double a, double b)
{
    c->acc = real_fma(c->dtype, a, b, c->acc);
    if (!c->traced)
        return;
    double product = a * b;
    chain_trace(c, product);
    c->lo += fma(a, b, -product);
    c->magnitude += fabs(product);
    c->length++;
}

/* acc = acc + b */
static inline void chain_add(lk__ref_chain *c, double b)
{
    c->acc = real_add(c->dtype, c->acc, b);
    if (!c->traced)
        return;
    chain_trace(c, b);
    c->magnitude += fabs(b);
    c->length++;
}

/* A quotient by a small whole number. */
static inline lk__ref_chain chain_divided(lk__ref_chain c, double n)
{
    double hi = c.hi / n;
    c.acc = real_div(c.dtype, c.acc, n);
    c.lo = ((c.hi - hi * n) + c.lo) / n;
    c.hi = hi;
    c.magnitude /= n;
    return c;
}

/** a op b, which is a + b but in reductions: a node of the tree. */
lk__ref_chain lk__ref_chain_join(lk__ref_chain a, lk__ref_chain b);

/** Leaf i of a tree. */
typedef lk__ref_chain lk__ref_leaf(const void *of, int64_t i);

/** The tree over leaves [first, first + n), n > 0. */
lk__ref_chain lk__ref_chain_tree(lk__ref_leaf *leaf, const void *of, int64_t first, int64_t n);

/** What a chain approximates. */
lk__ref_value lk__ref_chain_value(const lk__ref_chain *c);

/* Element i of the output is act(c). */
static inline void chain_store(const lk__ref_chain *c, lk_act act, int64_t i, void *out,
                               lk__ref_value *exact)
{
    real_set(c->dtype, out, i, lk__ref_act(c->dtype, act, c->acc));
    if (exact)
        exact[i] = lk__ref_act_value(c->dtype, act, lk__ref_chain_value(c));
}

#endif /* LK_KERNEL_REFERENCE_CHAIN_H */
