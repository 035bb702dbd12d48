/* What a trainer makes of a chain list before its first step: models bound to one slab, which ranks have an
 * output and what it is, and the models' state, to save it.  chained_step.c does the steps.
 */
#include "train/chained.h"

#include "train/trainer.h"

#include <string.h>

static lk_chain *chain_of(const lk_trainer *t)
{
    return t->spec.chain;
}

/* ---- what there is ---- */

static lk_status own_make(lk_trainer *t)
{
    const lk_dataset *set = lk_loader_dataset(t->spec.train);
    lk_comm *mine = chain_of(t)->comm, *comm = t->spec.comm;
    int ranks = lk_comm_size(comm);
    LK_CHECK(ranks == lk_comm_size(mine) && lk_comm_rank(comm) == lk_comm_rank(mine), LK_EINVAL,
             "this is rank %d of %d, and rank %d of %d of the chain: train it on its own "
             "communicator",
             lk_comm_rank(comm), ranks, lk_comm_rank(mine), lk_comm_size(mine));
    LK_CHECK(t->spec.parallel.data <= 1 && t->spec.parallel.features <= 1 &&
                 t->spec.parallel.stages <= 1 && t->spec.parallel.mode != LK_REDUCTION_FAST,
             LK_ENOTSUP, "a chain list says itself which rank has what: leave `parallel` out");
    LK_TRY(lk_alloc_zero(&t->chained, 1, sizeof *t->chained));
    lk__chained *c = t->chained;
    c->has_x = lk_dataset_find(set, "x") >= 0;
    c->has_y = lk_dataset_find(set, "y") >= 0;
    LK_TRY(lk_alloc(&c->deal, (int64_t)ranks + 1, sizeof *c->deal));
    for (int r = 0; r <= ranks; r++)
        c->deal[r] = r;
    return LK_OK;
}

/* A sample of zeros as the chain's x, where this rank has some. */
static lk_status zeros_enter(lk_trainer *t, lk_var *x)
{
    lk_tensor *zeros = NULL;
    LK_TRY(lk__chain_make_room(chain_of(t), t->chained->has_x));
    if (!t->chained->has_x)
        return LK_OK;
    int field = lk_dataset_find(lk_loader_dataset(t->spec.train), "x");
    LK_TRY(lk__zeros_of(t->spec.train, field, 1, &zeros));
    lk_status st = lk_constant(t->tape, zeros, x);
    lk_tensor_free(zeros);
    return LK_TRACE(st);
}

static lk_status output_check(const lk_list *out)
{
    LK_CHECK(out->n <= 1, LK_EINVAL,
             "the output of this rank's chain has %d values: a trainer needs one", out->n);
    lk_shape shape = out->n > 0 ? lk_shape_of(out->at[0]) : LK_SHAPE(1);
    LK_CHECK(shape.ndim > 0 && shape.dim[0] == 1, LK_ESHAPE,
             "for one sample this rank's chain gives %s: its first axis must be that of samples",
             lk_shape_text(shape).s);
    return LK_OK;
}

/* What a rank says about its output. */
typedef struct output {
    int64_t there, has_target, dtype, ndim, dim[LK_MAX_NDIM];
} output;

enum { OUTPUT_WORDS = sizeof(output) / sizeof(int64_t) };

/* Run the chain on a sample of zeros, to see what comes out here. */
static lk_status output_find(lk_trainer *t, output *mine)
{
    lk_var x = LK_NO_VAR, at[LK_COMPONENT_VALUES];
    lk_list out = {.at = at, .room = LK_COMPONENT_VALUES};
    lk_comm *comm = chain_of(t)->comm;
    lk_tape_reset(t->tape);
    LK_TRY(lk_agree(comm, zeros_enter(t, &x)));
    (void)lk_tape_set_recording(t->tape, false);
    lk_status st = lk__chain_run(chain_of(t), &(lk_pass){.tape = t->tape}, &x, t->chained->has_x,
                                 true, &out);
    (void)lk_tape_set_recording(t->tape, true);
    LK_TRY(lk__agree_words(comm, st));
    LK_TRY(lk_agree(comm, output_check(&out)));
    *mine = (output){.there = out.n, .has_target = t->chained->has_y};
    if (out.n > 0) {
        lk_shape shape = lk_shape_of(at[0]);
        mine->dtype = (int64_t)lk_dtype_of(at[0]);
        mine->ndim = shape.ndim - 1;
        memcpy(mine->dim, shape.dim + 1, (size_t)mine->ndim * sizeof mine->dim[0]);
    }
    lk_tape_reset(t->tape);
    return LK_OK;
}

static lk_tensor_type type_of(const output *o)
{
    lk_tensor_type type = {.dtype = (lk_dtype)o->dtype, .shape = {.ndim = (int)o->ndim}};
    memcpy(type.shape.dim, o->dim, (size_t)o->ndim * sizeof o->dim[0]);
    return type;
}

/* What all ranks said, the same on all of them. */
static lk_status outputs_take(lk_trainer *t, const output *all)
{
    int first = -1;
    for (int r = 0; r < lk_comm_size(t->spec.comm); r++) {
        if (!all[r].there)
            continue;
        LK_CHECK(all[r].has_target, LK_EINVAL,
                 "rank %d has an output of the chain, but its data has no field \"y\" to compare "
                 "it with: an empty set is for ranks without output",
                 r);
        first = first < 0 ? r : first;
        lk_tensor_type a = type_of(&all[first]), b = type_of(&all[r]);
        LK_CHECK(t->options.metrics.n == 0 ||
                     (a.dtype == b.dtype && lk_shape_is_equal(a.shape, b.shape)),
                 LK_EINVAL,
                 "the output of rank %d is %s%s for a sample, that of rank %d %s%s: metrics are of "
                 "outputs that are alike; leave them out",
                 first, lk_dtype_name(a.dtype), lk_shape_text(a.shape).s, r, lk_dtype_name(b.dtype),
                 lk_shape_text(b.shape).s);
    }
    LK_CHECK(first >= 0, LK_EINVAL,
             "no rank has an output of the chain, so there is no loss: a component without "
             "out_ranks gives one");
    const output *mine = &all[lk_comm_rank(t->spec.comm)];
    t->chained->has_output = mine->there;
    t->out = type_of(mine->there ? mine : &all[first]);
    return LK_OK;
}

/* A chain whose model uses a parameter more than once goes shard by shard. */
static lk_status shards_make(lk_trainer *t)
{
    lk__chained *c = t->chained;
    lk_chain *chain = chain_of(t);
    if (!c->state->has_weight_reuse)
        return LK_OK;
    LK_TRY(lk_alloc_zero(&c->shards, chain->n, sizeof *c->shards));
    LK_TRY(lk_alloc(&c->shard_loss, lk_loader_shards(t->spec.train), sizeof *c->shard_loss));
    for (int64_t k = 0; k < chain->n; k++)
        c->shards[k].model = chain->component[k].is.model;
    return LK_OK;
}

lk_status lk__chained_make(lk_trainer *t)
{
    output mine, *all = NULL;
    lk_comm *comm = t->spec.comm;
    LK_TRY(lk_agree(comm, own_make(t)));
    LK_TRY(lk__chain_state_new(chain_of(t), &t->chained->state));
    LK_TRY(output_find(t, &mine));
    lk_status st = lk_agree(comm, lk_alloc(&all, lk_comm_size(comm), sizeof *all));
    if (st == LK_OK)
        st = lk_allgather(comm, &mine, all, OUTPUT_WORDS, LK_I64, "chain: outputs");
    if (st == LK_OK)
        st = outputs_take(t, all);
    lk_free(all);
    LK_TRY(st);
    return LK_TRACE(lk_agree(comm, shards_make(t)));
}

void lk__chained_free(lk_trainer *t)
{
    lk__chained *c = t->chained;
    if (!c)
        return;
    for (int64_t k = 0; c->shards && k < chain_of(t)->n; k++)
        lk__shard_sums_free(&c->shards[k]);
    lk_free(c->shards);
    lk_free(c->shard_loss);
    lk_free(c->deal);
    lk__chain_state_free(c->state);
    lk_free(c);
    t->chained = NULL;
}

lk_status lk__chained_add_state(const lk_trainer *t, lk_state_tensors *to)
{
    const lk__chain_state *s = t->chained->state;
    for (int64_t i = 0; i < s->n; i++) {
        lk_shape shape = {.ndim = (int)s->tensor[i].ndim}, flat = {.ndim = 1};
        lk_box nothing = {.ndim = 1};
        void *data;
        if (!s->tensor[i].is_state)
            continue;
        memcpy(shape.dim, s->tensor[i].dim, (size_t)shape.ndim * sizeof shape.dim[0]);
        LK_TRY(lk_shape_count(shape, &flat.dim[0]));
        LK_TRY(lk__chain_state_data(s, i, &data));
        lk_state_tensor tensor = {.name = s->tensor[i].name,
                                  .dtype = (lk_dtype)s->tensor[i].dtype,
                                  .shape = shape,
                                  .data = data,
                                  .box = data ? NULL : &nothing,
                                  .box_of = data ? NULL : &flat};
        LK_TRY(lk_state_tensors_add(to, "", &tensor));
    }
    return LK_OK;
}
