/* Transposed copies by tiles, and rows around the cache.
 *
 * A tile has as many rows and columns as there are elements in a line of the cache: it is transposed in
 * a buffer, and then written line by line, each at once and whole.  What is left at the edges goes element
 * by element.
 */
#include "kernel/copy.h"

#include "kernel/simd/vec/bytes.h"
#ifndef LK_SIMD_scalar
#    include "kernel/simd/vec/transpose.h"
#endif

/* In all of these `size` is a constant where they are called, so copies of elements are single moves.
 * The inner loop is the one along the rows of dst if `by_row`. */
LK_INLINE void elements(const int64_t size, const bool by_row, int64_t rows, int64_t cols,
                        const char *src, int64_t src_step, char *dst, int64_t dst_step)
{
    const int64_t outer = by_row ? rows : cols, inner = by_row ? cols : rows;
    const int64_t dst_outer = by_row ? dst_step : size, dst_inner = by_row ? size : dst_step;
    const int64_t src_outer = by_row ? size : src_step, src_inner = by_row ? src_step : size;
    for (int64_t i = 0; i < outer; i++)
        for (int64_t k = 0; k < inner; k++)
            memcpy(dst + i * dst_outer + k * dst_inner, src + i * src_outer + k * src_inner,
                   (size_t)size);
}

/* `to` = a tile of src, transposed. */
LK_INLINE void tile(const int64_t size, const char *src, int64_t src_step, char *to)
{
    const int64_t n = LK_LINE / size;
#ifdef LK_SIMD_scalar
    elements(size, true, n, n, src, src_step, to, LK_LINE);
#else
    if (size == 4) {
        for (int64_t c = 0; c < n; c += f32x8_lanes)
            for (int64_t r = 0; r < n; r += f32x8_lanes / 2) {
                f32x8 v[f32x8_lanes / 2];
                f32x8_half_square(v, (const float *)(src + c * src_step) + r, src_step / size);
                LK_UNROLL
                for (int q = 0; q < f32x8_lanes / 2; q++)
                    f32x8_store((float *)(to + (r + q) * LK_LINE) + c, v[q]);
            }
    } else if (size == 8) {
        for (int64_t c = 0; c < n; c += f64x4_lanes)
            for (int64_t r = 0; r < n; r += f64x4_lanes / 2) {
                f64x4 v[f64x4_lanes / 2];
                f64x4_half_square(v, (const double *)(src + c * src_step) + r, src_step / size);
                LK_UNROLL
                for (int q = 0; q < f64x4_lanes / 2; q++)
                    f64x4_store((double *)(to + (r + q) * LK_LINE) + c, v[q]);
            }
    } else {
        for (int64_t c = 0; c < n; c += 8)
            for (int64_t r = 0; r < n; r += 8) {
                const char *s = src + c * src_step + r * size;
                char *d = to + r * LK_LINE + c * size;
                if (size == 2)
                    u16_square(d, LK_LINE, s, src_step);
                else
                    u8_square(d, LK_LINE, s, src_step);
            }
    }
#endif
}

LK_INLINE void tiles(const int64_t size, int64_t rows, int64_t cols, const char *src,
                     int64_t src_step, char *dst, int64_t dst_step, bool past)
{
    const int64_t n = LK_LINE / size, whole_rows = rows / n * n, whole_cols = cols / n * n;
    _Alignas(LK_LINE) char buffer[LK_LINE * LK_LINE]; /* all of it for single bytes */
    past = past && ((uintptr_t)dst | (uintptr_t)dst_step) % LK_LINE == 0;
    for (int64_t c = 0; c < whole_cols; c += n)
        for (int64_t r = 0; r < whole_rows; r += n) {
            char *to = dst + r * dst_step + c * size;
            tile(size, src + c * src_step + r * size, src_step, buffer);
            if (past)
                for (int64_t q = 0; q < n; q++)
                    line_past(to + q * dst_step, buffer + q * LK_LINE);
            else
                for (int64_t q = 0; q < n; q++)
                    memcpy(to + q * dst_step, buffer + q * LK_LINE, LK_LINE);
        }
    if (past)
        past_end();
    elements(size, false, whole_rows, cols - whole_cols, src + whole_cols * src_step, src_step,
             dst + whole_cols * size, dst_step);
    elements(size, true, rows - whole_rows, cols, src + whole_rows * size, src_step,
             dst + whole_rows * dst_step, dst_step);
}

#define TILES(size)                                                                         \
    static void tiles_##size(int64_t rows, int64_t cols, const char *src, int64_t src_step, \
                             char *dst, int64_t dst_step, bool past)                        \
    {                                                                                       \
        tiles(size, rows, cols, src, src_step, dst, dst_step, past);                        \
    }
TILES(1)
TILES(2)
TILES(4)
TILES(8)

static void rows_past(int64_t rows, int64_t n, const char *src, int64_t src_step, char *dst,
                      int64_t dst_step)
{
    for (int64_t r = 0; r < rows; r++, src += src_step, dst += dst_step) {
        int64_t i = (int64_t)(-(uintptr_t)dst % LK_LINE); /* the first whole line begins here */
        i = i < n ? i : n;
        memcpy(dst, src, (size_t)i);
        for (; i + LK_LINE <= n; i += LK_LINE)
            line_past(dst + i, src + i);
        memcpy(dst + i, src + i, (size_t)(n - i));
    }
    past_end();
}

const lk__copy_table LK_ISA(lk__copy) = {.tiles = {tiles_1, tiles_2, tiles_4, tiles_8},
                                         .past = rows_past};
