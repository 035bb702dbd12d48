/* lk__schedule_merge(): joining subtrees of the fixed tree that one rank has received, as far as
 * they are siblings.  Algorithms write it into their schedules.
 *
 *     leaves   [0 1] [2] [3]   [5]        8 pieces: 2+3, then (0+1)+(2+3); 5 stays alone
 *     become   [0 . . 3]       [5]
 *
 * The value of a subtree is written over that of its first leaf.
 */
#include "coll/schedule.h"

struct merge {
    lk__schedule *s;
    int64_t count;
    lk__leaf *leaf;
    int64_t n, at, n_out; /* leaves, the next one, and how many are written */
};

/* All leaves within a subtree; `*whole`: they have become one, the last that was written. */
static lk_status merge_node(struct merge *m, lk_range node, bool *whole)
{
    *whole = false;
    if (m->at == m->n || m->leaf[m->at].at.first >= node.first + node.n)
        return LK_OK;
    if (m->leaf[m->at].at.first == node.first && m->leaf[m->at].at.n == node.n) {
        m->leaf[m->n_out++] = m->leaf[m->at++];
        *whole = true;
        return LK_OK;
    }
    int64_t half = lk_tree_half(node.n);
    bool lower, upper;
    LK_TRY(merge_node(m, (lk_range){node.first, half}, &lower));
    LK_TRY(merge_node(m, (lk_range){node.first + half, node.n - half}, &upper));
    if (!lower || !upper)
        return LK_OK;
    lk__leaf *first = &m->leaf[m->n_out - 2], *second = first + 1;
    if (m->s)
        LK_TRY(lk__schedule_join(m->s, first->data, second->data, m->count));
    first->at = node;
    m->n_out--;
    *whole = true;
    return LK_OK;
}

lk_status lk__schedule_merge(lk__schedule *s, const lk__coll_args *k, int64_t count, lk__leaf *leaf,
                             int64_t *n)
{
    struct merge m = {.s = s, .count = count, .leaf = leaf, .n = *n};
    bool whole;
    LK_TRY(merge_node(&m, (lk_range){0, k->pieces}, &whole));
    *n = m.n_out;
    return LK_OK;
}
