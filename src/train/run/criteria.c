/* Loss and metrics of a trainer: their options filled in, and checked against what the model gives and what
 * the data has.  lk_trainer_new() calls it, on each rank.
 */
#include "train/trainer.h"

/* Labels are numbers of outputs: of too few, some label would have none. */
static lk_status classes_check(const lk_trainer *t, lk_tensor_type out, lk_tensor_type target)
{
    const lk_dataset_info *info = lk_dataset_info_of(lk_loader_dataset(t->spec.train));
    int64_t outputs = out.shape.ndim > 0 ? out.shape.dim[out.shape.ndim - 1] : 1;
    LK_CHECK(lk_dtype_is_real(target.dtype) || info->classes <= outputs, LK_ESHAPE,
             "%s: the model gives %s for a sample, but %s has %lld classes; its last layer must "
             "give as many",
             t->loss->descriptor.name, lk_shape_text(out.shape).s, info->name,
             (long long)info->classes);
    return LK_OK;
}

/* Of real targets that are no classes, the largest number means nothing. */
static lk_status metric_check(const lk_trainer *t, int i, lk_tensor_type out, lk_tensor_type target)
{
    const lk_metric *m = t->metric[i];
    const lk_dataset_info *info = lk_dataset_info_of(lk_loader_dataset(t->spec.train));
    bool classes = !lk_dtype_is_real(target.dtype) || info->classes > 0 || t->loss->probabilities;
    LK_CHECK(
        !m->of_classes || classes, LK_EDTYPE,
        "metric %s is for classes, but the targets of %s are real numbers, %s%s, that %s is to "
        "meet; leave the metric out",
        m->descriptor.name, info->name, lk_dtype_name(target.dtype), lk_shape_text(target.shape).s,
        t->loss->descriptor.name);
    return LK_TRACE(m->check(t->options.metrics.item[i].options, out, target));
}

/* Whether there is a loss on this rank: of a chain, where there is an output. */
static bool has_loss(const lk_trainer *t)
{
    return t->counts_loss && (!t->chained || t->chained->has_output);
}

/* Fill in the options of the loss, and check it against what it compares. */
static lk_status loss_check(lk_trainer *t, lk_tensor_type *target)
{
    int y = lk_dataset_find(lk_loader_dataset(t->spec.train), "y");
    LK_TRY(lk_config_with_defaults(&t->options.loss, t->arena, &t->options.loss));
    t->loss = (const lk_loss *)(const void *)t->options.loss.descriptor;
    t->parts = t->loss->parts ? t->loss->parts(t->out) : 1;
    if (t->counts_loss) /* then it is the first */
        t->summand[0].parts = t->parts;
    if (!has_loss(t))
        return LK_OK;
    LK_CHECK(lk_dataset_info_of(lk_loader_dataset(t->spec.train))->n_fields > 0, LK_EINVAL,
             "the data is empty: it has %lld samples without x and y, a model has nothing to learn "
             "there",
             (long long)lk_dataset_info_of(lk_loader_dataset(t->spec.train))->count);
    LK_CHECK(y >= 0, LK_EINVAL, "the data has no field \"y\" to learn");
    lk_field field = lk_loader_field(t->spec.train, y);
    *target = (lk_tensor_type){field.dtype, field.shape};
    LK_TRY(t->loss->check(t->options.loss.options, t->out, *target));
    return LK_TRACE(classes_check(t, t->out, *target));
}

bool lk__criteria_splits(const lk_trainer *t)
{
    int y = lk_dataset_find(lk_loader_dataset(t->spec.train), "y");
    return t->counts_loss && t->loss->apply_split && y >= 0 &&
           !lk_dtype_is_real(lk_loader_field(t->spec.train, y).dtype);
}

bool lk__criteria_takes(const lk_trainer *t, bool places)
{
    bool any = false;
    for (int i = 0; i < t->n_metrics; i++)
        any = any || (t->metric[i]->add_places != NULL) == places;
    return any;
}

/* Fill in the options of loss and metrics, and check them against model and data. */
lk_status lk__criteria_make(lk_trainer *t)
{
    lk_tensor_type target = {.dtype = LK_F32};
    if (!t->counts_loss) /* nothing comes out that could be measured */
        t->options.metrics.n = 0;
    LK_TRY(loss_check(t, &target));
    LK_CHECK(t->options.metrics.n <= LK_MAX_METRICS, LK_EINVAL, "%lld metrics, at most %d",
             (long long)t->options.metrics.n, LK_MAX_METRICS);
    lk_config *metrics = NULL;
    LK_TRY(lk_arena_alloc(t->arena, &metrics, t->options.metrics.n, sizeof *metrics));
    for (int i = 0; i < t->options.metrics.n; i++)
        LK_TRY(lk_config_with_defaults(&t->options.metrics.item[i], t->arena, &metrics[i]));
    t->options.metrics.item = metrics;
    for (int i = 0; i < t->options.metrics.n; i++) {
        t->metric[i] = (const lk_metric *)(const void *)metrics[i].descriptor;
        for (int k = 0; k < i; k++) /* files and early stopping know metrics by their names */
            LK_CHECK(t->metric[k] != t->metric[i], LK_EINVAL,
                     "metric %s is given twice: leave one out", t->metric[i]->descriptor.name);
        if (has_loss(t))
            LK_TRY(metric_check(t, i, t->out, target));
        int64_t n = t->metric[i]->numbers(metrics[i].options, t->out);
        LK_TRY(lk_arena_alloc(t->arena, &t->step_counts.sums[i], n, sizeof(double)));
        LK_TRY(lk_arena_alloc(t->arena, &t->train_counts.sums[i], n, sizeof(double)));
        LK_TRY(lk_arena_alloc(t->arena, &t->eval_counts.sums[i], n, sizeof(double)));
        t->n_metrics++;
    }
    return LK_OK;
}
