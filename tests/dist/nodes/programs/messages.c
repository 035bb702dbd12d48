/* The generator of messages: they are begun, and their events follow in any order that is legal. */
#include "programs.h"

enum { POST_SEND, POST_RECV, END_SEND, END_RECV, N_EVENTS };

/* Whether another message may not be told from one between these ranks with this tag. */
static bool is_taken(const struct program *p, const struct message *m)
{
    for (int i = 0; i < p->n_messages; i++) {
        const struct message *o = &p->message[i];
        bool one_pair = o->source == m->source || o->pool >= 0;
        if (o->comm == m->comm && o->dest == m->dest && one_pair &&
            (o->tag == m->tag || o->any_tag) && !(o->sent && o->received))
            return true;
    }
    return false;
}

/* Whether a message with any tag is on its way to `dest`. */
static bool is_awaited(const struct program *p, int dest)
{
    for (int i = 0; i < p->n_messages; i++) {
        const struct message *o = &p->message[i];
        if (o->any_tag && o->dest == dest && !(o->sent && o->received))
            return true;
    }
    return false;
}

/* Messages to `dest` that follow must not be taken for those that it took from any rank with any tag:
 * nobody goes on before it has them. */
static void fence(struct program *p, int dest)
{
    bool needed = false;
    for (int i = 0; i < p->n_messages; i++) {
        struct message *o = &p->message[i];
        bool open = o->any_tag && o->pool >= 0 && o->dest == dest && !o->fenced;
        needed |= open;
        o->fenced |= open;
    }
    if (needed)
        program_add(p, BARRIER, -1, p->n_comms - 1)->group = -1;
}

/* Several messages for one rank, which takes them from any, with a tag of theirs or with any, and adds
 * them up. */
static void pool(struct program *p, uint64_t *random, int dest)
{
    int length = -1, first = p->n_messages, id = p->n_groups - 1;
    bool any_tag = program_random(random, 2) && !is_awaited(p, dest);
    if (any_tag)
        fence(p, dest);
    for (int r = 0; r < p->size; r++) {
        if (r == dest || program_random(random, 3) == 0)
            continue;
        int v = program_pick(p, random, r, length, false);
        length = p->value[v].length;
        p->message[p->n_messages++] = (struct message){
            .comm = any_tag ? p->n_comms - 1 : 0,
            .source = r,
            .dest = dest,
            .tag = any_tag ? (int64_t)program_random(random, 3) : 10000 + first,
            .value = v,
            .got = -1,
            .any_rank = true,
            .any_tag = any_tag,
            .pool = id,
            .group = id};
    }
}

void program_message(struct program *p, uint64_t *random)
{
    int member[MAX_RANKS], own, id = p->n_messages;
    int source = (int)program_random(random, (uint64_t)p->size);
    if (id + MAX_RANKS > MAX_MESSAGES)
        return;
    if (program_random(random, 6) == 0) {
        pool(p, random, source);
        return;
    }
    struct message m = {.source = source, .pool = -1, .group = p->n_groups - 1, .got = -1};
    m.comm = (int)program_random(random, (uint64_t)p->n_comms);
    int n = program_members(p, m.comm, source, member, &own);
    m.dest = member[program_random(random, (uint64_t)n)];
    m.send_waits = program_random(random, 2);
    m.recv_waits = program_random(random, 2) || (m.source == m.dest && !m.send_waits);
    m.tag = (int64_t)program_random(random, 3);
    m.any_tag = m.comm == p->n_comms - 1;
    if (m.any_tag && is_taken(p, &m))
        return;
    if (m.any_tag)
        fence(p, m.dest);
    if (is_taken(p, &m) || (!m.any_tag && program_random(random, 2))) {
        m.tag = 1000 + id;
        m.any_rank = program_random(random, 3) == 0;
    }
    m.large = program_random(random, 40) == 0;
    if (m.large && !m.send_waits)
        m.recv_waits = true;
    m.value = program_pick(p, random, source, -1, !m.large && program_random(random, 8) == 0);
    if (m.large) {
        m.large = p->value[m.value].length > 0;
        m.pick = (int)program_random(random, LARGE_LENGTH);
    }
    p->message[p->n_messages++] = m;
}

/* ---- events ---- */

static bool is_ready(const struct message *m, int event)
{
    switch (event) {
    case POST_SEND:
        return !m->sent && ((!m->large && m->source != m->dest) || m->send_waits || m->received);
    case POST_RECV: return !m->received && m->pool < 0 && (m->recv_waits || m->sent);
    case END_SEND: return m->sent && !m->send_done && (!m->large || m->received);
    default: return m->received && !m->recv_done && m->sent && m->pool < 0;
    }
}

static int receive(struct program *p, struct message *m)
{
    const struct value *v = &p->value[m->value];
    m->recv_done = true;
    m->got = program_value(p, m->dest, m->large ? 1 : v->length, COMPUTED, v->bound);
    p->value[m->got].integer = v->integer;
    return m->got;
}

/* The message is over here, if it needs no waiting. */
static void post(struct program *p, struct message *m, int id, int event)
{
    bool sends = event == POST_SEND, waits = sends ? m->send_waits : m->recv_waits;
    struct instruction *n = program_add(p, sends ? (waits ? ISEND : SEND) : (waits ? IRECV : RECV),
                                        sends ? m->source : m->dest, m->comm);
    n->message = id;
    n->group = m->group;
    if (sends) {
        m->sent = true;
        m->send_done = !waits;
    } else {
        m->received = true;
        if (!waits)
            n->out[0] = receive(p, m);
    }
}

/* All that this rank could end now, with waitany. */
static void end_several(struct program *p, int rank)
{
    struct instruction *n = program_add(p, WAITANY, rank, 0);
    for (int id = 0; id < p->n_messages; id++)
        for (int side = 0; side < 2 && n->n_waits < MAX_WAITS; side++) {
            struct message *m = &p->message[id];
            if ((side ? m->dest : m->source) != rank || !is_ready(m, side ? END_RECV : END_SEND))
                continue;
            n->wait[n->n_waits++] = 2 * id + side;
            if (side)
                receive(p, m);
            else
                m->send_done = true;
        }
    n->group = -1; /* it goes when its messages do */
}

/* A pool whose messages are all on their way, or -1. */
static int ready_pool(const struct program *p)
{
    for (int id = 0; id < p->n_messages; id++) {
        const struct message *m = &p->message[id];
        bool ready = m->pool >= 0 && !m->recv_done;
        for (int o = 0; o < p->n_messages && ready; o++)
            ready = p->message[o].pool != m->pool || p->message[o].sent;
        if (ready)
            return id;
    }
    return -1;
}

static void receive_all(struct program *p, int first)
{
    struct message *m = &p->message[first];
    int length = p->value[m->value].length;
    struct instruction *n = program_add(p, RECV_ALL, m->dest, 0);
    double bound = 0;
    n->group = m->group;
    for (int id = first; id < p->n_messages; id++) {
        struct message *o = &p->message[id];
        if (o->pool != m->pool)
            continue;
        n->wait[n->n_waits++] = id;
        bound += p->value[o->value].bound;
        o->received = o->recv_done = true;
    }
    n->out[0] = program_value(p, m->dest, length, COMPUTED, bound > 8 ? 0 : bound);
}

bool program_event(struct program *p, uint64_t *random)
{
    int start = (int)program_random(random, MAX_MESSAGES * N_EVENTS), first = ready_pool(p);
    if (first >= 0 && program_random(random, 3) == 0) {
        receive_all(p, first);
        return true;
    }
    for (int k = 0; k < MAX_MESSAGES * N_EVENTS; k++) {
        int at = (start + k) % (MAX_MESSAGES * N_EVENTS), id = at / N_EVENTS, event = at % N_EVENTS;
        struct message *m = &p->message[id];
        if (id >= p->n_messages || !is_ready(m, event))
            continue;
        if (event == POST_SEND || event == POST_RECV) {
            post(p, m, id, event);
        } else if (program_random(random, 3) == 0) {
            end_several(p, event == END_SEND ? m->source : m->dest);
        } else {
            struct instruction *n = program_add(p, event == END_SEND ? WAIT_SEND : WAIT_RECV,
                                                event == END_SEND ? m->source : m->dest, m->comm);
            n->message = id;
            n->group = m->group;
            if (event == END_SEND)
                m->send_done = true;
            else
                n->out[0] = receive(p, m);
        }
        return true;
    }
    if (first >= 0)
        receive_all(p, first);
    return first >= 0;
}
