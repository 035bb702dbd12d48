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
#include "comm/shm.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MAX_HOPS = 64, SHOWN_HOPS = 4, CHAIN_TEXT = 320 };

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

lk_status lk__report_mismatch(lk_comm *comm, const lk__label *a, const lk__label *b)
{
    char text[2][LK_CALL_TEXT];
    int mine = comm->rank, other = lk__comm_rank_of(comm, b->h.source);
    const lk__label *first = mine < other ? a : b, *second = mine < other ? b : a;
    const char *what = lk__label_difference(a, b), *note = "";
    if (!what)
        note = " (their counts by rank differ)";
    else if (strcmp(what, "algorithm") == 0)
        note = " (by different algorithms)";
    else if (strcmp(what, "an earlier call") == 0)
        note = " (an earlier call was different)";
    return LK_RAISE(LK_EMISMATCH, "mismatch: rank %d calls %s but rank %d calls %s%s",
                    mine < other ? mine : other, lk__label_text(first, text[0]),
                    mine < other ? other : mine, lk__label_text(second, text[1]), note);
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

static life life_of(const lk__world *w, int rank, const lk__doing *d)
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
    lk__doing d = lk__slot_read(w->board[rank]);
    if (rank == w->rank || d.state == LK_STATE_UNKNOWN)
        return false;
    return d.state == LK_STATE_LEFT || (w->life && !lk__shm_held(w->life, rank));
}

/* What a rank is doing: from the board, or asked. */
static lk__doing look(lk__world *w, int rank)
{
    lk__doing d = lk__slot_read(w->board[rank]);
    if (!w->board[rank] && w->transport->ask && !w->transport->ask(w, rank, &d))
        d = (lk__doing){.state = LK_STATE_UNKNOWN, .peer = -1};
    return d;
}

/* What the rank at the end of the chain is doing, as the end of "rank 1, which ...". */
static void add_doing(struct text *t, const lk__world *w, int rank, const lk__doing *d)
{
    char call[LK_CALL_TEXT];
    bool inside = d->state == LK_STATE_CALLING, any = d->call.h.call != LK_CALL_NONE;
    lk__label_short(&d->call, true, call);
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

/* Whether a rank is in, or was last in, another call of the same number. */
static bool disagrees(const lk__label *mine, const lk__doing *d)
{
    const lk__header *a = &mine->h, *b = &d->call.h;
    return d->state != LK_STATE_UNKNOWN && a->kind == LK_KIND_COLLECTIVE &&
           b->kind == LK_KIND_COLLECTIVE && b->call != LK_CALL_NONE && a->context == b->context &&
           a->sequence == b->sequence && lk__label_difference(mine, &d->call);
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
    lk__doing d = look(w, r->peer);
    while (!circle) {
        if (disagrees(r->label, &d)) {
            d.call.h.source = at[hops];
            return lk__report_mismatch(comm, r->label, &d.call);
        }
        if (d.state != LK_STATE_CALLING || d.peer < 0 || hops + 1 == MAX_HOPS ||
            life_of(w, at[hops], &d) != RUNS)
            break;
        at[++hops] = d.peer;
        circle = d.peer == w->rank;
        for (int i = 0; i < hops; i++)
            circle = circle || at[i] == d.peer;
        if (!circle)
            d = look(w, d.peer);
    }
    for (int i = 1; i <= hops; i++)
        if (i < SHOWN_HOPS || i == hops)
            add(&chain, ", which waits for%s rank %d", i > SHOWN_HOPS ? " others and they for" : "",
                shown(comm, at[i]));
    if (circle)
        add(&chain, ": a circle of waits");
    else
        add_doing(&chain, w, at[hops], &d);
    return LK_RAISE(LK_ESTALL, "stall: rank %d waits %.1f s in %s for rank %d%s", comm->rank,
                    (double)ns / 1e9, lk__label_short(r->label, false, call), shown(comm, at[0]),
                    chain.at);
}
