/* Boxes of arrays that lie in sources: what the readers of formats read of a sample, on any thread.
 *
 * The stretches of a box that lie side by side in the array are read one by one where they are long or far
 * apart; short ones come with what lies between them, some at a time.
 */
#include "data/dataset.h"
#include "data/source.h"

#include <string.h>

/* Bytes that are held, of a stretch that is short, and between stretches that are close. */
enum { WINDOW = 1 << 14, SHORT = 1 << 11, CLOSE = 1 << 11 };

/* What was read last: bytes [at, end) of the source. */
struct window {
    int64_t at, end;
    unsigned char bytes[WINDOW];
};

/* Whether the stretches of a walk, of `n` bytes each, are read through a window. */
static bool is_scattered(const lk_box_walk *walk, int64_t n, int64_t size)
{
    return walk->outer > 0 && n <= SHORT && walk->step[walk->outer - 1] * size <= n + CLOSE;
}

static lk_status window_copy(struct window *w, const lk__source *s, lk_range bytes, int64_t last,
                             void *out)
{
    if (bytes.first < w->at || bytes.first + bytes.n > w->end) {
        int64_t n = last - bytes.first < WINDOW ? last - bytes.first : WINDOW;
        w->at = w->end = bytes.first;
        LK_TRY(lk__source_read(s, bytes.first, w->bytes, n, "a sample"));
        w->end += n;
    }
    memcpy(out, w->bytes + (bytes.first - w->at), (size_t)bytes.n);
    return LK_OK;
}

lk_status lk__source_read_box(const lk__source *s, int64_t offset, const lk_shape *shape,
                              const lk_box *box, size_t size, void *out)
{
    int64_t bytes = (int64_t)size;
    lk_box_walk walk = lk_box_start(box, shape->dim);
    int64_t stretch = walk.n * bytes, last = offset + (lk__box_last(shape, box) + 1) * bytes;
    bool scattered = is_scattered(&walk, stretch, bytes);
    struct window w;
    w.at = w.end = 0;
    while (lk_box_next(&walk)) {
        lk_range here = {offset + walk.place * bytes, stretch};
        char *to = (char *)out + walk.at * bytes;
        if (scattered)
            LK_TRY(window_copy(&w, s, here, last, to));
        else
            LK_TRY(lk__source_read(s, here.first, to, stretch, "a sample"));
    }
    return LK_OK;
}
