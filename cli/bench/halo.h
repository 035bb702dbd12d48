/* A stack of convolutions, on one rank with two threads, on two ranks with one thread each, and on two
 * copies that share nothing, in turns.
 *
 * `lockstep bench halo` measures a case with it; the ranks are two threads of this process.
 */
#ifndef LK_CLI_BENCH_HALO_H
#define LK_CLI_BENCH_HALO_H

#include "bench/stats.h"
#include "peer.h"

#include <lockstep/comm.h>

enum { HALO_RANKS = 2, HALO_LAYERS = 4 };

/* Everybody who has a turn. */
typedef enum halo_side {
    HALO_ONE,   /* one rank, two threads, the ops on the whole sample */
    HALO_2X2,   /* the same by tiles */
    HALO_4X4,   /* and by more of them */
    HALO_FAST,  /* two ranks, as many tiles */
    HALO_CANON, /* two ranks, 4x4 tiles */
    HALO_APART, /* two copies, half the rows each */
    HALO_PEER,  /* a library, two threads, the convolutions alone */
    HALO_SIDES
} halo_side;

typedef struct halo_case {
    int ndim;             /* 2 or 3 */
    int64_t size[3];      /* of the one sample, at least 4 along the first two axes */
    int64_t channels;     /* of all layers */
    double seconds;       /* all together */
    const lk__peer *peer; /* NULL: none */
} halo_case;

typedef struct halo_figures {
    bench_figure seconds[HALO_SIDES]; /* of a pass, on the slowest */
    bench_figure ranks;               /* HALO_ONE / HALO_FAST */
    bench_figure limit;               /* HALO_APART / HALO_FAST */
    bench_figure price;               /* HALO_CANON / HALO_FAST */
    bench_figure tiles[2];            /* HALO_2X2 and HALO_4X4 / HALO_ONE */
    bench_figure ratio;               /* HALO_PEER / HALO_ONE */
    char peer_about[160];             /* how the peer computes, or why not */
    int rounds;
} halo_figures;

/** Measure a case.  Collective over HALO_RANKS local ranks; figures are rank 0's. */
lk_status halo_measure(lk_comm *comm, const halo_case *c, halo_figures *out) LK_NODISCARD;

#endif /* LK_CLI_BENCH_HALO_H */
