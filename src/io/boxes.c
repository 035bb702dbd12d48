/* The arithmetic of boxes.h: bands of files, and the offsets at both ends of what goes between
 * files and boxes. */
#include "io/boxes.h"

#include "base/memory/grow.h"
#include "io/checkpoint/checkpoint.h"

#include <string.h>

lk_status lk__flow_add(lk__flow *f, int64_t tensor, const lk_box *box)
{
    LK_TRY(lk__grow(&f->piece, &f->room, f->n + 1, sizeof *f->piece));
    f->piece[f->n++] = (lk__piece){tensor, *box};
    return LK_OK;
}

int64_t lk__tensor_count(const lk_checkpoint *c, int64_t i)
{
    return c->tensor[i].bytes / (int64_t)lk_dtype_size(c->tensor[i].dtype);
}

/* ---- bands ---- */

/* Go to the first part from `part` on whose bands are wanted. */
static void part_seek(lk__bands *b)
{
    while (b->part < b->c->n_parts && b->skip && b->skip[b->part] != b->skipped)
        b->part += b->step;
    b->tensor = lk__part_begin(b->c, b->part);
    b->element = 0;
}

lk__bands lk__bands_start(const lk_checkpoint *c, int64_t place, int64_t step, int64_t room)
{
    return (lk__bands){
        .c = c, .part = place < 0 ? c->n_parts : place, .step = step, .room = room, .tensor = -1};
}

/* As much of the part as has room; the rest of a tensor that was cut comes alone, so that what is held of
 * a large one lies side by side at both ends. */
static void band_fill(lk__bands *b, int64_t end, lk__band *band)
{
    if (b->element > 0)
        end = b->tensor + 1;
    const lk_checkpoint_tensor *t = &b->c->tensor[b->tensor];
    *band = (lk__band){.part = b->part, .tensor = b->tensor, .first = b->element};
    band->offset = t->offset + b->element * (int64_t)lk_dtype_size(t->dtype);
    for (; b->tensor < end; b->tensor++, b->element = 0) {
        int64_t size = (int64_t)lk_dtype_size(b->c->tensor[b->tensor].dtype);
        int64_t left = lk__tensor_count(b->c, b->tensor) - b->element;
        int64_t fits = (b->room - band->bytes) / size, n = left < fits ? left : fits;
        if (left > 0 && n == 0)
            return;
        b->element += n;
        band->bytes += n * size;
        band->end = b->tensor + 1;
        band->last = b->element;
        if (n < left)
            return;
    }
}

bool lk__bands_next(lk__bands *b, lk__band *band)
{
    if (b->tensor < 0)
        part_seek(b);
    while (b->part < b->c->n_parts) {
        int64_t end = lk__part_begin(b->c, b->part + 1);
        if (b->tensor < end)
            band_fill(b, end, band);
        else
            band->bytes = 0;
        if (b->tensor == end) {
            b->part += b->step;
            part_seek(b);
        }
        if (band->bytes > 0)
            return true;
    }
    return false;
}

/* The elements of tensor `i` that lie in a band. */
static lk_range band_range(const lk_checkpoint *c, const lk__band *band, int64_t i)
{
    int64_t first = i == band->tensor ? band->first : 0;
    int64_t last = i == band->end - 1 ? band->last : lk__tensor_count(c, i);
    return (lk_range){first, last - first};
}

lk_range lk__band_bytes(const lk_checkpoint *c, const lk__band *band, int64_t i)
{
    lk_range in = band_range(c, band, i);
    int64_t size = (int64_t)lk_dtype_size(c->tensor[i].dtype);
    return (lk_range){c->tensor[i].offset + in.first * size - band->offset, in.n * size};
}

/* ---- pieces in bands ---- */

/* Elements of a box that come before element number `place` of the tensor. */
static int64_t box_before(const lk_box *box, const int64_t *dim, int64_t place)
{
    int64_t index[LK_MAX_NDIM], inner = lk_box_count(box), sum = 0;
    for (int i = box->ndim; i-- > 0; place /= dim[i])
        index[i] = place % dim[i];
    if (place > 0)
        return inner; /* behind the last */
    for (int i = 0; i < box->ndim; i++) {
        int64_t at = index[i] - box->first[i];
        inner /= box->n[i];
        sum += (at < 0 ? 0 : at < box->n[i] ? at : box->n[i]) * inner;
        if (at < 0 || at >= box->n[i])
            break;
    }
    return sum;
}

/* The elements of a piece, counted from its first, that lie in a band. */
static lk_range piece_range(const lk_checkpoint *c, const lk__piece *p, const lk__band *band)
{
    lk_range in = band_range(c, band, p->tensor);
    const int64_t *dim = c->tensor[p->tensor].shape.dim;
    int64_t first = box_before(&p->box, dim, in.first);
    return (lk_range){first, box_before(&p->box, dim, in.first + in.n) - first};
}

/* The first piece that may have something in a band. */
static int64_t piece_first(const lk__flow *f, const lk__band *band)
{
    int64_t low = 0, high = f->n;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (f->piece[middle].tensor < band->tensor)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int64_t lk__flow_bytes(const lk_checkpoint *c, const lk__flow *f, const lk__band *band)
{
    int64_t bytes = 0;
    if (!band || f->n == 0)
        return 0;
    for (int64_t i = piece_first(f, band); i < f->n && f->piece[i].tensor < band->end; i++)
        bytes += piece_range(c, &f->piece[i], band).n *
                 (int64_t)lk_dtype_size(c->tensor[f->piece[i].tensor].dtype);
    return bytes;
}

/* ---- one end ---- */

/* Go on to stretch number `n` of a walk that has not begun, which has so many. */
static void walk_to(lk_box_walk *w, int64_t n)
{
    int64_t before = n - 1;
    if (n > 0) {
        w->left -= n;
        w->at = before * w->n;
        for (int i = w->outer; i-- > 0; before /= w->size[i]) {
            w->index[i] = before % w->size[i];
            w->place += w->index[i] * w->step[i];
        }
    }
    (void)lk_box_next(w);
}

/* Begin with a piece: its elements that lie in the band. */
static void piece_begin(lk__endpoint *e)
{
    const lk__piece *p = &e->flow->piece[e->piece];
    lk_range in = piece_range(e->c, p, e->band);
    lk_box box = p->box;
    e->left = in.n;
    if (in.n == 0)
        return;
    if (e->base) {
        e->walk = lk_box_start(&box, e->c->tensor[p->tensor].shape.dim);
    } else {
        const lk_box *own = &e->held[p->tensor].box;
        for (int i = 0; i < box.ndim; i++)
            box.first[i] -= own->first[i];
        e->walk = lk_box_start(&box, own->n);
    }
    e->used = in.first % e->walk.n;
    walk_to(&e->walk, in.first / e->walk.n);
}

static void end_start(lk__endpoint *e)
{
    e->piece = piece_first(e->flow, e->band) - 1;
    e->left = 0;
}

/* The next bytes that lie side by side; false: there are none. */
static bool end_next(lk__endpoint *e, unsigned char **at, int64_t *bytes)
{
    while (e->left == 0) {
        e->piece++;
        if (e->piece >= e->flow->n || e->flow->piece[e->piece].tensor >= e->band->end)
            return false;
        piece_begin(e);
    }
    int64_t i = e->flow->piece[e->piece].tensor;
    const lk_checkpoint_tensor *t = &e->c->tensor[i];
    int64_t size = (int64_t)lk_dtype_size(t->dtype), place = (e->walk.place + e->used) * size;
    int64_t n = e->walk.n - e->used < e->left ? e->walk.n - e->used : e->left;
    *at = e->base ? e->base + (t->offset + place - e->band->offset) : e->held[i].data + place;
    *bytes = n * size;
    e->left -= n;
    e->used = 0;
    if (e->left > 0)
        (void)lk_box_next(&e->walk);
    return true;
}

unsigned char *lk__endpoint_direct(lk__endpoint *e, int64_t bytes)
{
    unsigned char *at;
    int64_t n;
    end_start(e);
    return end_next(e, &at, &n) && n == bytes ? at : NULL;
}

void lk__endpoint_pack(lk__endpoint *e, unsigned char *message)
{
    unsigned char *at;
    int64_t n;
    for (end_start(e); end_next(e, &at, &n); message += n)
        memcpy(message, at, (size_t)n);
}

void lk__endpoint_unpack(lk__endpoint *e, const unsigned char *message)
{
    unsigned char *at;
    int64_t n;
    for (end_start(e); end_next(e, &at, &n); message += n)
        memcpy(at, message, (size_t)n);
}

void lk__endpoint_copy(lk__endpoint *from, lk__endpoint *to)
{
    unsigned char *source = NULL, *target = NULL;
    int64_t given = 0, taken = 0;
    end_start(from);
    end_start(to);
    for (;;) {
        if (given == 0 && !end_next(from, &source, &given))
            return;
        if (taken == 0 && !end_next(to, &target, &taken))
            return;
        int64_t n = given < taken ? given : taken;
        memcpy(target, source, (size_t)n);
        source += n;
        target += n;
        given -= n;
        taken -= n;
    }
}
