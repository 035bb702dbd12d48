/* neighbour: parts of x to the neighbours, and parts from them one behind the other.
 *
 *     dx = the same exchange of dy, with what was received sent back
 *
 * The list of neighbours is an i64 value on the tape, of four numbers each: rank, rows to send, rows
 * to receive, place in the neighbour's list.  Backward exchanges the two in the middle.
 */
#include "dist/common/dist.h"
#include "dist/common/sample_shapes.h"
#include "ops/common/ops.h"
#include "tensor/tensor.h"

#include <lockstep/extra/checked.h>

enum { RANK, SEND, RECEIVE, OPPOSITE, NUMBERS };

/* In the op's attributes `root` says whether places are given. */

static const int64_t *list_of(const lk_tensor *list)
{
    return lk_tensor_data(list);
}

static lk_status neighbour_infer(lk_call *c, lk_output_spec *out)
{
    int64_t rows[NUMBERS] = {0};
    for (int64_t i = 0; i < c->x[1]->count; i++)
        rows[i % NUMBERS] += list_of(c->x[1])[i];
    LK_CHECK(c->x[0]->shape.dim[0] == rows[SEND], LK_ESHAPE,
             "neighbour: a tensor %s, of which %lld along its axis are to be sent",
             lk_tensor_text(c->x[0]).s, (long long)rows[SEND]);
    out->dtype = c->x[0]->dtype;
    out->shape = c->x[0]->shape;
    out->shape.dim[0] = rows[RECEIVE];
    return LK_OK;
}

static lk_status neighbour_forward(lk_call *c)
{
    const lk__dist *d = c->attr;
    const int64_t *list = list_of(c->x[1]), row = lk__dist_row(c->x[0]->shape);
    int n = (int)(c->x[1]->count / NUMBERS), *rank, *opposite;
    int64_t *send, *receive;
    LK_TRY(lk_call_scratch(c, n * (int64_t)sizeof *rank, &rank));
    LK_TRY(lk_call_scratch(c, n * (int64_t)sizeof *opposite, &opposite));
    LK_TRY(lk_call_scratch(c, n * (int64_t)sizeof *send, &send));
    LK_TRY(lk_call_scratch(c, n * (int64_t)sizeof *receive, &receive));
    for (int i = 0; i < n; i++) {
        rank[i] = (int)list[i * NUMBERS + RANK];
        send[i] = list[i * NUMBERS + SEND] * row;
        receive[i] = list[i * NUMBERS + RECEIVE] * row;
        opposite[i] = (int)list[i * NUMBERS + OPPOSITE];
    }
    return LK_TRACE(lk_coll_run(d->comm, &(lk_collective){.call = LK_CALL_NEIGHBOUR,
                                                          .name = d->name,
                                                          .in = lk__tensor_start(c->x[0]),
                                                          .out = lk__tensor_start(c->y[0]),
                                                          .counts = receive,
                                                          .in_counts = send,
                                                          .dtype = c->x[0]->dtype,
                                                          .neighbours = rank,
                                                          .n_neighbours = n,
                                                          .peer_slot = d->root ? opposite : NULL}));
}

/* A list to be written. */
static lk_status list_new(lk_tape *tape, int64_t n, lk_var *out, int64_t **at)
{
    const lk_tensor *t = NULL;
    LK_TRY(lk_full(tape, LK_I64, LK_SHAPE(n, NUMBERS), 0, out));
    LK_TRY(lk_value(*out, &t));
    *at = (int64_t *)(void *)lk__tensor_start(t);
    return LK_OK;
}

static lk_status neighbour_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk__dist g;
    lk_var back;
    const lk_tensor *list = NULL;
    int64_t *to;
    if (!lk_dtype_is_real(lk_dtype_of(c->in[0])))
        return LK_OK;
    LK_TRY(lk__dist_adjoint(c->attr, c->op->name, LK_REDUCE_SUM, &g));
    LK_TRY(lk_value(c->in[1], &list));
    LK_TRY(list_new(c->tape, list->shape.dim[0], &back, &to));
    for (int64_t i = 0; i < list->count; i++) {
        int64_t k = i % NUMBERS;
        to[k == SEND      ? i - SEND + RECEIVE
           : k == RECEIVE ? i - RECEIVE + SEND
                          : i] = list_of(list)[i];
    }
    return LK_TRACE(lk_apply(c->tape, c->op, (lk_var[]){dout[0], back}, 2, &g, din));
}

static const lk_op neighbour = {.name = "neighbour",
                                .summary = "parts to the neighbours, and parts from them",
                                LK_ARITY(2, 1),
                                .flags = LK_OP_COLLECTIVE | LK_OP_LINEAR,
                                .attr_size = sizeof(lk__dist),
                                .saves_in = 2,
                                .infer = neighbour_infer,
                                .forward = neighbour_forward,
                                .backward = neighbour_backward};

lk_status lk_dist_neighbor_alltoall(lk_comm *comm, lk_var x, int axis, const lk_neighbours *to,
                                    const char *name, lk_var *out)
{
    lk__dist d = lk__dist_of(comm, LK_REDUCE_SUM, 0, name);
    lk_var front, list;
    int64_t *at, sum = 0;
    LK_CHECK(out, LK_EINVAL, "neighbour: out is NULL");
    *out = LK_NO_VAR;
    LK_TRY_DIST(comm, lk__dist_check(&d, "neighbour", x));
    LK_CHECK(to && to->n >= 0 && (to->n == 0 || (to->rank && to->send && to->receive)), LK_EINVAL,
             "neighbour(\"%s\"): the list of neighbours is not complete", d.name);
    LK_TRY_DIST(comm, lk__dist_front("neighbour", x, axis, &front));
    LK_TRY_DIST(comm, list_new(x.tape, to->n, &list, &at));
    for (int i = 0; i < to->n; i++) {
        bool there = to->rank[i] >= 0;
        LK_CHECK(to->rank[i] < lk_comm_size(comm), LK_EINVAL, "neighbour(\"%s\"): rank %d of %d",
                 d.name, to->rank[i], lk_comm_size(comm));
        LK_CHECK(to->send[i] >= 0 && to->receive[i] >= 0, LK_EINVAL,
                 "neighbour(\"%s\"): %lld to send and %lld to receive", d.name,
                 (long long)to->send[i], (long long)to->receive[i]);
        at[i * NUMBERS + RANK] = to->rank[i];
        at[i * NUMBERS + SEND] = there ? to->send[i] : 0;
        at[i * NUMBERS + RECEIVE] = there ? to->receive[i] : 0;
        at[i * NUMBERS + OPPOSITE] = to->peer_slot ? to->peer_slot[i] : 0;
        LK_TRY_DIST(comm, lk_add_i64(sum, at[i * NUMBERS + SEND], &sum));
    }
    LK_CHECK(lk_shape_of(x).dim[axis] == sum, LK_ESHAPE,
             "neighbour(\"%s\"): a value %s%s, of which %lld along axis %d are to be sent", d.name,
             lk_dtype_name(lk_dtype_of(x)), lk_shape_text(lk_shape_of(x)).s, (long long)sum, axis);
    d.root = to->peer_slot != NULL;
    LK_TRY_DIST(comm, lk_apply(x.tape, &neighbour, (lk_var[]){front, list}, 2, &d, &front));
    LK_TRY_DIST(comm, lk__dist_back(front, axis, out));
    return LK_OK;
}

/* ---- samples ---- */

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

static lk_status ring_sample(const lk_dist_sample *s, lk_comm *comm, const lk_var *in, lk_var *out)
{
    const int rank[3] = {left_of(comm), -1, right_of(comm)}, opposite[3] = {2, 1, 0};
    const int64_t send[3] = {1, 0, 2}, receive[3] = {2, 0, 1};
    const lk_neighbours to = {
        .n = 3, .rank = rank, .send = send, .receive = receive, .peer_slot = opposite};
    return LK_TRACE(lk_dist_neighbor_alltoall(comm, in[0], s->axis, &to, "check", out));
}

const lk_dist_check lk__dist_check_neighbour = {
    .name = "neighbour",
    .summary = "y = what the neighbours give; dx = what they say about it",
    .samples = (const lk_dist_sample[]){
        {LINEAR_SAMPLE("axis 0", shape_rows, ring_sample)},
        {LINEAR_SAMPLE("axis 1", shape_rows, ring_sample), .axis = 1},
        {LINEAR_SAMPLE("axis 2", shape_rows, ring_sample), .axis = 2},
        {0}}};
