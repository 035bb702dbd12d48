/* neighbour, direct: a message to and from each neighbour.
 *
 * A rank may be in the list several times (both neighbours on a ring of two), even this rank itself.
 * Messages to the same rank are sent in the order in which they lie in that one's list, which
 * `peer_slot` tells.
 *
 * Cost: alpha + n beta, n the bytes of the neighbour with the most.
 */
#include "coll/schedule.h"

#include <lockstep/extra/alloc.h>

static double direct_cost(const lk__coll_args *k, const lk__rates *r)
{
    return r->alpha + (double)(k->extent * k->elem) * r->beta;
}

/* The entry that is sent next: the lowest place in the receiver's list among those not `sent`. */
static int next_to_send(const lk_collective *c, const bool *sent)
{
    int best = -1;
    for (int i = 0; i < c->n_neighbours; i++) {
        if (sent[i] || c->neighbours[i] < 0)
            continue;
        if (best < 0 || (c->peer_slot && c->peer_slot[i] < c->peer_slot[best]))
            best = i;
    }
    return best;
}

static lk_status direct_sends(const lk__coll_args *k, lk__schedule *s, bool *sent)
{
    const lk_collective *c = &k->c;
    for (int i; (i = next_to_send(c, sent)) >= 0; sent[i] = true)
        LK_TRY(lk__schedule_send(s, c->neighbours[i],
                                 (const unsigned char *)c->in + k->in_offsets[i] * k->elem,
                                 k->in_counts[i] * k->elem));
    return LK_OK;
}

static lk_status direct_schedule(const lk__coll_args *k, lk__schedule *s)
{
    const lk_collective *c = &k->c;
    for (int i = 0; i < c->n_neighbours; i++)
        if (c->neighbours[i] >= 0)
            LK_TRY(lk__schedule_recv(s, c->neighbours[i],
                                     (unsigned char *)c->out + k->offsets[i] * k->elem,
                                     k->counts[i] * k->elem));
    bool *sent;
    LK_TRY(lk_alloc_zero(&sent, c->n_neighbours, sizeof *sent));
    lk_status st = direct_sends(k, s, sent);
    lk_free(sent);
    return st;
}

const lk__coll lk__coll_neighbour_direct = {.call = LK_CALL_NEIGHBOUR,
                                            .name = "direct",
                                            .summary = "a message to and from each neighbour",
                                            .cost = direct_cost,
                                            .schedule = direct_schedule};
