/* What the samples of nodes share, on which lk_gradcheck_dist() compares backward with differences: shapes of
 * inputs, and a ring. */
#ifndef LK_DIST_COMMON_SAMPLE_SHAPES_H
#define LK_DIST_COMMON_SAMPLE_SHAPES_H

#include <lockstep/extra/dist_check.h>

/* Fields of a sample with one input and one output. */
#define SAMPLE(text, what, how) .name = (text), .n_in = 1, .n_out = 1, .shape = (what), .run = (how)
#define LINEAR_SAMPLE(text, what, how) SAMPLE(text, what, how), .is_linear = true

/* The same on all ranks. */
static inline lk_shape shape_same(const lk_dist_sample *s, int rank, int size, int i)
{
    (void)s;
    (void)rank;
    (void)size;
    (void)i;
    return LK_SHAPE(2, 3);
}

static inline lk_shape shape_scalar(const lk_dist_sample *s, int rank, int size, int i)
{
    (void)s;
    (void)rank;
    (void)size;
    (void)i;
    return LK_SCALAR;
}

/* Uneven along `axis`, and nothing on some ranks. */
static inline lk_shape shape_ragged(const lk_dist_sample *s, int rank, int size, int i)
{
    lk_shape shape = LK_SHAPE(2, 3, 2);
    (void)size;
    (void)i;
    shape.dim[s->axis] = (rank + 1) % 3;
    return shape;
}

/* Uneven along `axis`. */
static inline lk_shape shape_uneven(const lk_dist_sample *s, int rank, int size, int i)
{
    lk_shape shape = LK_SHAPE(2, 3);
    (void)size;
    (void)i;
    shape.dim[s->axis] = 1 + rank % 3;
    return shape;
}

/* What rank r asks for along an axis of shape_whole(). */
static inline int64_t asked(int rank)
{
    return (rank + 1) % 3;
}

/* As many along `axis` as all ranks together ask for. */
static inline lk_shape shape_whole(const lk_dist_sample *s, int rank, int size, int i)
{
    lk_shape shape = LK_SHAPE(2, 1, 2);
    (void)rank;
    (void)i;
    shape.dim[s->axis] = 0;
    for (int r = 0; r < size; r++)
        shape.dim[s->axis] += asked(r);
    return shape;
}

/* More than a message that is buffered has. */
static inline lk_shape shape_long(const lk_dist_sample *s, int rank, int size, int i)
{
    (void)s;
    (void)rank;
    (void)size;
    (void)i;
    return LK_SHAPE(1500);
}

/* The ranks beside this one on a ring. */
static inline int right_of(const lk_comm *comm)
{
    return (lk_comm_rank(comm) + 1) % lk_comm_size(comm);
}

static inline int left_of(const lk_comm *comm)
{
    return (lk_comm_rank(comm) + lk_comm_size(comm) - 1) % lk_comm_size(comm);
}

#endif /* LK_DIST_COMMON_SAMPLE_SHAPES_H */
