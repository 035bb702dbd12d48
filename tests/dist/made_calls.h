/* The collective calls that a rank makes, as the program makes them, each with what it sends to others.
 *
 * A program that includes this is linked with --wrap=lk_coll_run and --wrap=lk_coll_start, so that every
 * call of the library and of the program comes here first, on the thread that is the rank.
 */
#ifndef LK_TEST_MADE_CALLS_H
#define LK_TEST_MADE_CALLS_H

#include "coll/coll.h"
#include "coll_formulas.h"
#include "sent_bytes.h"

enum { MADE_CALLS = 512 };

typedef struct made_call {
    formula_call as;
    uint32_t context;
    int64_t number; /* of the call on its communicator */
    int64_t sent;   /* bytes, as counted */
    bool started;   /* and waited for later */
} made_call;

static _Thread_local made_call made[MADE_CALLS];
static _Thread_local int n_made = -1; /* -1: nobody counts */
static _Thread_local lk__transport made_transport;

lk_status made_run(lk_comm *comm, const lk_collective *c) __asm__("__wrap_lk_coll_run");
lk_status made_start(lk_comm *comm, const lk_collective *c,
                     lk_request **out) __asm__("__wrap_lk_coll_start");
lk_status real_run(lk_comm *comm, const lk_collective *c) __asm__("__real_lk_coll_run");
lk_status real_start(lk_comm *comm, const lk_collective *c,
                     lk_request **out) __asm__("__real_lk_coll_start");

static inline lk_status made_send(lk__world *w, lk_request *r)
{
    const lk__header *h = &r->label->h;
    int i = n_made - 1;
    if (h->kind == LK_KIND_COLLECTIVE && r->peer != w->rank) {
        while (i >= 0 && (made[i].context != h->context || made[i].number != h->sequence))
            i--;
        ASSERT_TRUE(i >= 0); /* a collective message of no call */
        made[i].sent += r->bytes;
    }
    return bytes_send(w, r);
}

/* Before the call: what it is made with. */
static inline made_call *made_add(const lk_comm *comm, const lk_collective *c)
{
    ASSERT_TRUE(n_made < MADE_CALLS && comm->size <= FORMULA_RANKS);
    made_call *m = &made[n_made++];
    *m = (made_call){.context = comm->context, .number = comm->n_calls + 1};
    formula_call *as = &m->as;
    as->call = c->call;
    as->rank = comm->rank;
    as->size = comm->size;
    as->one_node = comm->inter_size == 1;
    as->elem = c->call == LK_CALL_BARRIER ? 0 : (int64_t)lk_dtype_size(c->dtype);
    as->count = c->count;
    as->pieces = c->pieces > 0 ? c->pieces : comm->size;
    as->first[comm->size] = as->pieces;
    for (int r = 0; r < comm->size; r++) {
        as->first[r] = c->first ? c->first[r] : lk_range_split(as->pieces, r, comm->size).first;
        as->gets[r] = c->counts ? c->counts[r] : c->count;
        as->gives[r] = c->in_counts ? c->in_counts[r] : as->gets[r];
    }
    return m;
}

/* When it has begun: by which algorithm. */
static inline void made_chosen(const lk_comm *comm, made_call *m)
{
    const lk__header *h = &comm->recent[m->number % LK_RECENT].h;
    ASSERT_EQ(comm->n_calls, m->number);
    if (h->sequence == m->number && h->algorithm > 0 && lk__colls[h->algorithm - 1]->schedule)
        m->as.algorithm = lk__colls[h->algorithm - 1]->name;
}

lk_status made_run(lk_comm *comm, const lk_collective *c)
{
    made_call *m = n_made >= 0 ? made_add(comm, c) : NULL;
    lk_status st = real_run(comm, c);
    if (m && st == LK_OK)
        made_chosen(comm, m);
    return st;
}

lk_status made_start(lk_comm *comm, const lk_collective *c, lk_request **out)
{
    made_call *m = n_made >= 0 ? made_add(comm, c) : NULL;
    lk_status st = real_start(comm, c, out);
    if (m && st == LK_OK) {
        made_chosen(comm, m);
        m->started = true;
    }
    return st;
}

/* Count the calls of this rank from now on, and what it sends; made_end() gives the numbers. */
static inline void made_begin(lk_comm *comm)
{
    bytes_begin(comm);
    made_transport = bytes_transport;
    made_transport.send = made_send;
    comm->w->transport = &made_transport;
    n_made = 0;
}

/* Returns how many calls there were. */
static inline int made_end(lk_comm *comm, sent_bytes *sent)
{
    int n = n_made;
    n_made = -1;
    *sent = bytes_end(comm);
    return n;
}

/* Whether a call sent what its formula says. */
static inline bool made_as_formula(const made_call *m)
{
    bool halves = (m->as.size & (m->as.size - 1)) == 0;
    return m->sent == formula_bytes(&m->as, true, false) ||
           (halves && m->sent == formula_bytes(&m->as, true, true));
}

#endif /* LK_TEST_MADE_CALLS_H */
