/* What a loop of a program's own does with all ranks, call by call: parameters of one for all, gradients and
 * persistent values as their means.
 */
#include "base/fpenv.h"
#include "multinode/mean.h"

#include <lockstep/extra/alloc.h>

static bool is_alone(const lk_comm *comm)
{
    return !comm || lk_comm_size(comm) == 1;
}

/* ---- the same tensors ---- */

/* Whether this rank has the tensors of the root, as their hashes say. */
static lk_status tensors_check(const lk_slab_layout *layout, const uint64_t *mine,
                               const uint64_t *theirs, int64_t n, int root)
{
    lk_slab_slice slice;
    int64_t i = 0;
    while (i < n && mine[i] == theirs[i])
        i++;
    if (i == n)
        return LK_OK;
    LK_TRY(lk_slab_layout_slice(layout, i, &slice));
    return LK_RAISE(LK_ESTATE, "tensor %lld, %s %s, is another one on rank %d", (long long)i,
                    slice.name, lk_slab_slice_text(&slice).s, root);
}

/* Compare n tensors with those of the root; `room` [2 n]. */
static lk_status hashes_compare(lk_comm *comm, const lk_slab_layout *layout, int64_t n, int root,
                                uint64_t *room)
{
    uint64_t *theirs = room + n;
    for (int64_t i = 0; i < n; i++)
        room[i] = theirs[i] = lk__slice_hash(layout, i);
    LK_TRY(lk_bcast(comm, theirs, n, LK_I64, root, "tensors"));
    return LK_TRACE(lk_agree(comm, tensors_check(layout, room, theirs, n, root)));
}

/* Fail on all ranks unless they have the tensors of the root.  Collective. */
static lk_status tensors_compare(lk_comm *comm, const lk_slab_layout *layout, int root)
{
    int64_t own = lk_slab_layout_slices(layout), n = own;
    uint64_t *room = NULL;
    lk_status st;
    LK_TRY(lk_bcast(comm, &n, 1, LK_I64, root, "tensors"));
    if (own != n)
        st = LK_RAISE(LK_ESTATE, "%lld tensors here, and %lld on rank %d", (long long)own,
                      (long long)n, root);
    else
        st = lk_alloc(&room, 2 * n, sizeof *room);
    st = lk_agree(comm, st);
    if (st == LK_OK && room)
        st = hashes_compare(comm, layout, n, root, room);
    lk_free(room);
    return LK_TRACE(st);
}

static lk_status arguments_check(const lk_comm *comm, const lk_slab *slab, int root)
{
    int size = comm ? lk_comm_size(comm) : 1;
    LK_CHECK(slab, LK_EINVAL, "slab is NULL");
    LK_CHECK(root >= 0 && root < size, LK_EINVAL, "root %d of %d ranks", root, size);
    return LK_OK;
}

lk_status lk_bcast_data(lk_comm *comm, lk_slab *slab, int root)
{
    LK_TRY(lk_agree(comm, arguments_check(comm, slab, root)));
    if (is_alone(comm))
        return LK_OK;
    const lk_slab_layout *layout = lk_slab_layout_of(slab);
    LK_TRY(tensors_compare(comm, layout, root));
    return LK_TRACE(lk_bcast(comm, lk_slab_data(slab), lk_slab_layout_bytes(layout), LK_U8, root,
                             "parameters"));
}

/* ---- means ---- */

static lk_status mean_make(lk__mean *m, lk_comm *comm, const lk_slab *grads,
                           const lk_mean_grad_options *options)
{
    LK_CHECK(grads, LK_EINVAL, "grads is NULL");
    LK_CHECK(options->samples >= 0, LK_EINVAL, "%lld samples", (long long)options->samples);
    return LK_TRACE(lk__mean_open(m, comm, grads, options));
}

lk_status lk_multi_node_mean_grad(lk_comm *comm, lk_slab *grads, bool *has_grad,
                                  const lk_mean_grad_options *options)
{
    LK_FP_GUARD();
    static const lk_mean_grad_options none;
    lk__mean m = {.comm = NULL};
    lk_status st;
    options = options ? options : &none;
    LK_TRY_TO(done, lk_agree(comm, mean_make(&m, comm, grads, options)));
    lk__mean_part mine = {.samples = options->samples, .has_grad = has_grad};
    void *data = lk_slab_data(grads);
    LK_TRY_TO(done, lk__mean_exchange(&m, &mine, LK_OK));
    LK_TRY_TO(done, lk__mean_weigh(&m, data));
    LK_TRY_TO(done, lk__mean_start(&m, data, true));
    LK_TRY_TO(done, lk__mean_finish(&m, data));
    for (int64_t i = 0; has_grad && i < m.slices; i++)
        has_grad[i] = m.has[i];
done:
    lk__mean_close(&m);
    return st;
}

/* Tensors [first, *next) of one dtype, side by side. */
static lk_status run_of(const lk_slab_layout *layout, int64_t first, int64_t *next,
                        lk_slab_slice *begin, int64_t *bytes)
{
    int64_t n = lk_slab_layout_slices(layout), end = lk_slab_layout_bytes(layout);
    LK_TRY(lk_slab_layout_slice(layout, first, begin));
    for (*next = first + 1; *next < n; ++*next) {
        lk_slab_slice slice;
        LK_TRY(lk_slab_layout_slice(layout, *next, &slice));
        if (slice.dtype == begin->dtype)
            continue;
        end = slice.offset;
        break;
    }
    *bytes = end - begin->offset;
    return LK_OK;
}

lk_status lk_allreduce_persistent(lk_comm *comm, lk_slab *slab)
{
    LK_TRY(lk_agree(comm, arguments_check(comm, slab, 0)));
    if (is_alone(comm))
        return LK_OK;
    const lk_slab_layout *layout = lk_slab_layout_of(slab);
    LK_TRY(tensors_compare(comm, layout, 0));
    for (int64_t i = 0, next; i < lk_slab_layout_slices(layout); i = next) {
        lk_slab_slice begin;
        int64_t bytes;
        LK_TRY(run_of(layout, i, &next, &begin, &bytes));
        if (begin.dtype == LK_I32 || begin.dtype == LK_I64 || begin.dtype == LK_U8)
            continue;
        LK_TRY(lk_allreduce(comm, NULL, (char *)lk_slab_data(slab) + begin.offset,
                            bytes / (int64_t)lk_dtype_size(begin.dtype), begin.dtype, LK_REDUCE_AVG,
                            "persistent values"));
    }
    return LK_OK;
}
