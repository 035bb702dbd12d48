/* lk_coll_run(), lk_coll_start() and lk_coll_selected(), which programs and the rooms above call on the
 * rank's own thread: check the arguments, select an algorithm and start it, by a schedule (schedule.h) or
 * by the algorithm's own start().  A blocking allreduce between nodes may first open memory that each node
 * shares and measure the links, which is collective.
 *
 * A call in shared memory may take 200 ns, so LK_FP_GUARD() is not around all of it, but where something
 * is computed: costs, schedules, the elements that are reduced.
 */
#include "base/fpenv.h"
#include "coll/finite.h"
#include "coll/pairs.h"
#include "coll/tiers/tiers.h"
#include "comm/progress_thread.h"

#include <lockstep/extra/algorithms.h>
#include <lockstep/extra/alloc.h>

/* Write the schedule and start it. */
static lk_status schedule_start(const lk__coll_args *k, int number, lk_request **out)
{
    LK_FP_GUARD();
    lk__schedule *s = NULL;
    lk_status st = lk__schedule_new(k, number, &s);
    if (st == LK_OK)
        st = lk__colls[number - 1]->schedule(k, s);
    if (st == LK_OK)
        st = lk__schedule_start(s, out);
    if (st == LK_OK)
        return LK_OK;
    lk__schedule_free(s); /* no memory, and other ranks may have begun: end the job */
    return lk__fault_raise(k->comm->w);
}

/* Whether a call is the first large one between nodes, for which it pays to know the links. */
static bool needs_rates(const lk__coll_args *k)
{
    enum { LARGE = 65536 };
    const lk__coll_state *state = k->comm->coll;
    return k->comm->inter_size > 1 && !state->tiers && k->wait && k->bytes >= LARGE &&
           lk__coll_wants(k, LK__COLL_RATES);
}

/* Select and begin; if shared memory turns out to be missing, on all ranks alike, select again without it. */
static lk_status args_start(const lk__coll_args *k, lk_request **out)
{
    lk__coll_state *state = k->comm->coll;
    int number = 0;
    if (!state->area && lk__coll_wants(k, LK__COLL_WITHIN))
        LK_TRY(lk__within_open(k));
    if (needs_rates(k))
        LK_TRY(lk__tiers_learn(k));
    LK_TRY(lk__coll_select(k, &number));
    const lk__coll *a = lk__colls[number - 1];
    if (a->schedule)
        return schedule_start(k, number, out);
    lk_status st = a->start ? a->start(k, number, out)
                            : lk__shm_area_start(k, number, a->advance, out);
    if (k->c.algorithm || !lk__shm_area_is_none(k, st))
        return st;
    state->last.number = 0; /* it would be chosen again */
    LK_TRY(lk__coll_select(k, &number));
    return schedule_start(k, number, out);
}

/* Bytes that this rank gives: of a call with counts its own part, or of a reduce_scatter all of its input. */
static int64_t given_bytes(const lk__coll_args *k)
{
    if (k->counts && k->c.call == LK_CALL_ALLGATHER)
        return k->counts[k->rank] * k->elem;
    if (k->counts && k->c.call == LK_CALL_REDUCE_SCATTER)
        return k->extent * k->elem;
    return k->bytes;
}

/* Begin the call and make what progress there is. */
static lk_status call_start(lk_comm *comm, const lk_collective *c, int shown_op, bool wait,
                            lk_request **out)
{
    lk_status st;
    *out = NULL;
    LK_TRY(lk__fault_check(comm->w));
    lk__coll_state *state = NULL;
    LK_TRY_COMM(comm->w, lk__coll_state_get(comm, &state));
    lk__finite *finite = NULL;
    lk__coll_args k;
    k.wait = wait;
    LK_TRY_TO(done, lk__coll_args_make(comm, c, &k));
    k.shown_op = shown_op;
    comm->n_bytes += given_bytes(&k);
    if (lk__finite_asked(&k))
        LK_TRY_TO(done, wait ? lk__finite_check(&k) : lk__finite_start(&k, &finite));
    LK_TRY_TO(done, args_start(&k, out));
done:
    if (finite)
        lk__finite_follow(finite, *out);
    lk__coll_args_free(&k);
    return st;
}

lk_status lk_coll_start(lk_comm *comm, const lk_collective *c, lk_request **out)
{
    LK_CHECK(comm && c && out, LK_EINVAL, "%s is NULL", !comm ? "comm" : !c ? "c" : "out");
    LK_INSIDE(comm->w);
    LK_TRY(call_start(comm, c, (int)c->op, false, out));
    lk_status st = lk__progress(comm->w);
    lk_request *r = *out;
    if (st == LK_OK || !r)
        return st;
    *out = NULL;
    bool heap = r->heap;
    lk__request_end(r);
    if (heap)
        lk_free(r);
    return st;
}

static lk_status run(lk_comm *comm, const lk_collective *c, int shown_op)
{
    lk_request *r = NULL;
    LK_INSIDE(comm->w);
    LK_TRY(call_start(comm, c, shown_op, true, &r));
    if (r)
        LK_TRY(lk_wait(&r, NULL));
    return LK_OK;
}

lk_status lk_coll_run(lk_comm *comm, const lk_collective *c)
{
    LK_CHECK(comm && c, LK_EINVAL, "%s is NULL", comm ? "c" : "comm");
    return LK_TRACE(run(comm, c, (int)c->op));
}

lk_status lk__allreduce_pairs(lk_comm *comm, lk_value_index *pairs, int64_t count, lk_dtype dtype,
                              lk_reduce_op op, const char *name)
{
    bool alone = op == LK_REDUCE_MIN || op == LK_REDUCE_MAX;
    bool least = op == LK_REDUCE_MIN || op == LK_REDUCE_MINLOC;
    lk_collective c = {.call = LK_CALL_ALLREDUCE,
                       .name = name,
                       .out = pairs,
                       .count = count,
                       .dtype = dtype,
                       .op = least ? LK_REDUCE_MINLOC : LK_REDUCE_MAXLOC};
    return LK_TRACE(run(comm, &c, alone ? (int)op | LK_OP_OF_PAIRS : (int)op));
}

lk_status lk_coll_selected(lk_comm *comm, const lk_collective *c, const char **out)
{
    LK_FP_GUARD();
    lk_status st;
    LK_CHECK(comm && c && out, LK_EINVAL, "%s is NULL", !comm ? "comm" : !c ? "c" : "out");
    *out = NULL;
    LK_INSIDE(comm->w);
    lk__coll_state *state = NULL;
    LK_TRY(lk__coll_state_get(comm, &state));
    lk__coll_args k;
    k.wait = true;
    int number;
    LK_TRY_TO(done, lk__coll_args_make(comm, c, &k));
    LK_TRY_TO(done, lk__coll_select(&k, &number));
    *out = lk__colls[number - 1]->name;
    state->last
        .number = 0; /* forget it: a call may measure its links first, and choose otherwise */
done:
    lk__coll_args_free(&k);
    return st;
}
