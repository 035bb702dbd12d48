/* Boxes of larger arrays, for tests: random places, values in the box and NaN around it. */
#ifndef LK_TEST_BOXED_H
#define LK_TEST_BOXED_H

#include "real.h"

enum { BOXED_AXES = 3 };

/* How a box lies in an array [samples][axes...][channels] that is larger on every side. */
struct place {
    int ndim;
    int64_t batch, size[BOXED_AXES], channels; /* of the box */
    int64_t sample, step[BOXED_AXES];
    int64_t first, count; /* elements: where the box begins, and of the whole array */
};

static inline int64_t below(uint64_t *state, int64_t n)
{
    return (int64_t)(real_random(state) >> 3) % n;
}

/* A margin before and one behind; often there is none, so that axes lie side by side, and a box ends with
 * the array. */
static inline int64_t margin(uint64_t *state, int64_t *before)
{
    *before = below(state, 2) * below(state, 3);
    return *before + below(state, 2) * below(state, 3);
}

static inline struct place place_make(int ndim, int64_t batch, const int64_t *size,
                                      int64_t channels, uint64_t *state)
{
    struct place p = {.ndim = ndim, .batch = batch, .channels = channels};
    int64_t before;
    p.count = channels + margin(state, &before);
    p.first = before;
    for (int d = ndim - 1; d >= 0; d--) {
        p.size[d] = size[d];
        p.step[d] = p.count;
        p.count *= size[d] + margin(state, &before);
        p.first += before * p.step[d];
    }
    p.sample = p.count;
    p.count *= batch + margin(state, &before);
    p.first += before * p.sample;
    return p;
}

/* In the box numbers in [-1, 1), or few different ones, so that maxima tie; whoever reads NaN shows. */
static inline void place_fill(const struct place *p, lk_dtype t, void *array, bool few,
                              uint64_t state)
{
    int64_t n = p->batch * p->channels;
    for (int64_t i = 0; i < p->count; i++)
        real_set(t, array, i, (double)NAN);
    for (int d = 0; d < p->ndim; d++)
        n *= p->size[d];
    for (int64_t i = 0; i < n; i++) {
        int64_t rest = i / p->channels, at = p->first + i % p->channels;
        for (int d = p->ndim - 1; d >= 0; d--) {
            at += rest % p->size[d] * p->step[d];
            rest /= p->size[d];
        }
        double v = few ? (double)below(&state, 9) * 0.37 - 1.5
                       : (double)(int32_t)(real_random(&state) << 1) * 0x1p-31;
        real_set(t, array, at + rest * p->sample, v);
    }
}

#endif /* LK_TEST_BOXED_H */
