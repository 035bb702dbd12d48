/* Which rank gives which elements of a tensor whose boxes overlap on several ranks: the lowest that
 * holds them.  For exchanges that save. */
#include "base/memory/grow.h"
#include "io/boxes.h"

#include <lockstep/extra/alloc.h>

#include <stdio.h>

/* Boxes that do not overlap: what of a tensor has no giver yet. */
typedef struct rest {
    lk_box *box;
    int64_t n, room;
} rest;

/* Put `box` at the end, unless it is empty. */
static lk_status rest_add(rest *r, const lk_box *box)
{
    if (lk_box_count(box) == 0)
        return LK_OK;
    LK_TRY(lk__grow(&r->box, &r->room, r->n + 1, sizeof *r->box));
    r->box[r->n++] = *box;
    return LK_OK;
}

/* Add what is left of `from` without `taken`, which lies in it: slices before and behind, axis by axis. */
static lk_status rest_without(rest *r, const lk_box *from, const lk_box *taken)
{
    lk_box left = *from;
    for (int i = 0; i < left.ndim; i++) {
        lk_box slice = left;
        int64_t end = left.first[i] + left.n[i];
        slice.n[i] = taken->first[i] - left.first[i];
        LK_TRY(rest_add(r, &slice));
        slice.first[i] = taken->first[i] + taken->n[i];
        slice.n[i] = end - slice.first[i];
        LK_TRY(rest_add(r, &slice));
        left.first[i] = taken->first[i];
        left.n[i] = taken->n[i];
    }
    return LK_OK;
}

/* Let `giver` give what of `box` is in the rest. */
static lk_status rest_give(rest *r, int64_t tensor, const lk_box *box, lk__flow *giver)
{
    int64_t n = r->n, kept = 0;
    for (int64_t i = 0; i < n; i++) {
        lk_box from = r->box[i], both = lk_box_intersect(&from, box);
        if (lk_box_count(&both) == 0) {
            r->box[kept++] = from;
            continue;
        }
        LK_TRY(lk__flow_add(giver, tensor, &both));
        LK_TRY(rest_without(r, &from, &both));
    }
    for (int64_t i = n; i < r->n; i++)
        r->box[kept++] = r->box[i];
    r->n = kept;
    return LK_OK;
}

/* Name the first element that has no giver. */
static lk_status refuse_missing(const lk_checkpoint_tensor *t, const rest *r)
{
    const lk_box *first = &r->box[0];
    lk_shape at = {.ndim = t->shape.ndim};
    for (int64_t i = 1; i < r->n; i++)
        for (int k = 0; k < at.ndim; k++)
            if (r->box[i].first[k] != first->first[k]) {
                first = r->box[i].first[k] < first->first[k] ? &r->box[i] : first;
                break;
            }
    for (int i = 0; i < at.ndim; i++)
        at.dim[i] = first->first[i];
    return LK_RAISE(LK_EINVAL, "tensor \"%.128s\" %s: no rank holds its element %s", t->name,
                    lk_shape_text(t->shape).s, lk_shape_text(at).s);
}

/* The rank that gives the box of rank `lowest`, the first that holds it. */
static int giver_of(const lk_box *box, int n, int lowest, int self, int64_t tensor)
{
    int64_t holders = 0;
    if (self == LK__LOWEST)
        return lowest;
    if (lk_box_is_equal(&box[self], &box[lowest]))
        return self;
    for (int i = lowest; i < n; i++)
        holders += lk_box_is_equal(&box[i], &box[lowest]);
    int64_t chosen = tensor % holders;
    for (int i = lowest;; i++)
        if (lk_box_is_equal(&box[i], &box[lowest]) && chosen-- == 0)
            return i;
}

lk_status lk__givers_find(const lk_checkpoint *c, int64_t tensor, const lk_box *box, int n,
                          int self, lk__flow *flow)
{
    lk_status st;
    rest r = {0};
    const lk_checkpoint_tensor *t = &c->tensor[tensor];
    lk_box whole = lk_box_whole(t->shape.ndim, t->shape.dim);
    LK_TRY_TO(done, rest_add(&r, &whole));
    for (int i = 0; i < n && r.n > 0; i++)
        LK_TRY_TO(done, rest_give(&r, tensor, &box[i], &flow[giver_of(box, n, i, self, tensor)]));
    LK_TRY_TO(done, r.n == 0 ? LK_OK : refuse_missing(t, &r));
done:
    lk_free(r.box);
    return st;
}
