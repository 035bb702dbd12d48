/* The hash of a run's state, which all ranks make together.
 *
 * A *copy* of a tensor is held by one rank, or by the ranks of a node together (t->shares).  Each copy
 * is hashed once: a rank adds up all elements of its own copies, and of those that it shares its share
 * of them; the ranks of the node then add up 8 bytes a tensor.  So each rank knows the hash of the
 * copies that it computes with, and all compare them, 8 bytes a rank: where ranks hold copies, each
 * must be read, because no other rank would see what a machine that computes wrongly has made of it.
 *
 * t->sum has the sums of the tensors that may be shared first: parameters and the optimizer's slabs,
 * which are laid out alike; then those of the model's state, of which each rank has its own.
 */
#include "train/trainer.h"

static int64_t slices_of(const lk_slab *slab)
{
    return lk_slab_layout_slices(lk_slab_layout_of(slab));
}

/* How many sums may be of shared tensors. */
static int64_t shared_sums(const lk_trainer *t)
{
    const char *name;
    int slabs = 0;
    while (lk_optimizer_slab(t->optimizer, slabs, &name))
        slabs++;
    return (1 + slabs) * slices_of(lk_model_params(t->spec.model));
}

static lk_status memory_make(lk_trainer *t)
{
    LK_TRY(lk_alloc(&t->sum, shared_sums(t) + slices_of(lk_model_state(t->spec.model)),
                    sizeof *t->sum));
    LK_TRY(lk_alloc(&t->states, lk__trainer_size(t), sizeof *t->states));
    return LK_OK;
}

lk_status lk__state_hash_make(lk_trainer *t)
{
    lk_comm *comm = lk__trainer_comm(t);
    LK_TRY(lk_agree(comm, memory_make(t)));
    if (t->shares && lk_comm_nodes(comm) > 1)
        LK_TRY(lk_comm_split(comm, lk_comm_node(comm), 0, &t->node));
    return LK_OK;
}

void lk__state_hash_free(lk_trainer *t)
{
    lk_comm_close(t->node);
    lk_free(t->sum);
    lk_free(t->states);
}

/* The sums of a slab's tensors: of all elements, or of this rank's share among those of its node. */
static lk_status slab_sum(const lk_trainer *t, const lk_slab *slab, bool shared, uint64_t *sum)
{
    lk_comm *comm = lk__trainer_comm(t);
    for (int64_t i = 0; i < slices_of(slab); i++) {
        lk_slab_slice s;
        LK_TRY(lk_slab_layout_slice(lk_slab_layout_of(slab), i, &s));
        lk_range mine = {.n = s.count};
        if (shared)
            mine = lk_range_split(s.count, lk_comm_node_rank(comm), lk_comm_node_size(comm));
        const char *from = (const char *)lk_slab_data(slab) + s.offset +
                           mine.first * (int64_t)lk_dtype_size(s.dtype);
        sum[i] = lk_hash_sum(s.dtype, mine.n, from, mine.first);
    }
    return LK_OK;
}

static lk_status copies_sum(lk_trainer *t)
{
    const lk_slab *params = lk_model_params(t->spec.model), *slab;
    const char *name;
    int64_t n = shared_sums(t), each = slices_of(params);
    LK_TRY(slab_sum(t, params, t->shares, t->sum));
    for (int i = 0; (slab = lk_optimizer_slab(t->optimizer, i, &name)); i++)
        LK_TRY(slab_sum(t, slab, t->shares, t->sum + (1 + i) * each));
    LK_TRY(slab_sum(t, lk_model_state(t->spec.model), false, t->sum + n));
    if (t->shares)
        LK_TRY(lk_allreduce(t->node ? t->node : lk__trainer_comm(t), NULL, t->sum, n, LK_I64,
                            LK_REDUCE_SUM, "state"));
    return LK_OK;
}

static lk_status slab_add(lk_hash *h, const lk_slab *slab, const uint64_t *sum)
{
    for (int64_t i = 0; i < slices_of(slab); i++) {
        lk_slab_slice s;
        LK_TRY(lk_slab_layout_slice(lk_slab_layout_of(slab), i, &s));
        lk_hash_add_tensor(h, s.name, s.dtype, s.shape.ndim, s.shape.dim, sum[i]);
    }
    return LK_OK;
}

/* All that makes two states different, with the sums of the tensors. */
static lk_status state_add(lk_trainer *t, lk_hash *h)
{
    const lk_slab *params = lk_model_params(t->spec.model), *slab;
    const char *name;
    double *number;
    if (t->spec.parallel.mode == LK_REDUCTION_FAST) {
        lk_hash_add_text(h, "fast");
        lk_hash_add_i64(h, lk__trainer_size(t));
    }
    lk_hash_add_i64(h, t->step);
    LK_TRY(slab_add(h, params, t->sum));
    LK_TRY(slab_add(h, lk_model_state(t->spec.model), t->sum + shared_sums(t)));
    for (int i = 0; (slab = lk_optimizer_slab(t->optimizer, i, &name)); i++) {
        lk_hash_add_text(h, name);
        LK_TRY(slab_add(h, slab, t->sum + (1 + i) * slices_of(params)));
    }
    for (int i = 0; (number = lk_optimizer_number(t->optimizer, i, &name)); i++) {
        lk_hash_add_text(h, name);
        lk_hash_add_bytes(h, number, sizeof *number);
    }
    return LK_OK;
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

lk_status lk_trainer_hash(lk_trainer *t, uint64_t *out)
{
    LK_CHECK(t && out, LK_EINVAL, "trainer or out is NULL");
    lk_hash h = lk_hash_start();
    *out = 0;
    LK_TRY(copies_sum(t));
    LK_TRY(state_add(t, &h));
    LK_TRY(states_compare(t, lk_hash_value(&h)));
    *out = lk_hash_value(&h);
    return LK_OK;
}
