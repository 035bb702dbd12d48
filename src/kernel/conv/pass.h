/* A pass of a convolution as an indirect matrix product, the same for forward and backward data.
 *
 *   C[p][j] = chain over the valid taps of position p, and the channels k of A, of
 *             A[position of p and tap][k] * panel[tap][k][j]
 *
 * It runs on the rows micro-kernel: a tile is a few positions with the same valid taps, each with
 * its own pointers into A and C, times a block of C's channels.  Positions with the same valid taps
 * are a *region*, a product of one class per axis.  Work is cut into *strips*: some positions of a
 * region, over a chunk of samples that fits the cache.
 *
 * The weights are packed in each call into a panel [group][block][tap in order][k][block's width].
 *
 * A depthwise convolution (one channel of A and one of C in each group) has a micro-kernel of its
 * own, no panel, and counts as one group here.
 */
#ifndef LK_KERNEL_CONV_PASS_H
#define LK_KERNEL_CONV_PASS_H

#include "kernel/conv/axis.h"
#include "kernel/depthwise.h"
#include "kernel/maps.h"

/* The most positions of a strip. */
enum { LK_CONV_STRIP = 256 };

/* Channels of C that are computed together. */
typedef struct lk__conv_block {
    int64_t column; /* the first, within the group */
    int n_valid;
    int pick;      /* index of its width in the micro-kernel's table */
    int64_t panel; /* elements from the group's panel to the block's */
} lk__conv_block;

typedef struct lk__conv_pass {
    const lk__rows_type *rows;
    lk__depthwise_fn *depthwise; /* NULL: the rows micro-kernel */
    bool transposed;             /* the panel has W's columns as rows: backward data */
    int64_t elem;
    int64_t batch, a_sample, c_sample;
    int64_t groups, a_group, c_group; /* channels of one group */
    lk__conv_axis axis[LK_CONV_AXES];
    int64_t taps;

    lk__conv_block *block;
    int64_t n_blocks;
    int64_t group_panel; /* elements */
    void *panel;

    int64_t chunk, n_chunks; /* samples that are computed together */
    int64_t strip;           /* positions */
    int64_t n_regions;
    int64_t *strips; /* strips of a chunk before region r; strips[n_regions] in all */
} lk__conv_pass;

/* What differs from call to call. */
typedef struct lk__conv_call {
    const void *a, *w, *bias;
    void *c;
    lk__start start;
    lk__act_fn *act; /* NULL: none */
} lk__conv_call;

/** Plan the forward or (`data`) the backward-data pass for the instruction set in use. */
lk_status lk__conv_pass_new(const lk__conv_shape *s, bool data, lk__conv_pass **out) LK_NODISCARD;

/** NULL is allowed. */
void lk__conv_pass_free(lk__conv_pass *pass);

/** As lk__conv_pass_new() if `*pass` is NULL or made for another instruction set. */
lk_status lk__conv_pass_ready(const lk__conv_shape *s, bool data,
                              lk__conv_pass **pass) LK_NODISCARD;

/** The kernel tap, counted in raster order, that is in the given place of the chains. */
int64_t lk__conv_pass_tap(const lk__conv_pass *pass, int64_t place);

/** Fill the panel from `w`, laid out as in conv.h. */
lk_status lk__conv_pass_pack(lk__conv_pass *pass, const lk__conv_shape *s,
                             const void *w) LK_NODISCARD;

#endif /* LK_KERNEL_CONV_PASS_H */
