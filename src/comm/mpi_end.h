/* lk__mpi_end: one process's end of the transport `mpi`, its lk__world with the requests of MPI
 * that are under way. mpi.c opens it, mpi_wires.c moves packets with it. */
#ifndef LK_COMM_MPI_END_H
#define LK_COMM_MPI_END_H

#include "comm/comm.h"
#include "comm/mpi.h"

enum {
    LK_MPI_EAGER = 8192, /* bytes of payload that go with the header */
    LK_MPI_PACKET = 64 + LK_WIRE_NAME + LK_MPI_EAGER,
    LK_MPI_RING = 16, /* receives that are always posted */
};

typedef struct lk__mpi_end {
    lk__world w;
    const lk__mpi *m;
    lk__mpi_comm *comm;
    bool finalize; /* MPI ends with this world */
    bool alone;    /* all ranks are on this node, and can be notified */
    int64_t naps;  /* without anything arriving */
    int64_t seen;  /* w.n_arrived at the last nap */
    int *node;
    lk__host *host;
    lk_shm *shown; /* what the ranks of the node show each other */
    lk__board_slot slot, **board;
    lk__wakeup own_wakeup, **wakeup;
    uint16_t last_lane, last_tag;
    struct lk__mpi_offer *waiting;   /* payloads that nobody has asked for yet */
    struct lk__mpi_offer *under_way; /* with MPI */
    int64_t
        gives_up; /* when MPI is no longer waited for, after a fault or at the end; 0: not yet */
    int ring_at;
    lk__mpi_request ring[LK_MPI_RING];
    unsigned char (*ring_packet)[LK_MPI_PACKET];
    lk__fault fault;             /* where the node does not share one */
    int answer_by;               /* who has answered; -1: nobody */
    lk__board_entry answer;      /* what it does */
    bool *asked;                 /* [size] who has still to answer */
    lk__mpi_request *fault_sent; /* [n_faults] of at most as many as there are ranks */
    int n_faults;
    unsigned char fault_packet[sizeof(lk__header) + LK_FAULT_TEXT];
} lk__mpi_end;

/** The status of an MPI call. */
lk_status lk__mpi_check(const lk__mpi_end *e, int code, const char *what) LK_NODISCARD;

/** Post the receives of packets. */
lk_status lk__mpi_ring_open(lk__mpi_end *e) LK_NODISCARD;

/** Take them back. */
void lk__mpi_ring_close(lk__mpi_end *e);

/** Free what is still under way, as soon as MPI has ended it. */
void lk__mpi_forget(lk__mpi_end *e);

/** Complete what MPI has done. */
lk_status lk__mpi_complete(lk__mpi_end *e) LK_NODISCARD;

/* The functions of the transport that move packets. */
lk_status lk__mpi_send(lk__world *w, lk_request *r) LK_NODISCARD;
lk_status lk__mpi_poll(lk__world *w) LK_NODISCARD;
lk_status lk__mpi_take(lk__world *w, lk__packet *p, lk_request *r) LK_NODISCARD;
void lk__mpi_withdraw(lk__world *w, lk_request *r);
void lk__mpi_drop(lk__world *w, lk__packet *p);
void lk__mpi_spread(lk__world *w);
bool lk__mpi_ask(lk__world *w, int rank, lk__board_entry *out);
lk_status lk__mpi_inquire(lk__world *w, int rank) LK_NODISCARD;

#endif /* LK_COMM_MPI_END_H */
