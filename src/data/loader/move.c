/* Random crops and flips of images and volumes, of the whole or of a box: part.c moves a sample with them
 * before it is converted, on a thread of the loader.
 *
 * A moved image is one that is looked at through a window of its own size, which was shifted and perhaps
 * mirrored.  So a box of it comes from a box of the image, as far as the window lies on it.
 */
#include "data/loader/loader.h"

#include <string.h>

lk_box lk__move_source(const lk__move *m, const lk_box *box)
{
    lk_box from = *box;
    for (int i = 0; i < m->axes; i++) {
        bool mirrored = m->flip && i == m->axes - 1;
        int64_t first = mirrored ? m->dim[i] - box->first[i] - box->n[i] : box->first[i];
        int64_t end = first + box->n[i] + m->shift[i];
        first += m->shift[i];
        first = first < 0 ? 0 : first > m->dim[i] ? m->dim[i] : first;
        end = end < first ? first : end > m->dim[i] ? m->dim[i] : end;
        from.first[i] = first;
        from.n[i] = end - first;
    }
    return from;
}

static void zero_fill(char *out, int64_t n)
{
    memset(out, 0, (size_t)n);
}

/* One row of pixels, from `in`: the columns `from` of the image become those of `to`. */
static void move_columns(const lk__move *m, lk_range from, const char *in, lk_range to, char *out,
                         int64_t pixel)
{
    int64_t columns = m->dim[m->axes - 1], shift = m->shift[m->axes - 1] - from.first;
    if (m->flip) {
        for (int64_t i = 0; i < to.n; i++) {
            int64_t at = columns - 1 - to.first - i + shift;
            if (at < 0 || at >= from.n)
                zero_fill(out + i * pixel, pixel);
            else
                memcpy(out + i * pixel, in + at * pixel, (size_t)pixel);
        }
        return;
    }
    int64_t at = to.first + shift; /* of the first column */
    int64_t before = at < 0 ? -at : 0, end = from.n - at;
    before = before > to.n ? to.n : before;
    end = end < before ? before : end > to.n ? to.n : end;
    zero_fill(out, before * pixel);
    if (end > before)
        memcpy(out + before * pixel, in + (at + before) * pixel, (size_t)((end - before) * pixel));
    zero_fill(out + end * pixel, (to.n - end) * pixel);
}

static lk_range axis(const lk_box *box, int i)
{
    return (lk_range){box->first[i], box->n[i]};
}

void lk__move_box(const lk__move *m, const lk_box *from, const void *in, const lk_box *box,
                  void *out, size_t size)
{
    int rows = m->axes - 2, columns = m->axes - 1;
    int64_t pixel = (int64_t)size;
    for (int i = m->axes; i < box->ndim; i++)
        pixel *= box->n[i];
    lk_range none = {0, 1};
    lk_range to_planes = rows > 0 ? axis(box, 0) : none,
             of_planes = rows > 0 ? axis(from, 0) : none;
    lk_range to_rows = axis(box, rows), of_rows = axis(from, rows);
    int64_t shift = rows > 0 ? m->shift[0] : 0;
    char *to = out;
    for (int64_t p = 0; p < to_planes.n; p++)
        for (int64_t r = 0; r < to_rows.n; r++, to += box->n[columns] * pixel) {
            int64_t plane = to_planes.first + p + shift - of_planes.first;
            int64_t row = to_rows.first + r + m->shift[rows] - of_rows.first;
            if (plane >= 0 && plane < of_planes.n && row >= 0 && row < of_rows.n)
                move_columns(m, axis(from, columns),
                             (const char *)in +
                                 (plane * of_rows.n + row) * from->n[columns] * pixel,
                             axis(box, columns), to, pixel);
            else
                zero_fill(to, box->n[columns] * pixel);
        }
}
