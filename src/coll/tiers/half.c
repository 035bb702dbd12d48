/* f16 and bf16 where one stage is all there is, each rank on a node of its own: the vectors are joined block
 * by block as they come, while more is on its way.
 *
 *     from 1    b0 b1 b2 b3 ...       b0 is here: f32 of a0 and b0 are joined, finished and rounded to out0,
 *     to 1      a0 a1 a2 a3 ...       in memory that stays in the cache, while b1 and b2 travel
 *
 * lk__tiers_reduce() calls it.
 */
#include "coll/tiers/tiers.h"

enum { BLOCK = 4096 }; /* elements that are joined at a time */

struct blocks {
    const lk__tiers_run *run;
    int64_t from, n; /* this rank's part */
    lk__leaf *leaf;  /* [members] */
    unsigned char *got, *wide;
};

bool lk__half_can(const lk__tiers_run *run, const lk__stage *g)
{
    return run->narrow && run->n_stages == 1 && g->size == run->k->size && !run->tiers.any;
}

/* Elements [first, first + n) of the part, n at most BLOCK. */
static lk_status block_join(const struct blocks *b, lk__schedule *s, int64_t first, int64_t n)
{
    const lk__tiers_run *run = b->run;
    const lk__held *h = &run->held;
    int me = run->k->rank;
    int64_t elem = run->given->elem, members = run->k->size;
    for (int i = 0; i < members; i++) {
        const unsigned char *x = i == me ? h->vector[0] + (b->from - h->from + first) * elem
                                         : b->got + ((i - (i > me)) * b->n + first) * elem;
        b->leaf[i] = (lk__leaf){{i, 1}, b->wide + i * (BLOCK * run->k->elem)};
        LK_TRY(lk__schedule_widen(s, b->leaf[i].data, x, n));
    }
    LK_TRY(lk__schedule_merge(s, run->k, n, b->leaf, &members));
    LK_TRY(lk__schedule_finish(s, b->leaf[0].data, n));
    unsigned char *out = run->given->c.out;
    return lk__schedule_narrow(s, out + (b->from + first) * elem, b->leaf[0].data, n);
}

static lk_status join_arrived(void *arg, lk__schedule *s, int64_t first, int64_t bytes)
{
    const struct blocks *b = arg;
    int64_t elem = b->run->given->elem, end = (first + bytes) / elem;
    end = end < b->n ? end : b->n;
    for (int64_t at = first / elem, n; at < end; at += n) {
        n = end - at < BLOCK ? end - at : BLOCK;
        LK_TRY(block_join(b, s, at, n));
    }
    return LK_OK;
}

lk_status lk__half_reduce(lk__tiers_run *run, const lk__stage *g, lk__schedule *s)
{
    const lk__rooms *rooms = &run->rooms;
    struct blocks b = {.run = run};
    lk__parcel *parcel = NULL;
    int64_t others = g->size - 1;
    lk__stage_part(g, g->me, &b.from, &b.n);
    LK_TRY(rooms->room(rooms->context, others * b.n * run->given->elem, &b.got));
    LK_TRY(rooms->room(rooms->context, g->size * (int64_t)BLOCK * run->k->elem, &b.wide));
    LK_TRY(rooms->room(rooms->context, g->size * (int64_t)sizeof *b.leaf, &b.leaf));
    LK_TRY(rooms->room(rooms->context, 2 * others * (int64_t)sizeof *parcel, &parcel));
    int64_t n = lk__direct_parcels(run, g, b.got, parcel);
    LK_TRY(lk__schedule_parcels(s, parcel, n, run->tiers.piece[g->tier],
                                &(lk__unpack){join_arrived, &b}));
    run->held.n = 0; /* the result is in `out` */
    return LK_OK;
}
