/* The control vector: votes, then for each loss a slot for that of each subtree that a rank has of the
 * batch, of each tile of the run.
 *
 *     failed  stop  saved | rank 0's losses | rank 1's | ... | of the next loss, rank 0's | ...
 *
 * All are 64-bit integers, added up over ranks: votes are counted, and a slot, which one rank fills
 * with the bits of a double and the others leave 0, is copied.  Then each rank adds the losses by the
 * tree, in the model's dtype.  So every rank votes, one without samples as well, and the loss has
 * the bits of the tree over the shards although nothing but integers travels.
 */
#include "parallel/control.h"

#include <lockstep/extra/alloc.h>

#include <string.h>

/* How the numbers of a loss lie. */
typedef struct slots {
    int parts, part;   /* among which shards are dealt, and which is this rank's */
    int64_t shards;    /* of the batch that the next are for; 0: none yet */
    lk_range *node;    /* [n] subtrees of all ranks, in order */
    int64_t n;         /* of them, */
    int64_t mine, own; /* this rank's begin at `mine`, `own` of them */
    int64_t tiles;     /* losses of each */
    int64_t *at;       /* where they begin */
} slots;

struct lk__control {
    lk_comm *comm;
    lk_dtype dtype;
    int rank, size;
    int64_t max_slots;            /* of a loss in any batch */
    int64_t losses;               /* at most */
    slots *loss;                  /* [losses] */
    lk_range *node;               /* of all of them */
    int64_t *slot;                /* [LK__N_VOTES + losses * max_slots] */
    int64_t vote[LK__N_VOTES];    /* of this rank, for the next exchange */
    int64_t counted[LK__N_VOTES]; /* of all ranks, that nobody has asked for yet */
};

static lk_status control_make(lk__control *c, int64_t max_slots)
{
    c->size = c->comm ? lk_comm_size(c->comm) : 1;
    c->rank = c->comm ? lk_comm_rank(c->comm) : 0;
    c->max_slots = max_slots > c->size ? max_slots : c->size;
    LK_TRY(lk_alloc_zero(&c->loss, c->losses, sizeof *c->loss));
    LK_TRY(lk_alloc_zero(&c->node, c->losses * c->max_slots, sizeof *c->node));
    LK_TRY(lk_alloc_zero(&c->slot, LK__N_VOTES + c->losses * c->max_slots, sizeof *c->slot));
    for (int64_t i = 0; i < c->losses; i++)
        c->loss[i].node = c->node + i * c->max_slots;
    return LK_OK;
}

lk_status lk__control_new(lk_comm *comm, lk_dtype dtype, int64_t n, int64_t max_slots,
                          lk__control **out)
{
    lk__control *c = NULL;
    *out = NULL;
    LK_TRY(lk_alloc_zero(&c, 1, sizeof *c));
    c->comm = comm;
    c->dtype = dtype;
    c->losses = n;
    lk_status st = control_make(c, max_slots);
    if (st != LK_OK) {
        lk__control_free(c);
        LK_TRY(st);
    }
    *out = c;
    return LK_OK;
}

void lk__control_free(lk__control *c)
{
    if (!c)
        return;
    lk_free(c->loss);
    lk_free(c->node);
    lk_free(c->slot);
    lk_free(c);
}

void lk__control_vote(lk__control *c, lk__vote vote, bool yes)
{
    c->vote[vote] = yes;
}

int64_t lk__control_votes(lk__control *c, lk__vote vote)
{
    int64_t n = c->counted[vote];
    c->counted[vote] = 0;
    return n;
}

static lk_status room_check(const lk__control *c, int64_t n)
{
    LK_CHECK(n <= c->max_slots, LK_EINVAL, "a loss of %lld numbers, room for %lld", (long long)n,
             (long long)c->max_slots);
    return LK_OK;
}

/* Find the subtrees of all ranks; those of a batch of as many shards as the last one are known.  All ranks
 * find the same, and so fail together. */
static lk_status subtrees_find(const lk__control *c, const lk__deal *deal, slots *s)
{
    if (s->shards == deal->shards)
        return LK_OK;
    s->shards = 0;
    s->n = 0;
    s->parts = deal->parts > 0 ? deal->parts : c->size;
    s->part = deal->parts > 0 ? deal->part : c->rank;
    for (int r = 0; r < s->parts; r++) {
        lk_range own[LK_MAX_SUBTREES];
        lk_range range = lk_range_split(deal->shards, r, s->parts);
        if (deal->first)
            range = (lk_range){deal->first[r], deal->first[r + 1] - deal->first[r]};
        int n = lk_range_subtrees(deal->shards, range, own);
        if (r == s->part) {
            s->mine = s->n;
            s->own = n;
        }
        LK_TRY(room_check(c, s->n + n));
        memcpy(&s->node[s->n], own, (size_t)n * sizeof *own);
        s->n += n;
    }
    s->shards = deal->shards;
    return LK_OK;
}

/* ---- the tree ---- */

static double add(lk_dtype dtype, double a, double b)
{
    return dtype == LK_F32 ? (double)((float)a + (float)b) : a + b;
}

/* The loss of shards [at.first, at.first + at.n) and of a tile: that of subtree number *next, or of
 * several from it on. */
static double tree_sum(lk_dtype dtype, const slots *s, int64_t tile, lk_range at, int64_t *next)
{
    double value;
    if (s->node[*next].n == at.n) {
        memcpy(&value, &s->at[(*next)++ * s->tiles + tile], sizeof value);
        return value;
    }
    int64_t half = lk_tree_half(at.n);
    value = tree_sum(dtype, s, tile, (lk_range){at.first, half}, next);
    return add(dtype, value,
               tree_sum(dtype, s, tile, (lk_range){at.first + half, at.n - half}, next));
}

/* The loss of tiles `at` along an axis, those of all axes before it being those of number `before`. */
static double tiles_sum(lk_dtype dtype, const slots *s, const lk_tiling *t, int axis,
                        int64_t before, lk_range at)
{
    int64_t next = 0;
    if (at.n > 1) {
        int64_t half = lk_tree_half(at.n);
        double lower = tiles_sum(dtype, s, t, axis, before, (lk_range){at.first, half});
        lk_range upper = {at.first + half, at.n - half};
        return add(dtype, lower, tiles_sum(dtype, s, t, axis, before, upper));
    }
    int64_t tile = t ? before * t->tiles[axis] + at.first : 0;
    if (t && axis + 1 < LK_TILE_AXES)
        return tiles_sum(dtype, s, t, axis + 1, tile, (lk_range){0, t->tiles[axis + 1]});
    return tree_sum(dtype, s, tile, (lk_range){0, s->shards}, &next);
}

/* ---- the exchange ---- */

/* The number among all tiles of this rank's tile number `leaf`. */
static int64_t tile_number(const lk_tiling *t, int64_t leaf)
{
    int64_t at[LK_TILE_AXES], number = 0;
    for (int d = LK_TILE_AXES - 1; d >= 0; d--) {
        at[d] = t->held[d].first + leaf % t->held[d].n;
        leaf /= t->held[d].n;
    }
    for (int d = 0; d < LK_TILE_AXES; d++)
        number = number * t->tiles[d] + at[d];
    return number;
}

/* Put this rank's numbers of a loss into their slots, from number `*all` on, which is moved behind the last. */
static lk_status loss_pack(const lk__control *c, const lk__loss_sum *loss, slots *s, int64_t *all)
{
    const lk_tiling *t = loss->deal.tiling;
    int64_t leaves = t ? lk_tiling_leaves(t) : 1;
    int64_t *at = c->slot + *all;
    LK_TRY(subtrees_find(c, &loss->deal, s));
    s->tiles = t ? t->tiles[0] * t->tiles[1] * t->tiles[2] : 1;
    s->at = at;
    LK_TRY(room_check(c, s->n * s->tiles));
    memset(at, 0, (size_t)(s->n * s->tiles) * sizeof *at);
    for (int64_t k = 0; k < s->own && !loss->deal.silent; k++)
        for (int64_t i = 0; i < leaves; i++) {
            int64_t slot = (s->mine + k) * s->tiles + (t ? tile_number(t, i) : 0);
            memcpy(&at[slot], &loss->own[k * leaves + i], sizeof *loss->own);
        }
    *all += s->n * s->tiles;
    return LK_OK;
}

lk_status lk__control_exchange(lk__control *c, lk__loss_sum *loss, int64_t n)
{
    int64_t all = LK__N_VOTES;
    LK_CHECK(n <= c->losses, LK_EINVAL, "%lld losses, room for %lld", (long long)n,
             (long long)c->losses);
    memcpy(c->slot, c->vote, sizeof c->vote);
    for (int64_t i = 0; i < n; i++)
        LK_TRY(loss_pack(c, &loss[i], &c->loss[i], &all));
    memset(c->vote, 0, sizeof c->vote);
    if (c->comm)
        LK_TRY(lk_allreduce(c->comm, NULL, c->slot, all, LK_I64, LK_REDUCE_SUM, "votes and loss"));
    for (int v = 0; v < LK__N_VOTES; v++)
        c->counted[v] += c->slot[v];
    for (int64_t i = 0; i < n; i++) {
        const lk_tiling *t = loss[i].deal.tiling;
        loss[i].total = tiles_sum(c->dtype, &c->loss[i], t, 0, 0,
                                  (lk_range){0, t ? t->tiles[0] : 1});
    }
    return LK_OK;
}
