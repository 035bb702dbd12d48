/* Running a case of `lockstep bench ops` on a tape, in rounds, with PyTorch in turn. */
#include "bench_ops.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/clock.h>
#include <lockstep/ops.h>
#include <lockstep/thread.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_IN = 5, MAX_CALLS = 100000, MAX_ATTR = 1024 };

/* Runs are repeated until they take this long, so that reading the clock costs nothing. */
static const double shortest_sample = 1e-3;

/* Sums of absolute values may differ by this fraction: other orders, and other functions. */
static const double tolerance = 1e-3;

/* What is timed: forward alone and both; backward is the difference. */
enum { SIDE_FORWARD, SIDE_BOTH, N_SIDES };
static const bench_op_pass pass_of[N_SIDES] = {BENCH_OP_FORWARD, BENCH_OP_BOTH};

/* An input as bench_ops.h describes it. */
struct input {
    lk_shape shape;
    lk_dtype dtype;
    int64_t below; /* integers */
    double lo, hi; /* others */
    bool has_grad;
};

/* A case with its tensors. */
struct job {
    const bench_op *c;
    const lk_op *op;
    const void *attr;
    lk_tape *tape;
    struct input in[MAX_IN];
    int n;
    lk_tensor *x[MAX_IN], *grad[MAX_IN], *seed; /* seed NULL: y is one number */
    bool backward;                              /* a gradient flows */
    int64_t bytes[MAX_IN + 1];                  /* of the inputs and of y, the last */
    double total[N_SIDES];                      /* sums of absolute values: what was computed */
    int calls[N_SIDES];                         /* in one sample */
    double ours[N_SIDES][BENCH_MAX_ROUNDS], theirs[N_SIDES][BENCH_MAX_ROUNDS];
};

const char *bench_op_pass_name(bench_op_pass pass)
{
    static const char *const names[BENCH_N_OP_PASSES] = {"forward", "backward", "both"};
    return names[pass];
}

const char *bench_op_name(const bench_op *c, char *buf)
{
    int sizes = (int)strspn(c->in, "0123456789x");
    snprintf(buf, BENCH_OP_NAME, "%s %.*s", c->op, c->size ? (int)strlen(c->size) : sizes,
             c->size ? c->size : c->in);
    return buf;
}

const char *bench_op_pass_of(const bench_op *c, bench_op_pass pass, char *buf)
{
    size_t n = strlen(bench_op_name(c, buf));
    snprintf(buf + n, BENCH_OP_NAME - n, " %s", bench_op_pass_name(pass));
    return buf;
}

/* ---- inputs ---- */

/* Read one input; returns what is behind it. */
static const char *input_read(const char *text, struct input *in)
{
    char *end;
    *in = (struct input){.dtype = LK_F32, .lo = -2, .hi = 2, .has_grad = true};
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

static lk_status input_make(const struct input *in, int k, lk_tensor **out)
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

/* ---- ours ---- */

/* Forward, from leaves and constants that are on the tape anew. */
static lk_status forward_run(struct job *j, lk_var *y)
{
    lk_var in[MAX_IN], out[LK_MAX_OUT];
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

static lk_status both_run(struct job *j)
{
    lk_var y;
    LK_TRY(forward_run(j, &y));
    LK_TRY(lk_backward(j->tape, &(lk_seed){.of = y, .grad = j->seed}, 1, 0));
    return LK_OK;
}

static lk_status ours_sample(struct job *j, int side, int threads, int calls, double *seconds)
{
    int64_t (*now)(void) = threads == 1 ? lk_clock_thread_ns : lk_clock_ns;
    int64_t start = now();
    for (int i = 0; i < calls; i++) {
        lk_var y;
        LK_TRY(side == SIDE_FORWARD ? forward_run(j, &y) : both_run(j));
    }
    *seconds = 1e-9 * (double)(now() - start) / calls;
    return LK_OK;
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
static lk_status job_try(struct job *j)
{
    lk_var y;
    const lk_tensor *value;
    LK_TRY(forward_run(j, &y));
    LK_TRY(lk_value(y, &value));
    LK_TRY(total_of(value, &j->total[SIDE_FORWARD]));
    struct input seed = {
        .dtype = lk_dtype_of(y), .shape = lk_shape_of(y), .lo = -2, .hi = 2, .has_grad = false};
    j->bytes[MAX_IN] = bytes_of(seed.dtype, seed.shape);
    j->backward = lk_needs_grad(y);
    if (!j->backward)
        return LK_OK;
    if (seed.shape.ndim > 0)
        LK_TRY(input_make(&seed, MAX_IN, &j->seed));
    LK_TRY(both_run(j));
    for (int i = 0; i < j->n; i++)
        if (j->in[i].has_grad)
            return total_of(j->grad[i], &j->total[SIDE_BOTH]);
    return LK_OK;
}

static lk_status job_make(struct job *j)
{
    static const char zeros[MAX_ATTR];
    LK_TRY(lk_op_find(j->c->op, &j->op));
    LK_CHECK(j->op->attr_size <= sizeof zeros, LK_EINVAL, "%s has attributes of %zu bytes",
             j->c->op, j->op->attr_size);
    j->attr = j->c->attr ? j->c->attr : zeros;
    LK_TRY(lk_tape_new(&j->tape));
    for (const char *text = j->c->in; *text && j->n < MAX_IN; j->n++) {
        struct input *in = &j->in[j->n];
        text = input_read(text, in);
        j->bytes[j->n] = bytes_of(in->dtype, in->shape);
        LK_TRY(input_make(in, j->n, &j->x[j->n]));
        if (in->has_grad)
            LK_TRY(lk_tensor_zeros(in->dtype, in->shape, &j->grad[j->n]));
    }
    LK_TRY(job_try(j));
    return LK_OK;
}

static void job_free(struct job *j)
{
    lk_tape_free(j->tape);
    for (int i = 0; i < j->n; i++) {
        lk_tensor_free(j->x[i]);
        lk_tensor_free(j->grad[i]);
    }
    lk_tensor_free(j->seed);
    lk_free(j);
}

/* ---- rounds ---- */

/* How many runs make a sample; warms the caches up on the way. */
static lk_status calls_choose(struct job *j, int threads, int sides)
{
    for (int side = 0; side < sides; side++) {
        double seconds = 0;
        for (j->calls[side] = 1;; j->calls[side] *= 2) {
            LK_TRY(ours_sample(j, side, threads, j->calls[side], &seconds));
            if (seconds * j->calls[side] >= shortest_sample || j->calls[side] >= MAX_CALLS)
                break;
        }
    }
    return LK_OK;
}

/* A sample of PyTorch's, whose result is compared with ours. */
static lk_status theirs_sample(const struct job *j, int side, bench_torch *t, double *seconds)
{
    char request[512];
    double total;
    snprintf(request, sizeof request, "%s %s | %s |", bench_op_pass_name(pass_of[side]), j->c->in,
             j->c->torch);
    if (!torch_sample(t, request, j->calls[side], seconds, &total))
        return LK_RAISE(LK_EIO, "%s %s: PyTorch: %s", j->c->op, j->c->in, t->about);
    *seconds /= j->calls[side];
    LK_CHECK(j->c->flags & BENCH_OP_RANDOM ||
                 fabs(total - j->total[side]) <= tolerance * fabs(j->total[side]),
             LK_EINVAL, "%s %s: %s: we have a sum of %g, PyTorch one of %g", j->c->op, j->c->in,
             side == SIDE_BOTH ? "gradient" : "result", j->total[side], total);
    return LK_OK;
}

static lk_status rounds_run(struct job *j, int threads, double seconds, bench_torch *torch, int *n)
{
    int sides = j->backward ? N_SIDES : 1, all = torch ? 2 * sides : sides;
    LK_TRY(calls_choose(j, threads, sides));
    for (int side = 0; side < sides && torch; side++)
        LK_TRY(theirs_sample(j, side, torch, &j->theirs[side][0]));
    double end = 1e-9 * (double)lk_clock_ns() + seconds;
    for (*n = 0; *n < BENCH_MAX_ROUNDS; ++*n) {
        if (*n >= BENCH_MIN_ROUNDS && 1e-9 * (double)lk_clock_ns() > end)
            break;
        for (int q = 0; q < all; q++) {
            int k = (q + *n) % all, side = k % sides;
            if (k < sides)
                LK_TRY(ours_sample(j, side, threads, j->calls[side], &j->ours[side][*n]));
            else
                LK_TRY(theirs_sample(j, side, torch, &j->theirs[side][*n]));
        }
    }
    return LK_OK;
}

/* Of two passes the third: what both took without forward. */
static void without_forward(double side[N_SIDES][BENCH_MAX_ROUNDS], int n, double *out)
{
    for (int i = 0; i < n; i++)
        out[i] = side[SIDE_BOTH][i] - side[SIDE_FORWARD][i];
}

static double gbytes_of(const struct job *j, const char *arrays)
{
    double bytes = 0;
    for (; *arrays; arrays++)
        bytes += (double)j->bytes[*arrays == 'y' ? MAX_IN : *arrays - 'a'];
    return 1e-9 * bytes;
}

static void evaluate(struct job *j, bool against, bench_op_result *r)
{
    static double ours[BENCH_MAX_ROUNDS], theirs[BENCH_MAX_ROUNDS];
    int n = r->rounds;
    r->gbytes[BENCH_OP_FORWARD] = gbytes_of(j, j->c->forward);
    r->gbytes[BENCH_OP_BACKWARD] = gbytes_of(j, j->c->backward);
    r->gbytes[BENCH_OP_BOTH] = r->gbytes[BENCH_OP_FORWARD] + r->gbytes[BENCH_OP_BACKWARD];
    r->footprint = 2.0 * (double)j->bytes[MAX_IN];
    for (int i = 0; i < j->n; i++)
        r->footprint += (double)j->bytes[i] * (j->in[i].has_grad ? 2 : 1);
    for (int pass = 0; pass < BENCH_N_OP_PASSES; pass++) {
        const double *a = ours, *b = theirs;
        r->done[pass] = pass == BENCH_OP_FORWARD || j->backward;
        if (!r->done[pass])
            continue;
        if (pass == BENCH_OP_BACKWARD) {
            without_forward(j->ours, n, ours);
            without_forward(j->theirs, n, theirs);
        } else {
            a = j->ours[pass == BENCH_OP_BOTH];
            b = j->theirs[pass == BENCH_OP_BOTH];
        }
        r->seconds[pass] = bench_median(a, n);
        if (!against)
            continue;
        r->theirs[pass] = bench_median(b, n);
        r->ratio[pass] = bench_ratio(b, a, n);
    }
}

lk_status bench_op_run(const bench_op *c, int threads, double seconds, bench_torch *torch,
                       bench_op_result *out)
{
    lk_status st;
    struct job *j = NULL;
    *out = (bench_op_result){.rounds = 0};
    LK_TRY(lk_alloc_zero(&j, 1, sizeof *j));
    j->c = c;
    torch = c->torch ? torch : NULL;
    LK_TRY_TO(done, job_make(j));
    LK_TRY_TO(done, rounds_run(j, threads, seconds, torch, &out->rounds));
    evaluate(j, torch != NULL, out);
done:
    job_free(j);
    return st;
}
