/* allgather, doubling: partners at distance 1, 2, 4, ... exchange all they have.
 *
 *     0 ◄─► 1   2 ◄─► 3        after step k a rank has the parts of the 2^(k+1) ranks around it,
 *     0 ◄─────► 2              which lie side by side
 *     1 ◄─────► 3
 *
 * Powers of two of ranks, parts one behind the other.  Cost: log2 P alpha + (P-1)/P n beta, n the
 * bytes in all: the fewest messages one behind another.
 */
#include "coll/schedule.h"

static bool doubling_eligible(const lk__coll_args *k, const char **why)
{
    *why = "it needs a power of two of ranks and takes no offsets";
    return !(k->size & (k->size - 1)) && !k->c.offsets;
}

static double doubling_cost(const lk__coll_args *k, const lk__rates *r)
{
    return lk__coll_args_rounds(k) * r->alpha + (double)(k->extent * k->elem) * r->beta;
}

/* Where the parts of ranks [r, r + n) begin, and their bytes. */
static unsigned char *parts_of(const lk__coll_args *k, int r, int n, int64_t *bytes)
{
    int last = r + n - 1;
    *bytes = (k->offsets[last] + k->counts[last] - k->offsets[r]) * k->elem;
    return (unsigned char *)k->c.out + k->offsets[r] * k->elem;
}

static lk_status doubling_schedule(const lk__coll_args *k, lk__schedule *s)
{
    int64_t give_n, get_n;
    unsigned char *own = parts_of(k, k->rank, 1, &give_n);
    if (k->c.in)
        LK_TRY(lk__schedule_copy(s, own, k->c.in, give_n));
    for (int distance = 1; distance < k->size; distance *= 2) {
        int partner = k->rank ^ distance, mine = k->rank & -distance, theirs = partner & -distance;
        unsigned char *give = parts_of(k, mine, distance, &give_n);
        unsigned char *get = parts_of(k, theirs, distance, &get_n);
        LK_TRY(lk__schedule_send(s, partner, give, give_n));
        LK_TRY(lk__schedule_recv(s, partner, get, get_n));
        LK_TRY(lk__schedule_wait(s));
    }
    return LK_OK;
}

const lk__coll lk__coll_allgather_doubling = {.call = LK_CALL_ALLGATHER,
                                              .name = "doubling",
                                              .summary = "partners exchange all they have",
                                              .needs = "a power of two of ranks, no offsets",
                                              .eligible = doubling_eligible,
                                              .cost = doubling_cost,
                                              .schedule = doubling_schedule};
