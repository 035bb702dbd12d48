/* Reports: who waits for whom, and which rank is the cause.
 *
 *     rank 2 waits for rank 0, which waits for rank 1, which left after allreduce("warmup") #3
 *
 * The board tells what each rank of the node is in and for whom it waits; the chain is followed to
 * its end.  A process that ended, however it ended, has lost its lock (shm.h); the system tells which
 * ones are stopped.  Ranks on other nodes are asked; they answer if they wait themselves, otherwise
 * only their host is known.
 */
#include "base/fpenv.h"
#include "comm/comm.h"
#include "comm/faults/vain.h"
#include "comm/shm.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MAX_HOPS = 64, SHOWN_HOPS = 4, CHAIN_TEXT = 400, VAIN_HOPS = 2 };

/* A text that grows at its end, as far as there is room. */
struct text {
    char at[CHAIN_TEXT];
    size_t used;
};

__attribute__((format(printf, 2, 3))) static void add(struct text *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(t->at + t->used, sizeof t->at - t->used, format, args);
    va_end(args);
    if (n > 0)
        t->used += (size_t)n;
    if (t->used >= sizeof t->at)
        t->used = sizeof t->at - 1;
}

/* What the texts of two calls do not show, of the two in the order of their ranks; `a` and `b` are the
 * ranks. */
static void add_difference(struct text *t, const lk__label *x, const lk__label *y, int a, int b)
{
    bool chosen = x->h.algorithm && y->h.algorithm;
    switch (lk__label_difference(x, y)) {
    case LK_DIFFERS_FINITE:
        add(t,
            " (rank %d looks for numbers that are not finite, rank %d does not: give LK_FINITE to "
            "all, or lk_comm_set_finite_check())",
            x->h.finite ? a : b, x->h.finite ? b : a);
        break;
    case LK_DIFFERS_PIECES:
        add(t, " (pieces: %u on rank %d, %u on rank %d)", x->h.pieces, a, y->h.pieces, b);
        break;
    case LK_DIFFERS_LAYOUT:
        add(t, " (their %s differ)",
            x->h.call == LK_CALL_REDUCE_SCATTER ? "counts by rank, or runs of pieces,"
            : x->h.pieces > 0                   ? "runs of pieces"
                                                : "counts by rank");
        break;
    case LK_DIFFERS_STARTED:
        add(t, " (rank %d starts it, rank %d runs it)", x->h.started ? a : b, x->h.started ? b : a);
        break;
    case LK_DIFFERS_CHECKS:
        add(t, " (rank %d does not compare its calls, see lk_coll_set_checks())",
            x->h.unchecked ? a : b);
        break;
    case LK_DIFFERS_ALGORITHM: add(t, " (by different algorithms)"); break;
    case LK_DIFFERS_PAST: add(t, " (an earlier call was different"); break;
    case LK_SAME:
        if (!chosen)
            add(t, " (by different algorithms)");
        else if (x->h.bytes == y->h.bytes)
            add(t, " (their counts by rank differ)");
        break;
    default: break;
    }
}

/* Equal calls, but a message `b` of rank `other` is not what this rank expects by its own `a`. */
static void add_bytes(struct text *t, const lk__label *a, const lk__label *b, int mine, int other)
{
    bool chosen = a->h.algorithm && b->h.algorithm;
    if (lk__label_difference(a, b) != LK_SAME || !chosen || a->h.bytes == b->h.bytes)
        return;
    bool moves = a->h.op == LK_N_REDUCE_OPS; /* otherwise what is reduced may be larger */
    int64_t elem = moves ? (int64_t)lk_dtype_size(a->h.dtype) : 1;
    add(t, " (rank %d sends %lld %s to rank %d, which expects %lld)", other,
        (long long)(b->h.bytes / elem), moves ? "elements" : "bytes", mine,
        (long long)(a->h.bytes / elem));
}

static lk_status report(lk_comm *comm, const lk__label *a, const lk__label *b)
{
    char text[2][LK_CALL_TEXT];
    struct text note = {.used = 0};
    int mine = comm->rank, other = lk__comm_rank_of(comm, b->h.source);
    const lk__label *first = mine < other ? a : b, *second = mine < other ? b : a;
    int low = mine < other ? mine : other, high = mine < other ? other : mine;
    add_difference(&note, first, second, low, high);
    add_bytes(&note, a, b, mine, other);
    if (lk__label_difference(a, b) == LK_DIFFERS_PAST) {
        char before[LK_CALL_TEXT];
        const lk__label *last = &comm->recent[(a->h.sequence + LK_RECENT - 1) % LK_RECENT];
        if (a->h.sequence > 1 && last->h.sequence == a->h.sequence - 1)
            add(&note, "; before it rank %d called %s", mine, lk__label_text(last, before));
        add(&note, ")");
    }
    return LK_RAISE(LK_EMISMATCH, "mismatch: rank %d calls %s but rank %d calls %s%s", low,
                    lk__label_text(first, text[0]), high, lk__label_text(second, text[1]), note.at);
}

/* The call before those of the same past that is another one on both ranks, as far as that can be seen:
 * of this rank, and of the other; false if none is. */
static bool find_earlier(lk_comm *comm, int64_t sequence, int world_rank, lk__label *mine,
                         lk__label *theirs)
{
    lk__board_entry s;
    lk__slot_read(comm->w->board[world_rank], &s);
    for (int64_t n = sequence - LK_RECENT + 1; n < sequence; n++) {
        const lk__label *other = lk__board_entry_find(&s, comm->context, n);
        *mine = comm->recent[n > 0 ? n % LK_RECENT : 0];
        if (n <= 0 || !other || mine->h.sequence != n)
            continue;
        lk__difference what = lk__label_difference(mine, other);
        *theirs = *other;
        if (what != LK_SAME)
            return what != LK_DIFFERS_PAST;
    }
    return false;
}

lk_status lk__report_mismatch(lk_comm *comm, const lk__label *a, const lk__label *b)
{
    lk__label earlier[2];
    if (lk__label_difference(a, b) == LK_DIFFERS_PAST &&
        find_earlier(comm, a->h.sequence, b->h.source, &earlier[0], &earlier[1]))
        return report(comm, &earlier[0], &earlier[1]);
    return report(comm, a, b);
}

typedef enum life { RUNS, STOPPED, ENDED } life;

/* The state of a process, as the system has it: 'R', 'S', 'T' for a stopped one, ... */
static char process_state(int pid)
{
    char path[32], line[512], state = '?';
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *f = fopen(path, "re");
    const char *name_end = f && fgets(line, sizeof line, f) ? strrchr(line, ')') : NULL;
    if (name_end && name_end[1] == ' ')
        state = name_end[2];
    if (f)
        fclose(f);
    return state;
}

static life life_of(const lk__world *w, int rank, const lk__rank_status *d)
{
    if (!w->life || !w->board[rank] || rank == w->rank || d->state == LK_STATE_UNKNOWN ||
        d->state == LK_STATE_LEFT)
        return RUNS;
    if (!lk__shm_held(w->life, rank))
        return ENDED;
    char state = process_state(d->pid);
    return state == 'T' || state == 't' ? STOPPED : RUNS;
}

bool lk__rank_gone(lk__world *w, int rank)
{
    lk__state state = lk__slot_state(w->board[rank]);
    if (rank == w->rank || state == LK_STATE_UNKNOWN)
        return false;
    return state == LK_STATE_LEFT || (w->life && !lk__shm_held(w->life, rank));
}

/* What a rank is doing: from the board, or asked. */
static void status_read(lk__world *w, int rank, lk__board_entry *out)
{
    lk__slot_read(w->board[rank], out);
    if (!w->board[rank] && w->transport->ask && !w->transport->ask(w, rank, out))
        *out = (lk__board_entry){.status = {.state = LK_STATE_UNKNOWN, .peer = -1}};
}

/* From the oldest call on: what differs first is the mistake. */
lk_status lk__compare_shown(lk__world *w, int rank, const lk__board_entry *shown)
{
    for (int i = LK_BOARD_CALLS - 1; i >= 0 && shown->status.state != LK_STATE_UNKNOWN; i--) {
        const lk__label *call = lk__board_entry_collective(shown, i);
        const lk_comm *c = call ? w->comms : NULL;
        while (c && c->context != call->h.context)
            c = c->next;
        /* Groups of one split share a context. */
        if (c && lk__comm_rank_of(c, rank) >= 0)
            LK_TRY(lk__check_label(w, call));
    }
    return LK_OK;
}

lk_status lk__compare_peer(const lk_request *r)
{
    lk__world *w = r->comm->w;
    if (r->peer < 0 || r->peer == w->rank)
        return LK_OK;
    if (!w->board[r->peer])
        return w->transport->inquire ? w->transport->inquire(w, r->peer) : LK_OK;
    lk__board_entry shown;
    lk__slot_read(w->board[r->peer], &shown);
    return lk__compare_shown(w, r->peer, &shown);
}

/* What the rank at the end of the chain is doing, as the end of "rank 1, which ...". */
static void add_doing(struct text *t, const lk__world *w, int rank, const lk__board_entry *s)
{
    char call[LK_CALL_TEXT];
    const lk__rank_status *d = &s->status;
    const lk__label *label = lk__board_entry_call(s);
    bool inside = d->state == LK_STATE_CALLING, any = label->h.call != LK_CALL_NONE;
    lk__label_short(label, true, call);
    if (d->state == LK_STATE_UNKNOWN && w->host)
        add(t, " on host \"%s\", which does not answer", w->host[rank].name);
    else if (d->state == LK_STATE_UNKNOWN)
        add(t, ", of which nothing is known");
    else {
        life l = life_of(w, rank, d);
        add(t, ", which %s",
            l == ENDED                       ? "exited or died"
            : l == STOPPED                   ? "is stopped"
            : d->state == LK_STATE_LEFT      ? "left"
            : d->state == LK_STATE_COMPUTING ? "computes"
                                             : "is");
        add(t, any ? " %s %s" : " before its first call", inside ? "in" : "after", call);
    }
}

/* The rank number that users know. */
static int shown(const lk_comm *comm, int world_rank)
{
    int rank = lk__comm_rank_of(comm, world_rank);
    return rank >= 0 ? rank : world_rank;
}

/* The call of the same number that a rank has made, if it is another one. */
static const lk__label *disagrees(const lk__label *mine, const lk__board_entry *s)
{
    const lk__label *other = NULL;
    if (s->status.state != LK_STATE_UNKNOWN && mine->h.kind == LK_KIND_COLLECTIVE)
        other = lk__board_entry_find(s, mine->h.context, mine->h.sequence);
    return other && lk__label_difference(mine, other) != LK_SAME ? other : NULL;
}

static lk_status report_for_any(const lk_request *r, double seconds)
{
    char call[LK_CALL_TEXT];
    const lk_comm *comm = r->comm;
    int gone = 0;
    for (int i = 0; i < comm->size; i++)
        gone += comm->member[i] != comm->w->rank && lk__rank_gone(comm->w, comm->member[i]);
    return LK_RAISE(LK_ESTALL, "stall: rank %d waits %.1f s in %s for any rank%s", comm->rank,
                    seconds, lk__label_short(r->label, false, call),
                    gone > 0 && gone == comm->size - 1 ? ", and all others left" : "");
}

lk_status lk__report_stall(const lk_request *r, int64_t ns)
{
    LK_FP_GUARD();
    lk_comm *comm = r->comm;
    lk__world *w = comm->w;
    if (r->peer < 0)
        return report_for_any(r, (double)ns / 1e9);
    struct text chain = {.used = 0};
    char call[LK_CALL_TEXT];
    int at[MAX_HOPS] = {r->peer}, hops = 0;
    bool circle = r->peer == w->rank;
    lk__board_entry s;
    const lk__rank_status *d = &s.status;
    status_read(w, r->peer, &s);
    while (!circle) {
        const lk__label *other = disagrees(r->label, &s);
        if (other)
            return lk__report_mismatch(comm, r->label, other);
        if (d->state != LK_STATE_CALLING || d->peer < 0 || hops + 1 == MAX_HOPS ||
            life_of(w, at[hops], d) != RUNS)
            break;
        at[++hops] = d->peer;
        circle = d->peer == w->rank;
        for (int i = 0; i < hops; i++)
            circle = circle || at[i] == d->peer;
        if (!circle)
            status_read(w, d->peer, &s);
    }
    for (int i = 1; i <= hops; i++)
        if (i < SHOWN_HOPS || i == hops)
            add(&chain, ", which waits for%s rank %d", i > SHOWN_HOPS ? " others and they for" : "",
                shown(comm, at[i]));
    if (circle)
        add(&chain, ": a circle of waits");
    else
        add_doing(&chain, w, at[hops], &s);
    return LK_RAISE(LK_ESTALL, "stall: rank %d waits %.1f s in %s for rank %d%s", comm->rank,
                    (double)ns / 1e9, lk__label_short(r->label, false, call), shown(comm, at[0]),
                    chain.at);
}

/* The message that a rank has and no receive takes; its call is LK_CALL_NONE if there is none. */
static void spare_read(const lk__world *w, int rank, lk__label *out)
{
    uint64_t word[LK_LABEL_WORDS];
    for (int i = 0; i < LK_LABEL_WORDS; i++)
        word[i] = atomic_load(&w->board[rank]->rest.spare[i]);
    memcpy(out, word, sizeof *out);
    if (lk__slot_state(w->board[rank]) == LK_STATE_LEFT)
        *out = (lk__label){.h = {.call = LK_CALL_NONE}};
}

/* How much the wait of a rank says: that in a receive, with another message from whom it waits for. */
static int wait_worth(const lk__world *w, int rank)
{
    lk__board_entry s;
    lk__label spare;
    lk__slot_read(w->board[rank], &s);
    spare_read(w, rank, &spare);
    if (s.status.state != LK_STATE_CALLING)
        return 0;
    lk_comm_call call = lk__board_entry_call(&s)->h.call;
    bool meant = spare.h.call != LK_CALL_NONE && spare.h.source == s.status.peer;
    return call == LK_CALL_RECV ? (meant ? 4 : 3) : call == LK_CALL_SEND ? 2 : 1;
}

/* How much a message without a receive says of the wait of `rank` for `peer`. */
static int spare_worth(const lk__label *spare, int holder, int rank, int peer)
{
    if (spare->h.call == LK_CALL_NONE)
        return 0;
    return 1 + (holder == rank) + 2 * (spare->h.source == peer);
}

/* `rank 0 waits in recv("in", tag 7) for rank 1, which waits in barrier("end") #2 for rank 0`. */
static void add_waits(struct text *t, const lk__world *w, int rank, lk__board_entry *s)
{
    char call[LK_CALL_TEXT];
    int at[VAIN_HOPS + 1];
    add(t, "rank %d", rank);
    for (int hops = 0; hops <= VAIN_HOPS && s->status.state == LK_STATE_CALLING; hops++) {
        int peer = s->status.peer;
        at[hops] = rank;
        add(t, "%s waits in %s for ", hops ? ", which" : "",
            lk__label_brief(lk__board_entry_call(s), call));
        if (peer < 0) {
            add(t, "any rank");
            return;
        }
        add(t, "rank %d", peer);
        for (int i = 0; i <= hops; i++) {
            if (at[i] != peer)
                continue;
            add(t, ": a circle of waits");
            return;
        }
        rank = peer;
        lk__slot_read(w->board[rank], s);
    }
    if (s->status.state != LK_STATE_CALLING)
        add_doing(t, w, rank, s);
}

lk_status lk__report_vain(lk__world *w, int waiting)
{
    struct text t = {.used = 0};
    char call[LK_CALL_TEXT];
    lk__board_entry s;
    lk__label spare, best_spare = {.h = {.call = LK_CALL_NONE}};
    int best = w->rank, holder = w->rank;
    for (int r = 0; r < w->size; r++) {
        lk__slot_read(w->board[r], &s);
        if (r != w->rank)
            LK_TRY(lk__compare_shown(w, r, &s));
        if (wait_worth(w, r) > wait_worth(w, best))
            best = r;
    }
    lk__slot_read(w->board[best], &s);
    int peer = s.status.peer;
    for (int r = 0; r < w->size; r++) {
        spare_read(w, r, &spare);
        if (spare_worth(&spare, r, best, peer) <= spare_worth(&best_spare, holder, best, peer))
            continue;
        best_spare = spare;
        holder = r;
    }
    bool elsewhere = best_spare.h.context != lk__board_entry_call(&s)->h.context;
    add_waits(&t, w, best, &s);
    if (best_spare.h.call != LK_CALL_NONE)
        add(&t,
            "; no receive of rank %d takes %s of rank %d%s: compare ranks, tags and communicators",
            holder, lk__label_brief(&best_spare, call), best_spare.h.source,
            elsewhere ? ", on another communicator" : "");
    else
        add(&t, "; compare what these ranks send and receive");
    if (waiting == 1)
        return LK_RAISE(LK_ESTALL, "stall: no other rank is left, and no message is under way: %s",
                        t.at);
    return LK_RAISE(LK_ESTALL, "stall: all %d ranks%s wait, and no message is under way: %s",
                    waiting, waiting < w->size ? " that have not left" : "", t.at);
}
