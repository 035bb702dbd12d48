/* lk_slab_layout from inside: the names, shapes and offsets of the slices of slabs.  Models,
 * accumulators and programs fill one in (layout.c), on one thread; a slab (slab.c) retains it, and from then
 * on it does not change.
 */
#ifndef LK_TENSOR_LAYOUT_H
#define LK_TENSOR_LAYOUT_H

#include <lockstep/slab.h>

#include <stdatomic.h>

struct lk__slice {
    char *name;
    lk_dtype dtype;
    lk_shape shape;
    lk_shape box_of;
    lk_box box;
    bool whole; /* the box is all of the tensor */
    int64_t count, offset, bytes;
};

struct lk_slab_layout {
    _Atomic int64_t holders;
    _Atomic bool fixed; /* a slab was made from it */
    int64_t n, capacity;
    struct lk__slice *slice;
    int64_t places, *place; /* name to slice number; FREE_PLACE where there is none */
    int64_t bytes;
};

/** Add a reference, of a slab: the layout is fixed from now on. */
void lk__layout_retain(lk_slab_layout *layout);

#endif /* LK_TENSOR_LAYOUT_H */
