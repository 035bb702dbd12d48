/* batch_norm: a part of a batch, x [samples][...][channels], normalised by mean and variance of each
 * channel over all m rows of the whole batch.  Sums are over the rows of all ranks:
 *
 *   mean = sum x / m,  c = x - mean,  variance = sum (c c) / m,  inv = 1 / sqrt(variance + eps)
 *   y    = c (gamma inv) + beta
 *
 *   dx     = K dy - c K inv inv (sum (dy c) / m) - K (sum dy / m)       with K = gamma inv
 *   dgamma = sum (dy c) inv,  dbeta = sum dy                            on one rank, 0 on the others
 *
 * The loops are those of the op (ops/common/norm/norm_fused.c).  The sums of ranks are joined by the tree
 * over the shards of the batch: two vectors in forward, one of twice the length in backward.
 */
#include "ops/common/norm/batch_norm.h"

#include "dist/common/batch.h"
#include "dist/common/pending.h"
#include "dist/common/sample_shapes.h"
#include "ops/common/act.h"
#include "ops/common/ops.h"
#include "tensor/tensor.h"

#include <string.h>

enum { X = LK__NORM_X, GAMMA = LK__NORM_GAMMA, BETA = LK__NORM_BETA };

typedef struct norm_attr {
    lk_batch_norm_attr norm; /* what the loops look at */
    lk__dist d;
    lk_dist_batch batch;
} norm_attr;

/* ---- sums over the batch ---- */

static lk_status join(void *arg, lk_dtype dtype, int64_t n, void *sums)
{
    const norm_attr *a = arg;
    return LK_TRACE(lk__batch_join(&a->batch, dtype, n, sums, a->d.name));
}

/* This rank's rows as one piece of the whole batch. */
static lk__pieces pieces_of(const lk_call *c, const lk__combiner *combiner)
{
    const lk_dist_batch *b = &((const norm_attr *)c->attr)->batch;
    lk_shape shape = c->x[X]->shape;
    lk__pieces s = lk__pieces_of(c->tape, c->x[X]->dtype, shape, true);
    s.n = 1;
    s.last_of = b->samples;
    for (int i = 1; i < shape.ndim - 1; i++)
        s.last_of *= shape.dim[i];
    s.combiner = combiner;
    return s;
}

/* ---- forward ---- */

static lk_status norm_infer(lk_call *c, lk_output_spec *out)
{
    LK_TRY(lk__batch_norm_infer(c, out));
    out[1].dtype = out[2].dtype = out[0].dtype;
    out[1].shape = out[2].shape = LK_SHAPE(1, c->x[GAMMA]->count);
    return LK_OK;
}

static lk_status norm_forward(lk_call *c)
{
    norm_attr a = *(const norm_attr *)c->attr;
    lk__combiner combiner = {.join = join, .arg = &a};
    lk__pieces s = pieces_of(c, &combiner);
    return LK_TRACE(lk__batch_norm_values(c, &s));
}

/* ---- all gradients at once, for a backward that is not recorded ---- */

static lk_status grad_forward(lk_call *c)
{
    norm_attr a = *(const norm_attr *)c->attr;
    lk__combiner combiner = {.join = join, .arg = &a};
    lk__pieces s = pieces_of(c, &combiner);
    LK_TRY(lk__batch_norm_gradients(c, &s));
    for (int j = 1; j < 3 && !lk__batch_is_first(&a.batch); j++)
        memset(lk__tensor_start(c->y[j]), 0, (size_t)c->y[j]->count * lk_dtype_size(s.dtype));
    return LK_OK;
}

static const lk_op grad = {.name = "batch_norm.grad",
                           .summary = "the gradients of x, gamma and beta",
                           LK_ARITY(LK__NORM_GRAD_IN, 3),
                           .flags = LK_OP_COLLECTIVE,
                           .attr_size = sizeof(norm_attr),
                           .infer = lk__batch_norm_grad_infer,
                           .forward = grad_forward};

/* ---- of other ops ---- */

/* What the gradients are made of, from x anew, so that they can be differentiated: rows are all axes
 * but the last, [rows][channels]. */
typedef struct parts {
    lk__dist d;
    double over_m;
    lk_var x, dy, centred, inv, k;
} parts;

/* *out = the sum of v over the rows of all ranks. */
static lk_status rows_sum(const parts *t, lk_var v, lk_var *out)
{
    LK_TRY(lk_sum(v, LK_AXES(0), out));
    return LK_TRACE(lk_dist_allreduce(t->d.comm, *out, LK_REDUCE_SUM, t->d.name, out));
}

static lk_status parts_make(lk_call *c, lk_var dy, parts *t)
{
    const norm_attr *a = c->attr;
    lk_shape shape = lk_shape_of(c->in[X]);
    lk_var mean, variance;
    int64_t channels = shape.dim[shape.ndim - 1], rows = 1;
    double m = (double)a->batch.samples;
    for (int i = 0; i < shape.ndim - 1; i++)
        rows *= shape.dim[i];
    for (int i = 1; i < shape.ndim - 1; i++)
        m *= (double)shape.dim[i];
    t->over_m = 1 / m;
    LK_TRY(lk_reshape(c->in[X], LK_SHAPE(rows, channels), &t->x));
    LK_TRY(lk_reshape(dy, LK_SHAPE(rows, channels), &t->dy));
    LK_TRY(rows_sum(t, t->x, &mean));
    LK_TRY(lk_affine(mean, t->over_m, 0, &mean));
    LK_TRY(lk_sub(t->x, mean, &t->centred));
    LK_TRY(lk_square(t->centred, &variance));
    LK_TRY(rows_sum(t, variance, &variance));
    LK_TRY(lk_affine(variance, t->over_m, 0, &variance));
    LK_TRY(lk__batch_norm_inverse(c, variance, &t->inv));
    return LK_TRACE(lk_mul(t->inv, c->in[GAMMA], &t->k));
}

static lk_status compose(lk_call *c, const lk__dist *d, lk_var dy, lk_var *din)
{
    parts t = {.d = *d};
    lk_var by_c, sum, term;
    LK_TRY(parts_make(c, dy, &t));
    LK_TRY(lk_mul(t.dy, t.centred, &by_c));
    LK_TRY(rows_sum(&t, by_c, &by_c));
    LK_TRY(rows_sum(&t, t.dy, &sum));
    LK_TRY(lk_mul(by_c, t.inv, &din[GAMMA]));
    din[BETA] = sum;
    LK_TRY(lk_mul(t.dy, t.k, &din[X]));
    LK_TRY(lk_mul(din[GAMMA], t.inv, &term));
    LK_TRY(lk_mul(term, t.k, &term));
    LK_TRY(lk_affine(term, t.over_m, 0, &term));
    LK_TRY(lk_mul(t.centred, term, &term));
    LK_TRY(lk_sub(din[X], term, &din[X]));
    LK_TRY(lk_mul(sum, t.k, &term));
    LK_TRY(lk_affine(term, t.over_m, 0, &term));
    LK_TRY(lk_sub(din[X], term, &din[X]));
    LK_TRY(lk_reshape(din[X], lk_shape_of(c->in[X]), &din[X]));
    for (int i = GAMMA; i <= BETA && !lk__batch_is_first(&((const norm_attr *)c->attr)->batch); i++)
        LK_TRY(lk_zeros_like(c->in[i], &din[i]));
    return LK_OK;
}

static lk_status norm_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    norm_attr a = *(const norm_attr *)c->attr;
    lk_var dy, in[LK__NORM_GRAD_IN];
    LK_TRY(lk__dist_adjoint(&a.d, c->op->name, LK_REDUCE_SUM, &a.d));
    if (lk_tape_is_recording(c->tape)) {
        LK_TRY(lk__act_grad(a.norm.act, dout[0], c->out[0], &dy));
        return LK_TRACE(compose(c, &a.d, dy, din));
    }
    LK_TRY(lk__batch_norm_grad_in(c, dout, in));
    return LK_TRACE(lk_apply(c->tape, &grad, in, LK__NORM_GRAD_IN, &a, din));
}

/* ---- the op ---- */

static const lk_op norm = {.name = "batch_norm",
                           .summary = "x normalised by the statistics of the whole batch",
                           LK_ARITY(3, 3),
                           .flags = LK_OP_COLLECTIVE,
                           .attr_size = sizeof(norm_attr),
                           .saves_in = 7,
                           .infer = norm_infer,
                           .forward = norm_forward,
                           .backward = norm_backward};

lk_status lk_dist_batch_norm(const lk_dist_batch *batch, lk_var x, lk_var gamma, lk_var beta,
                             const lk_batch_norm_attr *attr, const char *name, lk_var out[3])
{
    norm_attr a;
    lk_var in[] = {x, gamma, beta};
    LK_CHECK(batch && out, LK_EINVAL, "batch_norm: batch or out is NULL");
    out[0] = out[1] = out[2] = LK_NO_VAR;
    memset(&a, 0, sizeof a); /* attributes are compared as bytes */
    if (attr) {
        a.norm.eps = attr->eps;
        a.norm.act = attr->act;
    }
    a.d = lk__dist_of(batch->comm, LK_REDUCE_SUM, 0, name);
    a.batch = *batch;
    lk_comm *comm = batch->comm;
    LK_TRY_DIST(comm, lk__dist_check(&a.d, "batch_norm", x));
    LK_TRY(lk__batch_check(batch, x));
    LK_TRY(lk_apply(x.tape, &norm, in, 3, &a, out));
    LK_TRY_DIST(comm, lk_stop_gradient(out[1], &out[1]));
    LK_TRY_DIST(comm, lk_stop_gradient(out[2], &out[2]));
    return LK_OK;
}

/* ---- samples ---- */

enum { CHANNELS = 2 };

/* Without shards parts are uneven, and some are empty; with them a shard is a sample. */
static int64_t samples_of(const lk_dist_sample *s, int rank, int size)
{
    return s->variant == 0 ? 2 + rank % 3 : rank == size - 1 ? 0 : rank == 0 ? 4 : 1;
}

static lk_shape shape_part(const lk_dist_sample *s, int rank, int size, int i)
{
    int64_t samples = size == 1 ? 4 : samples_of(s, rank, size);
    return i == 0 ? LK_SHAPE(samples, 2, CHANNELS) : LK_SHAPE(CHANNELS);
}

/* gamma and beta are those of rank 0. */
static lk_status batch_norm_sample(const lk_dist_sample *s, lk_comm *comm, const lk_var *in,
                                   lk_var *out)
{
    enum { MOST = 64 };
    static const lk_batch_norm_attr attr = {.eps = 0.1};
    static _Thread_local int64_t first[MOST + 1];
    static _Thread_local lk_dist_batch batch; /* lives longer than the tape */
    int size = lk_comm_size(comm);
    lk_var gamma, beta, y[3];
    LK_CHECK(size <= MOST, LK_ENOTSUP, "the check is for up to %d ranks", MOST);
    for (int r = 0; r < size; r++)
        first[r + 1] = first[r] + shape_part(s, r, size, 0).dim[0];
    batch = (lk_dist_batch){.comm = comm, .samples = first[size]};
    if (s->variant == 1) {
        batch.shards = first[size];
        batch.first = first;
        LK_TRY(lk_tape_set_shard_size(in[0].tape, 1));
    }
    LK_TRY(lk_dist_bcast(comm, in[1], 0, "gamma", &gamma));
    LK_TRY(lk_dist_bcast(comm, in[2], 0, "beta", &beta));
    LK_TRY(lk_dist_batch_norm(&batch, in[0], gamma, beta, &attr, "check", y));
    *out = y[0];
    return LK_OK;
}

const lk_dist_check lk__dist_check_batch_norm = {
    .name = "batch_norm",
    .summary = "y = x by mean and variance over all ranks; dx = that of the whole batch",
    .samples = (const lk_dist_sample[]){{.name = "ranks as shards",
                                         .n_in = 3,
                                         .n_out = 1,
                                         .shape = shape_part,
                                         .run = batch_norm_sample},
                                        {.name = "shards",
                                         .n_in = 3,
                                         .n_out = 1,
                                         .shape = shape_part,
                                         .run = batch_norm_sample,
                                         .variant = 1},
                                        {0}}};
