/* A rank that runs out of memory in a call of multi_node.h tells the others. */
#include "dist/multinode/multi_nodes.h"
#include "memory_ranks.h"

struct side {
    lk_comm *comm;
    lk_slab *params, *grads;
    lk_optimizer *actual;
};

static lk_status side_begin(lk_comm *comm, void *side)
{
    struct side *s = side;
    s->comm = comm;
    s->params = model_of(LK_F32);
    s->grads = model_of(LK_F32);
    model_fill(s->grads, lk_comm_rank(comm));
    return LK_TRACE(lk_optimizer_new(s->params, "sgd", NULL, &s->actual));
}

static void side_end(void *side)
{
    struct side *s = side;
    lk_optimizer_free(s->actual);
    lk_slab_free(s->params);
    lk_slab_free(s->grads);
}

static const struct memory_sides sides = {sizeof(struct side), side_begin, side_end};

static lk_status broadcast(void *side)
{
    struct side *s = side;
    LK_TRY(lk_bcast_data(s->comm, s->params, 1));
    return LK_TRACE(lk_allreduce_persistent(s->comm, s->params));
}

static lk_status mean(void *side)
{
    struct side *s = side;
    return lk_multi_node_mean_grad(s->comm, s->grads, NULL,
                                   &(lk_mean_grad_options){.wire = LK_WIRE_F16});
}

static lk_status updates(struct side *s, const char *options)
{
    lk_multi_node_optimizer *o = NULL;
    lk_status st = LK_OK;
    LK_TRY_TO(done, lk_multi_node_optimizer_new(s->actual, s->comm, options, &o));
    for (int i = 0; i < 4; i++)
        LK_TRY_TO(done, lk_multi_node_optimizer_update(
                            o, &(lk_multi_node_input){.grads = s->grads, .samples = 1}, NULL));
    LK_TRY_TO(done, lk_multi_node_optimizer_set_actual(o, s->actual));
done:
    lk_multi_node_optimizer_free(o);
    return st;
}

static lk_status plain(void *side)
{
    return updates(side, NULL);
}

static lk_status late(void *side)
{
    return updates(side, "double_buffering=true wire=bf16 accumulate=2");
}

TEST(memory_runs_out_for_all)
{
    static const struct memory_work work[] = {
        {"bcast_data", broadcast}, {"mean_grad", mean}, {"update", plain}, {"late update", late}};
    memory_runs_out_on_few(work, sizeof work / sizeof *work, &sides);
}
