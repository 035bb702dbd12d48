/* For the test of `lockstep gradcheck --layout` alone, which a build of the command is linked with: faults of
 * gradients between ranks, one of which PLANTED in the environment chooses.
 *
 *     lost      sums of micro-batches of a pipeline are dropped where they should be added
 *     scaled    gradients are those of a loss that all ranks have, times the number of ranks
 *     bit       one gradient is wrong in its last bit, which a small step of the parameter rounds away
 *     apart     statistics of the whole batch are those of a rank's part of it
 *     refused   gradients between ranks are not supported
 *     full      nor written to the disk
 */
#include "dist/common/batch.h"
#include "parallel/groups_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

lk_status __real_lk_accumulator_add(lk_accumulator *a, const lk_accumulator *b);
lk_status __wrap_lk_accumulator_add(lk_accumulator *a, const lk_accumulator *b);
lk_status __real_lk__groups_allreduce(lk__groups *g);
lk_status __wrap_lk__groups_allreduce(lk__groups *g);
lk_status __real_lk__batch_join(const lk_dist_batch *batch, lk_dtype dtype, int64_t n, void *sums,
                                const char *name);
lk_status __wrap_lk__batch_join(const lk_dist_batch *batch, lk_dtype dtype, int64_t n, void *sums,
                                const char *name);

static bool is_planted(const char *fault)
{
    const char *planted = getenv("PLANTED");
    return planted && strcmp(planted, fault) == 0;
}

lk_status __wrap_lk_accumulator_add(lk_accumulator *a, const lk_accumulator *b)
{
    return is_planted("lost") ? LK_OK : __real_lk_accumulator_add(a, b);
}

lk_status __wrap_lk__groups_allreduce(lk__groups *g)
{
    LK_CHECK(!is_planted("refused") || g->size == 1, LK_ENOTSUP, "no gradients of %d ranks",
             g->size);
    LK_CHECK(!is_planted("full") || g->size == 1, LK_EIO, "the disk is full");
    LK_TRY(__real_lk__groups_allreduce(g));
    float *gradient = lk_slab_data(lk_accumulator_slab(lk__groups_result(g)));
    for (int64_t i = 0; is_planted("scaled") && i < g->params; i++)
        gradient[i] *= (float)g->size;
    if (is_planted("bit") && g->size > 1)
        gradient[0] = nextafterf(gradient[0], 0);
    return LK_OK;
}

lk_status __wrap_lk__batch_join(const lk_dist_batch *batch, lk_dtype dtype, int64_t n, void *sums,
                                const char *name)
{
    return is_planted("apart") ? LK_OK : __real_lk__batch_join(batch, dtype, n, sums, name);
}
