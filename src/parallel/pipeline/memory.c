/* What the micro-batches under way on a stage hold.
 *
 *                    tapes                  between forward and backward   between its halves
 *     gpipe          m                      m                              -
 *     1f1b           min(m, p - s)          p - s                          -
 *     zb1p           min(m, p - s + lag)    p - s                          lag + 1
 *     forward        2, the last stage 1    2                              -
 *
 * of stage s of p and m micro-batches.  A micro-batch holds F bytes between forward and backward, and W
 * between the two halves of backward: there the inputs and the gradients of the outputs of all layers with
 * weights wait, about 2 F where a layer is a product and its activation.  Before backward of one begins,
 * p - s are of the first kind and `lag` of the second; once it has ended, one has gone from one to the other:
 *
 *     (p - s) F + lag W   or   (p - s - 1) F + (lag + 1) W,   whichever is larger
 *
 * So zb1p has as many micro-batches under way as the first stage of 1f1b, but more bytes.  With the lag
 * s F / W it has at most W - F more.
 */
#include <lockstep/extra/checked.h>
#include <lockstep/extra/pipeline.h>

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t lk_pipeline_lag(const lk_pipeline_spec *spec, int stage)
{
    if (spec->kind != LK_PIPELINE_ZB1P)
        return 0;
    return spec->lag ? least(spec->lag[stage], stage) : stage;
}

int64_t lk_pipeline_lag_by_bytes(int stage, int64_t forward_bytes, int64_t weights_bytes)
{
    if (weights_bytes <= forward_bytes || stage <= 0)
        return stage > 0 ? stage : 0;
    while (forward_bytes > INT64_MAX / stage) { /* rounded to a lag that is not larger */
        forward_bytes /= 2;
        weights_bytes = weights_bytes / 2 + 1;
    }
    return least(stage, stage * forward_bytes / weights_bytes);
}

int64_t lk_pipeline_tapes(const lk_pipeline_spec *spec, int stage)
{
    int64_t m = spec->microbatches;
    if (spec->kind == LK_PIPELINE_GPIPE)
        return m;
    if (spec->kind == LK_PIPELINE_FORWARD)
        return least(m, stage + 1 < spec->stages ? 2 : 1);
    return least(m, spec->stages - stage + lk_pipeline_lag(spec, stage));
}

lk_status lk_pipeline_bytes(const lk_pipeline_spec *spec, int stage, int64_t forward_bytes,
                            int64_t weights_bytes, int64_t *out)
{
    LK_CHECK(forward_bytes >= 0 && weights_bytes >= 0, LK_EINVAL,
             "a micro-batch holds %lld bytes before backward and %lld between its halves: one is "
             "below 0",
             (long long)forward_bytes, (long long)weights_bytes);
    int64_t tapes = lk_pipeline_tapes(spec, stage), forwards = tapes, sum;
    if (spec->kind == LK_PIPELINE_ZB1P && weights_bytes > forward_bytes)
        forwards = tapes - least(tapes, lk_pipeline_lag(spec, stage) + 1);
    else if (spec->kind == LK_PIPELINE_ZB1P)
        forwards = least(tapes, spec->stages - stage);
    LK_TRY(lk_mul_i64(forwards, forward_bytes, &forward_bytes));
    LK_TRY(lk_mul_i64(tapes - forwards, weights_bytes, &weights_bytes));
    LK_TRY(lk_add_i64(forward_bytes, weights_bytes, &sum));
    *out = sum;
    return LK_OK;
}
