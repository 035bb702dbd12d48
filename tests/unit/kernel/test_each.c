/* Runs of elements: inputs of any strides, each kind of store, any number of threads. */
#include "all_threads.h"
#include "harness.h"
#include "kernel/each.h"

#include <lockstep/thread.h>

#include <math.h>

enum { MOST = 12000 };

static float source[4 * MOST], other[MOST], want[MOST], got[MOST];

/* Axes of an output, and the steps of the input that is gathered. */
static const struct {
    int ndim;
    int64_t dim[3], stride[3];
} shapes[] = {
    {2, {3, 1300}, {1300, 1}},          /* contiguous, and said to be not */
    {2, {5, 1300}, {1400, 1}},          /* rows with gaps */
    {2, {7, 1024}, {2048, 1}},          /* halves of rows, in whole runs */
    {2, {5, 2049}, {1, 0}},             /* elements that are repeated */
    {2, {9, 512}, {3, 0}},              /* a run each */
    {2, {40, 77}, {1, 0}},              /* several in a run */
    {2, {1500, 7}, {1, 1500}},          /* columns */
    {3, {3, 1100, 3}, {0, 3, 1}},       /* a matrix that is repeated */
    {3, {2, 5, 1030}, {1030, 0, 1}},    /* rows that are repeated */
    {3, {2, 3, 1500}, {9000, 3000, 2}}, /* every other element */
    {2, {1, 6000}, {1, 0}},             /* one element */
    {2, {1, 1}, {5, 7}},
};

static int64_t place(int k, int64_t i)
{
    int64_t at = 0;
    for (int d = shapes[k].ndim - 1; d >= 0; d--) {
        at += i % shapes[k].dim[d] * shapes[k].stride[d];
        i /= shapes[k].dim[d];
    }
    return at;
}

static lk__each_job job_of(int k, lk__loop loop, lk__each_store store)
{
    lk__each_job j = {
        .loop = loop,
        .store = store,
        .dtype = LK_F32,
        .y = got,
        .n = 1,
        .n_in = loop == LK__LOOP_COPY ? 1 : 2,
        .ndim = shapes[k].ndim,
        .in = {{.start = (const char *)source, .size = sizeof *source},
               {.start = (const char *)other, .size = sizeof *other, .direct = true}}};
    for (int d = 0; d < j.ndim; d++) {
        j.dim[d] = shapes[k].dim[d];
        j.in[0].stride[d] = shapes[k].stride[d];
        j.n *= j.dim[d];
    }
    return j;
}

static void shape_check(int k, lk__loop loop, lk__each_store store)
{
    lk__each_job j = job_of(k, loop, store);
    for (int64_t i = 0; i < j.n; i++) {
        float f = source[place(k, i)], old = (float)(i % 5);
        f = loop == LK__LOOP_COPY ? f : f * other[i];
        got[i] = old;
        want[i] = store == LK_EACH_STORE ? f : store == LK_EACH_ADD ? old + f : 0 + f;
    }
    ASSERT_OK(lk__each_job_run(&j));
    if (memcmp(got, want, (size_t)j.n * sizeof *got) != 0)
        TEST_FAIL("shape %d, loop %d, store %d: other elements", k, (int)loop, (int)store);
}

TEST(elements_are_found_whatever_the_strides)
{
    for (int i = 0; i < 4 * MOST; i++)
        source[i] = i % 11 == 3 ? -0.0F : (float)(i * 37 % 1009) - 500;
    for (int i = 0; i < MOST; i++)
        other[i] = (float)(i % 7) - 3;
    for (int threads = 1; threads <= 3; threads++) {
        all_threads_set(threads);
        for (int k = 0; k < (int)(sizeof shapes / sizeof *shapes); k++)
            for (int store = LK_EACH_STORE; store <= LK_EACH_FIRST; store++) {
                shape_check(k, LK__LOOP_COPY, (lk__each_store)store);
                shape_check(k, LK__LOOP_MUL, (lk__each_store)store);
            }
    }
}
