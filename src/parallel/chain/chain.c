/* A chain list: this rank's components, what they need in a pass, and how chains are made and freed.
 *
 * The program makes one on each rank and calls it on one thread.  build.c compares what the ranks
 * have said, run.c runs it.
 */
#include "parallel/chain/chain.h"

#include "base/memory/grow.h"
#include "coll/agree.h"
#include "nn/model.h"

#include <lockstep/extra/alloc.h>

#include <string.h>

lk_status lk_chain_new(lk_comm *comm, lk_chain **out)
{
    lk_chain *chain = NULL;
    LK_CHECK(comm && out, LK_EINVAL, "%s is NULL", comm ? "out" : "comm");
    *out = NULL;
    LK_TRY(lk__agree_alloc(comm, &chain, sizeof *chain));
    lk_status st = lk_comm_dup(comm, &chain->comm);
    if (st != LK_OK) {
        lk_free(chain);
        LK_TRY(st);
    }
    *out = chain;
    return LK_OK;
}

static void room_free(lk_chain *chain)
{
    lk_free(chain->in);
    lk_free(chain->x);
    lk_free(chain->queue);
    lk_free(chain->values);
    chain->in = chain->x = chain->queue = NULL;
    chain->values = NULL;
    chain->n_x = 0;
}

void lk_chain_free(lk_chain *chain)
{
    if (!chain)
        return;
    for (int64_t k = 0; k < chain->n; k++) {
        lk_accumulator_free(chain->component[k].accumulator);
        lk_free(chain->component[k].in);
    }
    room_free(chain);
    lk_free(chain->component);
    lk_comm_close(chain->comm);
    lk_free(chain);
}

static lk_status component_check(const lk_chain *chain, const lk_component *c)
{
    LK_CHECK(!c->model != !c->fn, LK_EINVAL, "a component is either a model or a function, not %s",
             c->model ? "both" : "neither");
    LK_CHECK(!c->name || strlen(c->name) < LK_COMPONENT_NAME, LK_EINVAL,
             "the component's name \"%s\" is longer than %d bytes", c->name, LK_COMPONENT_NAME - 1);
    LK_CHECK(!(c->carry_in || c->carry_out || c->carry_only) || c->model, LK_EINVAL,
             "a function has no carry: it gives what it likes to its out_ranks");
    LK_CHECK(!c->carry_only || c->carry_out, LK_EINVAL, "carry_only, and there is no carry_out");
    if (c->carry_in || c->carry_out)
        LK_TRY(c->model->net ? lk__model_check_recurrent(c->model) : LK_OK);
    for (int64_t k = 0; k < chain->n && c->model; k++)
        LK_CHECK(chain->component[k].is.model != c->model, LK_EINVAL,
                 "the model is component %lld already: a chain has each model once", (long long)k);
    return LK_OK;
}

lk_status lk_chain_add(lk_chain *chain, const lk_component *component, const int *in_ranks,
                       int n_in, const int *out_ranks, int n_out)
{
    LK_CHECK(chain && component, LK_EINVAL, "%s is NULL", chain ? "component" : "chain");
    LK_CHECK(!chain->closed, LK_ESTATE, "the chain is built: no component can be added");
    LK_CHECK(n_in >= 0 && (in_ranks || n_in == 0), LK_EINVAL, "%d in_ranks", n_in);
    LK_CHECK(n_out >= 0 && (out_ranks || n_out == 0), LK_EINVAL, "%d out_ranks", n_out);
    LK_TRY(component_check(chain, component));
    LK_CHECK(!component->carry_only || n_out == 0, LK_EINVAL, "carry_only, and %d out_ranks",
             n_out);
    LK_TRY(lk__grow(&chain->component, &chain->room, chain->n + 1, sizeof *chain->component));
    lk__component *c = &chain->component[chain->n];
    *c = (lk__component){.is = *component,
                         .n_in = n_in,
                         .n_out = n_out,
                         .takes_carry = component->carry_in,
                         .gives_carry = component->carry_out};
    LK_TRY(lk_alloc(&c->in, (int64_t)n_in + n_out + 2, sizeof *c->in));
    c->out = c->in + lk__component_takes(c);
    for (int i = 0; i < n_in; i++)
        c->in[i] = in_ranks[i];
    for (int i = 0; i < n_out; i++)
        c->out[i] = out_ranks[i];
    if (c->takes_carry)
        c->in[n_in] = *component->carry_in;
    if (c->gives_carry)
        c->out[n_out] = *component->carry_out;
    if (component->name)
        memcpy(c->name, component->name, strlen(component->name));
    c->is.name = NULL;
    c->is.carry_in = c->is.carry_out = NULL;
    chain->n++;
    return LK_OK;
}

/* ---- room for a pass ---- */

lk_status lk__chain_make_room(lk_chain *chain, int n_x)
{
    lk_status st;
    int64_t most = 0, own = 0;
    if (chain->in && n_x <= chain->n_x)
        return LK_OK;
    for (int64_t k = 0; k < chain->n; k++) {
        const lk__component *c = &chain->component[k];
        most = lk__component_takes(c) > most ? lk__component_takes(c) : most;
        for (int i = 0; i < lk__component_gives(c); i++)
            own += c->out[i] == lk_comm_rank(chain->comm);
    }
    room_free(chain);
    LK_TRY_TO(fail, lk_alloc(&chain->in, most, sizeof *chain->in));
    LK_TRY_TO(fail, lk_alloc(&chain->x, n_x, sizeof *chain->x));
    LK_TRY_TO(fail, lk_alloc(&chain->queue, own, sizeof *chain->queue));
    LK_TRY_TO(fail, lk_alloc(&chain->values, (most + own + 2) * LK_COMPONENT_VALUES + n_x,
                             sizeof *chain->values));
    lk_var *at = chain->values;
    for (int64_t i = 0; i < most + own + 2; i++, at += LK_COMPONENT_VALUES) {
        lk_list *list = i < most          ? &chain->in[i]
                        : i < most + own  ? &chain->queue[i - most]
                        : i == most + own ? &chain->out
                                          : &chain->carry;
        *list = (lk_list){.at = at, .room = LK_COMPONENT_VALUES};
    }
    for (int i = 0; i < n_x; i++)
        chain->x[i] = (lk_list){.at = at + i, .n = 1, .room = 1};
    chain->n_x = n_x;
    return LK_OK;
fail:
    room_free(chain);
    return st;
}

/* ---- models, and what passes add up for them ---- */

int64_t lk_chain_components(const lk_chain *chain)
{
    return chain->n;
}

static bool is_there(const lk_chain *chain, int64_t component)
{
    return component >= 0 && component < chain->n;
}

lk_model *lk_chain_model(const lk_chain *chain, int64_t component)
{
    return is_there(chain, component) ? chain->component[component].is.model : NULL;
}

lk_accumulator *lk_chain_accumulator(const lk_chain *chain, int64_t component)
{
    return is_there(chain, component) ? chain->component[component].accumulator : NULL;
}

void lk_chain_clear(lk_chain *chain)
{
    for (int64_t k = 0; k < chain->n; k++)
        if (chain->component[k].accumulator)
            lk_accumulator_clear(chain->component[k].accumulator);
}
