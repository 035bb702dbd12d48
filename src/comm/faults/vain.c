/* The check of vain.h: a waiting rank shows that it rests, and the lowest one asks whether all do.
 * wait.c calls it between polls. */
#include "comm/faults/vain.h"

#include <string.h>

/* In ns: how often to look, and the least time from the question to the second look. */
static const int64_t next_look = 50000000, least_pause = 200000000;

/* What all ranks show. */
struct scan {
    uint64_t epochs; /* their sum: each only grows, so it is the same when all are */
    int64_t untaken; /* packets */
    int waiting;     /* ranks */
};

/* All that this rank has done and others could see, or has seen that others did. */
static int64_t acts(const lk__world *w)
{
    return w->n_sent + w->n_taken + w->n_posts + w->n_arrived;
}

/* The message without a receive that says most of a wait for `peer`: the oldest from there, or at all. */
static const lk__label *spare_find(const lk__world *w, int peer)
{
    const lk__label *oldest = NULL;
    for (const lk__packet *p = w->early; p; p = p->next) {
        if (p->label.h.kind == LK_KIND_P2P && p->label.h.source == peer)
            return &p->label;
        if (p->label.h.kind == LK_KIND_P2P && !oldest)
            oldest = &p->label;
    }
    return oldest;
}

/* The next number, odd for a rest, behind all that it stands for. */
static void epoch_set(lk__world *w, bool rests)
{
    w->rest.epoch += w->rest.epoch % 2 == rests ? 2 : 1;
    atomic_store(&w->board[w->rank]->rest.epoch, w->rest.epoch);
}

static void counts_write(const lk__world *w)
{
    lk__rest *rest = &w->board[w->rank]->rest;
    atomic_store_explicit(&rest->sent, w->n_sent, memory_order_relaxed);
    atomic_store_explicit(&rest->taken, w->n_taken, memory_order_relaxed);
}

static void rest_begin(lk__world *w, const lk_request *r)
{
    lk__rest *rest = &w->board[w->rank]->rest;
    uint64_t word[LK_LABEL_WORDS] = {0};
    const lk__label *spare = spare_find(w, r->peer);
    if (spare)
        memcpy(word, spare, lk__label_bytes(spare));
    lk__rest_end(w);
    counts_write(w);
    for (int i = 0; i < LK_LABEL_WORDS; i++)
        atomic_store_explicit(&rest->spare[i], word[i], memory_order_relaxed);
    w->rest.acts = acts(w);
    epoch_set(w, true);
}

void lk__rest_show(lk__world *w, const lk_request *r, uint64_t question)
{
    if (w->transport->moving && w->transport->moving(w))
        lk__rest_end(w);
    else if (w->rest.epoch % 2 == 0 || w->rest.acts != acts(w))
        rest_begin(w, r);
    else
        atomic_store(&w->board[w->rank]->rest.answered, question);
}

void lk__rest_end(lk__world *w)
{
    if (w->rest.epoch % 2)
        epoch_set(w, false);
}

void lk__rest_leave(lk__world *w)
{
    counts_write(w);
    epoch_set(w, false);
}

/* Whether all ranks can be seen, and rest or have left, with nothing on the wires. */
static bool all_rest(const lk__world *w, struct scan *out)
{
    *out = (struct scan){0};
    for (int r = 0; r < w->size; r++) {
        lk__board_slot *slot = w->board[r];
        if (!slot)
            return false;
        bool left = lk__slot_state(slot) == LK_STATE_LEFT;
        uint64_t epoch = atomic_load(&slot->rest.epoch);
        if (!left && epoch % 2 == 0)
            return false;
        out->epochs += epoch;
        out->untaken += atomic_load(&slot->rest.sent) - atomic_load(&slot->rest.taken);
        out->waiting += !left;
        if (atomic_load(&slot->rest.epoch) != epoch)
            return false;
    }
    return out->untaken == 0;
}

/* One rank asks. */
static bool asks(const lk__world *w)
{
    for (int r = 0; r < w->rank; r++)
        if (lk__slot_state(w->board[r]) != LK_STATE_LEFT)
            return false;
    return true;
}

static void ask(lk__world *w, const struct scan *s, int64_t now)
{
    lk__resting *q = &w->rest;
    q->question = (uint64_t)(w->rank + 1) << 40 | ++q->n_questions;
    q->epochs = s->epochs;
    q->asked = now;
    for (int r = 0; r < w->size; r++)
        atomic_store(&w->board[r]->rest.asked, q->question);
}

static bool all_answered(const lk__world *w)
{
    for (int r = 0; r < w->size; r++)
        if (lk__slot_state(w->board[r]) != LK_STATE_LEFT &&
            atomic_load(&w->board[r]->rest.answered) != w->rest.question)
            return false;
    return true;
}

lk_status lk__vain_check(lk__world *w, int64_t now)
{
    lk__resting *q = &w->rest;
    struct scan s;
    if (now - q->looked < next_look || !asks(w))
        return LK_OK;
    q->looked = now;
    bool answered = q->question && now - q->asked >= least_pause && all_answered(w);
    if (!all_rest(w, &s)) /* behind the answers */
        q->question = 0;
    else if (q->question == 0 || q->epochs != s.epochs)
        ask(w, &s, now);
    else if (answered)
        return lk__report_vain(w, s.waiting);
    return LK_OK;
}
