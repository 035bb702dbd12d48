/* allreduce, tree: the fixed tree itself, then a broadcast.
 *
 * A node of the tree over the pieces is computed by the rank that holds its first piece: it has the
 * lower half and receives the upper half, whole vectors, from the rank that holds that one's first
 * piece.  Nodes within one rank's run are its own input.
 *
 *     6 pieces on 3 ranks    [0 1] [2 3] [4 5]      rank 0: (0+1), joins (2+3) from rank 1,
 *                                                           joins (4+5) from rank 2; broadcasts
 *
 * Any number of ranks, any number of pieces and any runs.  A rank without pieces takes part in the
 * broadcast alone.
 *
 * Cost: about (d + ceil(log2 P)) (alpha + n beta) + d n gamma, where d = ceil(log2 pieces) + 1, but
 * no more than the joins that cross ranks; bandwidth is log2 P times the optimum, so it is for short
 * vectors.
 */
#include "coll/schedule.h"

static bool tree_eligible(const lk__case *k, const char **why)
{
    (void)k;
    (void)why;
    return true;
}

static double tree_cost(const lk__case *k, const lk__rates *r)
{
    double rounds = 0, n = (double)k->bytes;
    for (int p = 1; p < k->size; p *= 2)
        rounds++;
    return rounds * (2 * r->alpha + 2 * n * r->beta + n * r->gamma);
}

/* Which rank holds a piece; runs without pieces hold none. */
static int holder(const lk__case *k, int64_t piece)
{
    int low = 0, high = k->size - 1;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (k->first[middle + 1] > piece)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

struct walk {
    const lk__case *k;
    lk__schedule *s;
    const unsigned char *node; /* this rank's next node of the input */
};

/* Values of nodes are in `acc`, which the caller gives.  Writes what this rank does for the node
 * [first, first + n): if it holds the first piece, the value is in `acc` in the end. */
static lk_status tree_node(struct walk *w, lk_node at, unsigned char *acc)
{
    const lk__case *k = w->k;
    int64_t mine = k->first[k->rank], end = k->first[k->rank + 1];
    if (at.first >= end || at.first + at.n <= mine)
        return LK_OK;
    if (at.first >= mine && at.first + at.n <= end) {
        LK_TRY(lk__schedule_copy(w->s, acc, w->node, k->bytes));
        w->node += k->bytes;
        return LK_OK;
    }
    int64_t half = INT64_C(1) << (63 - __builtin_clzll((unsigned long long)(at.n - 1)));
    lk_node lower = {at.first, half}, upper = {at.first + half, at.n - half};
    int left = holder(k, lower.first), right = holder(k, upper.first);
    LK_TRY(tree_node(w, lower, acc));
    if (right != k->rank && left != k->rank) /* its own part is deeper in the upper half */
        return tree_node(w, upper, acc);
    unsigned char *other = NULL;
    LK_TRY(lk__schedule_room(w->s, k->bytes, &other));
    LK_TRY(tree_node(w, upper, other));
    if (left == right)
        return lk__schedule_join(w->s, acc, other, k->c.count);
    if (right == k->rank)
        return lk__schedule_send(w->s, left, other, k->bytes);
    LK_TRY(lk__schedule_recv(w->s, right, other, k->bytes));
    LK_TRY(lk__schedule_wait(w->s));
    return lk__schedule_join(w->s, acc, other, k->c.count);
}

static lk_status tree_schedule(const lk__case *k, lk__schedule *s)
{
    struct walk w = {k, s, k->c.in ? k->c.in : k->c.out};
    int root = holder(k, 0);
    unsigned char *acc = k->c.out;
    if (k->rank != root)
        LK_TRY(lk__schedule_room(s, k->bytes, &acc));
    LK_TRY(tree_node(&w, (lk_node){0, k->pieces}, acc));
    if (k->rank == root)
        LK_TRY(lk__schedule_finish(s, k->c.out, k->c.count));
    LK_TRY(lk__schedule_wait(s));
    LK_TRY(lk__schedule_bcast(s, k, root, k->c.out, k->bytes));
    return LK_OK;
}

const lk_coll lk_coll_allreduce_tree = {.call = LK_CALL_ALLREDUCE,
                                        .name = "tree",
                                        .summary = "whole vectors up the fixed tree, then down",
                                        .eligible = tree_eligible,
                                        .cost = tree_cost,
                                        .schedule = tree_schedule};
