/* Pack a convolution's weights: for each group and block of C's channels, the taps in the order of
 * the chains, and in each tap one row per channel of A.  Columns that fill up a block are zero and
 * meet no output. */
#include "kernel/conv/pass.h"
#include "kernel/runtime/parallel.h"

#include <string.h>

/* Rows of the panel that a task packs, of one tap. */
enum { TASK_ROWS = 64 };

typedef struct pack {
    const lk__conv_pass *p;
    const char *w;
    int64_t group_in, out_channels; /* of W */
    int64_t cuts;                   /* tasks for one tap */
} pack;

/* Copy `n` rows of `bytes` and fill each up to `width` bytes with zeros. */
static void rows_copy(char *dst, int64_t width, const char *src, int64_t ld, int64_t n,
                      int64_t bytes)
{
    for (int64_t k = 0; k < n; k++, dst += width, src += ld) {
        int64_t i = 0;
        for (; i + 64 <= bytes; i += 64)
            memcpy(dst + i, src + i, 64);
        if (i < bytes)
            memcpy(dst + i, src + i, (size_t)(bytes - i));
        if (bytes < width)
            memset(dst + bytes, 0, (size_t)(width - bytes));
    }
}

/* Rows k0 ... k0 + n - 1 of one tap, in all blocks: W is read once from front to back. */
static void rows_pack(const pack *t, int64_t group, int64_t place, int64_t k0, int64_t n)
{
    const lk__conv_pass *p = t->p;
    int64_t row = lk__conv_pass_tap(p, place) * t->group_in;
    for (int64_t i = 0; i < p->n_blocks; i++) {
        const lk__conv_block *b = &p->block[i];
        int width = p->rows->width[b->pick];
        char *dst = (char *)p->panel +
                    (group * p->group_panel + b->panel + (place * p->a_group + k0) * width) *
                        p->elem;
        if (p->transposed) {
            int64_t from = (row + b->column) * t->out_channels + group * p->a_group + k0;
            p->rows->transpose(dst, t->w + from * p->elem, t->out_channels, n, b->n_valid, width);
        } else {
            int64_t from = (row + k0) * t->out_channels + group * p->c_group + b->column;
            rows_copy(dst, width * p->elem, t->w + from * p->elem, t->out_channels * p->elem, n,
                      b->n_valid * p->elem);
        }
    }
}

/* Task: a few rows of one tap of one group. */
static void pack_tasks(void *arg, int64_t first, int64_t last)
{
    const pack *t = arg;
    const lk__conv_pass *p = t->p;
    for (int64_t i = first; i < last; i++) {
        int64_t k0 = i % t->cuts * TASK_ROWS, left = p->a_group - k0;
        rows_pack(t, i / t->cuts / p->taps, i / t->cuts % p->taps, k0,
                  left < TASK_ROWS ? left : TASK_ROWS);
    }
}

lk_status lk__conv_pass_pack(lk__conv_pass *pass, const lk__conv_shape *s, const void *w)
{
    if (pass->a_group == 0 || pass->depthwise)
        return LK_OK;
    pack t = {.p = pass,
              .w = w,
              .group_in = s->group_in,
              .out_channels = s->out_channels,
              .cuts = (pass->a_group + TASK_ROWS - 1) / TASK_ROWS};
    int64_t rows = pass->a_group < TASK_ROWS ? pass->a_group : TASK_ROWS;
    return LK_TRACE(lk__parallel(
        lk__tasks_bytes(pass->groups * pass->taps * t.cuts, rows * pass->c_group * pass->elem),
        pack_tasks, &t));
}
