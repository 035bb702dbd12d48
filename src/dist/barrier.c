/* Barrier: the op that waits for all ranks, and its backward, which does the same. */
#include "dist/common/pending.h"
#include "dist/common/sample_shapes.h"
#include "ops/common/ops.h"

static lk_status barrier_infer(lk_call *c, lk_output_spec *out)
{
    (void)c;
    out->dtype = LK_F32;
    out->shape = LK_SHAPE(0);
    return LK_OK;
}

static lk_status barrier_forward(lk_call *c)
{
    const lk__dist *d = c->attr;
    return LK_TRACE(lk_barrier(d->comm, d->name));
}

static lk_status barrier_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    const lk__dist *d = c->attr;
    (void)dout;
    (void)din;
    return LK_TRACE(lk_dist_barrier(c->tape, d->comm, d->name));
}

static const lk_op barrier = {.name = "barrier",
                              .summary = "all ranks wait for each other",
                              LK_ARITY(0, 1),
                              .flags = LK_OP_COLLECTIVE,
                              .attr_size = sizeof(lk__dist),
                              .infer = barrier_infer,
                              .forward = barrier_forward,
                              .backward = barrier_backward};

lk_status lk_dist_barrier(lk_tape *tape, lk_comm *comm, const char *name)
{
    lk__dist d = lk__dist_of(comm, LK_REDUCE_SUM, 0, name);
    lk_var nothing;
    LK_CHECK(comm && tape, LK_EINVAL, "barrier: %s is NULL", comm ? "tape" : "comm");
    LK_TRY_DIST(comm, lk__dist_uses(tape, comm, "barrier"));
    LK_TRY_DIST(comm, lk_apply(tape, &barrier, NULL, 0, &d, &nothing));
    return LK_OK;
}

/* ---- samples ---- */

static lk_status barrier_sample(const lk_dist_sample *s, lk_comm *comm, const lk_var *in,
                                lk_var *out)
{
    (void)s;
    LK_TRY(lk_dist_barrier(in[0].tape, comm, "check"));
    LK_TRY(lk_dist_allreduce(comm, in[0], LK_REDUCE_SUM, "check", out));
    return LK_TRACE(lk_dist_barrier(in[0].tape, comm, "check"));
}

const lk_dist_check lk__dist_check_barrier = {
    .name = "barrier",
    .summary = "all ranks wait for each other; in backward the same",
    .samples = (const lk_dist_sample[]){
        {LINEAR_SAMPLE("around an allreduce", shape_same, barrier_sample)}, {0}}};
