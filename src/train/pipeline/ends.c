/* What stages exchange when their lists are done: the gradients of parameters that several of them share, and
 * sums over all parameters.
 *
 * A shared parameter is held, updated and hashed by each stage that uses it: of all its uses these get the
 * gradients, and then add them up for themselves, by the tree over the uses (lk_accumulator_join_uses()).  The
 * step calls this, on the trainer's thread; the ranks along the stages do so together.
 */
#include "nn/model.h"
#include "train/trainer.h"

/* The stage that has a use. */
static int stage_of(const lk_trainer *t, int64_t use)
{
    return t->plan->layer[t->spec.model->net->use[use].instance].stage;
}

/* Whether stage `stage` uses a parameter, and has not been met among its uses before `use`. */
static bool is_first_of(const lk_trainer *t, int64_t param, int64_t use)
{
    const lk__net *net = t->spec.model->net;
    for (int64_t u = net->start[param].first_use; u != use; u = net->use[u].next)
        if (stage_of(t, u) == stage_of(t, use))
            return false;
    return true;
}

/* Send a use of this stage to the others that share the parameter. */
static lk_status use_send(const lk_trainer *t, const lk_accumulator *sums, int64_t use,
                          lk_request **request, int *n)
{
    const lk__net *net = t->spec.model->net;
    int64_t param = net->use[use].param;
    const lk_tensor *grad = lk__accumulator_total(sums, use);
    for (int64_t u = net->start[param].first_use; u >= 0; u = net->use[u].next)
        if (is_first_of(t, param, u) && stage_of(t, u) != t->plan->stage) {
            LK_TRY(lk_isend(t->mesh->along[LK_AXIS_STAGES], lk_tensor_data(grad),
                            lk_tensor_count(grad), lk_tensor_dtype(grad), stage_of(t, u), use,
                            net->use[use].name, &request[*n]));
            (*n)++;
        }
    return LK_OK;
}

static lk_status use_receive(const lk_trainer *t, const lk_accumulator *sums, int64_t use)
{
    const lk_tensor *grad = lk__accumulator_total(sums, use);
    void *data = NULL;
    LK_TRY(lk_tensor_writable_data(lk__accumulator_total(sums, use), &data));
    return LK_TRACE(lk_recv(t->mesh->along[LK_AXIS_STAGES], data, lk_tensor_count(grad),
                            lk_tensor_dtype(grad), stage_of(t, use), use,
                            t->spec.model->net->use[use].name, NULL));
}

/* All sends first, so that no ranks wait in a circle. */
static lk_status param_exchange(const lk_trainer *t, lk_accumulator *sums, int64_t param,
                                lk_request **request)
{
    const lk__net *net = t->spec.model->net;
    bool here = false;
    int n = 0;
    lk_status st = LK_OK;
    for (int64_t u = net->start[param].first_use; u >= 0; u = net->use[u].next)
        here = here || stage_of(t, u) == t->plan->stage;
    if (!here)
        return LK_OK;
    for (int64_t u = net->start[param].first_use; u >= 0 && st == LK_OK; u = net->use[u].next)
        if (stage_of(t, u) == t->plan->stage)
            st = use_send(t, sums, u, request, &n);
    for (int64_t u = net->start[param].first_use; u >= 0 && st == LK_OK; u = net->use[u].next)
        if (stage_of(t, u) != t->plan->stage)
            st = use_receive(t, sums, u);
    lk_status sent = lk_waitall(n, request);
    LK_TRY(st);
    return LK_TRACE(sent);
}

lk_status lk__pipeline_join_shared(const lk_trainer *t, lk_accumulator *sums)
{
    const lk__net *net = t->spec.model->net;
    lk_request **request = NULL;
    int64_t most = 0;
    for (int64_t i = 0; i < net->n_params; i++)
        if (net->start[i].n_uses > 1 && net->start[i].n_uses * t->plan->stages > most)
            most = net->start[i].n_uses * t->plan->stages;
    if (most == 0)
        return LK_OK;
    LK_TRY(lk_alloc_zero(&request, most, sizeof(lk_request *)));
    lk_status st = LK_OK;
    for (int64_t i = 0; i < net->n_params && st == LK_OK; i++)
        if (net->start[i].n_uses > 1)
            st = param_exchange(t, sums, i, request);
    lk_free(request);
    return LK_TRACE(st);
}

bool lk__pipeline_owns(const lk_trainer *t, int64_t param)
{
    return stage_of(t, t->spec.model->net->start[param].first_use) == t->plan->stage;
}

lk_status lk__pipeline_join_sums(void *trainer, double *sum, int64_t n)
{
    const lk_trainer *t = trainer;
    const lk__net *net = t->spec.model->net;
    for (int64_t i = 0; i < n && i < net->n_params; i++)
        if (!lk__pipeline_owns(t, i))
            sum[i] = 0;
    /* As integers, of which one rank has the bits and the others 0: nothing is rounded. */
    return LK_TRACE(lk_allreduce(t->mesh->along[LK_AXIS_STAGES], NULL, (int64_t *)(void *)sum, n,
                                 LK_I64, LK_REDUCE_SUM, "sums over parameters"));
}
