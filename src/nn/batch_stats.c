/* Statistics of the batch: what layers such as batch norm observe in a pass, added up in the accumulator, and
 * what the model's state makes of it after a step.  Layers call lk_pass_batch_stat() in forward, the
 * trainer lk_model_update_running_stats(), on its thread.
 */
#include "base/fpenv.h"
#include "nn/model.h"
#include "ops/common/norm/batch_norm.h"

#include <lockstep/extra/map.h>
#include <lockstep/extra/reduce.h>

lk_status lk_pass_batch_stat(const lk_pass *pass, const lk_layer_instance *instance, int i,
                             lk_var stats)
{
    lk_accumulator *accumulator = pass->accumulator;
    const lk_tensor *t = NULL;
    if (!accumulator || lk_tape_is_recomputing(pass->tape))
        return LK_OK;
    LK_TRY(lk_value(stats, &t));
    lk_tensor *to = accumulator->batch_stats[instance->state + i];
    int64_t n = lk_tensor_count(to), pieces = lk_tensor_shape(t).dim[0];
    void *data = NULL;
    LK_CHECK(lk_tensor_is_contiguous(t) && lk_tensor_count(t) == pieces * n &&
                 lk_tensor_dtype(t) == lk_tensor_dtype(to),
             LK_ESHAPE, "statistics %s for a state of %s", lk_tensor_text(t).s,
             lk_tensor_text(to).s);
    lk_reduce_axis_shape shape = {.outer = 1, .n = pieces, .inner = n, .piece = 1};
    LK_TRY(lk_reduce_axis(lk_tensor_dtype(t), LK_REDUCE_AXIS_SUM, &shape, lk_tensor_data(t),
                          accumulator->scratch));
    LK_TRY(lk_tensor_writable_data(to, &data));
    return LK_TRACE(
        lk_map2(lk_tensor_dtype(t), LK_MAP2_ADD, 0, n, data, accumulator->scratch, data));
}

lk_status lk_model_update_running_stats(lk_model *model, const lk_accumulator *accumulator,
                                        int64_t pieces)
{
    LK_FP_GUARD();
    LK_CHECK(model && model->net && accumulator && accumulator->model == model, LK_EINVAL,
             "the accumulator belongs to another model");
    LK_CHECK(pieces >= 1, LK_EINVAL, "%lld pieces", (long long)pieces);
    for (int64_t i = 0; i < model->net->n_state; i++) {
        const lk__moving *moving = &model->net->moving[i];
        if (!model->net->instance[moving->instance].frozen)
            LK_TRY(lk__running_stat_move(model->net->state_of[i], accumulator->batch_stats[i],
                                         moving->rate, moving->once ? 1 : (double)pieces));
    }
    return LK_OK;
}
