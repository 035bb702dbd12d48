/* Parts of a schedule that the ranks of a node do in their shared area; within.h draws them. */
#include "coll/shm/within.h"

#include "coll/parts.h"

static int node_of(const lk_comm *comm, int rank)
{
    return comm->w->node[comm->member[rank]];
}

/* Ranks on the fullest node. */
static int most_on_a_node(const lk_comm *comm)
{
    int most = 0;
    for (int r = 0; r < comm->size; r++) {
        int n = 0;
        for (int s = r; s < comm->size && n <= LK_SHM_AREA_RANKS; s++)
            n += node_of(comm, s) == node_of(comm, r);
        most = n > most ? n : most;
    }
    return most;
}

bool lk__within_fits(const lk_comm *comm)
{
    int most = most_on_a_node(comm);
    return most >= 2 && most <= LK_SHM_AREA_RANKS;
}

lk_status lk__within_open(const lk__coll_args *k)
{
    lk__coll_state *state = k->comm->coll;
    if (!k->wait || state->area || state->no_area)
        return LK_OK;
    if (!lk__within_fits(k->comm)) {
        state->no_area = true;
        return LK_OK;
    }
    lk_status st = lk__shm_area_open(k, 0);
    if (!lk__shm_area_is_none(k, st))
        return st;
    lk_error_clear();
    return LK_OK;
}

/* Whether every node's joins can be written as a program. */
static bool programs_fit(const lk__coll_args *k)
{
    lk__program p;
    lk_range sums[LK_PROGRAM_DEPTH];
    for (int r = 0; r < k->size; r++) {
        bool first = true;
        for (int s = 0; s < r && first; s++)
            first = node_of(k->comm, s) != node_of(k->comm, r);
        if (first && !lk__program_node(k, node_of(k->comm, r), &p, sums))
            return false;
    }
    return true;
}

bool lk__within_can(const lk__coll_args *k)
{
    lk__coll_state *state = k->comm->coll;
    if (!state || !state->area)
        return false;
    if (k->c.first)
        return programs_fit(k);
    if (state->within.pieces != k->pieces) {
        state->within.fits = programs_fit(k);
        state->within.pieces = k->pieces;
    }
    return state->within.fits;
}

int lk__within_subtrees(const lk__coll_args *k, int node, lk_range *out)
{
    lk__program p;
    return lk__program_node(k, node, &p, out) ? p.n_sums : 0;
}

/* One of parts.h, from this rank's turn to the end of the call. */
static lk_status advance(lk_request *r, lk_status (*part)(lk__shm_call *c, bool *end))
{
    lk__shm_call *c = (lk__shm_call *)r;
    bool end;
    if (!lk__shm_area_turn(c))
        return LK_OK;
    LK_TRY(part(c, &end));
    if (end)
        lk__shm_area_end(c);
    return LK_OK;
}

static lk_status reduce_advance(lk_request *r)
{
    return advance(r, lk__parts_advance);
}

static lk_status gather_advance(lk_request *r)
{
    return advance(r, lk__gather_advance);
}

static void cuts_fill(lk__shm_call *c, const lk__cuts *cuts)
{
    for (int i = 0; i < c->area->n; i++) {
        c->counts[i] = cuts->n[i];
        c->offsets[i] = cuts->from[i];
    }
}

lk_status lk__within_reduce(const lk__coll_args *k, lk__schedule *s, const lk__cuts *cuts,
                            const lk__rooms *rooms, lk__held *out)
{
    lk__shm_call *c = NULL;
    LK_TRY(lk__shm_area_part(k, s, reduce_advance, &c));
    cuts_fill(c, cuts);
    /* The mean is for the whole sum. */
    c->op = c->op == LK_REDUCE_AVG ? LK_REDUCE_SUM : c->op;
    c->program = &c->own;
    (void)lk__program_node(k, k->comm->w->node[k->comm->w->rank], &c->own, out->node);
    out->n_vectors = c->own.n_sums;
    out->from = cuts->from[c->area->me];
    out->n = cuts->n[c->area->me];
    for (int v = 0; v < out->n_vectors; v++) {
        if (v == 0)
            c->sum[v] = c->out + out->from * k->elem;
        else
            LK_TRY(rooms->room(rooms->context, out->n * k->elem, &c->sum[v]));
        out->vector[v] = c->sum[v];
        out->ours[v] = true;
    }
    return LK_OK;
}

lk_status lk__within_gather(const lk__coll_args *k, lk__schedule *s, const lk__cuts *cuts)
{
    lk__shm_call *c = NULL;
    LK_TRY(lk__shm_area_part(k, s, gather_advance, &c));
    cuts_fill(c, cuts);
    c->in = c->out + cuts->from[c->area->me] * k->elem;
    return LK_OK;
}

double lk__within_cost(const lk__coll_args *k)
{
    lk__rates r = lk__rates_of(k->comm, true);
    double n = (double)(k->c.count * k->work_elem);
    double ranks = (double)k->size / k->comm->inter_size;
    return 2 * 0.4 * r.alpha * ranks + n * (0.3 * r.beta + r.gamma) + 0.6 * n * r.beta;
}
