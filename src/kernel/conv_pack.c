/* Pack a convolution's weights: for each group and block of C's channels, the taps in the order of
 * the chains, and in each tap one row per channel of A.  Columns that fill up a block are zero and
 * meet no output. */
#include "kernel/conv_pass.h"
#include "kernel/parallel.h"

#include <string.h>

typedef struct pack {
    const lk__conv_pass *p;
    const char *w;
    int64_t group_in, out_channels; /* of W */
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

/* Task: one tap of one block of one group. */
static void pack_taps(void *arg, int64_t first, int64_t last)
{
    const pack *t = arg;
    const lk__conv_pass *p = t->p;
    for (int64_t i = first; i < last; i++) {
        int64_t place = i % p->taps;
        const lk__conv_block *b = &p->block[i / p->taps % p->n_blocks];
        int64_t group = i / p->taps / p->n_blocks;
        int width = p->rows->width[b->pick];
        char *dst = (char *)p->panel +
                    (group * p->group_panel + b->panel + place * p->a_group * width) * p->elem;
        int64_t row = lk__conv_pass_tap(p, place) * t->group_in;
        if (p->transposed) {
            int64_t from = (row + b->column) * t->out_channels + group * p->a_group;
            p->rows->transpose(dst, t->w + from * p->elem, t->out_channels, p->a_group, b->n_valid,
                               width);
        } else {
            int64_t from = row * t->out_channels + group * p->c_group + b->column;
            rows_copy(dst, width * p->elem, t->w + from * p->elem, t->out_channels * p->elem,
                      p->a_group, b->n_valid * p->elem);
        }
    }
}

lk_status lk__conv_pass_pack(lk__conv_pass *pass, const lk__conv_shape *s, const void *w)
{
    if (pass->a_group == 0 || pass->depthwise)
        return LK_OK;
    enum { GRAIN_BYTES = 64 * 1024 };
    pack t = {pass, w, s->group_in, s->out_channels};
    int64_t task_bytes = pass->a_group * pass->rows->width[pass->rows->usual] * pass->elem;
    LK_TRY(lk__parallel(pass->groups * pass->n_blocks * pass->taps, GRAIN_BYTES / task_bytes + 1,
                        pack_taps, &t));
    return LK_OK;
}
