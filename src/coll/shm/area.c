/* lk__shm_area: made by the first blocking call that wants one; starts and ends calls in it.
 * area.h says how it is used.
 */
#include "coll/shm/area.h"

#include "base/futex.h"
#include "coll/schedule.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/clock.h>

#include <sched.h>

/* Polls in vain before a look at the board, before others are woken, before pauses. */
enum { LOOK_AFTER = 1024, WAKE_AFTER = 64, PAUSE_AFTER = 64 };

static const int64_t moment = 100000000; /* ns until another rank has shown what it has posted */

bool lk__shm_area_eligible(const lk__coll_args *k, const char **why)
{
    const lk__coll_state *state = k->comm->coll;
    *why = "it needs 2 to 16 ranks, all on one node";
    if (k->size < 2 || k->size > LK_SHM_AREA_RANKS || lk_comm_nodes(k->comm) > 1)
        return false;
    bool reduces = lk__call_reduces(k->c.call);
    *why = "f16 and bf16 are joined by their owners only";
    if (reduces && k->work != k->c.dtype)
        return false;
    *why = "the ranks cannot share memory";
    if (state && state->no_area)
        return false;
    *why = "the first call in shared memory must be a blocking one";
    if (!k->wait && !(state && state->area))
        return false;
    *why = "the ranks have made no call in shared memory yet";
    if (!reduces)
        return state && (state->area || k->c.algorithm || state->named[k->c.call]);
    lk__program program;
    *why = "the ranks have too many subtrees";
    return lk__program_make(k, &program);
}

/* A peer whose call of this number is another one will not come; unless it came just now.  (One with
 * a higher number may have begun this one, and not yet had its turn.) */
static bool is_elsewhere(const lk__shm_call *c, int world_rank)
{
    lk__board_entry s;
    lk__slot_read(c->request.comm->w->board[world_rank], &s);
    const lk__label *other = lk__board_entry_find(&s, c->label.h.context, c->label.h.sequence);
    return other && lk__label_difference(&c->label, other) != LK_SAME;
}

/* The other rank posts before it shows its call: give it a moment.  If its calls are as this rank's as
 * far as they go, it shows another one soon, or has reported what it has seen itself. */
lk_status lk__shm_area_disagree(lk__shm_call *c, int i, uint64_t digest)
{
    lk_comm *comm = c->request.comm;
    lk__world *w = comm->w;
    int world_rank = c->area->shared->part[i].world_rank;
    const lk__header *own = &c->label.h;
    if (digest == LK_UNCHECKED) {
        lk__label theirs = c->label;
        theirs.h.source = world_rank;
        theirs.h.unchecked = true;
        return lk__report_mismatch(comm, &c->label, &theirs);
    }
    for (int64_t start = lk_clock_ns(); lk_clock_ns() - start < moment; sched_yield()) {
        lk__board_entry s;
        lk__slot_read(w->board[world_rank], &s);
        LK_TRY(lk__compare_shown(w, world_rank, &s));
        LK_TRY(lk__fault_check(w));
        const lk__label *newest = lk__board_entry_collective(&s, 0);
        if (newest && newest->h.context == own->context && newest->h.sequence >= own->sequence)
            break;
    }
    return lk__shared_disagree(comm, &c->label, world_rank);
}

/* The flag of a rank area for the call. */
static _Atomic uint64_t *flag_of(const lk__shm_call *c, int i, lk__published what)
{
    lk__rank_area *area = c->area->rank[i];
    uint64_t at = c->call_number % 2;
    return what == LK_PUT       ? &area->slot[at].call_number
           : what == LK_ARRIVED ? &area->arrival[at].call_number
                                : &area->done.value;
}

static bool is_last(const lk__shm_call *c)
{
    for (int i = 0; i < c->area->n; i++)
        if (atomic_load_explicit(flag_of(c, i, c->last), memory_order_relaxed) < c->call_number)
            return false;
    return true;
}

void lk__shm_area_wake(lk__shm_call *c)
{
    const lk__shm_area *a = c->area;
    a->shared->w->n_posts++;
    lk__fence(memory_order_seq_cst);
    bool rings = c->wakes == LK_WAKES_ALL || is_last(c);
    c->wakes = LK_WAKES_NONE;
    for (int i = 0; i < a->n && rings; i++)
        if (i != a->me)
            lk__wakeup_notify_fenced(a->shared->w->wakeup[a->shared->part[i].world_rank]);
}

lk_status lk__shm_area_reached(lk__shm_call *c, int i, _Atomic uint64_t *flag, uint64_t value,
                               bool *reached)
{
    *reached = atomic_load_explicit(flag, memory_order_acquire) >= value;
    if (*reached) {
        c->request.comm->w->n_arrived++;
        c->request.moved++;
        return LK_OK;
    }
    int world_rank = c->area->shared->part[i].world_rank;
    const lk__world *w = c->request.comm->w;
    c->request.peer = world_rank;
    if (c->wakes && (c->idle >= WAKE_AFTER || c->request.in_list || w->yields > 0))
        lk__shm_area_wake(c);
    bool looks = ++c->idle % LOOK_AFTER == 0 || lk__wakeup_is_waiting(w->wakeup[w->rank]);
    if (!looks || c->alone || !is_elsewhere(c, world_rank))
        return LK_OK;
    *reached = atomic_load_explicit(flag, memory_order_acquire) >= value;
    return *reached ? LK_OK : lk__shared_disagree(c->request.comm, &c->label, world_rank);
}

lk_status lk__shm_area_all(lk__shm_call *c, lk__published what, bool *all)
{
    lk__shm_area *a = c->area;
    uint64_t at = c->call_number % 2;
    *all = false;
    for (; c->next < a->n; c->next++) {
        const lk__rank_area *area = a->rank[c->next];
        bool reached = true;
        if (c->next == a->me)
            continue;
        LK_TRY(
            lk__shm_area_reached(c, c->next, flag_of(c, c->next, what), c->call_number, &reached));
        if (!reached)
            return LK_OK;
        if (what != LK_DONE)
            LK_TRY(lk__shm_area_agree(
                c, c->next, what == LK_PUT ? area->slot[at].digest : area->arrival[at].digest));
    }
    c->next = 0;
    *all = true;
    return LK_OK;
}

static lk_status area_new(lk_comm *comm, const char *name, lk__shm_area **out)
{
    lk_status st;
    lk__shm_area *a;
    LK_TRY_COMM(comm->w, lk_alloc_zero(&a, 1, sizeof *a));
    LK_TRY_TO(fail, lk_shm_open(comm, sizeof(lk__rank_area), name, &a->shared));
    a->n = comm->intra_size;
    a->me = comm->intra_rank;
    a->turn = 1;
    for (int i = 0; i < a->n; i++)
        a->rank[i] = lk_shm_data(a->shared, i);
    *out = a;
    return LK_OK;
fail:
    lk_free(a);
    return st;
}

/* First all ranks compare the call they are in, so that a mismatch names the call and not the shared area.
 * The rest is done on a communicator of its own, and nothing of it is counted: the call keeps its
 * number.  Behind the barrier no rank is in a call before this one. */
lk_status lk__shm_area_open(const lk__coll_args *k, int number)
{
    lk_status st;
    lk_comm *comm = k->comm, *own = NULL;
    lk__coll_state *state = comm->coll;
    int64_t n_calls = comm->n_calls;
    uint64_t past = comm->past;
    lk__call call = lk__coll_args_call(k, number);
    unsigned char mine = 0, *all = NULL;
    if (state->area)
        return LK_OK;
    LK_TRY_COMM(comm->w, lk_alloc(&all, comm->size, 1));
    LK_TRY_TO(done, lk__exchange(comm, &call, &mine, 1, all));
    LK_TRY_TO(done, lk_comm_dup(comm, &own));
    lk__call_rewind(comm, n_calls, past);
    st = area_new(own, k->c.name, &state->area);
    state->no_area = st != LK_OK;
    if (!lk__fault_is_there(comm->w) && lk_barrier(own, k->c.name) != LK_OK)
        st = lk_error_status();
done:
    lk_comm_close(own);
    lk_free(all);
    return st;
}

static void ragged_fill(const lk__coll_args *k, lk__shm_call *c)
{
    for (int r = 0; r < k->size; r++) {
        c->counts[r] = k->counts[r];
        c->offsets[r] = k->offsets[r];
    }
}

static void call_fill(const lk__coll_args *k, lk__coll_state *state, lk__shm_call *c)
{
    lk__shm_area *a = state->area;
    c->area = a;
    c->alone = state->unchecked;
    c->op = k->c.op;
    c->work = k->work;
    c->elem = k->elem;
    c->count = k->c.count;
    c->bytes = k->bytes;
    c->pieces = k->pieces;
    c->n_vectors = k->n_vectors;
    c->stride = k->stride;
    c->root = k->c.root;
    c->in = lk__coll_args_in(k);
    c->out = k->c.out;
    c->step = c->next = c->idle = 0;
    c->wakes = LK_WAKES_NONE;
    c->segment = 0;
    /* It is there: a fault is never LK_OK.  NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
    c->call_number = ++a->last_call;
    lk_request *r = &c->request;
    r->comm = k->comm;
    r->peer = -1;
    r->moved = 0;
    r->type = LK_REQUEST_COLLECTIVE;
    r->release = NULL;
    r->after = NULL;
    atomic_store_explicit(&r->done, 0, memory_order_relaxed);
    r->in_list = r->heap = false;
}

/* A call of its own is numbered and has its own label. */
static void call_label(const lk__coll_args *k, int number, lk__shm_call *c)
{
    lk__call call = lk__coll_args_call(k, number);
    c->request.label = &c->label;
    if (c->alone)
        lk__call_number(k->comm, &call, &c->label);
    else
        lk__call_label(k->comm, &call, &c->label);
    c->digest = c->alone ? LK_UNCHECKED : k->comm->past;
    if (k->counts)
        ragged_fill(k, c);
}

/* On this thread's stack, without memory of its own: polling first, since it is mostly a matter of
 * a microsecond, or of the other ranks on this core. */
static lk_status call_wait(lk__shm_call *c)
{
    lk_request *r = &c->request;
    lk__world *w = r->comm->w;
    lk_status st = LK_OK;
    int64_t arrived = w->n_arrived;
    for (int i = 0; i <= w->spins + w->yields; i++) {
        LK_TRY_COMM(w, r->advance(r));
        if (atomic_load_explicit(&r->done, memory_order_relaxed))
            break;
        if (arrived != w->n_arrived) { /* it goes on: a new wait has begun */
            arrived = w->n_arrived;
            i = 0;
        }
        if (w->yields > 0)
            sched_yield();
        else if (i >= PAUSE_AFTER)
            lk__relax();
    }
    if (!atomic_load_explicit(&r->done, memory_order_relaxed)) {
        lk__activate(r);
        st = lk__wait_one(r);
        lk__request_end(r);
    }
    lk__call_end(r->comm);
    return st;
}

/* The program of even runs is kept from call to call. */
static void program_get(const lk__coll_args *k, lk__shm_call *c)
{
    lk__program *kept = &c->area->program;
    c->program = NULL;
    if (!lk__call_reduces(k->c.call))
        return;
    bool even = !k->c.first;
    if (even && k->wait && kept->pieces == k->pieces) {
        c->program = kept;
        return;
    }
    lk__program *p = even && k->wait ? kept : &c->own;
    (void)lk__program_make(k, p);
    c->program = p;
}

lk_status lk__shm_area_start(const lk__coll_args *k, int number,
                             lk_status (*advance)(lk_request *r), lk_request **out)
{
    lk__coll_state *state = k->comm->coll;
    if (!state->area)
        LK_TRY(lk__shm_area_open(k, number));
    if (k->wait) {
        lk__shm_call c;
        call_fill(k, state, &c);
        call_label(k, number, &c);
        program_get(k, &c);
        c.request.advance = advance;
        return call_wait(&c);
    }
    lk__shm_call *c = NULL;
    LK_TRY_COMM(k->comm->w, lk_alloc_zero(&c, 1, sizeof *c));
    call_fill(k, state, c);
    call_label(k, number, c);
    program_get(k, c);
    c->request.heap = true;
    c->request.advance = advance;
    lk__activate(&c->request);
    *out = &c->request;
    return LK_OK;
}

lk_status lk__shm_area_stages(lk__shm_call *c, int64_t n, lk__stage_fn *put, lk__stage_fn *get,
                              bool *end)
{
    *end = false;
    for (; c->segment < n; c->segment++) {
        bool done = c->next >= c->area->n || c->segment + 1 == n;
        if (!done)
            LK_TRY(put(c, c->segment + 1, &done));
        if (!done)
            return LK_OK;
        c->next = c->next < c->area->n ? c->area->n : c->next;
        done = c->segment < 0;
        if (!done)
            LK_TRY(get(c, c->segment, &done));
        if (!done)
            return LK_OK;
        c->next = 0;
    }
    *end = true;
    return LK_OK;
}

/* The schedule has been numbered, which the past tells. */
static void part_begin(lk_request *part)
{
    lk__shm_call *c = (lk__shm_call *)part;
    lk__label_copy(&c->label, part->label);
    c->digest = c->alone ? LK_UNCHECKED : part->comm->past;
}

lk_status lk__shm_area_part(const lk__coll_args *k, lk__schedule *s,
                            lk_status (*advance)(lk_request *r), lk__shm_call **out)
{
    lk__shm_call *c = NULL;
    LK_TRY(lk__schedule_room(s, sizeof *c, &c));
    call_fill(k, k->comm->coll, c);
    c->request.advance = advance;
    c->idle = WAKE_AFTER; /* a thread that waits for it may sleep at once */
    *out = c;
    return lk__schedule_part(s, &c->request, part_begin);
}
