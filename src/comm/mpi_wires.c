/* Packets as MPI messages.
 *
 *     sender                                   receiver
 *     tag 1: header, name, small payload  ─►   a ring of receives that are always posted
 *
 *     tag 1: header, name, lane           ─►   matches the header, posts a receive with a tag of its
 *     waits                               ◄─   own, tag 1: CLEAR_TO_SEND, lane, that tag
 *     that tag: large payload             ─►   straight into the receiver's memory
 *
 * MPI keeps the order of messages between two ranks, and the ring is looked at in the order it was
 * posted, so packets arrive in the order they were sent.  MPI has a large payload only while a
 * receive for it is posted: until then, after a fault, it is simply taken back.
 *
 * Every message notifies the receiver if it is on this node.
 *
 * MPI may compute, say to place its buffers or to pace its polls: what calls it is guarded here, so that
 * ranks on threads need not be.
 */
#include "base/fpenv.h"
#include "comm/mpi_end.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/clock.h>

#include <string.h>
#include <unistd.h>

enum { TAG_PACKET = 1, TAG_PAYLOAD = 2, N_TAGS = 16384, N_LANES = 65535 };

static const int64_t answer = 300000000;    /* ns to wait for the status of another rank */
static const int64_t patience = 1000000000; /* ns for MPI to end all it has begun, after a fault */

/* A packet that is sent, or a payload that waits, goes or comes. */
struct lk__mpi_offer {
    struct lk__mpi_offer *next;
    lk__mpi_request mpi;
    lk_request *request; /* done with it; NULL: nobody waits */
    uint16_t lane, tag;  /* of a payload that waits; of one that comes */
    unsigned char packet[];
};

static lk__mpi_end *end_of(lk__world *w)
{
    return (lk__mpi_end *)w;
}

lk_status lk__mpi_check(const lk__mpi_end *e, int code, const char *what)
{
    if (code == 0)
        return LK_OK;
    char text[LK_MPI_TEXT];
    e->m->error(code, text);
    return LK_RAISE(LK_ECOMM, "%s: %.400s", what, text);
}

static lk_status isend(lk__mpi_end *e, const lk__mpi_part *part, lk__mpi_request *out)
{
    LK_TRY(lk__mpi_check(e, e->m->isend(e->comm, part, out), "MPI_Isend"));
    lk__wakeup_notify(e->wakeup[part->rank]);
    return LK_OK;
}

/* Send header, name and the first `inside` bytes of a payload; the copy lives until MPI has it. */
static lk_status packet_send(lk__mpi_end *e, const lk__header *h, const char *name,
                             const void *data, int64_t inside, int peer)
{
    struct lk__mpi_offer *o = NULL;
    int64_t bytes = (int64_t)sizeof *h + h->text + inside;
    LK_TRY(lk_alloc(&o, (int64_t)sizeof *o + bytes, 1));
    *o = (struct lk__mpi_offer){.next = e->under_way};
    e->under_way = o;
    memcpy(o->packet, h, sizeof *h);
    if (name)
        memcpy(o->packet + sizeof *h, name, h->text);
    if (inside > 0)
        memcpy(o->packet + sizeof *h + h->text, data, (size_t)inside);
    lk__mpi_part part = {o->packet, bytes, peer, TAG_PACKET};
    e->w.n_sent++;
    return LK_TRACE(isend(e, &part, &o->mpi));
}

/* A number for a payload that no other one that waits has; 0: there is none. */
static uint16_t free_lane(lk__mpi_end *e)
{
    for (int tries = 0; tries < N_LANES; tries++) {
        e->last_lane = (uint16_t)(e->last_lane % N_LANES + 1);
        const struct lk__mpi_offer *o = e->waiting;
        while (o && o->lane != e->last_lane)
            o = o->next;
        if (!o)
            return e->last_lane;
    }
    return 0;
}

/* A tag that no payload that comes has. */
static uint16_t free_tag(lk__mpi_end *e)
{
    for (int tries = 0; tries < N_TAGS; tries++) {
        e->last_tag = (uint16_t)(e->last_tag % N_TAGS + 1);
        const struct lk__mpi_offer *o = e->under_way;
        while (o && o->tag != e->last_tag)
            o = o->next;
        if (!o)
            return e->last_tag;
    }
    return 0;
}

lk_status lk__mpi_send(lk__world *w, lk_request *r)
{
    LK_FP_GUARD();
    lk__mpi_end *e = end_of(w);
    lk__header h = r->label->h;
    h.bytes = r->bytes;
    if (r->bytes <= LK_MPI_EAGER) {
        LK_TRY(packet_send(e, &h, r->label->name, r->data, r->bytes, r->peer));
        atomic_store_explicit(&r->done, 1, memory_order_relaxed);
        return LK_OK;
    }
    h.lane = free_lane(e);
    LK_CHECK(h.lane, LK_ENOMEM, "%d large messages are under way from rank %d", N_LANES, w->rank);
    struct lk__mpi_offer *o = NULL;
    LK_TRY(lk_alloc(&o, 1, sizeof *o));
    *o = (struct lk__mpi_offer){.next = e->waiting, .request = r, .lane = h.lane};
    e->waiting = o;
    r->offer = o;
    return LK_TRACE(packet_send(e, &h, r->label->name, NULL, 0, r->peer));
}

/* The receiver is ready: the payload goes to MPI. */
static lk_status on_clear_to_send(lk__world *w, const lk__header *h)
{
    lk__mpi_end *e = end_of(w);
    struct lk__mpi_offer **at = &e->waiting;
    while (*at && (*at)->lane != h->lane)
        at = &(*at)->next;
    struct lk__mpi_offer *o = *at;
    LK_CHECK(o && o->request->peer == h->source && h->tag > 0 && h->tag <= N_TAGS, LK_ECOMM,
             "rank %d asks for a payload that was not offered", h->source);
    *at = o->next;
    o->next = e->under_way;
    e->under_way = o;
    o->request->moved++;
    lk__mpi_part part = {o->request->data, o->request->bytes, h->source, TAG_PAYLOAD + (int)h->tag};
    return LK_TRACE(isend(e, &part, &o->mpi));
}

static lk_status status_send(lk__world *w, int rank)
{
    lk__board_entry mine;
    lk__header h = {
        .magic = LK_WIRE_MAGIC, .kind = LK_KIND_STATUS, .source = w->rank, .bytes = sizeof mine};
    lk__slot_read(w->board[w->rank], &mine);
    return packet_send(end_of(w), &h, NULL, &mine, sizeof mine, rank);
}

static lk_status on_status(lk__world *w, const lk__header *h, const unsigned char *payload)
{
    lk__mpi_end *e = end_of(w);
    LK_CHECK(h->bytes == sizeof e->answer, LK_ECOMM,
             "rank %d answered with a status of another size", h->source);
    memcpy(&e->answer, payload, sizeof e->answer);
    e->answer_by = h->source;
    e->asked[h->source] = false;
    return lk__compare_shown(w, h->source, &e->answer);
}

static lk_status ask(lk__mpi_end *e, int rank)
{
    lk__header h = {.magic = LK_WIRE_MAGIC, .kind = LK_KIND_STATUS_REQUEST, .source = e->w.rank};
    return packet_send(e, &h, NULL, NULL, 0, rank);
}

bool lk__mpi_ask(lk__world *w, int rank, lk__board_entry *out)
{
    LK_FP_GUARD();
    lk__mpi_end *e = end_of(w);
    e->answer_by = -1;
    if (ask(e, rank) != LK_OK)
        return false;
    for (int64_t start = lk_clock_ns(); e->answer_by != rank && lk_clock_ns() - start < answer;)
        if ((lk__mpi_poll(w) != LK_OK && e->answer_by != rank) || usleep(100) != 0)
            return false;
    *out = e->answer;
    return e->answer_by == rank;
}

lk_status lk__mpi_inquire(lk__world *w, int rank)
{
    LK_FP_GUARD();
    lk__mpi_end *e = end_of(w);
    if (e->asked[rank])
        return LK_OK;
    e->asked[rank] = true;
    return ask(e, rank);
}

/* Another rank's report. */
static lk_status on_fault(lk__world *w, const lk__header *h, const char *text)
{
    (void)!lk__fault_set(w->fault, (lk_status)h->count, h->source, text, true);
    return lk__fault_check(w);
}

static lk_status on_packet(lk__world *w, const unsigned char *bytes)
{
    lk__header h;
    memcpy(&h, bytes, sizeof h);
    LK_TRY(lk__fault_check(w));
    LK_CHECK(h.magic == LK_WIRE_MAGIC && h.text <= LK_WIRE_NAME && h.source >= 0 &&
                 h.source < w->size && h.bytes >= 0 && (h.lane || h.bytes <= LK_MPI_EAGER),
             LK_ECOMM, "a message that is none of ours: another version of the library?");
    if (h.kind == LK_KIND_FAULT)
        return on_fault(w, &h, (const char *)bytes + sizeof h);
    if (h.kind == LK_KIND_CLEAR_TO_SEND)
        return on_clear_to_send(w, &h);
    if (h.kind == LK_KIND_STATUS_REQUEST)
        return status_send(w, h.source);
    if (h.kind == LK_KIND_STATUS)
        return on_status(w, &h, bytes + sizeof h);
    int64_t inside = h.lane ? 0 : h.bytes;
    lk__packet *p = NULL;
    LK_TRY(lk_alloc(&p, (int64_t)sizeof *p + inside, 1));
    *p = (lk__packet){.label = {.h = h}, .payload = p + 1};
    memcpy(p->label.name, bytes + sizeof h, h.text);
    memcpy(p + 1, bytes + sizeof h + h.text, (size_t)inside);
    return lk__arrive(w, p);
}

static lk_status ring_post(lk__mpi_end *e, int i)
{
    lk__mpi_part part = {e->ring_packet[i], LK_MPI_PACKET, LK_MPI_ANY, TAG_PACKET};
    return lk__mpi_check(e, e->m->irecv(e->comm, &part, &e->ring[i]), "MPI_Irecv");
}

lk_status lk__mpi_ring_open(lk__mpi_end *e)
{
    for (int i = 0; i < LK_MPI_RING; i++)
        LK_TRY(ring_post(e, i));
    return LK_OK;
}

/* Until MPI has ended a request, or it takes too long: its partner may be stopped.  There is one
 * patience for all requests, however many are to be given up. */
static bool ends_soon(lk__mpi_end *e, lk__mpi_request *mpi)
{
    bool done = false;
    if (e->gives_up == 0)
        e->gives_up = lk_clock_ns() + patience;
    do {
        if (e->m->test(mpi, &done) != 0 || (!done && usleep(10) != 0))
            return false;
    } while (!done && lk_clock_ns() < e->gives_up);
    return done;
}

void lk__mpi_ring_close(lk__mpi_end *e)
{
    for (int i = 0; i < LK_MPI_RING; i++)
        e->m->cancel(&e->ring[i]);
    for (int i = 0; i < LK_MPI_RING; i++)
        (void)!ends_soon(e, &e->ring[i]);
}

static void offer_end(lk__mpi_end *e, struct lk__mpi_offer *o)
{
    if (o->request) {
        o->request->offer = NULL;
        atomic_store_explicit(&o->request->done, 1, memory_order_relaxed);
        o->request->moved++;
        e->w.n_arrived++;
    }
    lk_free(o);
}

/* Many at a time: MPI looks at its links once in a call, and each look can be a system call. */
lk_status lk__mpi_complete(lk__mpi_end *e)
{
    for (struct lk__mpi_offer **at = &e->under_way; *at;) {
        lk__mpi_request mpi[LK_MPI_SOME];
        bool done[LK_MPI_SOME];
        int n = 0;
        for (const struct lk__mpi_offer *o = *at; o && n < LK_MPI_SOME; o = o->next)
            mpi[n++] = o->mpi;
        LK_TRY(lk__mpi_check(e, e->m->test_some(n, mpi, done), "MPI_Testsome"));
        for (int i = 0; i < n; i++) {
            struct lk__mpi_offer *o = *at;
            o->mpi = mpi[i];
            if (done[i]) {
                *at = o->next;
                offer_end(e, o);
            } else {
                at = &o->next;
            }
        }
    }
    return LK_OK;
}

/* After a fault packets may still be under way, to ranks that read them from here; who does not do so in
 * time has closed, or does not run. */
void lk__mpi_forget(lk__mpi_end *e)
{
    for (struct lk__mpi_offer *o = e->waiting, *next; o; o = next) {
        next = o->next;
        lk_free(o);
    }
    for (struct lk__mpi_offer *o = e->under_way, *next; o; o = next) {
        next = o->next;
        (void)!ends_soon(e, &o->mpi);
        lk_free(o);
    }
    for (int i = 0; i < e->n_faults; i++)
        (void)!ends_soon(e, &e->fault_sent[i]);
    e->waiting = e->under_way = NULL;
    e->n_faults = 0;
}

lk_status lk__mpi_poll(lk__world *w)
{
    LK_FP_GUARD();
    lk__mpi_end *e = end_of(w);
    LK_TRY(lk__mpi_complete(e));
    for (;;) {
        bool done = false;
        LK_TRY(lk__mpi_check(e, e->m->test(&e->ring[e->ring_at], &done), "MPI_Test"));
        if (!done)
            return LK_OK;
        int i = e->ring_at;
        e->ring_at = (i + 1) % LK_MPI_RING;
        w->n_taken++;
        lk_status st = on_packet(w, e->ring_packet[i]);
        LK_TRY(ring_post(e, i));
        LK_TRY(st);
    }
}

void lk__mpi_drop(lk__world *w, lk__packet *p)
{
    (void)w;
    lk_free(p);
}

lk_status lk__mpi_take(lk__world *w, lk__packet *p, lk_request *r)
{
    LK_FP_GUARD();
    lk__mpi_end *e = end_of(w);
    lk__header h = p->label.h;
    if (h.lane == 0) {
        if (h.bytes > 0)
            memcpy(r->data, p->payload, (size_t)h.bytes);
        atomic_store_explicit(&r->done, 1, memory_order_relaxed);
        lk_free(p);
        return LK_OK;
    }
    lk_free(p);
    uint16_t tag = free_tag(e);
    LK_CHECK(tag, LK_ENOMEM, "%d large messages are under way to rank %d", N_TAGS, w->rank);
    struct lk__mpi_offer *o = NULL;
    LK_TRY(lk_alloc(&o, 1, sizeof *o));
    *o = (struct lk__mpi_offer){.next = e->under_way, .request = r, .tag = tag};
    e->under_way = o;
    r->offer = o;
    lk__mpi_part part = {r->data, h.bytes, h.source, TAG_PAYLOAD + tag};
    LK_TRY(lk__mpi_check(e, e->m->irecv(e->comm, &part, &o->mpi), "MPI_Irecv"));
    lk__header clear = {.magic = LK_WIRE_MAGIC,
                        .kind = LK_KIND_CLEAR_TO_SEND,
                        .source = w->rank,
                        .tag = tag,
                        .lane = h.lane};
    return LK_TRACE(packet_send(e, &clear, NULL, NULL, 0, h.source));
}

static bool unlink_offer(struct lk__mpi_offer **at, struct lk__mpi_offer *o)
{
    while (*at && *at != o)
        at = &(*at)->next;
    if (!*at)
        return false;
    *at = o->next;
    return true;
}

/* What waits is taken back; what MPI has begun ends soon, because the other side does the same.  If
 * that is stopped or gone, the offer stays with MPI, which has no reason to touch it. */
void lk__mpi_withdraw(lk__world *w, lk_request *r)
{
    LK_FP_GUARD();
    lk__mpi_end *e = end_of(w);
    struct lk__mpi_offer *o = r->offer;
    if (!o)
        return;
    r->offer = NULL;
    o->request = NULL;
    bool over = unlink_offer(&e->waiting, o);
    if (!over && o->tag)
        e->m->cancel(&o->mpi);
    if (!over && ends_soon(e, &o->mpi))
        over = unlink_offer(&e->under_way, o);
    if (over)
        lk_free(o);
}

void lk__mpi_spread(lk__world *w)
{
    LK_FP_GUARD();
    lk__mpi_end *e = end_of(w);
    lk__header h = {.magic = LK_WIRE_MAGIC,
                    .kind = LK_KIND_FAULT,
                    .source = w->rank,
                    .count = w->fault->status};
    memcpy(e->fault_packet, &h, sizeof h);
    memcpy(e->fault_packet + sizeof h, w->fault->text, LK_FAULT_TEXT);
    for (int r = 0; r < w->size; r++) {
        lk__mpi_part part = {e->fault_packet, sizeof e->fault_packet, r, TAG_PACKET};
        /* Ranks of this node see the report itself.  One that cannot be reached has its deadline. */
        if (r != w->rank && (!e->shown || !e->wakeup[r]))
            e->n_faults += e->m->isend(e->comm, &part, &e->fault_sent[e->n_faults]) == 0;
        else
            lk__wakeup_notify(e->wakeup[r]);
    }
}
