/* A pass of a convolution by Winograd's F(4x4, 3x3), the same for forward and backward data.
 *
 * A pass reads A and writes C.  C is cut into tiles of 4x4 positions from its position (0, 0) on;
 * each reads 6x6 positions of A, +0 where there are none.  With the transforms of winograd.h,
 *
 *   C tile = output(for each component: chain over the channels k of A, from +0, of
 *                   input(A tile)[component][k] * weights(W)[component][k][j])
 *
 * and then the bias or C's old value is added.  Backward data is the forward pass of dy with W
 * turned by 180 degrees and its channels exchanged, and 2 - pad as its padding.
 *
 * Tiles are computed in blocks: the transformed A of a block and the products stay in the
 * second-level cache, and each component is a product of matrices, [tiles][k] by [k][j].  The
 * transformed weights are panels [component][panel][k][panel's width].
 */
#ifndef LK_KERNEL_CONV_WINOGRAD_H
#define LK_KERNEL_CONV_WINOGRAD_H

#include "kernel/conv/pass.h"
#include "kernel/cross.h"
#include "kernel/winograd.h"

/* One side of a pass. */
typedef struct lk__wino_side {
    int64_t channels, size[2], sample, step[2];
} lk__wino_side;

typedef struct lk__wino_pass {
    const lk__wino_type *micro;
    const lk__cross_type *cross;
    const lk__rows_type *rows;
    int64_t elem;
    bool transposed; /* backward data */
    lk__wino_side a, c;
    int64_t pad[2];
    int64_t tiles[2], n_tiles; /* along each axis of C, and of the whole batch */

    int64_t n_panels;  /* of the strip's width */
    int64_t tail;      /* columns behind these */
    int tail_pick;     /* the width that holds them, in the rows micro-kernel's table */
    int64_t u_step;    /* elements from one component of the panels to the next */
    void *u, *nothing; /* the panels; a position of A that is padding */

    int64_t block;          /* tiles */
    int64_t lda, ldc;       /* elements of a tile's component in a room */
    int64_t v_step, m_step; /* elements of a component of a block */
    int64_t room_size;
    int n_rooms, threads;
    char *room; /* transformed A, then products, of each worker */
} lk__wino_pass;

/** As lk__conv_pass_ready(); it also depends on the number of threads. */
lk_status lk__wino_pass_ready(const lk__conv_shape *s, bool data,
                              lk__wino_pass **pass) LK_NODISCARD;

/** NULL is allowed. */
void lk__wino_pass_free(lk__wino_pass *pass);

/** The columns of panel `p`, the tail being the last; its first, and its width. */
static inline int64_t lk__wino_panel(const lk__wino_pass *p, int64_t i, int *n_valid, int *width)
{
    *width = i < p->n_panels ? p->cross->width[0] : p->rows->width[p->tail_pick];
    *n_valid = i < p->n_panels ? *width : (int)p->tail;
    return i * p->cross->width[0];
}

/** Fill the panels from `w`, laid out as in conv.h. */
lk_status lk__wino_pass_pack(lk__wino_pass *pass, const void *w) LK_NODISCARD;

/** Compute C from A and the panels. */
lk_status lk__wino_pass_run(lk__wino_pass *pass, const lk__conv_call *call) LK_NODISCARD;

#endif /* LK_KERNEL_CONV_WINOGRAD_H */
