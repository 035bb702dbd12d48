/* join: y = x, depending on tokens besides.
 *
 *   dx = dy; the gradients of the tokens are 0
 *
 * Backward needs no such dependence; it is there for programs ported from systems that do.  The other
 * calls here are what such systems have besides.
 */
#include "dist/common/pending.h"
#include "dist/common/sample_shapes.h"
#include "tensor/tensor.h"

#include <lockstep/extra/alloc.h>

#include <limits.h>
#include <string.h>

static lk_status join_infer(lk_call *c, lk_output_spec *out)
{
    out->dtype = c->x[0]->dtype;
    out->shape = c->x[0]->shape;
    out->is_view = true;
    memcpy(out->stride, c->x[0]->stride, sizeof out->stride);
    return LK_OK;
}

static lk_status join_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    din[0] = dout[0];
    for (int i = 1; i < c->n_in; i++)
        if (lk_call_needs_grad(c, i))
            LK_TRY(lk_zeros_like(c->in[i], &din[i]));
    return LK_OK;
}

static const lk_op join = {.name = "join",
                           .summary = "x, depending on tokens besides",
                           .min_in = 1,
                           .max_in = INT_MAX,
                           .n_out = 1,
                           .flags = LK_OP_STRIDED,
                           .infer = join_infer,
                           .backward = join_backward};

lk_status lk_join(lk_var x, const lk_var *tokens, int n, lk_var *out)
{
    lk_status st;
    lk_var *in = NULL;
    LK_CHECK(out && n >= 0 && n < INT_MAX && (tokens || n == 0), LK_EINVAL, "join of %d tokens", n);
    if (n == 0 && lk_is_var(x)) {
        *out = x;
        return LK_OK;
    }
    LK_TRY(lk_alloc(&in, n + 1, sizeof *in));
    in[0] = x;
    for (int i = 0; i < n; i++)
        in[1 + i] = tokens[i];
    LK_TRY_TO(done, lk_apply(x.tape, &join, in, n + 1, NULL, out));
done:
    lk_free(in);
    return st;
}

lk_status lk_join_handle(lk_var handle, const lk_var *tokens, int n, lk_var *out)
{
    LK_CHECK(out && n >= 0 && (tokens || n == 0), LK_EINVAL, "join_handle of %d tokens", n);
    LK_TRY(lk__dist_valid("join_handle", handle));
    LK_CHECK(lk__pending_find(handle), LK_EINVAL, "join_handle of a value that is no handle");
    *out =
        handle; /* backward waits for the adjoint message in program order, whatever the tokens are */
    return LK_OK;
}

lk_status lk_pseudo_connect(lk_var delegate, const lk_var *xs, int n, lk_var *out)
{
    LK_CHECK(n >= 0 && ((xs && out) || n == 0), LK_EINVAL, "pseudo_connect of %d values", n);
    for (int i = 0; i < n; i++)
        LK_TRY(lk_join(xs[i], &delegate, lk_is_var(delegate), &out[i]));
    return LK_OK;
}

/* ---- samples ---- */

/* x of the first rank for the last, with the tokens of the messages joined to what comes after. */
static lk_status join_sample(const lk_dist_sample *s, lk_comm *comm, const lk_var *in, lk_var *out)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    lk_var token[2], got;
    (void)s;
    out[0] = in[0];
    if (rank == 0 && size > 1) {
        LK_TRY(lk_dist_send(comm, in[0], size - 1, 1, "check", &token[0]));
        LK_TRY(lk_dist_send(comm, in[0], size - 1, 2, "check", &token[1]));
        LK_TRY(lk_join(in[0], token, 2, out));
    }
    for (int tag = 1; rank > 0 && rank == size - 1 && tag <= 2; tag++) {
        LK_TRY(lk_dist_recv(in[0].tape, comm, 0, tag, lk_dtype_of(in[0]), lk_shape_of(in[0]),
                            "check", &got));
        LK_TRY(lk_add(out[0], got, out));
    }
    return LK_OK;
}

/* The ring as mpi4torch has it: a handle that depends on what was received. */
static lk_status handle_sample(const lk_dist_sample *s, lk_comm *comm, const lk_var *in,
                               lk_var *out)
{
    lk_var sent, received, joined, token;
    (void)s;
    LK_TRY(lk_dist_isend(comm, in[0], right_of(comm), 5, "check", &sent));
    LK_TRY(lk_join_handle(sent, in, 1, &joined));
    LK_TRY(lk_dist_irecv(in[0].tape, comm, left_of(comm), 5, lk_dtype_of(in[0]), lk_shape_of(in[0]),
                         "check", &received));
    LK_TRY(lk_dist_wait(received, out));
    LK_TRY(lk_dist_wait(joined, &token));
    return LK_TRACE(lk_join(out[0], &token, 1, out));
}

/* As ChainerMN has it: what comes after a send hangs on its delegate variable. */
static lk_status delegate_sample(const lk_dist_sample *s, lk_comm *comm, const lk_var *in,
                                 lk_var *out)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    lk_var token = LK_NO_VAR;
    (void)s;
    if (rank + 1 < size)
        LK_TRY(lk_dist_send(comm, in[0], rank + 1, 1, "check", &token));
    LK_TRY(lk_pseudo_connect(token, in, 2, out));
    if (rank > 0)
        LK_TRY(lk_dist_recv(in[0].tape, comm, rank - 1, 1, lk_dtype_of(in[0]), lk_shape_of(in[0]),
                            "check", &out[0]));
    return LK_OK;
}

const lk_dist_check lk__dist_check_join = {
    .name = "join",
    .summary = "y = x, depending on tokens besides; dx = dy",
    .samples = (const lk_dist_sample[]){
        {LINEAR_SAMPLE("tokens of two messages", shape_same, join_sample)},
        {LINEAR_SAMPLE("a joined handle", shape_same, handle_sample)},
        {.name = "a delegate variable",
         .n_in = 2,
         .n_out = 2,
         .shape = shape_same,
         .run = delegate_sample,
         .is_linear = true},
        {0}}};
