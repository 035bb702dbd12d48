/* Making a case of `lockstep bench ops`, and running it on its tape. */
#include "bench/ops/op_job.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/ops.h>

#include <math.h>
#include <stdlib.h>

enum { MAX_ATTR = 1024 };

/* Read one input; returns what is behind it. */
static const char *input_read(const char *text, bench_op_input *in)
{
    char *end;
    *in = (bench_op_input){.dtype = LK_F32, .lo = -2, .hi = 2, .has_grad = true};
    do {
        in->shape.dim[in->shape.ndim++] = strtoll(text, &end, 10);
        text = end + 1;
    } while (*end == 'x' && in->shape.ndim < LK_MAX_NDIM);
    for (text = end; *text && *text != ' '; text++)
        switch (*text) {
        case '+':
            in->lo = 0.5;
            in->hi = 1.5;
            break;
        case 'i':
            in->dtype = LK_I64;
            in->below = strtoll(text + 1, &end, 10);
            text = end - 1;
            break;
        case 'm':
            in->dtype = LK_U8;
            in->below = 2;
            break;
        case 'c': in->has_grad = false; break;
        default: break; /* PyTorch's */
        }
    in->has_grad = in->has_grad && in->below == 0;
    return text + (*text == ' ');
}

/* Element i of input k (the seed is one too) is a number that both sides compute alike, of 32 bits. */
static uint32_t number(int k, int64_t i)
{
    uint32_t h = ((uint32_t)i + 7919U * (uint32_t)(k + 1)) * 2654435761U;
    h = (h ^ h >> 16) * 2246822519U;
    return h ^ h >> 13;
}

static lk_status input_make(const bench_op_input *in, int k, lk_tensor **out)
{
    void *data = NULL;
    LK_TRY(lk_tensor_new(in->dtype, in->shape, out));
    LK_TRY(lk_tensor_writable_data(*out, &data));
    for (int64_t i = 0; i < lk_tensor_count(*out); i++) {
        double at = number(k, i) / 4294967296.0, real = in->lo + (in->hi - in->lo) * at;
        if (in->dtype == LK_I64)
            ((int64_t *)data)[i] = (int64_t)(at * (double)in->below);
        else if (in->dtype == LK_U8)
            ((uint8_t *)data)[i] = (uint8_t)(at * (double)in->below);
        else if (in->dtype == LK_F64)
            ((double *)data)[i] = real;
        else
            ((float *)data)[i] = (float)real;
    }
    return LK_OK;
}

static int64_t bytes_of(lk_dtype dtype, lk_shape shape)
{
    int64_t count = (int64_t)lk_dtype_size(dtype);
    for (int i = 0; i < shape.ndim; i++)
        count *= shape.dim[i];
    return count;
}

/* Forward, from leaves and constants that are on the tape anew. */
static lk_status forward_run(bench_op_job *j, lk_var *y)
{
    lk_var in[BENCH_OP_MAX_IN], out[LK_MAX_OUT];
    lk_tape_reset(j->tape);
    for (int i = 0; i < j->n; i++)
        LK_TRY(j->in[i].has_grad ? lk_leaf_overwrite(j->tape, j->x[i], j->grad[i], &in[i])
                                 : lk_constant(j->tape, j->x[i], &in[i]));
    LK_TRY(lk_apply(j->tape, j->op, in, j->n, j->attr, out));
    *y = out[0];
    if (j->c->flags & BENCH_OP_COPIED)
        LK_TRY(lk_copy(*y, y));
    return LK_OK;
}

static lk_status both_run(bench_op_job *j)
{
    lk_var y;
    LK_TRY(forward_run(j, &y));
    return LK_TRACE(lk_backward(j->tape, &(lk_seed){.of = y, .grad = j->seed}, 1, 0));
}

/* The sum of the absolute values of what is in a tensor. */
static lk_status total_of(const lk_tensor *t, double *out)
{
    lk_tensor *wide = NULL;
    *out = 0;
    LK_TRY(lk_tensor_clone(t, LK_F64, &wide));
    const double *v = lk_tensor_data(wide);
    for (int64_t i = 0; i < lk_tensor_count(wide); i++)
        *out += fabs(v[i]);
    lk_tensor_free(wide);
    return LK_OK;
}

/* Run once to see what y is, and what is computed. */
static lk_status job_try(bench_op_job *j)
{
    lk_var y;
    const lk_tensor *value;
    LK_TRY(forward_run(j, &y));
    LK_TRY(lk_value(y, &value));
    LK_TRY(total_of(value, &j->total[BENCH_SIDE_FORWARD]));
    bench_op_input seed = {
        .dtype = lk_dtype_of(y), .shape = lk_shape_of(y), .lo = -2, .hi = 2, .has_grad = false};
    j->bytes[BENCH_OP_MAX_IN] = bytes_of(seed.dtype, seed.shape);
    j->backward = lk_needs_grad(y);
    if (!j->backward)
        return LK_OK;
    if (seed.shape.ndim > 0)
        LK_TRY(input_make(&seed, BENCH_OP_MAX_IN, &j->seed));
    LK_TRY(both_run(j));
    for (int i = 0; i < j->n; i++)
        if (j->in[i].has_grad)
            return total_of(j->grad[i], &j->total[BENCH_SIDE_BOTH]);
    return LK_OK;
}

static lk_status job_make(bench_op_job *j)
{
    static const char zeros[MAX_ATTR];
    LK_TRY(lk_op_find(j->c->op, &j->op));
    LK_CHECK(j->op->attr_size <= sizeof zeros, LK_EINVAL, "%s has attributes of %zu bytes",
             j->c->op, j->op->attr_size);
    j->attr = j->c->attr ? j->c->attr : zeros;
    LK_TRY(lk_tape_new(&j->tape));
    for (const char *text = j->c->in; *text && j->n < BENCH_OP_MAX_IN; j->n++) {
        bench_op_input *in = &j->in[j->n];
        text = input_read(text, in);
        j->bytes[j->n] = bytes_of(in->dtype, in->shape);
        LK_TRY(input_make(in, j->n, &j->x[j->n]));
        if (in->has_grad)
            LK_TRY(lk_tensor_zeros(in->dtype, in->shape, &j->grad[j->n]));
    }
    return LK_TRACE(job_try(j));
}

void bench_op_job_free(bench_op_job *j)
{
    if (!j)
        return;
    lk_tape_free(j->tape);
    for (int i = 0; i < j->n; i++) {
        lk_tensor_free(j->x[i]);
        lk_tensor_free(j->grad[i]);
    }
    lk_tensor_free(j->seed);
    lk_free(j);
}

lk_status bench_op_job_new(const bench_op *c, bench_op_job **out)
{
    bench_op_job *j = NULL;
    *out = NULL;
    LK_TRY(lk_alloc_zero(&j, 1, sizeof *j));
    j->c = c;
    lk_status st = job_make(j);
    if (st != LK_OK) {
        bench_op_job_free(j);
        LK_TRY(st);
    }
    *out = j;
    return LK_OK;
}

lk_status bench_op_job_run(bench_op_job *j, bench_op_side side)
{
    lk_var y;
    return LK_TRACE(side == BENCH_SIDE_FORWARD ? forward_run(j, &y) : both_run(j));
}
