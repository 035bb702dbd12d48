/* Transform a convolution's weights into panels, once in each call. */
#include "kernel/conv/winograd.h"
#include "kernel/runtime/parallel.h"

#include <lockstep/extra/alloc.h>

/* Rows of a panel that a task transforms, and room for the nine taps of as many in the widest. */
enum { TASK_ROWS = 16, ROW_BYTES = 128, TAPS_ROOM = LK_WINO_TAPS * TASK_ROWS * ROW_BYTES };

typedef struct pack {
    lk__wino_pass *p;
    const char *w;
    int64_t cuts; /* tasks for one panel */
} pack;

/* Rows k0 ... k0 + n - 1 of panel `i`.  Backward data has W's columns as rows and its taps in
 * reverse order. */
static void rows_pack(const pack *t, int64_t i, int64_t k0, int64_t n)
{
    const lk__wino_pass *p = t->p;
    _Alignas(LK_ALIGN) char taps[TAPS_ROOM];
    lk__wino_weights args = {.n_k = n, .step = p->u_step};
    int64_t column = lk__wino_panel(p, i, &args.n_valid, &args.width);
    for (int tap = 0; tap < LK_WINO_TAPS; tap++) {
        if (p->transposed) {
            char *to = taps + tap * n * args.width * p->elem;
            int64_t row = (LK_WINO_TAPS - 1 - tap) * p->c.channels + column;
            p->rows->transpose(to, t->w + (row * p->a.channels + k0) * p->elem, p->a.channels, n,
                               args.n_valid, args.width);
            args.tap[tap] = to;
        } else {
            int64_t row = tap * p->a.channels + k0;
            args.tap[tap] = t->w + (row * p->c.channels + column) * p->elem;
        }
    }
    args.ld = p->transposed ? args.width : p->c.channels;
    args.u = (char *)p->u + (column * p->a.channels + k0 * args.width) * p->elem;
    p->micro->weights(&args);
}

/* Task: a few rows of one panel. */
static void pack_tasks(void *arg, int64_t first, int64_t last)
{
    const pack *t = arg;
    for (int64_t i = first; i < last; i++) {
        int64_t k0 = i % t->cuts * TASK_ROWS, left = t->p->a.channels - k0;
        rows_pack(t, i / t->cuts, k0, left < TASK_ROWS ? left : TASK_ROWS);
    }
}

lk_status lk__wino_pass_pack(lk__wino_pass *pass, const void *w)
{
    if (pass->a.channels == 0)
        return LK_OK;
    pack t = {.p = pass, .w = w, .cuts = (pass->a.channels + TASK_ROWS - 1) / TASK_ROWS};
    return LK_TRACE(
        lk__parallel(lk__tasks_long((pass->n_panels + (pass->tail > 0)) * t.cuts), pack_tasks, &t));
}
