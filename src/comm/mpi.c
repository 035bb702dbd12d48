/* The transport `mpi`: packets are MPI messages.
 *
 *     tag 1        header, name and a small payload in one message, from anybody, into a ring of
 *                  receives that are always posted
 *     tag 1 + L    a large payload, apart: sent at once, received straight into the receiver's
 *                  memory when its header has been matched.  L is the header's lane.
 *
 * MPI keeps the order of messages between two ranks, and the ring is looked at in the order it was
 * posted, so packets arrive in the order they were sent.  All MPI calls but those of opening and
 * closing are nonblocking; how to wait is decided here.
 */
#include "comm/mpi.h"

#include "comm/comm.h"
#include "comm/shm.h"

#include <lockstep/alloc.h>
#include <lockstep/clock.h>

#include <sched.h>
#include <stdio.h>
#include <string.h>

enum {
    EAGER_BYTES = 8192,
    PACKET_BYTES = 64 + LK_WIRE_NAME + EAGER_BYTES,
    N_RING = 16,
    N_LANES = 16384,
    TAG_PACKET = 1,
    SPINS = 200,
    YIELDS = 50,
};

/* One MPI call under way: a packet, or a payload that goes or comes apart. */
struct lk__offer {
    struct lk__offer *next;
    lk_mpi_request mpi;
    lk_request *request; /* done with it; NULL: nobody waits */
    bool is_recv;
    unsigned char packet[]; /* what is sent */
};

struct end {
    lk__world w;
    const lk_mpi *m;
    lk_mpi_comm *comm;
    bool finalize; /* MPI is ours */
    int naps;      /* without anything arriving */
    int64_t seen;  /* w.n_arrived at the last nap */
    int *node;
    lk__host *host;
    lk_shared *shown; /* what the ranks of the node show each other */
    lk__slot slot, **board;
    lk__bell own_bell, **bell;
    uint16_t *lane; /* [size] the last one used, by receiver */
    struct lk__offer *under_way;
    int ring_at;
    lk_mpi_request ring[N_RING];
    unsigned char (*ring_packet)[PACKET_BYTES];
    lk__fault fault;
    lk_mpi_request *fault_sent; /* [size] */
    unsigned char fault_packet[sizeof(lk__header) + LK_FAULT_TEXT];
};

static lk_status mpi_check(const struct end *e, int code, const char *what)
{
    if (code == 0)
        return LK_OK;
    char text[LK_MPI_TEXT];
    e->m->error(code, text);
    return LK_RAISE(LK_ECOMM, "%s: %.400s", what, text);
}

static struct end *end_of(lk__world *w)
{
    return (struct end *)w;
}

static lk_status offer_new(struct end *e, int64_t bytes, lk_request *r, struct lk__offer **out)
{
    LK_TRY(lk_alloc(out, (int64_t)sizeof **out + bytes, 1));
    **out = (struct lk__offer){.next = e->under_way, .request = r};
    e->under_way = *out;
    return LK_OK;
}

static lk_status payload_send(struct end *e, lk_request *r, int lane)
{
    struct lk__offer *o = NULL;
    LK_TRY(offer_new(e, 0, r, &o));
    r->offer = o;
    lk_mpi_part part = {r->data, r->bytes, r->peer, TAG_PACKET + lane};
    LK_TRY(mpi_check(e, e->m->isend(e->comm, &part, &o->mpi), "MPI_Isend"));
    return LK_OK;
}

static lk_status mpi_send(lk__world *w, lk_request *r)
{
    struct end *e = end_of(w);
    struct lk__offer *o = NULL;
    bool large = r->bytes > EAGER_BYTES;
    lk__header h = r->label->h;
    int64_t bytes = (int64_t)sizeof h + h.text + (large ? 0 : r->bytes);
    LK_TRY(offer_new(e, bytes, NULL, &o));
    if (large)
        e->lane[r->peer] = (uint16_t)(e->lane[r->peer] % N_LANES + 1);
    h.lane = large ? e->lane[r->peer] : 0;
    h.tag = r->tag;
    h.bytes = r->bytes;
    memcpy(o->packet, &h, sizeof h);
    memcpy(o->packet + sizeof h, r->label->name, h.text);
    if (!large && r->bytes > 0)
        memcpy(o->packet + sizeof h + h.text, r->data, (size_t)r->bytes);
    lk_mpi_part part = {o->packet, bytes, r->peer, TAG_PACKET};
    LK_TRY(mpi_check(e, e->m->isend(e->comm, &part, &o->mpi), "MPI_Isend"));
    if (large)
        LK_TRY(payload_send(e, r, h.lane));
    else
        atomic_store_explicit(&r->done, 1, memory_order_relaxed);
    return LK_OK;
}

/* Another rank's report. */
static lk_status fault_heard(lk__world *w, const lk__header *h, const char *text)
{
    lk__fault *f = w->fault;
    if (atomic_load(&f->state) == 0) {
        f->status = (lk_status)h->count;
        f->rank = h->source;
        snprintf(f->text, sizeof f->text, "%s", text);
        atomic_store(&f->state, 2);
    }
    return lk__fault_check(w);
}

static lk_status packet_heard(lk__world *w, const unsigned char *bytes)
{
    lk__header h;
    memcpy(&h, bytes, sizeof h);
    LK_CHECK(h.magic == LK_WIRE_MAGIC && h.text <= LK_WIRE_NAME && h.source >= 0 &&
                 h.source < w->size && h.bytes >= 0 && (h.lane || h.bytes <= EAGER_BYTES),
             LK_ECOMM, "a message that is none of ours: another version of the library?");
    if (h.kind == LK_KIND_FAULT)
        return fault_heard(w, &h, (const char *)bytes + sizeof h);
    int64_t inside = h.lane ? 0 : h.bytes;
    lk__packet *p = NULL;
    LK_TRY(lk_alloc(&p, (int64_t)sizeof *p + inside, 1));
    *p = (lk__packet){.label = {.h = h}, .payload = p + 1};
    memcpy(p->label.name, bytes + sizeof h, h.text);
    memcpy(p + 1, bytes + sizeof h + h.text, (size_t)inside);
    return lk__arrive(w, p);
}

static lk_status ring_post(struct end *e, int i)
{
    lk_mpi_part part = {e->ring_packet[i], PACKET_BYTES, LK_MPI_ANY, TAG_PACKET};
    return mpi_check(e, e->m->irecv(e->comm, &part, &e->ring[i]), "MPI_Irecv");
}

static lk_status under_way_poll(struct end *e)
{
    for (struct lk__offer **at = &e->under_way; *at;) {
        struct lk__offer *o = *at;
        bool done = false;
        LK_TRY(mpi_check(e, e->m->test(&o->mpi, &done), "MPI_Test"));
        if (!done) {
            at = &o->next;
            continue;
        }
        *at = o->next;
        if (o->request) {
            o->request->offer = NULL;
            atomic_store_explicit(&o->request->done, 1, memory_order_relaxed);
            e->w.n_arrived++;
        }
        lk_free(o);
    }
    return LK_OK;
}

static lk_status mpi_poll(lk__world *w)
{
    struct end *e = end_of(w);
    LK_TRY(under_way_poll(e));
    for (;;) {
        bool done = false;
        LK_TRY(mpi_check(e, e->m->test(&e->ring[e->ring_at], &done), "MPI_Test"));
        if (!done)
            return LK_OK;
        int i = e->ring_at;
        e->ring_at = (i + 1) % N_RING;
        lk_status st = packet_heard(w, e->ring_packet[i]);
        LK_TRY(ring_post(e, i));
        LK_TRY(st);
    }
}

static void mpi_drop(lk__world *w, lk__packet *p)
{
    (void)w;
    lk_free(p);
}

static lk_status mpi_take(lk__world *w, lk__packet *p, lk_request *r)
{
    struct end *e = end_of(w);
    lk__header h = p->label.h;
    if (h.lane == 0) {
        if (h.bytes > 0)
            memcpy(r->data, p->payload, (size_t)h.bytes);
        atomic_store_explicit(&r->done, 1, memory_order_relaxed);
        lk_free(p);
        return LK_OK;
    }
    lk_free(p);
    struct lk__offer *o = NULL;
    LK_TRY(offer_new(e, 0, r, &o));
    o->is_recv = true;
    r->offer = o;
    lk_mpi_part part = {r->data, h.bytes, h.source, TAG_PACKET + h.lane};
    LK_TRY(mpi_check(e, e->m->irecv(e->comm, &part, &o->mpi), "MPI_Irecv"));
    return LK_OK;
}

/* A send cannot be taken back; it is forgotten, and the job is over. */
static void mpi_withdraw(lk__world *w, lk_request *r)
{
    struct end *e = end_of(w);
    if (!r->offer)
        return;
    if (r->offer->is_recv)
        e->m->cancel(&r->offer->mpi);
    r->offer->request = NULL;
    r->offer = NULL;
}

/* MPI rings no bell: yield first, then sleep longer and longer. */
static void mpi_nap(lk__world *w, uint32_t heard, int64_t ns)
{
    struct end *e = end_of(w);
    if (e->seen != w->n_arrived)
        e->naps = 0;
    e->seen = w->n_arrived;
    if (e->naps++ < YIELDS) {
        sched_yield();
        return;
    }
    int64_t nap = 20000 * (int64_t)(e->naps - YIELDS);
    nap = nap > 1000000 ? 1000000 : nap;
    nap = nap > ns ? ns : nap;
    lk__bell_sleep(w->bell[w->rank], heard, nap);
}

static void mpi_spread(lk__world *w)
{
    struct end *e = end_of(w);
    lk__header h = {.magic = LK_WIRE_MAGIC,
                    .kind = LK_KIND_FAULT,
                    .source = w->rank,
                    .count = w->fault->status};
    memcpy(e->fault_packet, &h, sizeof h);
    memcpy(e->fault_packet + sizeof h, w->fault->text, LK_FAULT_TEXT);
    for (int r = 0; r < w->size; r++) {
        lk_mpi_part part = {e->fault_packet, sizeof e->fault_packet, r, TAG_PACKET};
        if (r != w->rank && e->m->isend(e->comm, &part, &e->fault_sent[r]) != 0)
            continue; /* that one cannot be told: its own deadline is left */
    }
}

static lk_status mpi_block_make(lk__world *w, int64_t bytes, lk__key *key, lk__block *out)
{
    (void)w;
    return lk__shm_make(bytes, key, out);
}

static lk_status mpi_block_open(lk__world *w, int64_t bytes, const lk__key *key, lk__block *out)
{
    (void)w;
    return lk__shm_open(bytes, key, out);
}

static lk_status mpi_block_touch(lk__world *w, const lk__block *b, void *part, int64_t bytes)
{
    LK_TRY(lk__shm_hold(b, w->rank));
    LK_TRY(lk__shm_touch(b, part, bytes));
    return LK_OK;
}

static void mpi_block_seal(lk__world *w, lk__block *b)
{
    (void)w;
    lk__shm_seal(b);
}

static void mpi_block_free(lk__world *w, lk__block *b)
{
    (void)w;
    lk__shm_free(b);
}

static void end_free(struct end *e)
{
    if (e->comm && !atomic_load(&e->fault.state))
        e->m->comm_free(e->comm);
    while (e->under_way) {
        struct lk__offer *o = e->under_way;
        e->under_way = o->next;
        lk_free(o);
    }
    lk_free(e->ring_packet);
    lk_free(e->fault_sent);
    lk_free(e->lane);
    lk_free(e->board);
    lk_free(e->bell);
    lk_free(e->host);
    lk_free(e->node);
    lk_free(e);
}

/* Let what is under way arrive, then take back the ring.  After a fault MPI is left as it is: its
 * peers may be gone, and freeing or finalizing would wait for them. */
static void mpi_close(lk__world *w)
{
    struct end *e = end_of(w);
    bool well = atomic_load(&w->fault->state) == 0;
    atomic_store(&e->fault.state, !well);
    while (well && e->under_way)
        well = under_way_poll(e) == LK_OK;
    lk__world_clear(w);
    w->fault = &e->fault;
    lk_shared_free(e->shown);
    for (int i = 0; i < N_RING; i++)
        e->m->cancel(&e->ring[i]);
    bool finalize = e->finalize && well;
    const lk_mpi *m = e->m;
    end_free(e);
    if (finalize)
        m->finalize();
}

static const lk__transport transport_mpi = {.name = "mpi",
                                            .send = mpi_send,
                                            .poll = mpi_poll,
                                            .take = mpi_take,
                                            .withdraw = mpi_withdraw,
                                            .drop = mpi_drop,
                                            .nap = mpi_nap,
                                            .spread = mpi_spread,
                                            .block_make = mpi_block_make,
                                            .block_open = mpi_block_open,
                                            .block_touch = mpi_block_touch,
                                            .block_seal = mpi_block_seal,
                                            .block_free = mpi_block_free,
                                            .close = mpi_close};

static lk_status end_open(struct end *e)
{
    int rank, size;
    e->m->comm_place(e->comm, &rank, &size);
    LK_TRY(lk_alloc(&e->node, size, sizeof *e->node));
    LK_TRY(lk_alloc_zero(&e->board, size, sizeof *e->board));
    LK_TRY(lk_alloc_zero(&e->bell, size, sizeof *e->bell));
    LK_TRY(lk_alloc_zero(&e->host, size, sizeof *e->host));
    LK_TRY(lk_alloc_zero(&e->lane, size, sizeof *e->lane));
    LK_TRY(lk_alloc_zero(&e->fault_sent, size, sizeof *e->fault_sent));
    LK_TRY(lk_alloc(&e->ring_packet, N_RING, sizeof *e->ring_packet));
    LK_TRY(mpi_check(e, e->m->comm_nodes(e->comm, e->node), "MPI_Comm_split_type"));
    e->board[rank] = &e->slot;
    e->bell[rank] = &e->own_bell;
    e->w = (lk__world){.transport = &transport_mpi,
                       .rank = rank,
                       .size = size,
                       .node = e->node,
                       .board = e->board,
                       .bell = e->bell,
                       .host = e->host,
                       .fault = &e->fault,
                       .spins = SPINS};
    lk__world_init(&e->w);
    for (int i = 0; i < N_RING; i++)
        LK_TRY(ring_post(e, i));
    return LK_OK;
}

static lk_status mpi_open(const lk_mpi *m, bool world, int handle, bool finalize, lk_comm **out)
{
    lk_status st;
    struct end *e;
    lk_comm *setup = NULL;
    LK_TRY(lk_alloc_zero(&e, 1, sizeof *e));
    e->m = m;
    e->finalize = finalize;
    LK_TRY_TO(fail, mpi_check(e, m->comm_dup(world, handle, &e->comm), "MPI_Comm_dup"));
    LK_TRY_TO(fail, end_open(e));
    LK_TRY_TO(fail, lk__comm_world(&e->w, 1, out));
    LK_TRY_TO(fail_comm, lk__comm_world(&e->w, 0, &setup));
    st = lk__node_open(setup, &e->shown);
    lk_comm_free(setup);
    LK_TRY_TO(fail_comm, st);
    return LK_OK;
fail_comm:
    lk_comm_free(*out);
    *out = NULL;
    return st;
fail:
    end_free(e);
    return st;
}

lk_status lk__mpi_open(lk_comm **out)
{
    const lk_mpi *m = NULL;
    LK_TRY(lk__mpi_module(&m));
    LK_CHECK(!m->finalized(), LK_EINVAL, "MPI has been finalized in this process");
    bool ours = !m->running();
    LK_CHECK(!ours || m->init() == 0, LK_ECOMM, "MPI_Init_thread failed");
    LK_TRY(mpi_open(m, true, 0, ours, out));
    return LK_OK;
}

lk_status lk_comm_from_mpi(int fortran_handle, lk_comm **out)
{
    const lk_mpi *m = NULL;
    LK_CHECK(out, LK_EINVAL, "out is NULL");
    *out = NULL;
    LK_TRY(lk__mpi_module(&m));
    LK_CHECK(m->running(), LK_EINVAL, "MPI is not initialised in this process, or finalized");
    LK_TRY(mpi_open(m, false, fortran_handle, false, out));
    return LK_OK;
}
