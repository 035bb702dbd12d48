/* lk_comm: opened, split and closed, on the thread that is the rank.
 *
 * The context of a new one is agreed on: more than any context that one of its ranks has had, so no
 * rank is ever in two communicators of the same context.  Groups of one split share theirs; they
 * have no rank in common.
 */
#include "comm/comm.h"

#include "base/env.h"
#include "base/fpenv.h"
#include "base/text/number.h"
#include "comm/faults/vain.h"
#include "comm/progress_thread.h"

#include <lockstep/extra/alloc.h>

#include <stdlib.h>
#include <string.h>

int lk_comm_rank(const lk_comm *comm)
{
    return comm->rank;
}

int lk_comm_size(const lk_comm *comm)
{
    return comm->size;
}

int lk_comm_node_rank(const lk_comm *comm)
{
    return comm->intra_rank;
}

int lk_comm_node_size(const lk_comm *comm)
{
    return comm->intra_size;
}

int lk_comm_node(const lk_comm *comm)
{
    return comm->inter_rank;
}

int lk_comm_nodes(const lk_comm *comm)
{
    return comm->inter_size;
}

const char *lk_comm_transport(const lk_comm *comm)
{
    return comm->w->transport->name;
}

lk_status lk_comm_set_finite_check(lk_comm *comm, bool on)
{
    LK_CHECK(comm, LK_EINVAL, "comm is NULL");
    comm->finite = on;
    return LK_OK;
}

lk_status lk_comm_set_deadline(lk_comm *comm, double seconds)
{
    LK_FP_GUARD();
    LK_CHECK(comm, LK_EINVAL, "comm is NULL");
    LK_CHECK(seconds >= 0 && seconds <= 1e9, LK_EINVAL, "a deadline of %g seconds", seconds);
    comm->deadline_ns = (int64_t)(seconds * 1e9);
    return LK_OK;
}

int lk__comm_rank_of(const lk_comm *comm, int world_rank)
{
    if (world_rank >= 0 && world_rank < comm->size && comm->member[world_rank] == world_rank)
        return world_rank;
    for (int r = 0; r < comm->size; r++)
        if (comm->member[r] == world_rank)
            return r;
    return -1;
}

/* A communicator with `size` members to be filled in. */
static lk_status comm_new(lk__world *w, int size, lk_comm **out)
{
    lk_status st;
    lk_comm *c;
    LK_TRY(lk_alloc_zero(&c, 1, sizeof *c));
    c->w = w;
    c->size = size;
    LK_TRY_TO(fail, lk_alloc(&c->member, size, sizeof *c->member));
    LK_TRY_TO(fail, lk_alloc_zero(&c->n_sent, size, sizeof *c->n_sent));
    *out = c;
    return LK_OK;
fail:
    lk_free(c->member);
    lk_free(c);
    return st;
}

/* Nodes of the members, numbered by their lowest rank: two passes over those before. */
static void comm_locate(lk_comm *c)
{
    const int *node = c->w->node;
    int mine = node[c->member[c->rank]];
    bool before = true;
    for (int r = 0; r < c->size; r++) {
        int at = node[c->member[r]];
        bool first = true;
        for (int s = r - 1; s >= 0 && first; s--)
            first = node[c->member[s]] != at;
        c->inter_size += first;
        before = before && at != mine;
        c->inter_rank += first && before;
        c->intra_size += at == mine;
        c->intra_rank += at == mine && r < c->rank;
    }
}

static void comm_own(lk_comm *c, uint32_t context, int64_t deadline_ns)
{
    c->context = context;
    c->deadline_ns = deadline_ns;
    c->past = context;
    if (c->w->n_contexts <= context)
        c->w->n_contexts = context + 1;
    c->w->refs++;
    c->next = c->w->comms;
    c->w->comms = c;
    comm_locate(c);
}

static lk_status deadline_default(int64_t *ns)
{
    const char *env = lk__env("LK_DEADLINE");
    double seconds = 60;
    if (env && *env) {
        LK_CHECK(!lk__number_read_real(env, &seconds) && seconds >= 0 && seconds <= 1e9, LK_EINVAL,
                 "LK_DEADLINE is \"%s\": it must be seconds, 0 for no deadline", env);
    }
    *ns = (int64_t)(seconds * 1e9);
    return LK_OK;
}

static lk_status finite_default(bool *on)
{
    const char *env = lk__env("LK_FINITE");
    bool set = env && *env;
    LK_CHECK(!set || strcmp(env, "0") == 0 || strcmp(env, "1") == 0, LK_EINVAL,
             "LK_FINITE is \"%s\": it must be 0 or 1", env);
    *on = set && *env == '1';
    return LK_OK;
}

lk_status lk__comm_world(lk__world *w, uint32_t context, lk_comm **out)
{
    LK_FP_GUARD();
    int64_t deadline;
    lk_comm *c = NULL;
    bool finite;
    LK_TRY(deadline_default(&deadline));
    LK_TRY(finite_default(&finite));
    LK_TRY(comm_new(w, w->size, &c));
    for (int r = 0; r < w->size; r++)
        c->member[r] = r;
    c->rank = w->rank;
    comm_own(c, context, deadline);
    c->finite = finite;
    *out = c;
    return LK_OK;
}

void lk__comm_use(lk_comm *c, lk__comm_user *user)
{
    user->next = c->users;
    c->users = user;
}

void lk__comm_leave(lk_comm *c, lk__comm_user *user)
{
    lk__comm_user **at = &c->users;
    while (*at != user)
        at = &(*at)->next;
    *at = user->next;
    if (!c->w && !c->users)
        lk_free(c);
}

bool lk__comm_is_freed(const lk_comm *c)
{
    return !c->w;
}

bool lk__comm_related(const lk_comm *a, const lk_comm *b)
{
    return a->w == b->w;
}

void lk__comm_end_job(lk_comm *c, lk_status status, const char *report)
{
    if (lk__fault_set(c->w->fault, status, c->w->rank, report, true))
        c->w->transport->spread(c->w);
}

lk_status lk__comm_ended_elsewhere(lk_comm *c)
{
    bool here = lk__fault_is_there(c->w) && c->w->fault->rank == c->w->rank;
    return here ? LK_OK : lk__fault_check(c->w);
}

void lk_comm_close(lk_comm *c)
{
    LK_FP_GUARD_LONG(); /* MPI's end may compute, as its beginning does */
    if (!c)
        return;
    lk__world *w = c->w;
    for (lk__comm_user *u = c->users; u; u = u->next)
        u->freed(u);
    if (w->refs == 1)
        lk__progress_thread_stop(w);
    LK_INSIDE(w);
    if (c->coll_free)
        c->coll_free(c->coll);
    /* A last look for ranks that made other calls. */
    if (w->refs == 1 && !lk__fault_forward(w))
        (void)!lk__progress(w);
    lk_comm **at = &w->comms;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    lk_free(c->member);
    lk_free(c->n_sent);
    c->member = NULL;
    c->n_sent = NULL;
    c->w = NULL;
    if (!c->users)
        lk_free(c);
    if (--w->refs == 0) {
        lk__abort_hook_remove(w);
        lk__rest_leave(w);
        w->status.state = LK_STATE_LEFT;
        w->status.peer = -1;
        lk__slot_write(w->board[w->rank], &w->status);
        w->transport->close(w);
    }
}

/* What a rank tells the others in a split. */
struct want {
    int32_t color, key;
    uint32_t n_contexts;
    int32_t rank;
};

static int want_order(const void *a, const void *b)
{
    const struct want *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static lk_status comm_group(lk_comm *comm, struct want *all, int color, lk_comm **out)
{
    uint32_t context = 0;
    int n = 0;
    for (int r = 0; r < comm->size; r++) {
        if (all[r].n_contexts > context)
            context = all[r].n_contexts;
        if (all[r].color == color)
            all[n++] = all[r];
    }
    if (comm->w->n_contexts <= context)
        comm->w->n_contexts = context + 1;
    if (color < 0)
        return LK_OK;
    lk_comm *c = NULL;
    LK_TRY(comm_new(comm->w, n, &c));
    qsort(all, (size_t)n, sizeof *all, want_order);
    for (int i = 0; i < n; i++) {
        c->member[i] = comm->member[all[i].rank];
        if (all[i].rank == comm->rank)
            c->rank = i;
    }
    comm_own(c, context, comm->deadline_ns);
    c->finite = comm->finite;
    *out = c;
    return LK_OK;
}

static lk_status comm_split(lk_comm *comm, lk_comm_call call, int color, int key, lk_comm **out)
{
    LK_CHECK(comm && out, LK_EINVAL, "%s is NULL", comm ? "out" : "comm");
    lk_status st;
    *out = NULL;
    lk__world *w = comm->w;
    LK_INSIDE(w);
    LK_TRY(lk__fault_check(w));
    struct want mine = {color, key, w->n_contexts, comm->rank}, *all;
    lk__call info = {.call = call, .dtype = LK_U8, .op = LK_N_REDUCE_OPS, .root = -1};
    LK_TRY_COMM(w, lk_alloc(&all, comm->size, sizeof *all));
    LK_TRY_TO(done, lk__exchange(comm, &info, &mine, sizeof mine, all));
    st = comm_group(comm, all, color, out);
    if (st != LK_OK)
        st = lk__fault_raise(w);
done:
    lk_free(all);
    return st;
}

lk_status lk_comm_split(lk_comm *comm, int color, int key, lk_comm **out)
{
    return LK_TRACE(comm_split(comm, LK_CALL_SPLIT, color < 0 ? -1 : color, key, out));
}

lk_status lk_comm_dup(lk_comm *comm, lk_comm **out)
{
    return LK_TRACE(comm_split(comm, LK_CALL_DUP, 0, 0, out));
}
