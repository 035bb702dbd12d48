/* allreduce of a list: small values of one dtype travel together, large ones alone.
 *
 * Reducing is element by element, so the bits are those of one allreduce for each.
 */
#include "dist/common/list.h"
#include "dist/common/pending.h"
#include "dist/common/sample_lists.h"

#include <lockstep/extra/alloc.h>

/* Bytes from which on a copy costs more than a call of its own. */
static const int64_t large = 1 << 18;

static bool is_large(const lk__like *like)
{
    return like->count * (int64_t)lk_dtype_size((lk_dtype)like->dtype) >= large;
}

/* The small values of one dtype, in one call. */
static lk_status reduce_small(const lk__dist *d, lk_dtype dtype, const lk_var *xs, int n,
                              lk_var *out)
{
    lk_status st;
    lk_var *some = NULL, flat;
    lk__like *like = NULL;
    int *place = NULL, m = 0;
    LK_TRY(lk_alloc(&some, n, sizeof *some));
    LK_TRY_TO(done, lk_alloc(&like, n, sizeof *like));
    LK_TRY_TO(done, lk_alloc(&place, n, sizeof *place));
    for (int i = 0; i < n; i++) {
        LK_TRY_TO(done, lk__like_of(xs[i], &like[m]));
        if (like[m].dtype != (int64_t)dtype || is_large(&like[m]))
            continue;
        some[m] = xs[i];
        place[m++] = i;
    }
    LK_TRY_TO(done, lk__list_pack(some, m, &flat));
    LK_TRY_TO(done, lk_dist_allreduce(d->comm, flat, d->reduce_op, d->name, &flat));
    LK_TRY_TO(done, lk__list_unpack(flat, like, m, some));
    for (int k = 0; k < m; k++)
        out[place[k]] = some[k];
done:
    lk_free(some);
    lk_free(like);
    lk_free(place);
    return st;
}

lk_status lk_dist_allreduce_list(lk_comm *comm, const lk_var *xs, int n, lk_reduce_op reduce_op,
                                 const char *name, lk_var *out)
{
    lk__dist d = lk__dist_of(comm, reduce_op, 0, name);
    unsigned small = 0; /* dtypes, as bits */
    LK_CHECK(comm && (out || n == 0), LK_EINVAL, "allreduce_list: %s is NULL",
             comm ? "out" : "comm");
    LK_TRY_DIST(comm, lk__list_check("allreduce_list", xs, n, true));
    for (int i = 0; i < n; i++) {
        lk__like like;
        LK_TRY_DIST(comm, lk__like_of(xs[i], &like));
        if (is_large(&like))
            LK_TRY_DIST(comm, lk_dist_allreduce(comm, xs[i], reduce_op, name, &out[i]));
        else
            small |= 1U << like.dtype;
    }
    for (int dtype = 0; small >> dtype; dtype++)
        if (small >> dtype & 1)
            LK_TRY_DIST(comm, reduce_small(&d, (lk_dtype)dtype, xs, n, out));
    return LK_OK;
}

/* ---- samples ---- */

/* Three values, of which one has other shapes; each is an output. */
static lk_shape shape_of_input(const lk_dist_sample *s, int rank, int size, int i)
{
    return i == 1 ? LK_SHAPE(4) : shape_same(s, rank, size, i);
}

static lk_status allreduce_list_sample(const lk_dist_sample *s, lk_comm *comm, const lk_var *in,
                                       lk_var *out)
{
    return LK_TRACE(lk_dist_allreduce_list(comm, in, 3, s->op, "check", out));
}

#define LIST_SAMPLE(text, how)                                                                    \
    .name = (text), .n_in = 3, .n_out = 3, .shape = shape_of_input, .run = allreduce_list_sample, \
    .op = (how)

const lk_dist_check lk__dist_check_allreduce_list = {
    .name = "allreduce_list",
    .summary = "out[i] = the reduction of xs[i]; dxs[i] as of allreduce",
    .samples = (const lk_dist_sample[]){
        {LIST_SAMPLE("sum", LK_REDUCE_SUM), .is_linear = true},
        {LIST_SAMPLE("avg", LK_REDUCE_AVG), .is_linear = true},
        {LIST_SAMPLE("prod", LK_REDUCE_PROD), .lo = 0.5, .hi = 1.5, .has_zeros = true},
        {LIST_SAMPLE("max", LK_REDUCE_MAX)},
        {0}}};
