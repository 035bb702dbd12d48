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
    for (int64_t i = 0; i < net->n_params; i++)
        net->start[i].frozen = true;
    for (int64_t i = 0; i < net->n_uses; i++)
        if (!net->instance[net->use[i].instance].frozen)
            net->start[net->use[i].param].frozen = false;
    for (int64_t i = 0; i < net->n_uses; i++) /* a layer that shares what moves is not frozen */
        if (!net->start[net->use[i].param].frozen)
            net->instance[net->use[i].instance].frozen = false;
    return LK_OK;
}

bool lk_model_param_moves(const lk_model *model, int64_t i)
{
    return !model->net->start[i].frozen;
}
