/* What a replica does with its slice of a batch, on its own thread: forward and backward of its parts, each
 * on a tape of its own, into the sums of its micro-batches.
 *
 * Nothing is copied: x and shared values are views of what the program has, the weights are the model's.
 * All replicas pass through the one model object at once, which a pass only reads.
 */
#include "parallel/devices/replicas.h"

#include "base/memory/grow.h"
#include "nn/model.h"
#include "ops/common/parts.h"
#include "tensor/tensor.h"

/* ---- memory, which a replica makes itself ---- */

static void sums_free(lk__gradients *s, int n_shared)
{
    for (int i = 0; s->grad && i < n_shared; i++)
        lk_tensor_free(s->grad[i]);
    lk_free(s->grad);
    if (!s->accumulator)
        lk_slab_free(s->slab);
    lk_accumulator_free(s->accumulator);
    *s = (lk__gradients){.shards = s->shards};
}

static lk_status sums_fill(const lk__parallel_run *run, lk__gradients *s)
{
    if (run->of->model) {
        LK_TRY(lk_accumulator_new(run->of->model, &s->accumulator));
        s->slab = lk_accumulator_slab(s->accumulator);
        return LK_OK;
    }
    int64_t slice = 0;
    LK_TRY(lk_slab_new(run->layout, &s->slab));
    LK_TRY(lk_alloc_zero(&s->grad, run->n_shared, sizeof(lk_tensor *)));
    for (int i = 0; i < run->n_shared; i++)
        if (run->wants[run->n_x + i])
            LK_TRY(lk_slab_tensor(s->slab, slice++, &s->grad[i]));
    return LK_OK;
}

/* Room for what a micro-batch adds up, if anything is wanted. */
static lk_status sums_make(const lk__parallel_run *run, lk__gradients *s)
{
    if (!run->sums || (s->slab && (s->accumulator || lk_slab_layout_of(s->slab) == run->layout)))
        return LK_OK;
    sums_free(s, run->n_shared);
    lk_status st = sums_fill(run, s);
    if (st != LK_OK)
        sums_free(s, run->n_shared);
    return LK_TRACE(st);
}

/* As lk__grow(), with zeros in what is new. */
static lk_status grow_zero(void *array, int64_t *room, int64_t n, size_t size)
{
    char *at = NULL;
    int64_t before = *room;
    LK_TRY(lk__grow(array, room, n, size));
    memcpy(&at, array, sizeof at);
    if (*room > before)
        memset(at + before * (int64_t)size, 0, (size_t)(*room - before) * size);
    return LK_OK;
}

static void passage_free(lk__passage *p, int n_x)
{
    for (int i = 0; p->dx && i < n_x; i++)
        lk_tensor_free(p->dx[i]);
    lk_free(p->dx);
    lk_tape_free(p->tape);
}

void lk__replica_free(lk__replica *r, const lk__parallel_run *run)
{
    for (int64_t i = 0; i < r->max_passages; i++)
        passage_free(&r->passage[i], run->n_x);
    for (int64_t i = 0; i < r->max_sums; i++)
        sums_free(&r->sums[i], run->n_shared);
    sums_free(&r->work, run->n_shared);
    for (int i = 0; i <= LK__LEVELS; i++)
        lk_free(r->partials.level[i]);
    lk_free(r->passage);
    lk_free(r->sums);
    lk_free(r->tails);
    lk_free(r->in);
    lk_free(r->values);
}

/* The next part, of samples [first, first + n): a tape, and gradients of x where wanted. */
static lk_status passage_next(const lk__parallel_run *run, lk__replica *r, int64_t first, int64_t n,
                              lk__passage **out)
{
    LK_TRY(grow_zero(&r->passage, &r->max_passages, r->n_passages + 1, sizeof *r->passage));
    lk__passage *p = &r->passage[r->n_passages];
    p->first = first;
    p->n = n;
    if (!p->tape)
        LK_TRY(lk_tape_new(&p->tape));
    lk_tape_reset(p->tape);
    (void)lk_tape_set_recording(p->tape, run->records);
    LK_TRY(lk_tape_set_shard_size(p->tape, run->shard_size));
    if (!p->dx)
        LK_TRY(lk_alloc_zero(&p->dx, run->n_x, sizeof(lk_tensor *)));
    for (int i = 0; i < run->n_x; i++) {
        lk_shape shape = run->x[i]->shape;
        shape.dim[0] = n;
        bool fits = p->dx[i] && lk_shape_is_equal(p->dx[i]->shape, shape) &&
                    p->dx[i]->dtype == run->x[i]->dtype;
        if (run->wants[i] == (p->dx[i] != NULL) && (fits || !p->dx[i]))
            continue;
        lk_tensor_free(p->dx[i]);
        p->dx[i] = NULL;
        if (run->wants[i])
            LK_TRY(lk_tensor_zeros(run->x[i]->dtype, shape, &p->dx[i]));
    }
    r->n_passages++;
    *out = p;
    return LK_OK;
}

/* ---- forward ---- */

static void storage_release(void *of)
{
    lk__storage_free(of);
}

/* Samples [first, first + n) of one of the program's values, all of it where n is -1, as a tensor whose
 * version is its own: other values of the program's tape, which lie in the same memory, are written before
 * backward comes.  That this one is not, the node looks after: it saves its inputs. */
static lk_status value_view(const lk_tensor *of, int64_t first, int64_t n, lk_tensor **out)
{
    struct lk__storage *s = NULL;
    lk_tensor view = lk__tensor_fields(of);
    LK_TRY(lk__storage_wrap(of->storage->data, storage_release, of->storage, &s));
    lk__storage_retain(of->storage);
    view.storage = s;
    view.version = &s->version;
    if (n >= 0) {
        view.offset += first * view.stride[0];
        view.shape.dim[0] = n;
        view.count = of->shape.dim[0] > 0 ? of->count / of->shape.dim[0] * n : 0;
    }
    lk_status st = lk__tensor_view(&view, out);
    lk__storage_free(s);
    return LK_TRACE(st);
}

/* Put a view on the tape, with a gradient if there is one, and give it up. */
static lk_status view_enter(lk_tape *tape, lk_tensor *view, lk_tensor *grad, lk_var *out)
{
    lk_status st = grad ? lk_leaf_overwrite(tape, view, grad, out) : lk_constant(tape, view, out);
    lk_tensor_free(view);
    return LK_TRACE(st);
}

static lk_status function_forward(const lk__parallel_run *run, lk__replica *r, const lk_pass *pass,
                                  const lk__gradients *sums, lk__passage *p)
{
    lk_list in = {.at = r->in, .n = run->n_x, .room = run->n_x},
            shared = {.at = r->in + run->n_x, .n = run->n_shared, .room = run->n_shared},
            out = {.at = p->out, .room = LK_MAX_OUT};
    for (int i = 0; i < run->n_shared; i++) {
        lk_tensor *view = NULL;
        LK_TRY(value_view(run->shared[i], 0, -1, &view));
        LK_TRY(view_enter(pass->tape, view, run->wants[run->n_x + i] ? sums->grad[i] : NULL,
                          &shared.at[i]));
    }
    LK_TRY(run->of->fn.fn(pass, run->of->fn.arg, &in, &shared, &out));
    LK_CHECK(out.n >= 1 && out.n <= LK_MAX_OUT, LK_EINVAL,
             "the function gives %d values, 1 to %d are possible", out.n, LK_MAX_OUT);
    p->n_out = out.n;
    for (int j = 0; j < out.n; j++)
        LK_CHECK(p->out[j].tape == pass->tape, LK_EINVAL,
                 "value %d of the function is not on the pass's tape", j);
    return LK_OK;
}

/* Each output has a row for each sample. */
static lk_status outputs_check(const lk__passage *p)
{
    for (int j = 0; j < p->n_out; j++) {
        lk_shape shape = lk_shape_of(p->out[j]);
        LK_CHECK(shape.ndim > 0 && shape.dim[0] == p->n, LK_ESHAPE,
                 "output %d is %s for %lld samples: its first axis must be theirs", j,
                 lk_shape_text(shape).s, (long long)p->n);
    }
    return LK_OK;
}

static lk_status passage_forward(const lk__parallel_run *run, lk__replica *r, lk__gradients *sums,
                                 lk__passage *p)
{
    const lk_parallel_model *of = run->of;
    lk_pass pass = {.tape = p->tape,
                    .accumulator = run->sums ? sums->accumulator : NULL,
                    .training = run->pass.training,
                    .step = run->pass.step,
                    .first = run->pass.first + p->first,
                    .part = run->pass.part || p->n < run->samples,
                    .batch = run->communicates ? &r->batch : NULL};
    for (int i = 0; i < run->n_x; i++) {
        lk_tensor *view = NULL;
        LK_TRY(value_view(run->x[i], p->first, p->n, &view));
        LK_TRY(view_enter(p->tape, view, p->dx[i], &r->in[i]));
    }
    if (of->model) {
        struct lk__pass_run room = {.param = r->values};
        pass.run = &room;
        if (pass.accumulator)
            lk_accumulator_begin(pass.accumulator);
        LK_TRY(lk_model_forward(of->model, &pass, r->in[0], &p->out[0]));
        p->n_out = 1;
    } else {
        LK_TRY(function_forward(run, r, &pass, sums, p));
    }
    return LK_TRACE(outputs_check(p));
}

/* Samples of a range of shards. */
static lk_range samples_in(const lk__parallel_run *run, lk_range shards)
{
    int64_t from = shards.first * run->shard_size, end = from + shards.n * run->shard_size;
    if (shards.n == 0)
        return (lk_range){0, 0};
    return (lk_range){from, (end < run->samples ? end : run->samples) - from};
}

/* A micro-batch shard by shard: all into r->work, from where statistics go to those of `to` at once and
 * gradients in backward. */
static lk_status shards_forward(const lk__parallel_run *run, lk__replica *r, lk__gradients *to)
{
    const lk__gradients_shape *s = &run->shape;
    int64_t elem = (int64_t)lk_dtype_size(s->dtype), bytes = s->n_tail * elem;
    LK_TRY(sums_make(run, &r->work));
    LK_TRY(lk__grow(&r->tails, &r->max_tails, to->shards.n * bytes, 1));
    for (int64_t i = 0; i < to->shards.n; i++) {
        lk_range samples = samples_in(run, (lk_range){to->shards.first + i, 1});
        lk__passage *p = NULL;
        LK_TRY(passage_next(run, r, samples.first, samples.n, &p));
        LK_TRY(passage_forward(run, r, &r->work, p));
        if (bytes > 0)
            memcpy(r->tails + i * bytes, (char *)lk_slab_data(r->work.slab) + s->tail * elem,
                   (size_t)bytes);
    }
    if (bytes == 0)
        return LK_OK;
    LK_TRY(lk__gradients_fold(s->dtype, s->n_tail, r->tails, bytes, to->shards.n));
    memcpy((char *)lk_slab_data(to->slab) + s->tail * elem, r->tails, (size_t)bytes);
    return LK_OK;
}

static bool is_by_shards(const lk__parallel_run *run)
{
    return run->of->reuse && run->sums;
}

/* The part of a micro-batch, or of a replica without one that others wait for. */
static lk_status microbatch_forward(const lk__parallel_run *run, lk__replica *r,
                                    lk__gradients *sums)
{
    lk__passage *p = NULL;
    lk_range samples = samples_in(run, sums->shards);
    LK_TRY(sums_make(run, sums));
    if (is_by_shards(run)) {
        return LK_TRACE(shards_forward(run, r, sums));
    }
    LK_TRY(passage_next(run, r, samples.first, samples.n, &p));
    return LK_TRACE(passage_forward(run, r, sums, p));
}

lk_status lk__replica_forward(void *arg, int i, lk_comm *comm)
{
    const lk__parallel_run *run = arg;
    lk__replica *r = &run->replica[i];
    lk_range mine = {run->first[i], run->first[i + 1] - run->first[i]}, shards[LK_MAX_SUBTREES];
    int n = lk_range_subtrees(run->shards, mine, shards);
    bool takes_part = n == 0 && run->communicates;
    r->n_passages = r->n_sums = 0;
    r->batch = (lk_dist_batch){comm, run->samples, run->shards, run->first};
    LK_TRY(lk__grow(&r->in, &r->max_in, run->n_x + run->n_shared, sizeof *r->in));
    LK_TRY(grow_zero(&r->sums, &r->max_sums, n + takes_part, sizeof *r->sums));
    if (run->of->model && !run->sums && !r->values)
        LK_TRY(lk_alloc(&r->values, lk__model_uses(run->of->model), sizeof *r->values));
    for (int k = 0; k < n + takes_part; k++) {
        r->sums[k].shards = k < n ? shards[k] : (lk_range){mine.first, 0};
        LK_TRY(microbatch_forward(run, r, &r->sums[k]));
    }
    r->n_sums = n;
    return LK_OK;
}

/* ---- backward ---- */

static lk_status passage_backward(const lk__parallel_run *run, lk__gradients *sums, lk__passage *p)
{
    lk_tensor part[LK_MAX_OUT];
    lk_seed seed[LK_MAX_OUT];
    int n = 0;
    for (int i = 0; i < run->n_x && run->passed; i++)
        if (p->dx[i])
            LK_TRY(lk_tensor_fill_f64(p->dx[i], 0));
    if (run->sums && run->passed)
        lk_slab_zero(sums->slab);
    for (int j = 0; j < p->n_out; j++) {
        if (!run->dy[j] || !lk_needs_grad(p->out[j]))
            continue;
        lk_tensor fields = lk__part(run->dy[j], 0, p->first, p->n, 1);
        memcpy(&part[n], &fields, sizeof fields);
        seed[n] = (lk_seed){p->out[j], &part[n]};
        n++;
    }
    return LK_TRACE(lk_backward(p->tape, seed, n, run->retains ? LK_RETAIN_GRAPH : 0));
}

/* Each sum of the chain becomes that with the one before. */
static lk_status chain_add(const lk__gradients_shape *s, void **chain, int n)
{
    for (int i = 1; i < n; i++)
        LK_TRY(lk__gradients_add(s->dtype, s->tail, chain[i], chain[i - 1]));
    return LK_OK;
}

/* Begin sums of a micro-batch's shards; memory for other ones is of no use. */
static void shards_begin(const lk__gradients_shape *s, lk__replica *r)
{
    for (int i = 0; r->summed != s->tail && i <= LK__LEVELS; i++) {
        lk_free(r->partials.level[i]);
        r->partials.level[i] = NULL;
    }
    r->summed = s->tail;
    r->partials.n = 0;
}

/* Add the gradients of the next shard, which are in r->work. */
static lk_status shard_push(const lk__gradients_shape *s, lk__replica *r)
{
    void *chain[LK__CHAIN], *work = lk_slab_data(r->work.slab);
    int64_t elem = (int64_t)lk_dtype_size(s->dtype);
    int n = lk__partials_chain(&r->partials, work, chain);
    LK_TRY(chain_add(s, chain, n));
    if (n == 1) {
        if (!r->partials.level[0])
            LK_TRY(lk_alloc(&r->partials.level[0], s->tail, (size_t)elem));
        memcpy(r->partials.level[0], work, (size_t)(s->tail * elem));
    }
    lk__partials_carry(&r->partials);
    return LK_OK;
}

static lk_status shards_backward(const lk__parallel_run *run, lk__replica *r, lk__gradients *to,
                                 lk__passage *p)
{
    void *chain[LK__CHAIN];
    shards_begin(&run->shape, r);
    for (int64_t i = 0; i < to->shards.n; i++) {
        LK_TRY(passage_backward(run, &r->work, &p[i]));
        LK_TRY(shard_push(&run->shape, r));
    }
    int n = lk__partials_rest(&r->partials, chain);
    LK_TRY(chain_add(&run->shape, chain, n));
    memcpy(lk_slab_data(to->slab), chain[n - 1],
           (size_t)(run->shape.tail * (int64_t)lk_dtype_size(run->shape.dtype)));
    return LK_OK;
}

lk_status lk__replica_backward(void *arg, int i, lk_comm *comm)
{
    const lk__parallel_run *run = arg;
    lk__replica *r = &run->replica[i];
    bool shards = is_by_shards(run);
    (void)comm; /* what communicates has it on its tape */
    for (int64_t p = 0, k = 0; p < r->n_passages; k++) {
        if (shards)
            LK_TRY(shards_backward(run, r, &r->sums[k], &r->passage[p]));
        else
            LK_TRY(passage_backward(run, &r->sums[k], &r->passage[p]));
        p += shards ? r->sums[k].shards.n : 1;
    }
    for (int64_t p = 0; p < r->n_passages && !run->retains; p++)
        lk_tape_reset(r->passage[p].tape); /* so that it holds nothing of the program's */
    return LK_OK;
}
