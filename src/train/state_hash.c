/* The hash of a run's state, which all ranks make together.
 *
 * A *copy* of a tensor is held by one rank, or by the ranks of a node together (t->shares).  Each copy
 * is hashed once: a rank adds up all elements of its own copies, and of those that it shares its share
 * of them; the ranks of the node then add up 8 bytes a tensor.  So each rank knows the hash of the
 * copies that it computes with, and all compare them, 8 bytes a rank: where ranks hold copies, each
 * must be read, because no other rank would see what a machine that computes wrongly has made of it.
 *
 * Of a parameter that each position has its own of, the ranks along space hold a part each (t->spread):
 * they add up what they have counted, so that each replica has the hash of its copy.
 *
 * The same is true of one that is cut into blocks, of which the ranks along features hold some each.
 *
 * The layers of a model are on the ranks of their stage: those along the stages add up what each has
 * counted, of a parameter that two stages share the first.
 *
 * The tensors of a chain are on one rank each: all ranks add up what each has counted, and so have the
 * hash of all of them.
 *
 * What is held are boxes (t->held), the tensors of a checkpoint in its order; of a copy that a rank has
 * alone it counts all, and ranks that share one count equal shares of equal boxes (io/sums.h).
 *
 * t->sum has the sums of the tensors that may be shared first: parameters and the optimizer's slabs,
 * which are laid out alike; then those of the model's state, of which each rank has its own.
 */
#include "nn/model.h"
#include "train/trainer.h"

#include <stdio.h>

enum { PARAMS, OPTIMIZER, STATE }; /* of t->counted */

/* How many sums may be of shared tensors. */
static int64_t shared_sums(const lk_trainer *t)
{
    return t->held->n - t->n_state;
}

bool lk__held_is_shared(const lk_trainer *t, int64_t i)
{
    return t->shares && (i < t->n_params || i >= t->n_params + t->n_state);
}

static lk_status memory_make(lk_trainer *t)
{
    const lk_slab *slab;
    const char *name;
    char prefix[128];
    LK_TRY(lk_state_tensors_new(&t->held));
    LK_TRY(lk_state_tensors_add_slab(t->held, "", lk__trainer_params(t)));
    t->n_params = t->held->n;
    if (t->chained)
        LK_TRY(lk__chained_add_state(t, t->held));
    else
        LK_TRY(lk_state_tensors_add_slab(t->held, "", lk_model_state(t->spec.model)));
    LK_TRY(lk__pending_state_make(t));
    if (t->pending)
        LK_TRY(lk_state_tensors_add_slab(t->held, "pending.", t->pending));
    t->n_state = t->held->n - t->n_params;
    for (int i = 0; (slab = lk_optimizer_slab(t->optimizer, i, &name)); i++) {
        snprintf(prefix, sizeof prefix, "optimizer.%s.", name);
        LK_TRY(lk_state_tensors_add_slab(t->held, prefix, slab));
    }
    LK_TRY(lk_alloc(&t->sum, t->held->n, sizeof *t->sum));
    if (t->spread || t->mesh->along[LK_AXIS_FEATURES])
        LK_TRY(lk_alloc(&t->spread_sum, t->held->n, sizeof *t->spread_sum));
    return LK_TRACE(lk_alloc(&t->states, lk__trainer_size(t), sizeof *t->states));
}

/* The ranks that hold a copy together, or all parts of a chain or of a pipeline; NULL: this one alone. */
static lk_comm *holders(const lk_trainer *t)
{
    if (t->mesh->along[LK_AXIS_STAGES] && !t->chained)
        return t->mesh->along[LK_AXIS_STAGES];
    if (!t->shares && !t->chained)
        return NULL;
    return t->node ? t->node : lk__trainer_comm(t);
}

lk_status lk__state_hash_make(lk_trainer *t)
{
    lk_comm *comm = lk__trainer_comm(t);
    LK_TRY(lk_agree(comm, memory_make(t)));
    if (t->shares && lk_comm_nodes(comm) > 1)
        LK_TRY(lk_comm_split(comm, lk_comm_node(comm), 0, &t->node));
    int64_t params = t->n_params, behind = params + t->n_state;
    const lk_state_tensor *tensor = t->held->tensor;
    lk_status st = LK_OK;
    bool features = t->mesh->along[LK_AXIS_FEATURES];
    if (t->spread || t->pipeline || features) {
        st = lk__sums_open_own(&t->counted[PARAMS], tensor, params);
        if (st == LK_OK)
            st = lk__sums_open_own(&t->counted[OPTIMIZER], tensor + behind, t->held->n - behind);
    } else {
        LK_TRY(lk__sums_open(&t->counted[PARAMS], holders(t), tensor, params));
        LK_TRY(lk__sums_open(&t->counted[OPTIMIZER], holders(t), tensor + behind,
                             t->held->n - behind));
    }
    if (st == LK_OK && (t->pipeline || features))
        st = lk__sums_open_own(&t->counted[STATE], tensor + params, behind - params);
    else if (st == LK_OK)
        st = lk__sums_open(&t->counted[STATE], t->chained ? holders(t) : NULL, tensor + params,
                           behind - params);
    return LK_TRACE(lk_agree(comm, st));
}

void lk__state_hash_free(lk_trainer *t)
{
    lk_comm_close(t->node);
    for (int i = 0; i < 3; i++)
        lk__sums_close(&t->counted[i]);
    lk_state_tensors_free(t->held);
    lk_slab_free(t->pending);
    lk_free(t->sum);
    lk_free(t->spread_sum);
    lk_free(t->states);
}

/* Whether ranks along space hold positions each of the tensor of sum `i`, or those along features blocks. */
static bool is_spread(const lk_trainer *t, lk_axis axis, int64_t i)
{
    const lk__net *net = t->spec.model->net;
    bool state = i >= shared_sums(t);
    if (axis == LK_AXIS_SPACE)
        return !state && lk__net_positions(net, i % t->n_params) > 0;
    return lk__net_is_cut(net, state ? &net->moving[i - shared_sums(t)].owned
                                     : &net->start[i % t->n_params].owned);
}

/* Join the sums of tensors of which ranks along an axis hold a part each. */
static lk_status parts_sum(lk_trainer *t, lk_axis axis)
{
    int64_t n = 0;
    for (int64_t i = 0; i < t->held->n; i++)
        if (is_spread(t, axis, i))
            t->spread_sum[n++] = t->sum[i];
    LK_TRY(
        lk_allreduce(t->mesh->along[axis], NULL, t->spread_sum, n, LK_I64, LK_REDUCE_SUM, "state"));
    for (int64_t i = t->held->n - 1; i >= 0; i--)
        if (is_spread(t, axis, i))
            t->sum[i] = t->spread_sum[--n];
    return LK_OK;
}

static lk_status copies_sum(lk_trainer *t)
{
    int64_t n = shared_sums(t);
    lk__sums_count(&t->counted[PARAMS], t->sum);
    lk__sums_count(&t->counted[OPTIMIZER], t->sum + t->counted[PARAMS].n);
    lk__sums_count(&t->counted[STATE], t->sum + n);
    /* A parameter that several stages hold, and what the optimizer keeps of it, is the first one's. */
    for (int64_t i = 0; t->pipeline && i < n; i++)
        if (!lk__pipeline_owns(t, i % t->n_params))
            t->sum[i] = 0;
    if (holders(t))
        LK_TRY(lk_allreduce(holders(t), NULL, t->sum, t->shares ? n : t->held->n, LK_I64,
                            LK_REDUCE_SUM, "state"));
    if (t->spread)
        LK_TRY(parts_sum(t, LK_AXIS_SPACE));
    if (!t->chained && t->mesh->along[LK_AXIS_FEATURES])
        LK_TRY(parts_sum(t, LK_AXIS_FEATURES));
    return LK_OK;
}

/* Some of the tensors that are held, with their sums. */
static void tensors_add(lk_hash *h, const lk_state_tensor *tensor, int64_t n, const uint64_t *sum)
{
    for (int64_t i = 0; i < n; i++)
        lk_hash_add_tensor(h, tensor[i].name, tensor[i].dtype, tensor[i].shape.ndim,
                           tensor[i].shape.dim, sum[i]);
}

/* All that makes two states different, with the sums of the tensors, as of so many ranks. */
static void state_add(lk_trainer *t, int ranks, lk_hash *h)
{
    const lk_state_tensor *params = t->held->tensor;
    const char *name;
    double *number;
    if (t->spec.parallel.mode == LK_REDUCTION_FAST) {
        lk_hash_add_text(h, "fast");
        lk_hash_add_i64(h, ranks);
    }
    if (t->spec.parallel.wire != LK_WIRE_DTYPE)
        lk_hash_add_text(h, lk_wire_name((lk_wire)t->spec.parallel.wire));
    if (t->pending) {
        lk_hash_add_text(h, "double_buffering");
        lk_hash_add_i64(h, lk__pending_shards(t));
    }
    lk_hash_add_i64(h, t->step);
    tensors_add(h, params, t->n_params, t->sum);
    tensors_add(h, params + t->n_params, t->n_state, t->sum + shared_sums(t));
    for (int i = 0; lk_optimizer_slab(t->optimizer, i, &name);
         i++) { /* laid out as the parameters */
        lk_hash_add_text(h, name);
        tensors_add(h, params, t->n_params, t->sum + (1 + i) * t->n_params);
    }
    for (int i = 0; (number = lk_optimizer_number(t->optimizer, i, &name)); i++) {
        lk_hash_add_text(h, name);
        lk_hash_add_bytes(h, number, sizeof *number);
    }
}

/* Whether all ranks have computed with the same. */
static lk_status states_compare(const lk_trainer *t, uint64_t mine)
{
    lk_comm *comm = lk__trainer_comm(t);
    if (!comm)
        return LK_OK;
    LK_TRY(lk_allgather(comm, &mine, t->states, 1, LK_I64, "state"));
    for (int k = 1; k < lk__trainer_size(t); k++) {
        char one[LK_HASH_TEXT], other[LK_HASH_TEXT];
        LK_CHECK(t->states[k] == t->states[0], LK_ESTATE,
                 "after step %lld rank %d has the state %s and rank 0 %s: a machine computes "
                 "wrongly, or the ranks run different programs",
                 (long long)t->step, k, lk_hash_text(t->states[k], one),
                 lk_hash_text(t->states[0], other));
    }
    return LK_OK;
}

lk_status lk__state_hash_as_of(lk_trainer *t, int ranks, uint64_t *out)
{
    lk_hash h = lk_hash_start();
    *out = 0;
    if (t->pending)
        LK_TRY(lk__groups_save_pending(t->groups, t->pending));
    LK_TRY(copies_sum(t));
    state_add(t, ranks, &h);
    LK_TRY(states_compare(t, lk_hash_value(&h)));
    *out = lk_hash_value(&h);
    return LK_OK;
}

lk_status lk_trainer_hash(lk_trainer *t, uint64_t *out)
{
    LK_CHECK(t && out, LK_EINVAL, "trainer or out is NULL");
    return LK_TRACE(lk__state_hash_as_of(t, lk__trainer_size(t), out));
}
