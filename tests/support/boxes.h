/* The state of checkpoints.h, of which each rank holds boxes. */
#ifndef LK_TEST_BOXES_H
#define LK_TEST_BOXES_H

#include "checkpoints.h"

/* How tensors are cut among ranks. */
typedef enum box_cut {
    CUT_WHOLE,    /* all hold all */
    CUT_ROWS,     /* blocks of the first axis */
    CUT_COLUMNS,  /* of the last */
    CUT_GRID,     /* of both: two rows of ranks */
    CUT_REPLICAS, /* columns, each held by two ranks */
    CUT_LAST,     /* the last rank holds all, the others nothing */
    CUT_OVERLAP,  /* rows, and one more on both sides */
    CUT_MIXED,    /* for each tensor another */
    N_CUTS
} box_cut;

/* Block `i` of `n` of an axis. */
static inline void cut_axis(lk_box *box, int axis, int64_t i, int64_t n)
{
    int64_t first = i * box->n[axis] / n, end = (i + 1) * box->n[axis] / n;
    box->first[axis] = first;
    box->n[axis] = end - first;
}

/* The box of tensor number `i` that a rank holds. */
static inline lk_box cut_box(box_cut how, int i, const lk_shape *shape, int rank, int size)
{
    lk_box box = lk_box_whole(shape->ndim, shape->dim);
    int last = box.ndim - 1, rows = size > 1 ? 2 : 1;
    if (how == CUT_MIXED)
        how = (box_cut)((i + 1) % CUT_MIXED);
    if (how == CUT_LAST && rank < size - 1)
        for (int k = 0; k < box.ndim; k++)
            box.n[k] = 0;
    if (box.ndim == 0 || how == CUT_WHOLE || how == CUT_LAST)
        return box; /* a scalar cannot be cut: all hold it */
    if (how == CUT_ROWS || how == CUT_OVERLAP)
        cut_axis(&box, 0, rank, size);
    if (how == CUT_OVERLAP && box.first[0] > 0) {
        box.first[0]--;
        box.n[0]++;
    }
    if (how == CUT_OVERLAP && box.first[0] + box.n[0] < shape->dim[0])
        box.n[0]++;
    if (how == CUT_COLUMNS)
        cut_axis(&box, last, rank, size);
    if (how == CUT_REPLICAS)
        cut_axis(&box, last, rank / 2, (size + 1) / 2);
    if (how == CUT_GRID) {
        int row = rank * rows / size, first = (row * size + rows - 1) / rows;
        int end = ((row + 1) * size + rows - 1) / rows;
        cut_axis(&box, 0, row, rows);
        if (last > 0)
            cut_axis(&box, last, rank - first, end - first);
        else if (rank > first)
            box.n[0] = 0;
    }
    return box;
}

/* What a rank holds of the state of a step. */
typedef struct boxed_state {
    test_state all;
    lk_box box[STATE_TENSORS];
    unsigned char data[STATE_TENSORS][512];
    lk_state_tensor tensor[STATE_TENSORS];
} boxed_state;

/* Copy boxes out of all. */
static inline void boxed_fill(boxed_state *b)
{
    for (int i = 0; i < STATE_TENSORS; i++) {
        const lk_state_tensor *t = &b->all.tensor[i];
        size_t size = lk_dtype_size(t->dtype);
        lk_box_walk walk = lk_box_start(&b->box[i], t->shape.dim);
        while (lk_box_next(&walk))
            memcpy(b->data[i] + (size_t)walk.at * size,
                   (const char *)t->data + (size_t)walk.place * size, (size_t)walk.n * size);
    }
}

static inline lk_state *boxed_at(boxed_state *b, int64_t step, box_cut how, int rank, int size)
{
    lk_state *state = test_state_at(&b->all, step);
    memset(b->data, 0, sizeof b->data);
    for (int i = 0; i < STATE_TENSORS; i++) {
        b->tensor[i] = b->all.tensor[i];
        b->box[i] = cut_box(how, i, &b->tensor[i].shape, rank, size);
        b->tensor[i].box = &b->box[i];
        b->tensor[i].data = b->data[i];
    }
    boxed_fill(b);
    state->tensor = b->tensor;
    return state;
}

/* What a rank holds is what it would hold at this step. */
static inline void boxed_expect(const boxed_state *b, int64_t step, box_cut how, int rank, int size)
{
    static _Thread_local boxed_state want;
    boxed_at(&want, step, how, rank, size);
    ASSERT_EQ(b->all.state.step, step);
    ASSERT_EQ(b->all.state.hash, want.all.state.hash);
    ASSERT_SAME_BITS(b->data, want.data, sizeof want.data);
    for (int i = 0; i < STATE_NUMBERS; i++)
        ASSERT_TRUE(b->all.number[i].dtype == LK_I64
                        ? b->all.number[i].i64 == want.all.number[i].i64
                        : same_bits(&b->all.number[i].f64, &want.all.number[i].f64, 8));
}

#endif /* LK_TEST_BOXES_H */
