/* Samples of neighbour, on which lk_gradcheck_dist() compares its backward with differences. */
#include "dist/checks/shapes.h"

/* One row to the left and two to the right round the ring, and nothing between. */
static lk_shape shape_rows(const lk_dist_sample *s, int rank, int size, int i)
{
    lk_shape shape = LK_SHAPE(2, 2, 2);
    (void)rank;
    (void)size;
    (void)i;
    shape.dim[s->axis] = 3;
    return shape;
}

static lk_status ring(const lk_dist_sample *s, lk_comm *comm, const lk_var *in, lk_var *out)
{
    const int rank[3] = {left_of(comm), -1, right_of(comm)}, opposite[3] = {2, 1, 0};
    const int64_t send[3] = {1, 0, 2}, receive[3] = {2, 0, 1};
    const lk_neighbours to = {
        .n = 3, .rank = rank, .send = send, .receive = receive, .peer_slot = opposite};
    LK_TRY(lk_dist_neighbor_alltoall(comm, in[0], s->axis, &to, "check", out));
    return LK_OK;
}

#define SAMPLE(text, where)                                                                       \
    {                                                                                             \
        .name = (text), .n_in = 1, .n_out = 1, .shape = shape_rows, .run = ring, .axis = (where), \
        .is_linear = true                                                                         \
    }

const lk_dist_check lk__dist_check_neighbour = {
    .name = "neighbour",
    .summary = "y = what the neighbours give; dx = what they say about it",
    .samples = (const lk_dist_sample[]){
        SAMPLE("axis 0", 0), SAMPLE("axis 1", 1), SAMPLE("axis 2", 2), {0}}};
