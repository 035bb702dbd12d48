/* Up the fixed tree: whole vectors, each subtree at the rank that holds its first piece.  For the
 * algorithms called tree.
 */
#include "coll/schedule.h"

struct walk {
    const lk__coll_args *k;
    lk__schedule *s;
    int64_t count;
    const unsigned char *node; /* this rank's next subtree in the input */
};

/* Values of subtrees are in `acc`, which the caller gives.  Writes what this rank does for the subtree
 * [first, first + n): if it holds the first piece, the value is in `acc` in the end. */
static lk_status tree_node(struct walk *w, lk_range at, unsigned char *acc)
{
    const lk__coll_args *k = w->k;
    int64_t mine = k->first[k->rank], end = k->first[k->rank + 1], bytes = w->count * k->elem;
    if (at.first >= end || at.first + at.n <= mine)
        return LK_OK;
    if (at.first >= mine && at.first + at.n <= end) {
        LK_TRY(lk__schedule_copy(w->s, acc, w->node, bytes));
        w->node += k->stride;
        return LK_OK;
    }
    int64_t half = lk_tree_half(at.n);
    lk_range lower = {at.first, half}, upper = {at.first + half, at.n - half};
    int left = lk__coll_args_holder(k, lower.first), right = lk__coll_args_holder(k, upper.first);
    LK_TRY(tree_node(w, lower, acc));
    if (right != k->rank && left != k->rank) /* its own part is deeper in the upper half */
        return tree_node(w, upper, acc);
    unsigned char *other = NULL;
    LK_TRY(lk__schedule_room(w->s, bytes, &other));
    LK_TRY(tree_node(w, upper, other));
    if (left == right)
        return lk__schedule_join(w->s, acc, other, w->count);
    if (right == k->rank)
        return lk__schedule_send(w->s, left, other, bytes);
    LK_TRY(lk__schedule_recv(w->s, right, other, bytes));
    LK_TRY(lk__schedule_wait(w->s));
    return lk__schedule_join(w->s, acc, other, w->count);
}

lk_status lk__schedule_up(lk__schedule *s, const lk__coll_args *k, int64_t count, void *out)
{
    struct walk w = {k, s, count, lk__coll_args_in(k)};
    int root = lk__coll_args_holder(k, 0);
    unsigned char *acc = out;
    if (k->rank != root)
        LK_TRY(lk__schedule_room(s, count * k->elem, &acc));
    LK_TRY(tree_node(&w, (lk_range){0, k->pieces}, acc));
    if (k->rank == root)
        LK_TRY(lk__schedule_finish(s, acc, count));
    return lk__schedule_wait(s);
}

bool lk__tree_eligible(const lk__coll_args *k, const char **why)
{
    *why = "f16 and bf16 would be rounded on the way";
    return k->work == k->c.dtype;
}
