/* Which algorithm a call uses: the one that is named, or the one of the least predicted cost.  run.c
 * asks for each call.
 */
#include "base/fpenv.h"
#include "coll/tiers/tiers.h"

#include <lockstep/extra/algorithms.h>

#include <stdio.h>
#include <string.h>

/* Seconds for a message, a byte of it, and joining a byte: as measured between nodes, once a large call
 * has been made there; until then and inside a node orders of magnitude.  With more ranks than cores
 * every wait is a switch between processes. */
lk__rates lk__rates_of(const lk_comm *comm, bool near)
{
    bool crowded = comm->inter_size == 1 && comm->w->spins == 0;
    const lk__coll_state *state = comm->coll;
    if (!near && state && state->tiers)
        return lk__tiers_slowest(state->tiers);
    return near ? (lk__rates){crowded ? 1.2e-5 : 1.5e-6, 2e-10, 5e-11}
                : (lk__rates){2e-5, 1e-9, 5e-11};
}

/* The kinds of communicators that ChainerMN has, as other names of algorithms; NULL: by cost. */
static const struct kind {
    const char *name, *algorithm, *summary;
    bool one_node;
} kinds[] = {
    {"naive", "tree", "ChainerMN's: every tensor by itself, whole", false},
    {"flat", "direct", "ChainerMN's: one vector, all ranks alike", false},
    {"two_dimensional", "tiers", "ChainerMN's: shares within nodes, then between them", false},
    {"non_cuda_aware", "hierarchical", "ChainerMN's: nodes, then their first ranks", false},
    {"single_node", NULL, "ChainerMN's: ranks of one node only", true},
    {"pure_nccl", NULL, "ChainerMN's: one allreduce, the cheapest", false},
};

enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

static const struct kind *kind_find(const lk__coll_args *k, const char *name)
{
    for (int i = 0; i < N_KINDS && k->c.call == LK_CALL_ALLREDUCE; i++)
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    return NULL;
}

bool lk__coll_wants(const lk__coll_args *k, unsigned uses)
{
    const lk__coll_state *state = k->comm->coll;
    const char *name = k->c.algorithm ? k->c.algorithm : state->named[k->c.call];
    const struct kind *kind = name ? kind_find(k, name) : NULL;
    name = kind ? kind->algorithm : name;
    if (!name && k->comm->inter_size == 1)
        return false;
    for (int i = 0; lk__colls[i]; i++)
        if (lk__colls[i]->call == k->c.call && (lk__colls[i]->uses & uses) &&
            (!name || strcmp(lk__colls[i]->name, name) == 0))
            return true;
    return false;
}

static int select_cheapest(const lk__coll_args *k);

static lk_status unknown(const lk__coll_args *k, const char *name)
{
    char known[512] = "", variable[LK_COLL_VARIABLE] = "";
    if (!k->c.algorithm) /* then it is the environment's */
        lk__coll_variable(k->c.call, variable);
    for (int i = 0; lk__colls[i]; i++) {
        size_t used = strlen(known);
        if (lk__colls[i]->call == k->c.call)
            snprintf(known + used, sizeof known - used, " %s", lk__colls[i]->name);
    }
    for (int i = 0; i < N_KINDS && k->c.call == LK_CALL_ALLREDUCE; i++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, " %s", kinds[i].name);
    }
    return LK_RAISE(LK_EINVAL, "%s%sno %s algorithm named \"%s\"; the names are%s", variable,
                    *variable ? ": " : "", lk_comm_call_name(k->c.call), name, known);
}

static lk_status select_named(const lk__coll_args *k, const char *name, int *number)
{
    const struct kind *kind = kind_find(k, name);
    LK_CHECK(!kind || !kind->one_node || lk_comm_nodes(k->comm) == 1, LK_ENOTSUP,
             "allreduce %s: the ranks are on %d nodes", name, lk_comm_nodes(k->comm));
    if (kind && !kind->algorithm) {
        *number = select_cheapest(k);
        return LK_OK;
    }
    const char *wanted = kind ? kind->algorithm : name;
    for (int i = 0; lk__colls[i]; i++) {
        const lk__coll *a = lk__colls[i];
        if (a->call != k->c.call || strcmp(a->name, wanted) != 0)
            continue;
        const char *why = "";
        LK_CHECK(!a->eligible || a->eligible(k, &why), LK_ENOTSUP, "%s %s cannot do this call: %s",
                 lk_comm_call_name(a->call), name, why);
        *number = i + 1;
        return LK_OK;
    }
    return unknown(k, name);
}

static int select_cheapest(const lk__coll_args *k)
{
    LK_FP_GUARD();
    lk__rates rates = lk__rates_of(k->comm, k->comm->inter_size == 1);
    double best = 0;
    int number = 0;
    for (int i = 0; lk__colls[i]; i++) {
        const lk__coll *a = lk__colls[i];
        const char *why;
        if (a->call != k->c.call || a->benchmark_only || (a->eligible && !a->eligible(k, &why)))
            continue;
        double cost = a->cost(k, &rates);
        if (number == 0 || cost < best) {
            best = cost;
            number = i + 1;
        }
    }
    return number;
}

/* The name in a table, which stays as it is: the caller may write another into its own. */
static const char *name_kept(const lk__coll_args *k, const char *name, int number)
{
    const struct kind *kind = kind_find(k, name);
    return kind ? kind->name : lk__colls[number - 1]->name;
}

static bool name_is(const char *name, const char *kept)
{
    return name && kept ? strcmp(name, kept) == 0 : name == kept;
}

lk_status lk__coll_select(const lk__coll_args *k, int *number)
{
    lk__coll_state *state = k->comm->coll;
    const lk_collective *c = &k->c;
    const char *name = c->algorithm ? c->algorithm : state->named[c->call];
    bool same = state->last.number && state->last.call == c->call &&
                state->last.dtype == c->dtype && state->last.op == c->op &&
                state->last.count == c->count && state->last.pieces == k->pieces &&
                state->last.wait == k->wait && !c->first && !k->counts &&
                name_is(name, state->last.name);
    *number = same ? state->last.number : 0;
    if (!same && name)
        LK_TRY(select_named(k, name, number));
    else if (!same)
        *number = select_cheapest(k);
    LK_CHECK(*number > 0, LK_ENOTSUP, "no algorithm can do this %s", lk_comm_call_name(c->call));
    if (!same && !c->first && !k->counts) {
        state->last.name = name ? name_kept(k, name, *number) : NULL;
        state->last.call = c->call;
        state->last.dtype = c->dtype;
        state->last.op = c->op;
        state->last.count = c->count;
        state->last.pieces = k->pieces;
        state->last.wait = k->wait;
        state->last.number = *number;
    }
    return LK_OK;
}

bool lk_coll_list(int i, lk_coll_info *out)
{
    int n = 0;
    while (lk__colls[n])
        n++;
    if (i < 0 || i >= n + N_KINDS)
        return false;
    if (i >= n) {
        const struct kind *kind = &kinds[i - n];
        *out = (lk_coll_info){.call = lk_comm_call_name(LK_CALL_ALLREDUCE),
                              .name = kind->name,
                              .summary = kind->summary,
                              .needs = kind->one_node ? "one node" : "",
                              .alias = kind->algorithm};
        return true;
    }
    const lk__coll *a = lk__colls[i];
    *out = (lk_coll_info){.call = lk_comm_call_name(a->call),
                          .name = a->name,
                          .summary = a->summary,
                          .needs = a->needs ? a->needs : "",
                          .benchmark_only = a->benchmark_only};
    return true;
}
