/* Programs between ranks against differences of the sum of all ranks' losses, with cotangents that
 * differ between ranks, and their second derivatives. */
#ifndef LK_TEST_ADJOINTS_H
#define LK_TEST_ADJOINTS_H

#include "ranks.h"

#include <lockstep/lockstep.h>

static const double step = 1e-4;

/* A program of one value on each rank: shape of its input, and what it does with it. */
struct program {
    const char *name;
    lk_shape (*shape)(int rank, int size);
    lk_status (*run)(lk_comm *comm, lk_var x, lk_var *y);
};

/* ---- one rank's side of a check ---- */

struct side {
    lk_comm *comm;
    const struct program *p;
    lk_tape *tape;
    lk_tensor *x, *c, *d; /* input, cotangent of the output, direction */
    bool second;
};

/* Numbers that differ between ranks, elements and purposes, none near another. */
static void fill(lk_tensor *t, int rank, const char *purpose)
{
    void *data;
    ASSERT_OK(lk_tensor_writable_data(t, &data));
    for (int64_t e = 0; e < lk_tensor_count(t); e++) {
        lk_rng_at at = {.sample = rank, .element = e};
        double u;
        ASSERT_OK(lk_rng_uniform_f64(lk_rng_start(1, "adjoints", purpose), at, 1, &u));
        ((double *)data)[e] = 0.4 + u + 0.01 * rank;
    }
}

/* This rank's part of L = sum c y, or of S = sum d dL/dx; gradients of L or S if wanted. */
static double evaluate(struct side *s, lk_tensor **gx, lk_tensor **gc)
{
    lk_var x, c, d, y, g, out[2], part;
    double value;
    lk_tape_reset(s->tape);
    ASSERT_OK(lk_leaf(s->tape, s->x, NULL, &x));
    ASSERT_OK(s->p->run(s->comm, x, &y));
    if (!s->c) {
        ASSERT_OK(lk_tensor_new(LK_F64, lk_shape_of(y), &s->c));
        fill(s->c, lk_comm_rank(s->comm), "c");
    }
    ASSERT_OK(lk_leaf(s->tape, s->c, NULL, &c));
    ASSERT_OK(lk_constant(s->tape, s->d, &d));
    ASSERT_OK(lk_mul(c, y, &part));
    ASSERT_OK(lk_sum(part, NULL, &part));
    if (s->second) {
        ASSERT_OK(lk_grad(s->tape, &part, NULL, 1, &x, 1, LK_RECORD, &g));
        ASSERT_OK(lk_mul(g, d, &part));
        ASSERT_OK(lk_sum(part, NULL, &part));
    }
    ASSERT_OK(lk_item(part, &value));
    if (!gx)
        return value;
    /* A rank whose part depends on nothing of its own has no seed, but takes part. */
    bool seeded = lk_needs_grad(part);
    ASSERT_OK(lk_grad(s->tape, &part, NULL, seeded, (lk_var[]){x, c}, 2, LK_RETAIN, out));
    for (int i = 0; i < 2; i++) {
        const lk_tensor *t;
        ASSERT_OK(lk_value(out[i], &t));
        ASSERT_OK(lk_tensor_clone(t, LK_F64, i == 0 ? gx : gc));
    }
    return value;
}

static double total(struct side *s)
{
    double own = evaluate(s, NULL, NULL), all;
    ASSERT_OK(lk_allreduce(s->comm, &own, &all, 1, LK_F64, LK_FOLD_SUM, "total"));
    return all;
}

/* Compare `grad` with differences along each element of rank r's tensor, for all r. */
static void compare(struct side *s, lk_tensor *t, const lk_tensor *grad, const char *what)
{
    int rank = lk_comm_rank(s->comm), size = lk_comm_size(s->comm);
    double *v = NULL;
    void *data;
    ASSERT_OK(lk_tensor_writable_data(t, &data));
    v = data;
    for (int r = 0; r < size; r++) {
        int64_t n = lk_tensor_count(t);
        if ((TEST_SLOWNESS > 1 || strcmp(lk_comm_transport(s->comm), "mpi") == 0) && n > 1)
            n = 1; /* each evaluation takes long */
        ASSERT_OK(lk_bcast(s->comm, &n, 1, LK_I64, r, "elements"));
        /* With many ranks some elements, other ones of each rank. */
        for (int64_t e = size > 4 ? r % 3 : 0; e<n; e += size> 4 ? 3 : 1) {
            double f[4], at = rank == r ? v[e] : 0;
            static const int offset[4] = {1, -1, 2, -2};
            for (int m = 0; m < 4; m++) {
                if (rank == r)
                    v[e] = at + offset[m] * step;
                f[m] = total(s);
            }
            if (rank != r)
                continue;
            v[e] = at;
            double numeric = (8 * (f[0] - f[1]) - (f[2] - f[3])) / (12 * step);
            double got = ((const double *)lk_tensor_data(grad))[e];
            if (!(fabs(got - numeric) <= 1e-7 * fmax(1, fabs(numeric))))
                TEST_FAIL("%s, %d ranks: d%s/d%s[%lld] of rank %d is %.12g, by differences %.12g",
                          s->p->name, size, s->second ? "S" : "L", what, (long long)e, rank, got,
                          numeric);
        }
    }
}

static void check(lk_comm *comm, const struct program *p, bool second)
{
    struct side s = {.comm = comm, .p = p, .second = second};
    int rank = lk_comm_rank(comm);
    lk_tensor *gx, *gc;
    lk_shape shape = p->shape(rank, lk_comm_size(comm));
    ASSERT_OK(lk_tape_new(&s.tape));
    ASSERT_OK(lk_tensor_new(LK_F64, shape, &s.x));
    ASSERT_OK(lk_tensor_new(LK_F64, shape, &s.d));
    fill(s.x, rank, "x");
    fill(s.d, rank, "d");
    evaluate(&s, &gx, &gc);
    compare(&s, s.x, gx, "x");
    compare(&s, s.c, gc, "c");
    lk_tensor_free(gx);
    lk_tensor_free(gc);
    lk_tape_free(s.tape);
    lk_tensor_free(s.x);
    lk_tensor_free(s.c);
    lk_tensor_free(s.d);
}

static inline void check_first(lk_comm *comm, const struct program *programs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (TEST_SLOWNESS == 1 || lk_comm_size(comm) <= 4)
            check(comm, &programs[i], false);
}

static inline void check_second(lk_comm *comm, const struct program *programs, size_t n)
{
    for (size_t i = 0; i < n && lk_comm_size(comm) < (TEST_SLOWNESS > 1 ? 3 : 5); i++)
        check(comm, &programs[i], true);
}

#endif /* LK_TEST_ADJOINTS_H */
