/* Frozen layers: whose parameters and state stay as they are while others are trained.
 *
 * A model that was just built has none.  Trainers freeze layers for as long as they train, or the program
 * does before a pass, on the model's thread; passes (forward.c) and running statistics (batch_stats.c)
 * read the marks.
 */
#include "nn/model.h"

#include <lockstep/extra/suggest.h>

#include <string.h>

/* Whether a layer is the one with this name, or lies within it. */
static bool is_within(const lk_layer_instance *instance, const char *name)
{
    size_t n = strlen(name);
    return strncmp(instance->name, name, n) == 0 &&
           (instance->name[n] == '\0' || instance->name[n] == '.');
}

static lk_status name_check(const lk__net *net, const char *name)
{
    lk_suggestion s = {.wanted = name};
    for (int64_t i = 0; i < net->n_instances; i++) {
        if (strcmp(net->instance[i].name, name) == 0)
            return LK_OK;
        lk_suggest_consider(&s, net->instance[i].name);
    }
    bool near = lk_suggest_found(&s);
    return LK_RAISE(LK_EINVAL, "no layer is called \"%s\"%s%s%s", name,
                    near ? "; did you mean \"" : "", near ? s.best : "", near ? "\"?" : "");
}

/* Parameters follow from the layers that use them: one moves if any of these does. */
static void params_settle(lk__net *net)
{
    for (int64_t i = 0; i < net->n_params; i++)
        net->start[i].frozen = true;
    for (int64_t i = 0; i < net->n_uses; i++)
        if (!net->instance[net->use[i].instance].frozen)
            net->start[net->use[i].param].frozen = false;
    for (int64_t i = 0; i < net->n_uses; i++) /* a layer that shares what moves is not frozen */
        if (!net->start[net->use[i].param].frozen)
            net->instance[net->use[i].instance].frozen = false;
}

lk_status lk_model_train_layers(lk_model *model, const char *const *name, int n)
{
    LK_CHECK(model && model->net, LK_ESTATE, "the model is not built: its layers have no names");
    LK_CHECK(n >= 0 && (name || n == 0), LK_EINVAL, "%d names", n);
    lk__net *net = model->net;
    for (int k = 0; k < n; k++)
        LK_TRY(name_check(net, name[k]));
    for (int64_t i = 0; i < net->n_instances; i++) {
        net->instance[i].frozen = n > 0;
        for (int k = 0; k < n; k++)
            if (is_within(&net->instance[i], name[k]))
                net->instance[i].frozen = false;
    }
    params_settle(net);
    return LK_OK;
}

void lk__model_freeze_idle(lk_model *model, const bool *runs)
{
    lk__net *net = model->net;
    for (int64_t i = 0; i < net->n_instances; i++)
        net->instance[i].frozen = net->instance[i].frozen || !runs[i];
    params_settle(net);
}

int64_t lk__model_still(const lk_model *model)
{
    const lk__net *net = model->net;
    int64_t n = 0, layers = 0; /* those within a layer are numbered behind it */
    for (; n < net->n_instances && net->instance[n].frozen; n++)
        layers += net->instance[n].depth == 0;
    bool within = n < net->n_instances && net->instance[n].depth > 0;
    return layers - within;
}

int64_t lk__model_marks(const lk_model *model)
{
    return model->net->n_instances + model->net->n_params;
}

void lk__model_get_marks(const lk_model *model, bool *out)
{
    const lk__net *net = model->net;
    for (int64_t i = 0; i < net->n_instances; i++)
        *out++ = net->instance[i].frozen;
    for (int64_t i = 0; i < net->n_params; i++)
        *out++ = net->start[i].frozen;
}

void lk__model_set_marks(lk_model *model, const bool *marks)
{
    lk__net *net = model->net;
    for (int64_t i = 0; i < net->n_instances; i++)
        net->instance[i].frozen = *marks++;
    for (int64_t i = 0; i < net->n_params; i++)
        net->start[i].frozen = *marks++;
}

bool lk_model_param_moves(const lk_model *model, int64_t i)
{
    return !model->net->start[i].frozen;
}
