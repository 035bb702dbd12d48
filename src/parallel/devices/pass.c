/* A pass of a parallel model: how the batch is cut, the replicas' part, and what the program gets of it.
 *
 * The program calls it, on its thread; it lets the replicas run (replicas.c) and then puts one node on the
 * program's tape (node.c).
 */
#include "autograd/tape_access.h"
#include "base/fpenv.h"
#include "nn/model.h"
#include "parallel/devices/replicas.h"
#include "tensor/tensor.h"

#include <lockstep/log.h>

#include <stdio.h>
#include <unistd.h>

enum { MOST_SHARDS = 1 << 24 }; /* so that a join needs little room */

/* Say once that a tape without shards leaves all but one replica idle. */
static void idle_warn(lk_parallel_model *p, const lk__parallel_run *run)
{
    if (p->warned || p->n < 2 || run->samples < 2)
        return;
    p->warned = true;
    lk_log_write(LK_LOG_WARN,
                 "make_parallel: the tape has no shards, so one replica has all %lld samples: call "
                 "lk_tape_set_shard_size()",
                 (long long)run->samples);
}

/* How the batch is cut.  Where nothing is summed over it, each replica gets an even share. */
static lk_status run_cut(lk__parallel_run *run, const lk_pass *pass)
{
    lk_parallel_model *p = run->of;
    bool sums = !p->model || pass->training || run->sums || run->records;
    run->shard_size = lk_tape_shard_size(pass->tape);
    if (!sums)
        run->shard_size = (run->samples + p->n - 1) / p->n;
    if (run->shard_size < 1)
        idle_warn(p, run);
    if (run->shard_size < 1)
        run->shard_size = run->samples > 0 ? run->samples : 1;
    run->shards = run->samples > 0 ? (run->samples - 1) / run->shard_size + 1 : 1;
    LK_CHECK(run->shards <= MOST_SHARDS, LK_EINVAL, "%lld shards of a batch: at most %d",
             (long long)run->shards, MOST_SHARDS);
    run->communicates = p->sync && p->n > 1 && run->samples > 0 && (!p->model || pass->training) &&
                        !(p->reuse && run->sums);
    LK_CHECK(
        !run->communicates || !pass->batch, LK_ENOTSUP,
        "a parallel model takes sums over the batch from its replicas, and cannot share it with "
        "other ranks as well: pass->batch must be NULL");
    LK_CHECK(!run->communicates || !pass->part, LK_ENOTSUP,
             "a layer takes statistics over the whole batch, of which pass->part says that this is "
             "a part");
    if (run->communicates) { /* a replica has one subtree, whose sums are joined with the others' in the pass */
        lk_subtree_partition(run->shards, p->n, run->first);
        return LK_OK;
    }
    for (int i = 0; i < p->n; i++)
        run->first[i] = lk_range_split(run->shards, i, p->n).first;
    run->first[p->n] = run->shards;
    return LK_OK;
}

/* What of the values is wanted, and what a pass leaves for it. */
static lk_status run_begin(lk__parallel_run *run, const lk_pass *pass, const lk_list *x,
                           const lk_list *shared)
{
    bool writes = lk__tape_writes(pass->tape), any = false;
    run->pass = *pass;
    run->passed = false;
    run->sums = pass->accumulator != NULL;
    run->n_out = 0;
    for (int i = 0; i < x->n + shared->n; i++) {
        lk_var v = i < x->n ? x->at[i] : shared->at[i - x->n];
        LK_CHECK(v.tape == pass->tape, LK_EINVAL, "value %d is not on the pass's tape", i);
        LK_TRY(lk_value(v, &run->x[i]));
        run->wants[i] = writes && lk_needs_grad(v);
        any |= run->wants[i];
        run->sums |= i >= x->n && run->wants[i];
        LK_CHECK(i >= x->n || (run->x[i]->shape.ndim > 0 &&
                               run->x[i]->shape.dim[0] == run->x[0]->shape.dim[0]),
                 LK_ESHAPE, "x number %d is %s: its first axis is that of the samples", i,
                 lk_tensor_text(run->x[i]).s);
    }
    run->samples = run->x[0]->shape.dim[0];
    run->records = writes && (any || pass->accumulator);
    return LK_TRACE(run_cut(run, pass));
}

static void model_shape(lk__parallel_run *run)
{
    const lk_model *model = run->of->model;
    lk_slab_layout *state = lk_slab_layout_of(lk_model_state(model));
    run->shape.dtype = model->net->spec.dtype;
    int64_t elem = (int64_t)lk_dtype_size(run->shape.dtype), stats = lk_slab_layout_bytes(state);
    run->shape.n_tail = stats / elem;
    run->shape.tail = (lk_accumulator_bytes(model) - stats - LK_ALIGN) / elem;
}

/* Whether the layout is that of the shared values whose gradients are wanted. */
static bool layout_fits(const lk__parallel_run *run)
{
    lk_slab_slice slice;
    int64_t k = 0;
    for (int i = 0; run->layout && i < run->n_shared; i++) {
        if (!run->wants[run->n_x + i])
            continue;
        if (k >= lk_slab_layout_slices(run->layout) ||
            lk_slab_layout_slice(run->layout, k++, &slice) != LK_OK ||
            slice.dtype != run->shared[i]->dtype ||
            !lk_shape_is_equal(slice.shape, run->shared[i]->shape))
            return false;
    }
    return run->layout && k == lk_slab_layout_slices(run->layout);
}

static lk_status layout_fill(const lk__parallel_run *run, lk_slab_layout *layout)
{
    for (int i = 0; i < run->n_shared; i++) {
        char name[16];
        if (!run->wants[run->n_x + i])
            continue;
        LK_CHECK(run->shared[i]->dtype == run->shape.dtype, LK_EDTYPE,
                 "shared value %d is %s, another is %s: gradients are joined in one dtype", i,
                 lk_tensor_text(run->shared[i]).s, lk_dtype_name(run->shape.dtype));
        snprintf(name, sizeof name, "%d", i);
        LK_TRY(lk_slab_layout_add(layout, name, run->shared[i]->dtype, run->shared[i]->shape));
    }
    return LK_OK;
}

/* The slab that the gradients of shared values are added up in. */
static lk_status function_shape(lk__parallel_run *run)
{
    lk_slab_layout *layout = NULL;
    for (int i = run->n_shared - 1; i >= 0; i--)
        if (run->wants[run->n_x + i])
            run->shape.dtype = run->shared[i]->dtype;
    if (!layout_fits(run)) {
        LK_TRY(lk_slab_layout_new(&layout));
        lk_status st = layout_fill(run, layout);
        if (st != LK_OK)
            lk_slab_layout_free(layout);
        LK_TRY(st);
        lk_slab_layout_free(run->layout);
        run->layout = layout;
    }
    run->shape.n_tail = 0;
    run->shape.tail = lk_slab_layout_bytes(run->layout) / (int64_t)lk_dtype_size(run->shape.dtype);
    return LK_OK;
}

/* All parts give as many values, alike but for the samples. */
static lk_status run_check(lk__parallel_run *run)
{
    const lk__passage *first = NULL;
    for (int r = 0; r < run->of->n; r++)
        for (int64_t k = 0; k < run->replica[r].n_passages; k++) {
            const lk__passage *p = &run->replica[r].passage[k];
            if (!first) {
                first = p;
                run->n_out = p->n_out;
            }
            bool alike = p->n_out == first->n_out;
            for (int j = 0; alike && j < p->n_out; j++) {
                lk_shape a = lk_shape_of(p->out[j]), b = lk_shape_of(first->out[j]);
                a.dim[0] = b.dim[0];
                alike = lk_shape_is_equal(a, b) &&
                        lk_dtype_of(p->out[j]) == lk_dtype_of(first->out[j]);
            }
            LK_CHECK(alike, LK_EINVAL, "replica %d gives other values than the first", r);
        }
    return LK_OK;
}

/* Statistics of the batch go to the program's accumulator at once, as from the serial model. */
static lk_status stats_add(const lk__parallel_run *run)
{
    const lk_accumulator *to = run->pass.accumulator;
    if (!to || run->shape.n_tail == 0 || lk_tape_is_recomputing(run->pass.tape))
        return LK_OK;
    int64_t elem = (int64_t)lk_dtype_size(run->shape.dtype);
    lk__join join = {.run = run,
                     .from = run->shape.tail,
                     .n = run->shape.n_tail,
                     .out = (char *)lk_slab_data(to->slab) + run->shape.tail * elem,
                     .add = true};
    return LK_TRACE(lk__join_anywhere(&join));
}

/* The replicas' part, and what the program has of it. */
static lk_status run_pass(lk__parallel_run *run, const lk_list *x, const lk_list *shared,
                          lk_var *out)
{
    const lk_parallel_model *p = run->of;
    const lk_var *further = shared->at;
    int64_t n = shared->n;
    if (p->model)
        model_shape(run);
    else if (run->sums)
        LK_TRY(function_shape(run));
    LK_TRY(lk__crew_run(p->crew, lk__replica_forward, run, run->communicates));
    LK_TRY(run_check(run));
    LK_TRY(stats_add(run));
    if (p->model && run->pass.accumulator) {
        LK_TRY(lk__model_enter_params(p->model, &run->pass, &further));
        n = lk__model_uses(p->model);
    }
    return LK_TRACE(lk__parallel_apply(run, x, further, n, out));
}

/* A forked child has no replicas. */
static lk_status process_check(const lk_parallel_model *p)
{
    LK_CHECK(
        p->process == getpid(), LK_ESTATE,
        "the parallel model was made before fork(), and its threads are the parent's: make one "
        "in this process");
    return LK_OK;
}

static lk_status parallel_pass(lk_parallel_model *p, const lk_pass *pass, const lk_list *x,
                               const lk_list *shared, lk_var *out, int *n_out)
{
    lk__parallel_run *run = NULL;
    LK_TRY(lk__parallel_run_take(p, x->n, shared->n, &run));
    lk_status st = run_begin(run, pass, x, shared);
    if (st == LK_OK)
        st = run_pass(run, x, shared, out);
    if (st != LK_OK || !run->records)
        lk__parallel_run_reset(run);
    LK_TRY(st);
    *n_out = run->n_out;
    return LK_OK;
}

lk_status lk_parallel_model_forward(lk_parallel_model *p, const lk_pass *pass, lk_var x,
                                    lk_var *out)
{
    LK_FP_GUARD();
    int n_out;
    LK_CHECK(p && pass && pass->tape && out, LK_EINVAL, "parallel, pass, tape or out is NULL");
    *out = LK_NO_VAR;
    LK_TRY(process_check(p));
    LK_CHECK(p->model, LK_EINVAL, "it is a function: lk_parallel_model_apply() runs it");
    LK_TRY(lk__model_check_whole(p->model));
    LK_CHECK(!pass->accumulator || pass->accumulator->model == p->model, LK_EINVAL,
             "the accumulator belongs to another model");
    if (p->n_devices < 2 && !p->reuse) {
        return LK_TRACE(lk_model_forward(p->model, pass, x, out));
    }
    LK_CHECK(!pass->terms, LK_ENOTSUP,
             "a model on several devices gives no terms, the losses that layers add");
    const lk_list in = {.at = &x, .n = 1}, none = {.n = 0};
    return LK_TRACE(parallel_pass(p, pass, &in, &none, out, &n_out));
}

lk_status lk_parallel_model_apply(lk_parallel_model *p, const lk_pass *pass, const lk_list *x,
                                  const lk_list *shared, lk_list *out)
{
    LK_FP_GUARD();
    static const lk_list none = {.n = 0};
    lk_var made[LK_MAX_OUT];
    int n = 0;
    LK_CHECK(p && pass && pass->tape && x && out, LK_EINVAL,
             "parallel, pass, tape, x or out is NULL");
    out->n = 0;
    LK_TRY(process_check(p));
    LK_CHECK(!p->model, LK_EINVAL, "it is a model: lk_parallel_model_forward() runs it");
    LK_CHECK(!pass->accumulator, LK_EINVAL,
             "a function has no accumulator: gradients flow to what it shares");
    LK_CHECK(x->n >= 1, LK_EINVAL, "no x: there is no batch to be cut");
    LK_TRY(parallel_pass(p, pass, x, shared ? shared : &none, made, &n));
    LK_CHECK(n <= out->room, LK_EINVAL, "the function gives %d values, and `out` has room for %d",
             n, out->room);
    memcpy(out->at, made, (size_t)n * sizeof *made);
    out->n = n;
    return LK_OK;
}

lk_status lk_parallel_model_predict(lk_parallel_model *p, lk_tensor *x, lk_tensor **out)
{
    LK_FP_GUARD();
    lk_status st;
    lk_var in, y;
    const lk_tensor *value = NULL;
    LK_CHECK(p && x && out, LK_EINVAL, "parallel, x or out is NULL");
    *out = NULL;
    if (!p->tape) {
        LK_TRY(lk_tape_new(&p->tape));
        (void)lk_tape_set_recording(p->tape, false);
    }
    LK_TRY_TO(done, lk_constant(p->tape, x, &in));
    LK_TRY_TO(done, lk_parallel_model_forward(p, &(lk_pass){.tape = p->tape}, in, &y));
    LK_TRY_TO(done, lk_value(y, &value));
    LK_TRY_TO(done, lk_tensor_clone(value, lk_tensor_dtype(value), out));
done:
    lk_tape_reset(p->tape);
    return st;
}
