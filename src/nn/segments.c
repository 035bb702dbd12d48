/* A pass in segments: values within one are not kept for backward, which computes them again.
 *
 * lk_model_forward() runs the layers of the model's list so when lk_pass.recompute says it, on the
 * thread of the tape.  What a segment needs for its second run lies in the pass's accumulator until the
 * next pass with it.
 */
#include "nn/model.h"

#include <string.h>

/* Some layers of the list, and what they start from. */
struct lk__model_segment {
    lk_pass pass;
    struct lk__pass_run run;
    lk_range layers;
    lk_var x;
};

/* Of a value by tiles the layers fetch the margin where it lies; the first run must leave x as it was, so
 * they have a copy of their own. */
static lk_status segment_run(lk_tape *tape, void *arg, lk_var *out)
{
    struct lk__model_segment *s = arg;
    lk_var x = s->x;
    (void)tape;
    if (s->pass.parts)
        LK_TRY(lk_copy(x, &x));
    s->pass.run = &s->run;
    LK_TRY(lk__list_run(&s->pass, &s->run.model->net->list[0], s->layers, x, out));
    return LK_OK;
}

lk_status lk__segments_run(const lk_pass *pass, lk_var x, lk_var *out)
{
    lk_accumulator *keeper = pass->accumulator;
    int64_t layers = pass->run->model->net->list[0].n;
    int64_t n = pass->recompute < layers ? pass->recompute : layers;
    LK_TRY(lk__grow(&keeper->segment, &keeper->max_segments, n, sizeof *keeper->segment));
    for (int64_t i = 0; i < n; i++) {
        struct lk__model_segment *s = &keeper->segment[i];
        *s = (struct lk__model_segment){*pass, *pass->run, lk_range_split(layers, i, n), x};
        if (i == n - 1) /* its values are needed at once: nothing is saved by a second run */
            LK_TRY(segment_run(pass->tape, s, &x));
        else
            LK_TRY(lk_recompute(pass->tape, segment_run, s, 1, &x));
    }
    *out = x;
    return LK_OK;
}
