/* The partial gradient of x of a layer whose units are cut: it is begun to be joined over ranks before the
 * gradients of weights are computed, and waited for behind them.  The backward of such layers calls these,
 * on the thread of the tape.
 */
#include "comm/user.h"
#include "dist/common/features.h"

lk_status lk__feature_dx_begin(const lk_call *c, const lk__feature_node *a, lk_feature_sum sum,
                               lk_shape shape, lk_var partial, lk_request **request, lk_var *out)
{
    lk__feature_node begun = *a;
    begun.request = request;
    *request = NULL;
    if (sum == LK_FEATURE_PARTIAL || !lk__feature_travels(a->split, a->of))
        *out = partial;
    else if (sum == LK_FEATURE_SCATTERED)
        LK_TRY(lk__feature_scatter(c, &begun, shape, partial, out));
    else
        LK_TRY(lk__feature_sum(c, &begun, partial, out));
    return LK_OK;
}

lk_status lk__feature_dx_end(lk_request **request, lk_status st)
{
    if (*request && st == LK_OK)
        LK_TRY(lk_wait(request, NULL));
    if (*request)
        lk__request_drop(request);
    return st;
}
