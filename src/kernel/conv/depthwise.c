/* A strip of a depthwise convolution.  The weights of a tap are one value per channel, laid out as
 * the channels of A and C are; so they are read where they lie. */
#include "kernel/conv/run.h"

/* Taps of one call of the micro-kernel.  A longer list is cut, which changes no bit. */
enum { MAX_TAPS = 128 };

void lk__conv_run_depthwise(const lk__conv_strip *s, const lk__conv_call *call, int64_t first,
                            int64_t last)
{
    const lk__conv_pass *p = s->pass;
    int64_t column = p->block[first].column;
    int64_t end = last < p->n_blocks ? p->block[last].column : p->c_group;
    lk__depthwise_tap tap[MAX_TAPS];
    lk__depthwise_args t = {
        .tap = tap,
        .n_positions = s->n,
        .n_channels = end - column,
        .a = (const char *)call->a + (s->sample * p->a_sample + column) * p->elem,
        .a_off = s->a_off,
        .w = (const char *)call->w + column * p->elem,
        .c = (char *)call->c + (s->sample * p->c_sample + column) * p->elem,
        .c_off = s->c_off,
        .bias = call->bias ? (const char *)call->bias + column * p->elem : NULL,
        .start = call->start,
    };
    int64_t i = 0;
    do {
        for (t.n_taps = 0; i < s->n_taps && t.n_taps < MAX_TAPS; i++) {
            lk__conv_tap k = lk__conv_strip_tap(s, i);
            tap[t.n_taps++] = (lk__depthwise_tap){k.a, lk__conv_pass_tap(p, k.place) * p->c_group};
        }
        p->depthwise(&t);
        t.start = LK_START_C;
    } while (i < s->n_taps);
}
