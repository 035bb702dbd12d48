/* Multi-node batch norm as an object: lk_dist_batch_norm() with its parameters and running statistics.
 *
 * A program makes one on each rank; passes are of the tape's thread, and collective in training.
 */
#include "base/fpenv.h"
#include "dist/common/pending.h"
#include "ops/common/norm/batch_norm.h"

#include <lockstep/batch_norm.h>
#include <lockstep/extra/alloc.h>

#include <math.h>

enum { GAMMA, BETA };
enum { MEAN, VARIANCE };

struct lk_multi_node_batch_norm {
    lk_comm *comm;
    int64_t channels;
    lk_multi_node_batch_norm_options options;
    lk_slab *params, *grads, *state;
    lk_tensor *param[2], *grad[2]; /* NULL: it is not used */
    lk_tensor *running[2];
};

/* ---- options ---- */

#define FIELD(name) offsetof(lk_multi_node_batch_norm_options, name)

static const lk_option options[] = {{"decay", LK_OPTION_REAL, FIELD(decay), .def = "0.9", .max = 1,
                                     .help = "share of the running statistics that a pass leaves"},
                                    {"eps", LK_OPTION_REAL, FIELD(eps), .def = "2e-5", .max = 1,
                                     .flags = LK_OPTION_OPEN_MIN, .help = "added to the variance"},
                                    {"use_gamma", LK_OPTION_FLAG, FIELD(use_gamma), .def = "true",
                                     .help = "multiply by a parameter of each channel"},
                                    {"use_beta", LK_OPTION_FLAG, FIELD(use_beta), .def = "true",
                                     .help = "add a parameter of each channel"},
                                    {"initial_gamma", LK_OPTION_REAL, FIELD(initial_gamma),
                                     .def = "1", .help = "what gamma begins with"},
                                    {"initial_beta", LK_OPTION_REAL, FIELD(initial_beta),
                                     .def = "0", .help = "what beta begins with"},
                                    {"dtype", LK_OPTION_CHOICE, FIELD(dtype), .def = "f32",
                                     .choices = "f32 f64",
                                     .help = "of parameters, statistics and values"},
                                    {0}};

const lk_descriptor lk_multi_node_batch_norm_descriptor = {
    .name = "multi_node_batch_norm",
    .summary = "batch norm by the statistics of all ranks' samples",
    .options = options,
    .options_size = sizeof(lk_multi_node_batch_norm_options),
};

/* What a struct may say, which no table has looked at. */
static lk_status options_check(const lk_multi_node_batch_norm_options *o)
{
    LK_CHECK(o->decay >= 0 && o->decay <= 1, LK_EINVAL, "decay %g: give 0 to 1", o->decay);
    LK_CHECK(o->eps > 0 && o->eps <= 1, LK_EINVAL, "eps %g: give above 0, and at most 1", o->eps);
    LK_CHECK(isfinite(o->initial_gamma) && isfinite(o->initial_beta), LK_EINVAL,
             "initial_gamma %g, initial_beta %g: both must be finite", o->initial_gamma,
             o->initial_beta);
    LK_CHECK(o->dtype == LK_F32 || o->dtype == LK_F64, LK_EDTYPE,
             "dtype number %d: only f32 and f64", o->dtype);
    return LK_OK;
}

/* ---- making ---- */

/* A slab of those of two vectors that are wanted, and these filled. */
static lk_status vectors_make(const lk_multi_node_batch_norm *n, const char *const name[2],
                              const bool wanted[2], const double start[2], lk_slab **slab,
                              lk_tensor *tensor[2])
{
    lk_slab_layout *layout = NULL;
    lk_status st = lk_slab_layout_new(&layout);
    for (int i = 0; st == LK_OK && i < 2; i++)
        if (wanted[i])
            st = lk_slab_layout_add(layout, name[i], (lk_dtype)n->options.dtype,
                                    LK_SHAPE(n->channels));
    if (st == LK_OK)
        st = lk_slab_new(layout, slab);
    lk_slab_layout_free(layout);
    LK_TRY(st);
    for (int i = 0; i < 2; i++) {
        if (!wanted[i])
            continue;
        LK_TRY(lk_slab_find(*slab, name[i], &tensor[i]));
        LK_TRY(lk_tensor_fill_f64(tensor[i], start[i]));
    }
    return LK_OK;
}

static lk_status norm_fill(lk_multi_node_batch_norm *n)
{
    static const char *const of_params[] = {"gamma", "beta"}, *const of_state[] = {"mean",
                                                                                   "variance"};
    const lk_multi_node_batch_norm_options *o = &n->options;
    const bool used[] = {o->use_gamma, o->use_beta}, both[] = {true, true};
    const double start[] = {o->initial_gamma, o->initial_beta};
    LK_TRY(vectors_make(n, of_params, used, start, &n->params, n->param));
    LK_TRY(vectors_make(n, of_state, both, (const double[]){0, 1}, &n->state, n->running));
    LK_TRY(lk_slab_new_like(n->params, &n->grads));
    for (int i = 0; i < 2; i++)
        if (used[i])
            LK_TRY(lk_slab_find(n->grads, of_params[i], &n->grad[i]));
    return LK_OK;
}

lk_status lk_multi_node_batch_norm_new_options(lk_comm *comm, int64_t channels,
                                               const lk_multi_node_batch_norm_options *given,
                                               lk_multi_node_batch_norm **out)
{
    LK_FP_GUARD();
    lk_status st;
    lk_multi_node_batch_norm *n = NULL;
    LK_CHECK(out, LK_EINVAL, "out is NULL");
    *out = NULL;
    LK_CHECK(comm, LK_EINVAL, "comm is NULL");
    if (!given)
        return lk_multi_node_batch_norm_new(comm, channels, NULL, out);
    LK_CHECK(channels >= 1, LK_EINVAL, "batch norm of %lld channels", (long long)channels);
    LK_TRY(options_check(given));
    LK_TRY(lk_alloc_zero(&n, 1, sizeof *n));
    n->comm = comm;
    n->channels = channels;
    n->options = *given;
    LK_TRY_TO(fail, norm_fill(n));
    *out = n;
    return LK_OK;
fail:
    lk_multi_node_batch_norm_free(n);
    return st;
}

lk_status lk_multi_node_batch_norm_new(lk_comm *comm, int64_t channels, const char *text,
                                       lk_multi_node_batch_norm **out)
{
    lk_status st;
    lk_arena *arena = NULL;
    lk_multi_node_batch_norm_options o;
    LK_CHECK(out, LK_EINVAL, "out is NULL");
    *out = NULL;
    LK_TRY(lk_arena_new(&arena));
    LK_TRY_TO(done, lk_options_parse(&lk_multi_node_batch_norm_descriptor, text, arena, &o));
    LK_TRY_TO(done, lk_multi_node_batch_norm_new_options(comm, channels, &o, out));
done:
    lk_arena_free(arena);
    return st;
}

void lk_multi_node_batch_norm_free(lk_multi_node_batch_norm *n)
{
    if (!n)
        return;
    for (int i = 0; i < 2; i++) {
        lk_tensor_free(n->param[i]);
        lk_tensor_free(n->grad[i]);
        lk_tensor_free(n->running[i]);
    }
    lk_slab_free(n->params);
    lk_slab_free(n->grads);
    lk_slab_free(n->state);
    lk_free(n);
}

/* ---- passes ---- */

static lk_status channels_check(const lk_multi_node_batch_norm *n, lk_var x)
{
    lk_shape shape = lk_shape_of(x);
    LK_CHECK(lk_dtype_of(x) == (lk_dtype)n->options.dtype, LK_EDTYPE,
             "multi_node_batch_norm of %s, made for %s", lk_dtype_name(lk_dtype_of(x)),
             lk_dtype_name((lk_dtype)n->options.dtype));
    LK_CHECK(shape.ndim >= 2 && shape.dim[shape.ndim - 1] == n->channels, LK_ESHAPE,
             "multi_node_batch_norm of %s, made for %lld channels, the last axis",
             lk_shape_text(shape).s, (long long)n->channels);
    return LK_OK;
}

/* Gamma or beta on the tape: a leaf, or what it is without one. */
static lk_status param_enter(lk_multi_node_batch_norm *n, lk_tape *tape, int i, lk_var *out)
{
    if (n->param[i])
        LK_TRY(lk_leaf(tape, n->param[i], n->grad[i], out));
    else
        LK_TRY(lk_full(tape, (lk_dtype)n->options.dtype, LK_SHAPE(n->channels), i == GAMMA ? 1 : 0,
                       out));
    return LK_OK;
}

/* The parts of all ranks, one piece each: how many samples they have. */
static lk_status parts_count(lk_comm *comm, lk_var x, lk_dist_batch *out)
{
    lk_var samples;
    int64_t n;
    LK_TRY(lk_full(x.tape, LK_I64, LK_SHAPE(1), (double)lk_shape_of(x).dim[0], &samples));
    LK_TRY(lk_dist_allreduce(comm, samples, LK_REDUCE_SUM, "batch_norm.samples", &samples));
    LK_TRY(lk_read(samples, LK_I64, 1, &n));
    *out = (lk_dist_batch){.comm = comm, .samples = n};
    return LK_OK;
}

static lk_status pass_training(lk_multi_node_batch_norm *n, lk_var x, lk_var gamma, lk_var beta,
                               const lk_dist_batch *batch, lk_var *out)
{
    const lk_batch_norm_attr attr = {.eps = n->options.eps};
    lk_dist_batch parts;
    lk_var seen[3];
    if (!batch) {
        LK_TRY(parts_count(n->comm, x, &parts));
        batch = &parts;
    }
    LK_TRY(lk_dist_batch_norm(batch, x, gamma, beta, &attr, "batch_norm", seen));
    for (int i = MEAN; i <= VARIANCE; i++) {
        const lk_tensor *stat;
        LK_TRY(lk_value(seen[1 + i], &stat));
        LK_TRY(lk__running_stat_move(n->running[i], stat, 1 - n->options.decay, 1));
    }
    *out = seen[0];
    return LK_OK;
}

static lk_status pass_evaluation(const lk_multi_node_batch_norm *n, lk_var x, lk_var gamma,
                                 lk_var beta, lk_var *out)
{
    const lk_batch_norm_attr attr = {.eps = n->options.eps};
    lk_var mean, variance;
    LK_TRY(lk_constant(x.tape, n->running[MEAN], &mean));
    LK_TRY(lk_constant(x.tape, n->running[VARIANCE], &variance));
    return LK_TRACE(lk_batch_norm_inference(x, gamma, beta, mean, variance, &attr, out));
}

lk_status lk_multi_node_batch_norm_forward(lk_multi_node_batch_norm *n, lk_var x,
                                           const lk_dist_batch *batch, bool training, lk_var *out)
{
    LK_FP_GUARD();
    lk_var gamma, beta;
    LK_CHECK(n && out, LK_EINVAL, "multi_node_batch_norm: norm or out is NULL");
    *out = LK_NO_VAR;
    LK_TRY(lk__dist_valid("multi_node_batch_norm", x));
    LK_TRY(channels_check(n, x)); /* before anything is sent */
    lk_comm *comm = training ? (batch ? batch->comm : n->comm) : NULL;
    LK_TRY_DIST(comm, param_enter(n, x.tape, GAMMA, &gamma));
    LK_TRY_DIST(comm, param_enter(n, x.tape, BETA, &beta));
    if (training)
        LK_TRY_DIST(comm, pass_training(n, x, gamma, beta, batch, out));
    else
        LK_TRY(pass_evaluation(n, x, gamma, beta, out));
    return LK_OK;
}

lk_slab *lk_multi_node_batch_norm_params(const lk_multi_node_batch_norm *n)
{
    return n->params;
}

lk_slab *lk_multi_node_batch_norm_grads(const lk_multi_node_batch_norm *n)
{
    return n->grads;
}

lk_slab *lk_multi_node_batch_norm_state(const lk_multi_node_batch_norm *n)
{
    return n->state;
}
