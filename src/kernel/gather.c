/* Gathering by rows, and element by element where rows are too short for that. */
#include "kernel/gather.h"

#include <string.h>

/* Elements of a row that is worth a call. */
enum { WIDE = 16 };

/* The first `have` bytes until there are n, by copies of twice the length each. */
static void repeat(char *dst, int64_t have, int64_t n)
{
    for (int64_t more; have < n; have += more) {
        more = n - have < have ? n - have : have;
        memcpy(dst + have, dst, (size_t)more);
    }
}

/* `size` is a constant where this is called, so copies of elements are single moves. */
static inline void by_element(const lk__gather *g, size_t size, const char *src, char *dst)
{
    for (int64_t r = 0; r < g->rows; r++) {
        const char *from = src + r * g->row_step * (int64_t)size;
        for (int64_t c = 0; c < g->cols; c++, dst += size)
            memcpy(dst, from + c * g->step * (int64_t)size, size);
    }
}

static void by_row(const lk__gather *g, const char *src, char *dst)
{
    const int64_t size = (int64_t)g->size, bytes = g->cols * size;
    for (int64_t r = 0; r < g->rows; r++, dst += bytes) {
        const char *from = src + r * g->row_step * size;
        if (g->step == 1) {
            memcpy(dst, from, (size_t)bytes);
        } else {
            memcpy(dst, from, g->size);
            repeat(dst, size, bytes);
        }
    }
}

static void rows(const lk__gather *g, const char *src, char *dst)
{
    if ((g->step == 0 || g->step == 1) && g->cols >= WIDE)
        by_row(g, src, dst);
    else if (g->size == 4)
        by_element(g, 4, src, dst);
    else if (g->size == 8)
        by_element(g, 8, src, dst);
    else
        by_element(g, g->size, src, dst);
}

void lk__gather_run(const lk__gather *g, const char *src, char *dst)
{
    lk__gather first = *g;
    const int64_t bytes = g->cols * (int64_t)g->size;
    if (g->row_step == 0 && g->rows > 1)
        first.rows = 1;
    rows(&first, src, dst);
    repeat(dst, first.rows * bytes, g->rows * bytes);
}
