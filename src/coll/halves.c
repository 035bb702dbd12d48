/* lk__schedule_halve(): recursive halving, the part of a schedule that allreduce_halving.c and
 * reduce_scatter_halving.c share.  Partners at distance 1, 2, 4, ... each give the other half of
 * what they have.
 *
 *     ranks   0 ◄─► 1   2 ◄─► 3        each keeps one half of the parts and joins it: after the
 *             0 ◄─────► 2              first step 0+1 and 2+3, after the second (0+1)+(2+3)
 *
 * With the nearest partner first this is the fixed tree itself, part by part.  A rank ends with the
 * part whose number is its own with the bits reversed.
 */
#include "coll/schedule.h"

/* What a rank has and what its partner gets, at one step. */
static lk_status halve_step(lk__schedule *s, const lk__coll_args *k, lk__halves *h,
                            unsigned char *room)
{
    int distance = 1 << h->n, partner = k->rank ^ distance;
    int64_t from = h->from[h->n], to = h->to[h->n], middle = from + (to - from) / 2;
    bool upper = k->rank & distance;
    int64_t keep = h->bound[upper ? middle : from], keep_n = h->bound[upper ? to : middle] - keep;
    int64_t give = h->bound[upper ? from : middle], give_n = h->bound[upper ? middle : to] - give;
    unsigned char *mine = h->acc + keep * k->elem;
    LK_TRY(lk__schedule_send(s, partner, h->acc + give * k->elem, give_n * k->elem));
    LK_TRY(lk__schedule_recv(s, partner, room, keep_n * k->elem));
    LK_TRY(lk__schedule_wait(s));
    if (upper) { /* the partner's is the first operand */
        LK_TRY(lk__schedule_join(s, room, mine, keep_n));
        LK_TRY(lk__schedule_copy(s, mine, room, keep_n * k->elem));
    } else {
        LK_TRY(lk__schedule_join(s, mine, room, keep_n));
    }
    h->n++;
    h->from[h->n] = upper ? middle : from;
    h->to[h->n] = upper ? to : middle;
    return LK_OK;
}

lk_status lk__schedule_halve(lk__schedule *s, const lk__coll_args *k, lk__halves *h)
{
    unsigned char *room;
    LK_TRY(lk__schedule_room(s, h->bound[k->size] * k->elem, &room));
    h->n = 0;
    h->from[0] = 0;
    h->to[0] = k->size;
    while (1 << h->n < k->size)
        LK_TRY(halve_step(s, k, h, room));
    int64_t at = h->bound[h->from[h->n]];
    return lk__schedule_finish(s, h->acc + at * k->elem, h->bound[h->to[h->n]] - at);
}

/* Whether the ranks themselves are the leaves of the tree. */
static bool is_aligned(const lk__coll_args *k)
{
    if (k->size & (k->size - 1) || k->work != k->c.dtype)
        return false;
    if (k->pieces == k->size && !k->c.first)
        return true;
    for (int step = 2; step <= k->size;
         step *= 2) /* the halves of each range are halves of the tree */
        for (int r = 0; r < k->size; r += step) {
            int64_t n = k->first[r + step] - k->first[r],
                    lower = k->first[r + step / 2] - k->first[r];
            if (lower == 0 || lower == n || lower != lk_tree_half(n))
                return false;
        }
    return true;
}

bool lk__aligned_eligible(const lk__coll_args *k, const char **why)
{
    *why = "it needs a power of two of ranks with one subtree each, and no f16 or bf16";
    return is_aligned(k);
}
