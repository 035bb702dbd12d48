/* Panels: slices of a tensor's channels, copied so that each is dense.
 *
 *   from  [pixel][channels ...]                      pixels `ld` apart
 *   to    [panel][pixel][width]                      panel p at `at`, its pixels `width` apart
 *
 * A micro-kernel that walks over pixels then reads consecutive memory, whatever the number of
 * channels.  Elements of a panel's pixel from `n` to `width` hold zeros or other channels.
 */
#ifndef LK_KERNEL_PANELS_H
#define LK_KERNEL_PANELS_H

#include "kernel/runtime/isa.h"

#include <lockstep/dtype.h>

typedef struct lk__panel {
    int64_t first; /* its first channel */
    int64_t at;    /* where it begins, in elements */
    int n;         /* its channels */
    int width;     /* from one pixel to the next */
} lk__panel;

typedef struct lk__panels_args {
    const lk__panel *panel;
    int64_t n_panels;
    void *to;
    int64_t to_pixel; /* pixels already in each panel */
    const void *from;
    int64_t ld, channels; /* each pixel has `channels` elements that may be read */
    int64_t n_pixels;
} lk__panels_args;

typedef void lk__panels_fn(const lk__panels_args *t);

/* By lk_dtype, f32 and f64; `lanes`: widths must be multiples of it. */
typedef struct lk__panels_table {
    int lanes[2];
    lk__panels_fn *copy[2];
} lk__panels_table;

LK_ISA_TABLE(lk__panels_table, lk__panels)

#endif /* LK_KERNEL_PANELS_H */
