/* Layouts: an ordered list of slices, with a hash table from name to number.
 *
 * The table has a power of two of places, at most half of them taken; a name goes to the first free
 * place from its hash on.
 */
#include "tensor/layout.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/checked.h>

#include <stdio.h>
#include <string.h>

enum { FIRST_CAPACITY = 16, FREE_PLACE = -1 };

lk_status lk_slab_layout_new(lk_slab_layout **out)
{
    LK_TRY(lk_alloc_zero(out, 1, sizeof **out));
    atomic_init(&(*out)->holders, 1);
    return LK_OK;
}

void lk__layout_retain(lk_slab_layout *layout)
{
    atomic_store(&layout->fixed, true);
    atomic_fetch_add_explicit(&layout->holders, 1, memory_order_relaxed);
}

void lk_slab_layout_free(lk_slab_layout *layout)
{
    if (!layout || atomic_fetch_sub_explicit(&layout->holders, 1, memory_order_acq_rel) > 1)
        return;
    for (int64_t i = 0; i < layout->n; i++)
        lk_free(layout->slice[i].name);
    lk_free(layout->slice);
    lk_free(layout->place);
    lk_free(layout);
}

/* The place of `name` in a table: where it is, or the free one where it would go. */
static int64_t place_of(const struct lk__slice *slice, const int64_t *place, int64_t places,
                        const char *name)
{
    lk_hash h = lk_hash_start();
    lk_hash_add_text(&h, name);
    uint64_t at = lk_hash_value(&h), mask = (uint64_t)places - 1;
    while (place[at & mask] != FREE_PLACE && strcmp(slice[place[at & mask]].name, name) != 0)
        at++;
    return (int64_t)(at & mask);
}

/* Make room for one more slice. */
static lk_status grow(lk_slab_layout *layout)
{
    if (layout->n < layout->capacity)
        return LK_OK;
    lk_status st;
    int64_t capacity = layout->capacity > 0 ? 2 * layout->capacity : FIRST_CAPACITY;
    int64_t places = 2 * capacity;
    struct lk__slice *slice = NULL;
    int64_t *place = NULL;
    LK_TRY_TO(fail, lk_alloc(&slice, capacity, sizeof *slice));
    LK_TRY_TO(fail, lk_alloc(&place, places, sizeof *place));
    for (int64_t i = 0; i < places; i++)
        place[i] = FREE_PLACE;
    for (int64_t i = 0; i < layout->n; i++) {
        slice[i] = layout->slice[i];
        place[place_of(slice, place, places, slice[i].name)] = i;
    }
    lk_free(layout->slice);
    lk_free(layout->place);
    layout->slice = slice;
    layout->place = place;
    layout->capacity = capacity;
    layout->places = places;
    return LK_OK;
fail:
    lk_free(slice);
    lk_free(place);
    return st;
}

/* The number of the slice of this name, or -1. */
static int64_t number_of(const lk_slab_layout *layout, const char *name)
{
    if (layout->n == 0)
        return -1;
    return layout->place[place_of(layout->slice, layout->place, layout->places, name)];
}

/* Count, bytes and the layout's new end for a slice that is to be appended. */
static lk_status slice_measure(const lk_slab_layout *layout, const char *name, struct lk__slice *s,
                               int64_t *end)
{
    LK_CHECK(lk_dtype_size(s->dtype) > 0, LK_EDTYPE, "slice \"%s\" has dtype number %d", name,
             (int)s->dtype);
    LK_TRY(lk_product_i64(s->box.ndim, s->box.n, &s->count));
    s->offset = layout->bytes;
    lk_status st = lk_mul_i64(s->count, (int64_t)lk_dtype_size(s->dtype), &s->bytes);
    if (st == LK_OK)
        st = lk_add_i64(s->offset, s->bytes, end);
    if (st == LK_OK)
        st = lk_round_up_i64(*end, LK_ALIGN, end);
    LK_CHECK(st == LK_OK, LK_EOVERFLOW, "the bytes of a layout with slice \"%s\", %s%s", name,
             lk_dtype_name(s->dtype), lk_shape_text(s->shape).s);
    return LK_OK;
}

/* The box of a slice is one of its tensor. */
static lk_status slice_check(const char *name, const struct lk__slice *s)
{
    int64_t elements, same;
    LK_TRY(lk_shape_count(s->shape, &elements));
    LK_TRY(lk_shape_count(s->box_of, &same));
    LK_CHECK(elements == same, LK_EINVAL, "slice \"%s\" is %s, which has other elements than %s",
             name, lk_shape_text(s->shape).s, lk_shape_text(s->box_of).s);
    LK_CHECK(s->box.ndim == s->box_of.ndim && lk_box_is_within(&s->box, s->box_of.dim), LK_EINVAL,
             "the box of slice \"%s\" does not lie in %s", name, lk_shape_text(s->box_of).s);
    return LK_OK;
}

static lk_status slice_add(lk_slab_layout *layout, const char *name, struct lk__slice s)
{
    LK_CHECK(layout, LK_EINVAL, "layout is NULL");
    LK_CHECK(name && *name, LK_EINVAL, "slice %lld has no name", (long long)layout->n);
    LK_CHECK(!atomic_load(&layout->fixed), LK_EINVAL,
             "slice \"%s\" comes too late: a slab was made from the layout", name);
    LK_CHECK(number_of(layout, name) < 0, LK_EINVAL, "slice \"%s\" is already in the layout", name);
    int64_t end, length = (int64_t)strlen(name) + 1;
    LK_TRY(slice_check(name, &s));
    LK_TRY(slice_measure(layout, name, &s, &end));
    lk_box whole = lk_box_whole(s.box_of.ndim, s.box_of.dim);
    s.whole = lk_box_is_equal(&s.box, &whole);
    LK_TRY(grow(layout));
    LK_TRY(lk_alloc(&s.name, length, 1));
    memcpy(s.name, name, (size_t)length);
    layout->place[place_of(layout->slice, layout->place, layout->places, name)] = layout->n;
    layout->slice[layout->n++] = s;
    layout->bytes = end;
    return LK_OK;
}

lk_status lk_slab_layout_add(lk_slab_layout *layout, const char *name, lk_dtype dtype,
                             lk_shape shape)
{
    int64_t elements;
    LK_TRY(lk_shape_count(shape, &elements));
    return LK_TRACE(slice_add(layout, name,
                              (struct lk__slice){.dtype = dtype,
                                                 .shape = shape,
                                                 .box_of = shape,
                                                 .box = lk_box_whole(shape.ndim, shape.dim)}));
}

lk_status lk_slab_layout_add_box(lk_slab_layout *layout, const char *name, lk_dtype dtype,
                                 lk_shape shape, lk_shape box_of, const lk_box *box)
{
    LK_CHECK(box, LK_EINVAL, "box is NULL");
    return LK_TRACE(slice_add(
        layout, name,
        (struct lk__slice){.dtype = dtype, .shape = shape, .box_of = box_of, .box = *box}));
}

int64_t lk_slab_layout_slices(const lk_slab_layout *layout)
{
    return layout->n;
}

int64_t lk_slab_layout_bytes(const lk_slab_layout *layout)
{
    return layout->bytes;
}

lk_status lk_slab_layout_slice(const lk_slab_layout *layout, int64_t i, lk_slab_slice *out)
{
    LK_CHECK(layout, LK_EINVAL, "layout is NULL");
    LK_CHECK(i >= 0 && i < layout->n, LK_EINVAL, "slice %lld of a layout of %lld", (long long)i,
             (long long)layout->n);
    const struct lk__slice *s = &layout->slice[i];
    *out = (lk_slab_slice){.name = s->name,
                           .dtype = s->dtype,
                           .shape = s->shape,
                           .box_of = s->box_of,
                           .box = s->box,
                           .count = s->count,
                           .offset = s->offset,
                           .bytes = s->bytes};
    return LK_OK;
}

bool lk_slab_layout_is_whole(const lk_slab_layout *layout, lk_slab_slice *part)
{
    for (int64_t i = 0; i < layout->n; i++) {
        if (layout->slice[i].whole)
            continue;
        if (part && lk_slab_layout_slice(layout, i, part) != LK_OK)
            lk_error_clear();
        return false;
    }
    return true;
}

lk_slice_text lk_slab_slice_text(const lk_slab_slice *slice)
{
    lk_slice_text text;
    int n = snprintf(text.s, sizeof text.s, "%s[", lk_dtype_name(slice->dtype));
    for (int i = 0; i < slice->box_of.ndim && n < (int)sizeof text.s; i++) {
        const char *comma = i > 0 ? "," : "";
        int64_t first = slice->box.first[i], end = first + slice->box.n[i];
        bool whole = first == 0 && end == slice->box_of.dim[i];
        size_t room = sizeof text.s - (size_t)n;
        n += whole ? snprintf(text.s + n, room, "%s%lld", comma, (long long)end)
                   : snprintf(text.s + n, room, "%s%lld:%lld", comma, (long long)first,
                              (long long)end);
    }
    if (n < (int)sizeof text.s)
        snprintf(text.s + n, sizeof text.s - (size_t)n, "]");
    return text;
}

int64_t lk_slab_slice_place(const lk_slab_slice *slice, int64_t i)
{
    lk_box_walk walk = lk_box_start(&slice->box, slice->box_of.dim);
    while (lk_box_next(&walk))
        if (i < walk.at + walk.n)
            return walk.place + i - walk.at;
    return -1;
}

lk_status lk_slab_layout_find(const lk_slab_layout *layout, const char *name, int64_t *out)
{
    LK_CHECK(layout && name, LK_EINVAL, "%s is NULL", layout ? "name" : "layout");
    int64_t i = number_of(layout, name);
    LK_CHECK(i >= 0, LK_EINVAL, "no slice named \"%s\" in a layout of %lld", name,
             (long long)layout->n);
    *out = i;
    return LK_OK;
}

lk_status lk_slab_layout_find_offset(const lk_slab_layout *layout, int64_t offset, int64_t *out)
{
    LK_CHECK(layout, LK_EINVAL, "layout is NULL");
    LK_CHECK(offset >= 0 && offset < layout->bytes, LK_EINVAL, "offset %lld in %lld bytes",
             (long long)offset, (long long)layout->bytes);
    /* The last slice that starts at or before the offset: those without elements come first. */
    int64_t low = 0, high = layout->n;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (layout->slice[middle].offset <= offset)
            low = middle;
        else
            high = middle;
    }
    const struct lk__slice *s = &layout->slice[low];
    *out = offset - s->offset < s->bytes ? low : -1;
    return LK_OK;
}
