/* Agreeing on the axes of the tensors that ranks hold boxes of, when an exchange opens: the same
 * memory may be seen as [6] or [2][3].  Collective.
 *
 * A rank that holds a part says the axes; where it holds all or nothing, any will do.  So the axes of each
 * tensor are the largest numbers that a rank says, and those that hold a part must have said these.
 */
#include "io/exchange.h"

#include <lockstep/coll.h>
#include <lockstep/extra/alloc.h>

enum { AXES = 1 + LK_MAX_NDIM }; /* how many, and their sizes */

/* Whether a part is held; or nothing of a scalar, which has no empty box and is seen as [1]. */
static bool axes_matter(const lk_checkpoint_tensor *t, const lk__box_held *held)
{
    int64_t n = lk_box_count(&held->box);
    return (n > 0 && n < t->bytes / (int64_t)lk_dtype_size(t->dtype)) ||
           (n == 0 && t->shape.ndim == 0);
}

static void axes_put(const lk_checkpoint_tensor *t, const lk__box_held *held, int64_t *to)
{
    bool is_partial = axes_matter(t, held);
    for (int k = 0; k < AXES; k++)
        to[k] = 0;
    to[0] = is_partial ? held->of.ndim : 0;
    for (int k = 0; k < to[0]; k++)
        to[1 + k] = held->of.dim[k];
}

static lk_status axes_take(lk_checkpoint_tensor *t, lk__box_held *held, const int64_t *from)
{
    LK_CHECK(from[0] >= 0 && from[0] <= LK_MAX_NDIM, LK_EMISMATCH, "a tensor of %lld axes",
             (long long)from[0]);
    lk_shape of = {.ndim = (int)from[0]};
    for (int k = 0; k < of.ndim; k++)
        of.dim[k] = from[1 + k];
    if (of.ndim == 0)
        of = t->shape; /* no rank holds a part */
    LK_CHECK(
        !axes_matter(t, held) || lk_shape_is_equal(of, held->of), LK_ESHAPE,
        "the tensor \"%.128s\" %s is seen as %s where a part of it is held, but with other axes "
        "on another rank",
        t->name, lk_shape_text(t->shape).s, lk_shape_text(held->of).s);
    if (!lk_shape_is_equal(of, held->of)) {
        bool some = lk_box_count(&held->box) > 0;
        held->box = some ? lk_box_whole(of.ndim, of.dim) : (lk_box){.ndim = of.ndim};
        held->of = of;
    }
    t->shape = of;
    return LK_OK;
}

/* What all say together, in axes [AXES * n]. */
static lk_status axes_join(lk_comm *comm, const lk_checkpoint_tensor *tensor,
                           const lk__box_held *held, int64_t n, int64_t *axes)
{
    for (int64_t i = 0; i < n; i++)
        axes_put(&tensor[i], &held[i], axes + AXES * i);
    if (comm && n > 0)
        LK_TRY(lk_allreduce(comm, NULL, axes, AXES * n, LK_I64, LK_REDUCE_MAX, "checkpoint"));
    return LK_OK;
}

lk_status lk__axes_agree(lk_comm *comm, lk_checkpoint_tensor *tensor, lk__box_held *held, int64_t n)
{
    lk_status st;
    int64_t *axes = NULL;
    LK_TRY_TO(done, lk_agree(comm, lk_alloc(&axes, n, AXES * sizeof *axes)));
    LK_TRY_TO(done, axes_join(comm, tensor, held, n, axes));
    for (int64_t i = 0; st == LK_OK && i < n; i++)
        st = axes_take(&tensor[i], &held[i], axes + AXES * i);
    LK_TRY_TO(done, lk_agree(comm, st));
done:
    lk_free(axes);
    return st;
}
