/* Schedules: algorithms write them with lk__schedule_*(), and progress of the request runs them, on
 * whichever thread makes progress for the communicator.
 */
#include "coll/schedule.h"

#include <lockstep/extra/alloc.h>

#include <string.h>

enum kind { SEND, RECV, WAIT, JOIN, COPY, FINISH, WIDEN, NARROW, PART };

struct step {
    enum kind kind;
    int peer; /* world rank */
    void *to;
    const void *from;
    int64_t n; /* bytes; of what is computed, elements */
    void (*begin)(lk_request *part);
};

/* Memory that the schedule owns. */
struct room {
    struct room *next;
};

struct lk__schedule {
    lk_request request;
    lk__label label;
    lk__call call;
    lk_reduce_op op; /* of joins: that of the label may be shown otherwise */
    lk_dtype work;   /* of joins */
    int64_t pieces;
    struct step *step;
    int n_steps, room_steps, n_messages;
    lk_request *message;     /* [n_messages] */
    int at, n_begun, n_done; /* the next step; messages begun, and complete from the front */
    struct room *rooms;
};

void lk__schedule_free(lk__schedule *s)
{
    if (!s)
        return;
    for (int i = s->n_done; i < s->n_begun; i++)
        lk__request_end(&s->message[i]);
    while (s->rooms) {
        struct room *next = s->rooms->next;
        lk_free(s->rooms);
        s->rooms = next;
    }
    lk_free(s->message);
    lk_free(s->step);
    lk_free(s);
}

lk_status lk__schedule_new(const lk__coll_args *k, int algorithm, lk__schedule **out)
{
    lk__schedule *s;
    LK_TRY(lk_alloc_zero(&s, 1, sizeof *s));
    s->request.comm = k->comm;
    s->call = lk__coll_args_call(k, algorithm);
    s->op = k->c.op;
    s->work = k->work;
    s->pieces = k->pieces;
    *out = s;
    return LK_OK;
}

lk_status lk__schedule_room(lk__schedule *s, int64_t bytes, void *out)
{
    struct room *room = NULL;
    LK_TRY(lk_alloc(&room, LK_ALIGN + bytes, 1));
    room->next = s->rooms;
    s->rooms = room;
    void *data = (unsigned char *)room + LK_ALIGN;
    memcpy(out, &data, sizeof data);
    return LK_OK;
}

static lk_status add(lk__schedule *s, struct step step)
{
    if (s->n_steps == s->room_steps) {
        int room = s->room_steps ? 2 * s->room_steps : 16;
        struct step *more = NULL;
        LK_TRY(lk_alloc(&more, room, sizeof *more));
        if (s->n_steps > 0)
            memcpy(more, s->step, (size_t)s->n_steps * sizeof *more);
        lk_free(s->step);
        s->step = more;
        s->room_steps = room;
    }
    s->step[s->n_steps++] = step;
    return LK_OK;
}

static lk_status add_message(lk__schedule *s, struct step step)
{
    step.peer = s->request.comm->member[step.peer];
    s->n_messages++;
    return add(s, step);
}

lk_status lk__schedule_send(lk__schedule *s, int peer, const void *data, int64_t bytes)
{
    return add_message(s, (struct step){.kind = SEND, .peer = peer, .from = data, .n = bytes});
}

lk_status lk__schedule_recv(lk__schedule *s, int peer, void *data, int64_t bytes)
{
    return add_message(s, (struct step){.kind = RECV, .peer = peer, .to = data, .n = bytes});
}

lk_status lk__schedule_wait(lk__schedule *s)
{
    return lk__schedule_wait_some(s, 0);
}

lk_status lk__schedule_wait_some(lk__schedule *s, int64_t keep)
{
    return add(s, (struct step){.kind = WAIT, .peer = -1, .n = keep});
}

lk_status lk__schedule_join(lk__schedule *s, void *first, const void *second, int64_t count)
{
    return add(s, (struct step){.kind = JOIN, .peer = -1, .to = first, .from = second, .n = count});
}

lk_status lk__schedule_copy(lk__schedule *s, void *to, const void *from, int64_t bytes)
{
    if (bytes == 0 || to == from)
        return LK_OK;
    return add(s, (struct step){.kind = COPY, .peer = -1, .to = to, .from = from, .n = bytes});
}

lk_status lk__schedule_finish(lk__schedule *s, void *data, int64_t count)
{
    return add(s, (struct step){.kind = FINISH, .peer = -1, .to = data, .n = count});
}

lk_status lk__schedule_widen(lk__schedule *s, void *to, const void *from, int64_t count)
{
    return add(s, (struct step){.kind = WIDEN, .peer = -1, .to = to, .from = from, .n = count});
}

lk_status lk__schedule_narrow(lk__schedule *s, void *to, const void *from, int64_t count)
{
    return add(s, (struct step){.kind = NARROW, .peer = -1, .to = to, .from = from, .n = count});
}

lk_status lk__schedule_part(lk__schedule *s, lk_request *part, void (*begin)(lk_request *part))
{
    part->label = &s->label;
    return add(s, (struct step){.kind = PART, .peer = -1, .to = part, .begin = begin});
}

lk_status lk__schedule_bcast(lk__schedule *s, const lk__coll_args *k, int root, void *data,
                             int64_t bytes)
{
    int size = k->size, place = (k->rank - root + size) % size, step = 1;
    while (step < size && !(place & step))
        step *= 2;
    if (place > 0) {
        LK_TRY(lk__schedule_recv(s, (place - step + root) % size, data, bytes));
        LK_TRY(lk__schedule_wait(s));
    }
    for (step /= 2; step > 0; step /= 2)
        if (place + step < size)
            LK_TRY(lk__schedule_send(s, (place + step + root) % size, data, bytes));
    return LK_OK;
}

/* ---- running ---- */

static lk_status message_begin(lk__schedule *s, const struct step *t)
{
    lk_request *m = &s->message[s->n_begun];
    *m = (lk_request){.comm = s->request.comm,
                      .label = &s->label,
                      .peer = t->peer,
                      .data = t->kind == SEND ? (void *)(uintptr_t)t->from : t->to,
                      .bytes = t->n};
    s->n_begun++;
    return t->kind == SEND ? lk__pending_send(m) : lk__pending_recv(m);
}

/* Whether all messages so far but the last `keep` are complete; if not, the request says whom it waits
 * for. */
static bool messages_done(lk__schedule *s, int64_t keep)
{
    while (s->n_done < s->n_begun - keep) {
        lk_request *m = &s->message[s->n_done];
        s->request.peer = m->peer;
        s->request.moved += m->moved;
        m->moved = 0;
        if (!lk__request_done(m))
            return false;
        lk__request_end(m);
        s->request.moved++;
        s->n_done++;
    }
    return true;
}

/* Whether a part is complete; if not, the request says whom it waits for. */
static lk_status part_advance(lk__schedule *s, lk_request *part, bool *done)
{
    LK_TRY(part->advance(part));
    *done = lk__request_done(part);
    s->request.moved += part->moved;
    part->moved = 0;
    if (!*done)
        s->request.peer = part->peer;
    return LK_OK;
}

static lk_status schedule_advance(lk_request *r)
{
    lk__schedule *s = (lk__schedule *)r;
    while (s->at < s->n_steps) {
        const struct step *t = &s->step[s->at];
        bool done = true;
        if (t->kind == WAIT)
            done = messages_done(s, t->n);
        else if (t->kind == PART)
            LK_TRY(part_advance(s, t->to, &done));
        if (!done)
            return LK_OK;
        s->at++; /* a step that fails is not done again */
        switch (t->kind) {
        case SEND:
        case RECV: LK_TRY(message_begin(s, t)); break;
        case WAIT:
        case PART: break;
        case JOIN: LK_TRY(lk__reduce_op_join(s->op, s->work, t->n, t->to, t->from)); break;
        case COPY: memmove(t->to, t->from, (size_t)t->n); break;
        case FINISH: LK_TRY(lk__reduce_op_finish(s->op, s->work, t->n, s->pieces, t->to)); break;
        case WIDEN: lk__reduce_op_widen(s->call.dtype, t->n, t->from, t->to); break;
        case NARROW: lk__reduce_op_narrow(s->call.dtype, t->n, t->from, t->to); break;
        }
    }
    if (messages_done(s, 0))
        atomic_store_explicit(&r->done, 1, memory_order_relaxed);
    return LK_OK;
}

static void schedule_release(lk_request *r)
{
    lk__schedule_free((lk__schedule *)r);
}

lk_status lk__schedule_start(lk__schedule *s, lk_request **out)
{
    LK_TRY(lk_alloc_zero(&s->message, s->n_messages, sizeof *s->message));
    lk__call_begin(s->request.comm, &s->call, &s->label);
    for (int i = 0; i < s->n_steps; i++)
        if (s->step[i].kind == PART)
            s->step[i].begin(s->step[i].to);
    s->call.name = NULL; /* the label has it; the caller's may go */
    s->request.label = &s->label;
    s->request.peer = -1;
    s->request.advance = schedule_advance;
    s->request.release = schedule_release;
    lk__activate(&s->request);
    *out = &s->request;
    return LK_OK;
}
