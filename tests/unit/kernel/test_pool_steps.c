/* Pooling a box of a larger array gives the bits of the definition, and touches nothing else: all six passes
 * on random shapes, boxes, instruction sets and threads. */
#include "all_threads.h"
#include "boxed.h"
#include "guard.h"
#include "kernel/reference/reference.h"

#include <lockstep/extra/isa.h>
#include <lockstep/thread.h>

enum { MAX, AVG, L2, AXES = BOXED_AXES };

/* An operand: the array; for one that is written, what the array should become. */
struct operand {
    const struct place *at;
    size_t elem;
    struct guard array, want;
};

static struct operand operand_new(const struct place *at, size_t elem)
{
    size_t bytes = (size_t)at->count * elem;
    struct operand o = {
        .at = at, .elem = elem, .array = guard_new(bytes), .want = guard_new(bytes)};
    memset(o.array.data, 0x55, bytes);
    memset(o.want.data, 0x55, bytes);
    return o;
}

static void operand_free(struct operand *o)
{
    guard_free(&o->array);
    guard_free(&o->want);
}

static void *box_of(const struct operand *o)
{
    return (char *)o->array.data + (size_t)o->at->first * o->elem;
}

static void *wanted(const struct operand *o)
{
    return (char *)o->want.data + (size_t)o->at->first * o->elem;
}

/* What was written is in the box, and nothing changed around it; then the array is as before. */
static void check_written(const char *name, const struct operand *o)
{
    size_t bytes = (size_t)o->at->count * o->elem;
    if (memcmp(o->want.data, o->array.data, bytes) != 0)
        TEST_FAIL("%s: the array is not that of the definition (%d axes, %lld channels)", name,
                  o->at->ndim, (long long)o->at->channels);
    memset(o->array.data, 0x55, bytes);
}

struct operands {
    struct operand x, dy, y[3], dx[3], index;
};

/* What all outputs should become; the index around the box names positions that there are. */
static void definition(const lk_pool_shape *s, struct operands *p)
{
    const void *x = box_of(&p->x), *dy = box_of(&p->dy);
    for (int64_t i = 0; i < p->index.at->count; i++)
        ((int64_t *)p->index.want.data)[i] = ((int64_t *)p->index.array.data)[i] = i % 4;
    lk__ref_pool_max(s, x, wanted(&p->y[MAX]), wanted(&p->index), NULL);
    lk__ref_pool_avg(s, x, wanted(&p->y[AVG]), NULL);
    lk__ref_pool_l2(s, x, wanted(&p->y[L2]), NULL);
    lk__ref_pool_max_backward(s, dy, wanted(&p->index), wanted(&p->dx[MAX]), NULL);
    lk__ref_pool_avg_backward(s, dy, wanted(&p->dx[AVG]), NULL);
    lk__ref_pool_l2_backward(s, x, wanted(&p->y[L2]), dy, wanted(&p->dx[L2]), NULL);
}

static void check_passes(const lk_pool_shape *s, struct operands *p)
{
    static const char *const name[] = {"max", "avg", "l2"};
    static const char *const back[] = {"max_backward", "avg_backward", "l2_backward"};
    const void *x = box_of(&p->x), *dy = box_of(&p->dy);
    ASSERT_OK(lk_pool_max(s, x, box_of(&p->y[MAX]), NULL));
    check_written("max without index", &p->y[MAX]);
    ASSERT_OK(lk_pool_max(s, x, box_of(&p->y[MAX]), box_of(&p->index)));
    ASSERT_OK(lk_pool_avg(s, x, box_of(&p->y[AVG])));
    ASSERT_OK(lk_pool_l2(s, x, box_of(&p->y[L2])));
    ASSERT_OK(lk_pool_max_backward(s, dy, box_of(&p->index), box_of(&p->dx[MAX])));
    ASSERT_OK(lk_pool_avg_backward(s, dy, box_of(&p->dx[AVG])));
    ASSERT_OK(lk_pool_l2_backward(s, x, box_of(&p->y[L2]), dy, box_of(&p->dx[L2])));
    for (int k = 0; k < 3; k++) {
        check_written(name[k], &p->y[k]);
        check_written(back[k], &p->dx[k]);
    }
    ASSERT_SAME_BITS(p->index.array.data, p->index.want.data, p->index.at->count * 8);
}

static void check_shape(lk_pool_shape s, uint64_t *state, int n_threads)
{
    const int ndim = s.window.ndim;
    const struct place in = place_make(ndim, s.batch, s.in, s.channels, state);
    const struct place out = place_make(ndim, s.batch, s.out, s.channels, state);
    s.x_sample = in.sample;
    s.y_sample = out.sample;
    memcpy(s.x_step, in.step, sizeof s.x_step);
    memcpy(s.y_step, out.step, sizeof s.y_step);
    size_t elem = lk_dtype_size(s.dtype);
    struct operands p = {.x = operand_new(&in, elem),
                         .dy = operand_new(&out, elem),
                         .index = operand_new(&out, sizeof(int64_t))};
    for (int k = 0; k < 3; k++) {
        p.y[k] = operand_new(&out, elem);
        p.dx[k] = operand_new(&in, elem);
    }
    place_fill(&in, s.dtype, p.x.array.data, true, 1 + *state);
    place_fill(&out, s.dtype, p.dy.array.data, true, 2 + *state);
    definition(&s, &p);
    for (int isa = 0; isa < LK_N_ISAS; isa++)
        for (int threads = 1; threads <= n_threads && lk_isa_is_available((lk_isa)isa); threads++) {
            ASSERT_OK(lk_isa_set((lk_isa)isa));
            all_threads_set(threads);
            check_passes(&s, &p);
        }
    operand_free(&p.x);
    operand_free(&p.dy);
    operand_free(&p.index);
    for (int k = 0; k < 3; k++) {
        operand_free(&p.y[k]);
        operand_free(&p.dx[k]);
    }
}

/* Windows that overlap, touch or leave gaps; padded, cropped, and without a tap. */
static lk_pool_shape shape_make(uint64_t *state)
{
    lk_pool_shape s = {.dtype = below(state, 2) ? LK_F32 : LK_F64,
                       .window.ndim = 1 + (int)below(state, AXES),
                       .batch = 1 + below(state, 3),
                       .channels = below(state, 3) ? 1 + below(state, 9) : 1 + below(state, 80),
                       .count_padding = below(state, 2),
                       .relu = below(state, 2)};
    bool touching = below(state, 4) == 0;
    for (int d = 0; d < s.window.ndim; d++) {
        s.window.kernel[d] = 1 + below(state, 4);
        s.window.stride[d] = touching ? s.window.kernel[d] : 1 + below(state, 4);
        s.window.pad_lo[d] = touching ? 0 : below(state, 4) - 1;
        s.out[d] = 1 + below(state, 4);
        s.in[d] = touching ? s.out[d] * s.window.stride[d] : 1 + below(state, 8);
    }
    if (below(state, 16) == 0) /* a rank may hold nothing of it */
        *(below(state, 2) ? &s.batch : &s.in[0]) = 0;
    return s;
}

TEST(boxes_pool_as_their_copies)
{
    uint64_t state = 18;
    for (int i = 0; i < (test_whole() ? 4000 : 400); i++)
        check_shape(shape_make(&state), &state, 2);
}

TEST(large_boxes_pool_as_their_copies)
{
    uint64_t state = 19;
    for (int d = 0; d < 2; d++) {
        lk_dtype t = d == 0 ? LK_F32 : LK_F64;
        lk_pool_shape s = {
            .dtype = t,
            .window = {.ndim = 2, .kernel = {3, 3}, .stride = {2, 2}, .pad_lo = {1, 1}},
            .batch = 2,
            .channels = 40,
            .in = {25, 27},
            .out = {13, 14}};
        check_shape(s, &state, 4);
        lk_pool_shape global = {.dtype = t,
                                .window = {.ndim = 2, .kernel = {9, 8}},
                                .batch = 2,
                                .channels = 333,
                                .in = {9, 8},
                                .out = {1, 1}};
        check_shape(global, &state, 4); /* few positions: channels are split */
        lk_pool_shape gaps = {.dtype = t,
                              .window = {.ndim = 3, .kernel = {1, 2, 2}, .stride = {2, 2, 3}},
                              .batch = 2,
                              .channels = 17,
                              .in = {5, 12, 14},
                              .out = {3, 6, 5}};
        check_shape(gaps, &state, 4); /* dx is cleared first */
    }
}
