/* A transport: how packets get from one rank to another.
 *
 * Above it are communicators, matching, waiting and reports, the same for all transports; below it,
 * threads or MPI.  A transport moves whole packets between world ranks, in order for each pair, and
 * knows nothing of communicators.
 *
 *     request  ──send()──►  wires  ──poll()──►  lk__arrive()  ──take()──►  request's memory
 *
 * Small payloads are copied into the packet.  A large one stays where it is until the receiver has
 * matched the packet, and then goes straight to the receiver's memory, one copy in all.
 *
 * No function blocks.  Each is called by the one thread that is this rank, or by its progress thread.  A
 * failure of a transport is the end of the job: lk__fault_raise() has then been called, or is by the
 * caller.
 */
#ifndef LK_COMM_TRANSPORT_H
#define LK_COMM_TRANSPORT_H

#include "comm/faults/board.h"

typedef struct lk__world lk__world;

/* A packet that has arrived.  The receiver owns it until take() or drop(). */
typedef struct lk__packet {
    struct lk__packet *next;
    lk__label label;
    const void *payload; /* behind the packet, or at the sender's; NULL if still to be fetched */
    void *offer;         /* what the transport knows of a payload that comes apart */
} lk__packet;

/* Memory that several ranks of a node have: where it is here, and the file behind it if processes
 * share it (-1: none). */
typedef struct lk__shm_block {
    void *base;
    int64_t bytes;
    int fd;
} lk__shm_block;

/* What a rank needs to open a block that another one made. */
typedef struct lk__key {
    unsigned char random[16];
    int32_t pid, fd;
    void *address;
} lk__key;

typedef struct lk__transport {
    const char *name; /* "self", "local", "mpi" */

    /* Send label, tag, and payload of `r` to r->peer.  Sets r->done when the payload may change: at
     * once, in a later poll(), or from the receiver's thread. */
    lk_status (*send)(lk__world *w, lk_request *r);

    /* Hand every packet that has arrived to lk__arrive(), and complete what can be. */
    lk_status (*poll)(lk__world *w);

    /* Move the payload of a packet, label.h.bytes of it, to r->data and set r->done, now or in a
     * later poll().  Consumes the packet. */
    lk_status (*take)(lk__world *w, lk__packet *packet, lk_request *r);

    /* The request is given up, after a fault: when this returns, no thread touches its memory. */
    void (*withdraw)(lk__world *w, lk_request *r);

    /* Free a packet that was not taken. */
    void (*drop)(lk__world *w, lk__packet *packet);

    /* How long this rank may wait on its wakeup, at most `ns`, before it looks again: not everything
     * rings. */
    int64_t (*nap)(lk__world *w, int64_t ns);

    /* Whether something that was sent needs poll() to be complete; NULL: never. */
    bool (*busy)(lk__world *w);

    /* Whether the wires have something of this rank that will end without a call: it does not
     * rest (vain.h); NULL: never. */
    bool (*moving)(lk__world *w);

    /* Get ready for calls by two threads, one at a time; NULL: it is.  LK_ENOTSUP says why not. */
    lk_status (*share)(lk__world *w);

    /* Tell all other ranks of w->fault; allocates nothing. */
    void (*spread)(lk__world *w);

    /* Ask a rank of another node what it does; false: no answer in a moment.  A rank answers while
     * it waits for something itself.  NULL where there are no other nodes. */
    bool (*ask)(lk__world *w, int rank, lk__board_entry *out);

    /* The same without waiting: what it answers goes to lk__compare_shown().  Nothing happens while an
     * answer is still to come. */
    lk_status (*inquire)(lk__world *w, int rank);

    /* Blocks for lk_shm_open(): one rank makes it, the others of its node open it; each touches
     * its own part, which is then zero and there for good; seal() when all have opened it. */
    lk_status (*block_make)(lk__world *w, int64_t bytes, lk__key *key, lk__shm_block *out);
    lk_status (*block_open)(lk__world *w, int64_t bytes, const lk__key *key, lk__shm_block *out);
    lk_status (*block_touch)(lk__world *w, const lk__shm_block *b, void *part, int64_t bytes);
    void (*block_seal)(lk__world *w, lk__shm_block *b);
    void (*block_free)(lk__world *w, lk__shm_block *b);

    /* Release everything, the world included; the last communicator is gone. */
    void (*close)(lk__world *w);
} lk__transport;

#endif /* LK_COMM_TRANSPORT_H */
