/* Samples of alltoall, on which lk_gradcheck_dist() compares its backward with differences. */
#include "dist/checks/shapes.h"

/* Uneven along the axis to gather, `other`; as many along `axis` as all ranks ask for. */
static lk_shape shape_table(const lk_dist_sample *s, int rank, int size, int i)
{
    lk_shape shape = shape_whole(s, rank, size, i);
    shape.dim[s->other] = rank % 3;
    return shape;
}

static lk_status exchange(const lk_dist_sample *s, lk_comm *comm, const lk_var *in, lk_var *out)
{
    LK_TRY(
        lk_dist_alltoall(comm, in[0], s->other, s->axis, asked(lk_comm_rank(comm)), "check", out));
    return LK_OK;
}

/* A part of the whole along `axis`; ranks ask for the part of their mirror image. */
static lk_shape shape_part(const lk_dist_sample *s, int rank, int size, int i)
{
    lk_shape shape = LK_SHAPE(2, 1, 2);
    (void)size;
    (void)i;
    shape.dim[s->axis] = asked(rank);
    return shape;
}

static lk_status cut_anew(const lk_dist_sample *s, lk_comm *comm, const lk_var *in, lk_var *out)
{
    int64_t count = asked(lk_comm_size(comm) - 1 - lk_comm_rank(comm));
    LK_TRY(lk_dist_alltoall(comm, in[0], s->axis, s->axis, count, "check", out));
    return LK_OK;
}

#define EXCHANGE(text, gather, scatter)                                               \
    {                                                                                 \
        .name = (text), .n_in = 1, .n_out = 1, .shape = shape_table, .run = exchange, \
        .other = (gather), .axis = (scatter), .is_linear = true                       \
    }
#define CUT(text, where)                                                             \
    {                                                                                \
        .name = (text), .n_in = 1, .n_out = 1, .shape = shape_part, .run = cut_anew, \
        .axis = (where), .is_linear = true                                           \
    }

const lk_dist_check lk__dist_check_alltoall = {
    .name = "alltoall",
    .summary = "y = own part of each x; dx = the same of dy, axes exchanged",
    .samples = (const lk_dist_sample[]){EXCHANGE("cut axis 1, join axis 0, uneven", 0, 1),
                                        EXCHANGE("cut axis 0, join axis 2, uneven", 2, 0),
                                        EXCHANGE("cut axis 2, join axis 1, uneven", 1, 2),
                                        CUT("cut axis 0 anew", 0),
                                        CUT("cut axis 1 anew", 1),
                                        CUT("cut axis 2 anew", 2),
                                        {0}}};
