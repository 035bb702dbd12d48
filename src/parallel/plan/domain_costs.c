/* In which domain layers run that can run in both, so that values change least.
 *
 * A change is an alltoall in forward and another in backward.  So of all ways through a list that with the
 * fewest changes is taken, of these one that moves the fewest bytes, of these the one that changes last.
 * The cost of a way from a layer to the end of its list follows from those behind it.  A list within a
 * layer ends as it began, whatever the layer does with it.
 *
 * domains.c calls this, on each rank, with what each layer can do; it is arithmetic.  No bit depends on
 * the choice: a layer that has one adds nothing up over positions.
 */
#include "parallel/plan/domain_costs.h"

/* Of what cannot be done. */
static const lk__domain_cost never = {(int64_t)1 << 40, 0};

bool lk__domain_can_cut(const lk_tiling *tiling, lk_tensor_type type)
{
    int axes = type.shape.ndim - 1;
    return axes >= tiling->ndim && axes <= LK_TILE_AXES;
}

static lk__domain_cost cost_sum(lk__domain_cost a, lk__domain_cost b)
{
    if (a.changes + b.changes >= never.changes)
        return never;
    return (lk__domain_cost){a.changes + b.changes, a.bytes + b.bytes};
}

static bool is_less(lk__domain_cost a, lk__domain_cost b)
{
    return a.changes < b.changes || (a.changes == b.changes && a.bytes < b.bytes);
}

static lk__domain_cost change_cost(const lk__domain_walk *w, lk_tensor_type type, lk_domain from,
                                   lk_domain to)
{
    lk__domain_cost cost = {from != to, 0};
    if (from == to)
        return cost;
    if (!lk__domain_can_cut(w->tiling, type))
        return never;
    cost.bytes = (int64_t)lk_dtype_size(type.dtype);
    for (int d = 0; d < type.shape.ndim; d++)
        cost.bytes *= type.shape.dim[d];
    return cost;
}

/* Of what is within a layer that runs in a domain. */
static lk__domain_cost within_cost(const lk__domain_walk *w, int64_t number, lk_domain domain)
{
    const lk_layer_instance *l = &w->net->instance[number];
    lk__domain_cost sum = w->may[number][domain] ? (lk__domain_cost){0, 0} : never;
    for (int i = 0; i < l->n_lists; i++) {
        const lk__list *within = &w->net->list[l->list[i]];
        if (within->n > 0)
            sum = cost_sum(sum, w->ways[within->instance[0]].least[domain][domain]);
    }
    return sum;
}

/* Of a list's layer number i in a domain, and of the way from there on. */
static lk__domain_cost way_cost(const lk__domain_walk *w, const lk__list *layers, int64_t i,
                                lk_domain at, lk_domain domain, lk_domain end)
{
    int64_t number = layers->instance[i];
    const lk_layer_instance *l = &w->net->instance[number];
    lk_domain out = lk__domain_can_cut(w->tiling, l->out) ? domain : LK_BY_SAMPLE;
    lk__domain_cost here = cost_sum(change_cost(w, l->in, at, domain),
                                    within_cost(w, number, domain));
    if (i + 1 == layers->n)
        return cost_sum(here, change_cost(w, l->out, out, end));
    return cost_sum(here, w->ways[layers->instance[i + 1]].least[out][end]);
}

lk_domain lk__domain_choose(const lk__domain_walk *w, int64_t list, int64_t i, lk_domain at,
                            lk_domain end)
{
    const lk__list *layers = &w->net->list[list];
    lk_domain other = at == LK_BY_TILE ? LK_BY_SAMPLE : LK_BY_TILE;
    const bool *may = w->may[layers->instance[i]];
    if (!may[at] || !may[other])
        return may[at] ? at : other;
    return is_less(way_cost(w, layers, i, at, other, end), way_cost(w, layers, i, at, at, end))
               ? other
               : at;
}

void lk__domains_weigh(const lk__domain_walk *w, int64_t list)
{
    const lk__list *layers = &w->net->list[list];
    for (int64_t i = layers->n - 1; i >= 0; i--) {
        const lk_layer_instance *l = &w->net->instance[layers->instance[i]];
        for (int k = 0; k < l->n_lists; k++)
            lk__domains_weigh(w, l->list[k]);
        for (int at = 0; at < LK__N_DOMAINS; at++)
            for (int end = 0; end < LK__N_DOMAINS; end++) {
                lk_domain domain = lk__domain_choose(w, list, i, (lk_domain)at, (lk_domain)end);
                w->ways[layers->instance[i]].least[at][end] = way_cost(w, layers, i, (lk_domain)at,
                                                                       domain, (lk_domain)end);
            }
    }
}
