/* The getters of an lk_trainer: its step, metrics, and the objects it works with.  On its thread,
 * at any time; nothing here is collective. */
#include "train/trainer.h"

#include <lockstep/extra/trainer_plan.h>

lk_position lk_trainer_position(const lk_trainer *t)
{
    int64_t batches = lk_loader_batches(t->spec.train);
    return (lk_position){.step = t->step,
                         .epoch = t->step / batches,
                         .batch = t->step % batches,
                         .batches = batches};
}

const char *lk_trainer_metric(const lk_trainer *t, int i, bool *lower_is_better)
{
    if (i < 0 || i >= t->n_metrics)
        return NULL;
    *lower_is_better = t->metric[i]->lower_is_better;
    return t->metric[i]->descriptor.name;
}

bool lk_trainer_metric_is_number(const lk_trainer *t, int i)
{
    return i >= 0 && i < t->n_metrics && t->metric[i]->value;
}

const lk_mesh *lk_trainer_mesh(const lk_trainer *t)
{
    return t->mesh;
}

const lk_plan *lk_trainer_plan(const lk_trainer *t)
{
    return t->plan;
}

lk_optimizer *lk_trainer_optimizer(const lk_trainer *t)
{
    return t->optimizer;
}

lk_chain *lk_trainer_chain(const lk_trainer *t)
{
    return t->spec.chain;
}

lk_model *lk_trainer_model(const lk_trainer *t)
{
    return t->spec.model;
}
