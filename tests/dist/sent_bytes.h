/* Bytes that a rank sends to others, counted at the transport: all, those of messages, and those of calls
 * of alltoall, whose own messages are counted too; and to whom calls between neighbours send. */
#ifndef LK_TEST_SENT_BYTES_H
#define LK_TEST_SENT_BYTES_H

#include "comm/comm.h"
#include "comm/world.h"

typedef struct sent_bytes {
    int64_t all, messages, alltoall, alltoalls;
    uint64_t neighbours; /* ranks below 64, as bits */
} sent_bytes;

static _Thread_local lk__transport bytes_transport;
static const lk__transport *_Atomic bytes_original; /* of all ranks; a progress thread sends too */
static _Thread_local sent_bytes bytes_sent;

static inline lk_status bytes_send(lk__world *w, lk_request *r)
{
    if (r->peer != w->rank) {
        const lk__header *h = &r->label->h;
        bytes_sent.all += r->bytes;
        bytes_sent.messages += h->kind == LK_KIND_P2P ? r->bytes : 0;
        if (h->kind == LK_KIND_COLLECTIVE && h->call == LK_CALL_ALLTOALL) {
            bytes_sent.alltoall += r->bytes;
            bytes_sent.alltoalls++;
        }
        if (h->kind == LK_KIND_COLLECTIVE && h->call == LK_CALL_NEIGHBOUR)
            bytes_sent.neighbours |= UINT64_C(1) << r->peer;
    }
    return bytes_original->send(w, r);
}

/* Count what this rank sends to others from now on; bytes_end() gives the numbers. */
static inline void bytes_begin(lk_comm *comm)
{
    bytes_original = comm->w->transport;
    bytes_transport = *bytes_original;
    bytes_transport.send = bytes_send;
    comm->w->transport = &bytes_transport;
    bytes_sent = (sent_bytes){.all = 0};
}

static inline sent_bytes bytes_end(lk_comm *comm)
{
    comm->w->transport = bytes_original;
    return bytes_sent;
}

#endif /* LK_TEST_SENT_BYTES_H */
