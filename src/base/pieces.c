/* Ranges and boxes: arithmetic on values. */
#include <lockstep/pieces.h>

#include <string.h>

lk_box lk_box_whole(int ndim, const int64_t *dim)
{
    lk_box box = {.ndim = ndim};
    for (int i = 0; i < ndim; i++)
        box.n[i] = dim[i];
    return box;
}

int64_t lk_box_count(const lk_box *box)
{
    int64_t count = 1;
    for (int i = 0; i < box->ndim; i++)
        count *= box->n[i];
    return count;
}

bool lk_box_is_equal(const lk_box *a, const lk_box *b)
{
    size_t bytes = (size_t)a->ndim * sizeof a->first[0];
    return a->ndim == b->ndim && memcmp(a->first, b->first, bytes) == 0 &&
           memcmp(a->n, b->n, bytes) == 0;
}

bool lk_box_is_within(const lk_box *box, const int64_t *dim)
{
    if (box->ndim < 0 || box->ndim > LK_MAX_NDIM)
        return false;
    for (int i = 0; i < box->ndim; i++)
        if (box->first[i] < 0 || box->n[i] < 0 || box->n[i] > dim[i] ||
            box->first[i] > dim[i] - box->n[i])
            return false;
    return true;
}

lk_box lk_box_intersect(const lk_box *a, const lk_box *b)
{
    lk_box both = {.ndim = a->ndim};
    for (int i = 0; i < a->ndim; i++) {
        int64_t a_end = a->first[i] + a->n[i], b_end = b->first[i] + b->n[i];
        int64_t end = a_end < b_end ? a_end : b_end;
        both.first[i] = a->first[i] > b->first[i] ? a->first[i] : b->first[i];
        both.n[i] = end > both.first[i] ? end - both.first[i] : 0;
    }
    return both;
}

lk_box_walk lk_box_start(const lk_box *box, const int64_t *dim)
{
    lk_box_walk walk = {.n = 1, .left = 1};
    int inner = box->ndim;
    int64_t step = 1;
    /* The last axes, as long as they are whole, and the one before them make one stretch. */
    for (bool whole = true; whole && inner > 0; step *= dim[inner]) {
        inner--;
        walk.n *= box->n[inner];
        walk.place += box->first[inner] * step;
        whole = box->n[inner] == dim[inner];
    }
    walk.outer = inner;
    for (int i = inner; i-- > 0; step *= dim[i]) {
        walk.size[i] = box->n[i];
        walk.step[i] = step;
        walk.place += box->first[i] * step;
        walk.left *= box->n[i];
    }
    if (walk.n == 0)
        walk.left = 0;
    walk.at = -walk.n;
    return walk;
}

bool lk_box_next(lk_box_walk *walk)
{
    bool begun = walk->at >= 0;
    if (walk->left == 0)
        return false;
    walk->left--;
    walk->at += walk->n;
    for (int i = begun ? walk->outer : 0; i-- > 0;) {
        walk->place += walk->step[i];
        if (++walk->index[i] < walk->size[i])
            break;
        walk->place -= walk->size[i] * walk->step[i];
        walk->index[i] = 0;
    }
    return true;
}
