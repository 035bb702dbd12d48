/* lk_pass_*(): what the `forward` of a layer asks of the pass that it is in.  lk_model_forward() makes the
 * pass (forward.c); layers ask on the thread of its tape.
 */
#include "nn/model.h"

#include <string.h>

lk_var lk_pass_param(const lk_pass *pass, const lk_layer_instance *instance, int i)
{
    return pass->run->param[instance->param + i];
}

const lk_tile *lk_pass_tile(const lk_pass *pass, const lk_layer_instance *instance)
{
    const lk_layer_part *part = lk__pass_part(pass, instance);
    pass->run->asked = true;
    return part ? part->tile : NULL;
}

const lk_feature_part *lk_pass_features(const lk_pass *pass, const lk_layer_instance *instance)
{
    const lk_layer_part *part = lk__pass_part(pass, instance);
    return part && part->features.split ? &part->features : NULL;
}

/* Whether a layer works on whole samples, of which this rank has some. */
static bool has_some(const lk_pass *pass, const lk_layer_instance *instance)
{
    return pass->parts && pass->parts->samples && !lk__pass_by_tile(pass, instance);
}

int64_t lk_pass_first(const lk_pass *pass, const lk_layer_instance *instance)
{
    bool some = has_some(pass, instance);
    return pass->first + (some ? pass->parts->samples[pass->parts->rank] : 0);
}

/* How many samples a layer gets. */
static int64_t samples_of(const lk_pass *pass, const lk_layer_instance *instance)
{
    const lk_pass_parts *parts = pass->parts;
    if (!has_some(pass, instance))
        return pass->run->samples;
    return parts->samples[parts->rank + 1] - parts->samples[parts->rank];
}

const lk_dist_batch *lk_pass_batch(const lk_pass *pass, const lk_layer_instance *instance)
{
    return lk__pass_by_tile(pass, instance) ? pass->parts->batch : pass->batch;
}

lk_act lk_pass_fused_act(const lk_pass *pass)
{
    return pass->run->act;
}

bool lk_pass_has_fused_relu(const lk_pass *pass)
{
    return pass->run->act == LK_ACT_RELU;
}

lk_rng lk_pass_rng(const lk_pass *pass, const lk_layer_instance *instance, const char *purpose)
{
    return lk_rng_start(pass->run->model->net->spec.seed, instance->name, purpose);
}

lk_status lk_pass_state(const lk_pass *pass, const lk_layer_instance *instance, int i, lk_var *out)
{
    return LK_TRACE(
        lk_constant(pass->tape, pass->run->model->net->state_of[instance->state + i], out));
}

lk_shape lk__carry_shape(const lk__carry *carry, int64_t samples)
{
    lk_shape shape = {.ndim = carry->shape.ndim + 1, .dim = {samples}};
    memcpy(&shape.dim[1], carry->shape.dim, (size_t)carry->shape.ndim * sizeof shape.dim[0]);
    return shape;
}

lk_status lk_pass_carry(const lk_pass *pass, const lk_layer_instance *instance, int i, lk_var *out)
{
    const struct lk__pass_run *run = pass->run;
    const lk__net *net = run->model->net;
    int64_t number = instance->carry + i;
    lk_shape shape = lk__carry_shape(&net->carry[number], samples_of(pass, instance));
    /* By a node of its own: the layer then says one sum about it, as a rank does that got it. */
    if (run->first)
        LK_TRY(lk_reshape(run->first->at[number], shape, out));
    else
        LK_TRY(lk_full(pass->tape, net->spec.dtype, shape, 0, out));
    return LK_OK;
}

lk_status lk__pass_outlive(const lk_pass *pass, lk_var value)
{
    if (!lk_tape_is_recording(pass->tape))
        LK_TRY(lk_retain_value(value));
    return LK_OK;
}

void lk_pass_set_carry(const lk_pass *pass, const lk_layer_instance *instance, int i, lk_var value)
{
    if (!pass->run->last)
        return;
    pass->run->last->at[instance->carry + i] = value;
    if (lk_is_var(value))
        (void)!lk__pass_outlive(pass, value); /* a failure is returned at the end of the pass */
}
