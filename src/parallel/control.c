/* The control vector: votes, then a slot for the loss of each subtree that a rank has of the batch.
 *
 *     failed  stop  saved | rank 0's losses | rank 1's | ...
 *
 * All are 64-bit integers, added up over ranks: votes are counted, and a slot, which one rank fills
 * with the bits of a double and the others leave 0, is copied.  Then each rank adds the losses by the
 * tree, in the model's dtype.  So every rank is heard, one without samples as well, and the loss has
 * the bits of the tree over the shards although nothing but integers travels.
 */
#include "parallel/control.h"

#include <lockstep/extra/alloc.h>

#include <string.h>

struct lk__control {
    lk_comm *comm;
    lk_dtype dtype;
    int rank, size;
    int64_t most;    /* subtrees of all ranks in any batch, at most */
    int64_t shards;  /* of the batch that the next three are for; 0: none yet */
    lk_range *node;  /* [n] subtrees of all ranks, in order */
    int64_t n, mine; /* of them this rank's begin at `mine` */
    int64_t *slot;   /* [LK__N_VOTES + most] */
    int64_t own, vote[LK__N_VOTES];
};

static lk_status control_make(lk__control *c, int64_t shards)
{
    c->size = c->comm ? lk_comm_size(c->comm) : 1;
    c->rank = c->comm ? lk_comm_rank(c->comm) : 0;
    c->most = shards > c->size ? shards : c->size;
    LK_TRY(lk_alloc_zero(&c->node, c->most, sizeof *c->node));
    LK_TRY(lk_alloc_zero(&c->slot, LK__N_VOTES + c->most, sizeof *c->slot));
    return LK_OK;
}

lk_status lk__control_new(lk_comm *comm, lk_dtype dtype, int64_t shards, lk__control **out)
{
    lk__control *c = NULL;
    *out = NULL;
    LK_TRY(lk_alloc_zero(&c, 1, sizeof *c));
    c->comm = comm;
    c->dtype = dtype;
    lk_status st = control_make(c, shards);
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
    lk_free(c->node);
    lk_free(c->slot);
    lk_free(c);
}

void lk__control_vote(lk__control *c, lk__vote vote, bool yes)
{
    c->vote[vote] = yes;
}

int64_t lk__control_votes(const lk__control *c, lk__vote vote)
{
    return c->slot[vote];
}

/* Find the subtrees of all ranks; those of a batch of as many shards as the last one are known. */
static void subtrees_find(lk__control *c, const lk__deal *deal)
{
    if (c->shards == deal->shards)
        return;
    c->shards = deal->shards;
    c->n = 0;
    for (int r = 0; r < c->size; r++) {
        lk_range own[LK_MAX_SUBTREES];
        lk_range range = lk_range_split(deal->shards, r, c->size);
        if (deal->first)
            range = (lk_range){deal->first[r], deal->first[r + 1] - deal->first[r]};
        int n = lk_range_subtrees(deal->shards, range, own);
        if (r == c->rank) {
            c->mine = c->n;
            c->own = n;
        }
        memcpy(&c->node[c->n], own, (size_t)n * sizeof *own);
        c->n += n;
    }
}

/* The loss of shards [at.first, at.first + at.n): that of subtree number *next, or of several from it
 * on. */
static double tree_sum(const lk__control *c, lk_range at, int64_t *next)
{
    double value, upper;
    if (c->node[*next].n == at.n) {
        memcpy(&value, &c->slot[LK__N_VOTES + (*next)++], sizeof value);
        return value;
    }
    int64_t half = lk_tree_half(at.n);
    value = tree_sum(c, (lk_range){at.first, half}, next);
    upper = tree_sum(c, (lk_range){at.first + half, at.n - half}, next);
    return c->dtype == LK_F32 ? (double)((float)value + (float)upper) : value + upper;
}

lk_status lk__control_exchange(lk__control *c, const lk__deal *deal, const double *loss,
                               double *total)
{
    subtrees_find(c, deal);
    memcpy(c->slot, c->vote, sizeof c->vote);
    memset(c->slot + LK__N_VOTES, 0, (size_t)c->n * sizeof *c->slot);
    memcpy(c->slot + LK__N_VOTES + c->mine, loss, (size_t)c->own * sizeof *loss);
    memset(c->vote, 0, sizeof c->vote);
    if (c->comm)
        LK_TRY(lk_allreduce(c->comm, NULL, c->slot, LK__N_VOTES + c->n, LK_I64, LK_REDUCE_SUM,
                            "votes and loss"));
    int64_t next = 0;
    *total = tree_sum(c, (lk_range){0, deal->shards}, &next);
    return LK_OK;
}
