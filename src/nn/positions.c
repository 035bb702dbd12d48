/* Parameters of which each position has its own (local_conv and its transpose, layer_norm over all
 * of a sample): whose layers run by tiles, and so who holds which part of them.
 *
 * It follows from model and tiles alone.  Building settles it once; holding, plans and trainers ask, on
 * their own threads.
 */
#include "nn/model.h"

int64_t lk__net_tile_step(const lk__net *net)
{
    for (int64_t i = 0; i < net->n_instances; i++)
        if (net->instance[i].window.ndim > 0 && net->instance[i].window.grid > 1)
            return net->instance[i].window.grid;
    return 1;
}

int64_t lk__smallest_tile(lk_tensor_type type, const int64_t *tiles, int64_t step)
{
    int64_t positions = 1;
    for (int d = 0; d < type.shape.ndim - 1; d++) {
        int64_t n = type.shape.dim[d], least = n;
        for (int64_t i = 0; d < LK_TILE_AXES && i < tiles[d]; i++) {
            int64_t here = lk_tile_range(n, i, tiles[d], step).n;
            least = here < least ? here : least;
        }
        positions *= least;
    }
    return positions;
}

bool lk__layer_is_by_position(const lk_layer_instance *instance)
{
    lk_tile_kind kind = instance->kind;
    return instance->window.ndim > 0 && (kind == LK_TILE_LOCAL_CONV || kind == LK_TILE_SAMPLE ||
                                         kind == LK_TILE_LOCAL_CONV_TRANSPOSE);
}

/* ---- ties ---- */

/* Whether all who use a parameter take it position by position, of as many axes. */
static bool is_of_positions(const lk__net *net, int64_t param)
{
    const lk__param_start *start = &net->start[param];
    int ndim = net->instance[net->use[start->first_use].instance].window.ndim;
    for (int64_t i = start->first_use, n = 0; n < start->n_uses; n++, i = net->use[i].next) {
        const lk_layer_instance *user = &net->instance[net->use[i].instance];
        if (!net->use[i].per_position || !lk__layer_is_by_position(user) ||
            user->window.ndim != ndim)
            return false;
    }
    return true;
}

void lk__net_settle_positions(lk__net *net)
{
    bool settled = false;
    while (!settled) {
        settled = true;
        for (int64_t i = 0; i < net->n_uses; i++) {
            const lk__param_use *use = &net->use[i];
            lk_layer_instance *user = &net->instance[use->instance];
            if (!use->per_position || !lk__layer_is_by_position(user) ||
                is_of_positions(net, use->param))
                continue;
            user->window.ndim = 0; /* as one that has said nothing */
            user->reach = LK_REACH_SAMPLE;
            user->summed = LK_SUMMED_NOTHING;
            settled = false;
        }
    }
}

/* ---- tiles ---- */

/* A layer that adds up over positions works by tiles where these are large enough. */
static bool is_by_tiles(const lk__net *net, const lk_layer_instance *user, const int64_t *tiles)
{
    return user->summed == LK_SUMMED_NOTHING ||
           lk__smallest_tile(user->in, tiles, lk__net_tile_step(net)) >=
               net->spec.pieces.least_tile;
}

int lk__net_positions_in(const lk__net *net, int64_t param, const int64_t *tiles)
{
    const lk_layer_instance *user = &net->instance[net->use[net->start[param].first_use].instance];
    int cut = LK_TILE_AXES;
    while (cut > 1 && tiles[cut - 1] <= 1)
        cut--;
    bool by_position = user->window.ndim >= cut && is_of_positions(net, param) &&
                       is_by_tiles(net, user, tiles); /* equal shapes: all users are alike */
    return by_position ? user->window.ndim : 0;
}

int lk__net_positions(const lk__net *net, int64_t param)
{
    return lk__net_positions_in(net, param, net->spec.pieces.tile);
}
