/* Run a pass: strips of positions, each through all its blocks of channels. */
#include "kernel/conv/run.h"

/* If there are fewer strips than this for each thread, their blocks are shared out too. */
enum { STRIPS_PER_THREAD = 4 };

/* Apply the activation to `n` channels of all positions, in as long runs as there are. */
static void strip_activate(const lk__conv_strip *s, const lk__conv_call *call, int64_t column,
                           int64_t n)
{
    const lk__conv_pass *p = s->pass;
    char *c = (char *)call->c +
              (s->sample * p->c_sample + s->group * p->c_group + column) * p->elem;
    for (int64_t m = 0; m < s->n;) {
        int64_t from = m++;
        while (m < s->n && s->c_off[m] == s->c_off[m - 1] + n)
            m++;
        call->act(c + s->c_off[from] * p->elem, (m - from) * n);
    }
}

void lk__conv_strips_run(void *arg, int64_t first, int64_t last)
{
    const lk__conv_strips *w = arg;
    const lk__conv_pass *p = w->pass;
    lk__conv_strip s;
    for (int64_t i = first; i < last; i++) {
        int64_t part = i % w->parts;
        int64_t from = part * p->n_blocks / w->parts, to = (part + 1) * p->n_blocks / w->parts;
        lk__conv_strip_make(p, i / w->parts, &s);
        if (s.n == 0)
            continue;
        if (p->depthwise)
            lk__conv_run_depthwise(&s, w->call, from, to);
        else
            lk__conv_run_rows(&s, w->call, from, to);
        if (w->call->act) {
            int64_t column = p->block[from].column;
            int64_t end = to < p->n_blocks ? p->block[to].column : p->c_group;
            strip_activate(&s, w->call, column, end - column);
        }
    }
}

lk_status lk__conv_strips_cut(const lk__conv_pass *pass, const lk__conv_call *call,
                              lk__conv_strips *out)
{
    int threads;
    LK_TRY(lk_threads_now(&threads));
    int64_t n = lk__conv_strip_count(pass), wanted = (int64_t)STRIPS_PER_THREAD * threads;
    *out = (lk__conv_strips){.pass = pass, .call = call, .parts = 1};
    if (threads > 1 && n < wanted)
        out->parts = (wanted + n - 1) / n < pass->n_blocks ? (wanted + n - 1) / n : pass->n_blocks;
    out->tasks = lk__tasks_long(n * out->parts);
    return LK_OK;
}
