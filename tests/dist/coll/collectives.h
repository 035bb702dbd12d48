/* For tests of collective calls: every algorithm that can do a call, and a plain reference of what
 * ranks that fold should get: one element at a time, by the definition of the tree. */
#ifndef LK_TEST_COLLECTIVES_H
#define LK_TEST_COLLECTIVES_H

#include "ranks.h"

#include <lockstep/coll.h>
#include <lockstep/extra/algorithms.h>
#include <lockstep/extra/half.h>

/* Set c->algorithm to the next algorithm that can do the call, by `*i`; false behind the last. */
static inline bool next_algorithm(lk_comm *comm, lk_collective *c, int *i)
{
    lk_coll_info about;
    const char *choice;
    while (lk_coll_list((*i)++, &about)) {
        if (strcmp(about.call, lk_comm_call_name(c->call)) != 0 || about.benchmark_only)
            continue;
        c->algorithm = about.name;
        lk_status st = lk_coll_selected(comm, c, &choice);
        if (st == LK_OK && strcmp(choice, about.name) == 0) /* else it is another name */
            return true;
        ASSERT_TRUE(st == LK_OK || st == LK_ENOTSUP);
        lk_error_clear();
    }
    c->algorithm = NULL;
    return false;
}

/* Do what follows for every algorithm that can do the call, and at last for the one chosen by cost;
 * alg_n counts. */
#define FOR_EACH_ALGORITHM(comm, c)              \
    for (int alg_i = 0, alg_n = 0, alg_more = 1; \
         alg_more && ((alg_more = next_algorithm(comm, c, &alg_i)), true); alg_n++)

static inline void run_or_start(lk_comm *comm, const lk_collective *c, bool start)
{
    if (!start) {
        ASSERT_OK(lk_coll_run(comm, c));
        return;
    }
    lk_request *r = NULL;
    ASSERT_OK(lk_coll_start(comm, c, &r));
    ASSERT_OK(lk_wait(&r, NULL));
}

/* The first call in shared memory must be a blocking one: make it. */
static inline void warm(lk_comm *comm)
{
    int32_t one = 1, all = 0;
    ASSERT_OK(lk_allreduce(comm, &one, &all, 1, LK_I32, LK_REDUCE_SUM, "warm"));
    ASSERT_EQ(all, lk_comm_size(comm));
}

/* ---- elements ---- */

union element {
    float f32;
    double f64;
    int32_t i32;
    int64_t i64;
    uint8_t u8;
    lk_value_index loc;
};

static inline bool is_half(lk_dtype t)
{
    return t == LK_F16 || t == LK_BF16;
}

static inline bool is_pair(lk_reduce_op fold)
{
    return fold == LK_REDUCE_MINLOC || fold == LK_REDUCE_MAXLOC;
}

static inline int64_t element_size(lk_reduce_op fold, lk_dtype t)
{
    return is_pair(fold) ? (int64_t)sizeof(lk_value_index) : (int64_t)lk_dtype_size(t);
}

/* Values whose sum depends on the order, by piece and element. */
static inline float real_of(int64_t piece, int64_t i)
{
    uint32_t x = (uint32_t)(piece * 7919 + i + 1) * 2654435761U;
    x ^= x >> 15;
    return (float)((double)x / 4294967296.0 - 0.4999) * (float)(1 << x % 7);
}

/* Element i of a piece, as it is computed with. */
static inline union element element_of(lk_reduce_op fold, lk_dtype t, int64_t piece, int64_t i)
{
    float x = real_of(piece, i);
    union element e = {.i64 = 0};
    memset(&e, 0, sizeof e);
    int64_t n = (int64_t)(x * 1000);
    if (is_pair(fold)) {
        e.loc.index = (piece * 5 + i) % 11; /* ties, whose lowest index counts */
        n = n % 3;
        if (t == LK_F32)
            e.loc.value.f32 = (float)n;
        else if (t == LK_F64)
            e.loc.value.f64 = (double)n;
        else if (t == LK_I32)
            e.loc.value.i32 = (int32_t)n;
        else if (t == LK_I64)
            e.loc.value.i64 = n;
        else
            e.loc.value.u8 = (uint8_t)n;
    } else if (t == LK_F32)
        e.f32 = x;
    else if (t == LK_F16)
        e.f32 = lk_f16_decode(lk_f16_encode(x));
    else if (t == LK_BF16)
        e.f32 = lk_bf16_decode(lk_bf16_encode(x));
    else if (t == LK_F64)
        e.f64 = (double)x * 1.000000001;
    else if (t == LK_I32)
        e.i32 = (int32_t)n;
    else if (t == LK_I64)
        e.i64 = n * 1000003;
    else
        e.u8 = (uint8_t)n;
    return e;
}

#define JOIN(field, wide)                                                                           \
    (fold == LK_REDUCE_SUM || fold == LK_REDUCE_AVG ? (wide)a.field + (wide)b.field                 \
     : fold == LK_REDUCE_PROD                       ? (wide)a.field * (wide)b.field                 \
     : fold == LK_REDUCE_MIN                        ? (wide)(a.field < b.field ? a.field : b.field) \
                                                    : (wide)(a.field > b.field ? a.field : b.field))

#define JOIN_BITS(field, wide)                              \
    (fold == LK_REDUCE_AND  ? (wide)a.field & (wide)b.field \
     : fold == LK_REDUCE_OR ? (wide)a.field | (wide)b.field \
                            : (wide)a.field ^ (wide)b.field)

static inline double pair_value(lk_dtype t, const lk_value_index *p)
{
    return t == LK_F32   ? (double)p->value.f32
           : t == LK_F64 ? p->value.f64
           : t == LK_I32 ? p->value.i32
           : t == LK_I64 ? (double)p->value.i64
                         : p->value.u8;
}

static inline union element element_join(lk_reduce_op fold, lk_dtype t, union element a,
                                         union element b)
{
    if (is_pair(fold)) {
        double x = pair_value(t, &a.loc), y = pair_value(t, &b.loc);
        if (x == y)
            return a.loc.index <= b.loc.index ? a : b;
        return (fold == LK_REDUCE_MINLOC) == (x < y) ? a : b;
    }
    bool bits = fold == LK_REDUCE_AND || fold == LK_REDUCE_OR || fold == LK_REDUCE_XOR;
    if (t == LK_F64)
        a.f64 = JOIN(f64, double);
    else if (t == LK_I32)
        a.i32 = bits ? (int32_t)JOIN_BITS(i32, uint32_t) : (int32_t)JOIN(i32, uint32_t);
    else if (t == LK_I64)
        a.i64 = bits ? (int64_t)JOIN_BITS(i64, uint64_t) : (int64_t)JOIN(i64, uint64_t);
    else if (t == LK_U8)
        a.u8 = bits ? (uint8_t)JOIN_BITS(u8, unsigned) : (uint8_t)JOIN(u8, unsigned);
    else
        a.f32 = JOIN(f32, float);
    return a;
}

/* tree(v0 ... v(n-1)) = tree(v0 ... v(h-1)) op tree(vh ... ), h the largest power of two below n */
static inline union element element_tree(lk_reduce_op fold, lk_dtype t, lk_range at, int64_t i)
{
    if (at.n == 1)
        return element_of(fold, t, at.first, i);
    int64_t half = 1;
    while (2 * half < at.n)
        half *= 2;
    return element_join(fold, t, element_tree(fold, t, (lk_range){at.first, half}, i),
                        element_tree(fold, t, (lk_range){at.first + half, at.n - half}, i));
}

static inline void element_put(lk_reduce_op fold, lk_dtype t, union element e, void *to)
{
    uint16_t half = t == LK_F16 ? lk_f16_encode(e.f32) : lk_bf16_encode(e.f32);
    memcpy(to, is_half(t) ? (const void *)&half : &e, (size_t)element_size(fold, t));
}

/* A subtree over all elements [from, from + count), as ranks give it. */
static inline void node_put(lk_reduce_op fold, lk_dtype t, lk_range at, int64_t from, int64_t count,
                            void *out)
{
    for (int64_t i = 0; i < count; i++)
        element_put(fold, t, element_tree(fold, t, at, from + i),
                    (char *)out + i * element_size(fold, t));
}

/* What all should get. */
static inline void fold_put(lk_reduce_op fold, lk_dtype t, int64_t pieces, int64_t from,
                            int64_t count, void *out)
{
    for (int64_t i = 0; i < count; i++) {
        union element e = element_tree(fold, t, (lk_range){0, pieces}, from + i);
        if (fold == LK_REDUCE_AVG && t == LK_F64)
            e.f64 /= (double)pieces;
        else if (fold == LK_REDUCE_AVG)
            e.f32 /= (float)pieces;
        element_put(fold, t, e, (char *)out + i * element_size(fold, t));
    }
}

/* This rank's input: its subtrees, or of f16 and bf16 its pieces, `stride` elements apart (0: no gap),
 * with NaN in the gaps; to be freed. */
static inline void *input_apart(lk_comm *comm, const lk_collective *c, int64_t pieces,
                                int64_t count)
{
    lk_reduce_op fold = c->op;
    lk_dtype t = c->dtype;
    int64_t stride = c->stride ? c->stride : count;
    lk_range range = lk_range_split(pieces, lk_comm_rank(comm), lk_comm_size(comm));
    lk_range node[LK_MAX_SUBTREES];
    int n = lk_range_subtrees(pieces, range, node);
    for (int64_t i = 0; is_half(t) && i < range.n; i++)
        node[i] = (lk_range){range.first + i, 1};
    n = is_half(t) ? (int)range.n : n;
    char *in;
    ASSERT_OK(lk_alloc(&in, n * stride, (size_t)element_size(fold, t)));
    memset(in, 0xff, (size_t)(n * stride * element_size(fold, t)));
    for (int k = 0; k < n; k++)
        node_put(fold, t, node[k], 0, count, in + k * stride * element_size(fold, t));
    return in;
}

static inline void *input_of(lk_comm *comm, lk_reduce_op fold, lk_dtype t, int64_t pieces,
                             int64_t count)
{
    return input_apart(comm, &(lk_collective){.op = fold, .dtype = t}, pieces, count);
}

#endif /* LK_TEST_COLLECTIVES_H */
