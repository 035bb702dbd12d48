/* A stack of 3x3 or 3x3x3 convolutions with relu, forward and backward: what a side of `lockstep bench halo`
 * computes, on the whole sample or on this rank's tiles.
 *
 * Made by a rank for each of its sides; used by it alone.
 */
#ifndef LK_CLI_BENCH_HALO_STACK_H
#define LK_CLI_BENCH_HALO_STACK_H

#include "bench/halo.h"

#include <lockstep/tiles.h>

typedef struct halo_stack {
    lk_tiling *tiling; /* NULL: the whole sample */
    lk_tile *tile;     /* all layers are alike */
    lk_tape *tape;
    lk_tensor *x, *dy;
    lk_tensor *w[HALO_LAYERS], *b[HALO_LAYERS], *dw[HALO_LAYERS], *db[HALO_LAYERS];
    int ndim;
} halo_stack;

/**
 * Make a stack for a sample of `size`.  `tiles` NULL: without tiles; otherwise that many along the first
 * two axes, dealt to the ranks of `comm` by rows, or all to this one if it is NULL.
 *
 * Collective over `comm`.  `s` is all zero before; end it also after a failure.
 */
lk_status halo_stack_start(halo_stack *s, const halo_case *c, const int64_t *size, lk_comm *comm,
                           const int64_t *tiles) LK_NODISCARD;

/** Forward, and the gradients of all weights: one pass.  Collective over the tiling's ranks. */
lk_status halo_stack_pass(halo_stack *s) LK_NODISCARD;

void halo_stack_end(halo_stack *s);

#endif /* LK_CLI_BENCH_HALO_STACK_H */
