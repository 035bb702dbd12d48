/* lk_ddl_allreduce(): one tensor, or several in groups, along the tiers of an lk_ddl, each tier
 * timed.  Collective, on the rank's thread. */
#include "base/fpenv.h"
#include "coll/ddl/ddl.h"
#include "coll/finite.h"
#include "comm/progress_thread.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/checked.h>
#include <lockstep/extra/clock.h>
#include <lockstep/log.h>

#include <string.h>

/* The number of the algorithm `tiers`, for labels. */
static int tiers_number(void)
{
    extern const lk__coll lk__coll_allreduce_tiers;
    int i = 0;
    while (lk__colls[i] != &lk__coll_allreduce_tiers)
        i++;
    return i + 1;
}

typedef enum phase { REDUCE, FINISH, GATHER } phase;

/* One phase as a schedule of its own, from start to end. */
static lk_status phase_messages(lk__tiers_run *run, phase what, int tier)
{
    const lk__coll_args *k = run->k;
    lk__schedule *s = NULL;
    lk_request *r = NULL;
    lk_status st = lk__schedule_new(k, tiers_number(), &s);
    if (st == LK_OK)
        st = what == REDUCE   ? lk__tiers_reduce(run, tier, s)
             : what == FINISH ? lk__tiers_finish(run, s)
                              : lk__tiers_gather(run, tier, s);
    if (st == LK_OK)
        st = lk__schedule_start(s, &r);
    if (st != LK_OK) { /* no memory: others may have begun */
        lk__schedule_free(s);
        return lk__fault_raise(k->comm->w);
    }
    return LK_TRACE(lk_wait(&r, NULL));
}

/* The same by MPI_Reduce_scatter and MPI_Allgatherv. */
static lk_status phase_mpi(lk_ddl *d, lk__tiers_run *run, phase what, int tier)
{
    const lk__coll_args *k = run->k;
    lk__held *h = &run->held;
    const lk__stage *g = NULL;
    for (int i = 0; i < run->n_stages && !g; i++)
        g = run->stage[i].tier == tier ? &run->stage[i] : NULL;
    if (!g)
        return LK_OK;
    int64_t from;
    for (int i = 0; i < g->size; i++)
        lk__stage_part(g, i, &from, &d->counts[i]);
    if (what == GATHER) {
        unsigned char *out = (unsigned char *)k->c.out + g->from * k->elem;
        return LK_TRACE(lk__native_allgather(d->line[tier], out, d->counts, k->c.dtype));
    }
    unsigned char *part = NULL;
    LK_TRY_COMM(k->comm->w, run->rooms.room(run->rooms.context, d->counts[g->me] * k->elem, &part));
    LK_TRY(lk__native_reduce_scatter(d->line[tier], h->vector[0], part, d->counts, k->c.dtype));
    h->vector[0] = part;
    h->ours[0] = true;
    lk__stage_part(g, g->me, &h->from, &h->n);
    return LK_OK;
}

static lk_status phase_run(lk_ddl *d, lk__tiers_run *run, phase what, int tier, double *took)
{
    int64_t start = lk_clock_ns();
    if (run->tiers.way[tier] == LK_WAY_MPI && what != FINISH)
        LK_TRY(phase_mpi(d, run, what, tier));
    else
        LK_TRY(phase_messages(run, what, tier));
    took[tier] += 1e-9 * (double)(lk_clock_ns() - start);
    return LK_OK;
}

static lk_status args_run(lk_ddl *d, const lk__coll_args *k)
{
    lk__tiers tiers = d->tiers;
    LK_TRY(lk__ddl_share(d, k));
    lk__ddl_ways(d, k, &tiers);
    lk__tiers_run run = {.rooms = {lk__ddl_room, &d->rooms}};
    d->rooms.n_used = 0;
    LK_TRY_COMM(k->comm->w, lk__tiers_begin(k, &tiers, &run));
    double took[LK_MAX_TIERS] = {0};
    for (int t = 0; t < tiers.n; t++)
        LK_TRY(phase_run(d, &run, REDUCE, t, took));
    LK_TRY(phase_run(d, &run, FINISH, tiers.n - 1, took));
    for (int t = tiers.n - 1; t >= 0; t--)
        LK_TRY(phase_run(d, &run, GATHER, t, took));
    for (int t = 0; t < tiers.n; t++) {
        double cost = d->measured ? lk__tiers_cost(k, &tiers, t) : 0;
        d->times.tier[t].algorithm = lk__way_name(tiers.way[t]);
        d->times.tier[t].seconds += took[t];
        d->times.tier[t].predicted += cost;
        d->times.predicted += cost;
        d->tier[t] += took[t];
    }
    return LK_TRACE(lk__ddl_learn(d, k, took));
}

static lk_status reduce_tiers(lk_ddl *d, const lk_collective *c)
{
    lk_status st;
    lk__coll_args k = {.wait = true};
    LK_TRY(lk__fault_check(d->comm->w));
    LK_TRY_TO(done, lk__coll_args_make(d->comm, c, &k));
    LK_TRY_TO(done, args_run(d, &k));
done:
    lk__coll_args_free(&k);
    return st;
}

/* lk_coll_run() does it for the calls that go through it. */
static lk_status finite_check(lk_ddl *d, const lk_collective *c)
{
    lk_status st;
    lk__coll_args k = {.wait = true};
    LK_TRY_TO(done, lk__coll_args_make(d->comm, c, &k));
    if (lk__finite_asked(&k))
        LK_TRY_TO(done, lk__finite_check(&k));
done:
    lk__coll_args_free(&k);
    return st;
}

lk_status lk__ddl_reduce(lk_ddl *d, const lk_collective *c, bool mpi)
{
    bool half = c->dtype == LK_F16 || c->dtype == LK_BF16;
    if (half && !mpi) { /* partial sums must not be rounded: no tiers */
        return LK_TRACE(lk_coll_run(d->comm, c));
    }
    if (d->comm->finite)
        LK_TRY(finite_check(d, c));
    if (!mpi) {
        return LK_TRACE(reduce_tiers(d, c));
    }
    lk__native *m = NULL;
    LK_TRY(lk__ddl_mpi(d, &m));
    LK_TRY(lk__native_allreduce(m, c->in, c->out, c->count, c->dtype));
    return LK_TRACE(lk__reduce_op_finish(c->op, c->dtype, c->count, d->place.size, c->out));
}

static lk_collective call_of(const lk_ddl_tensor *t, lk_reduce_op op)
{
    return (lk_collective){.call = LK_CALL_ALLREDUCE,
                           .name = t->name,
                           .in = t->in == t->out ? NULL : t->in,
                           .out = t->out,
                           .count = t->count,
                           .dtype = t->dtype,
                           .op = op};
}

/* One tensor; with a check its input is kept, because the result may come over it. */
static lk_status reduce_one(lk_ddl *d, const lk_ddl_tensor *t, const lk_ddl_allreduce_options *how)
{
    lk_collective c = call_of(t, how->op);
    if (!how->check) {
        return LK_TRACE(lk__ddl_reduce(d, &c, how->mpi));
    }
    lk_status st;
    void *given = NULL;
    int64_t bytes = t->count * (int64_t)lk_dtype_size(t->dtype);
    LK_TRY_COMM(d->comm->w, lk_alloc(&given, bytes, 1));
    if (bytes > 0)
        memcpy(given, t->in ? t->in : t->out, (size_t)bytes);
    LK_TRY_TO(done, lk__ddl_reduce(d, &c, how->mpi));
    LK_TRY_TO(done, lk__ddl_check(d, &c, given, how->mpi, how->tolerance));
done:
    lk_free(given);
    return st;
}

/* How many tensors from t[0] on travel together: of one dtype, small, up to the group's size. */
static int64_t group_length(const lk_ddl *d, int64_t n, const lk_ddl_tensor *t)
{
    int64_t count = 0, i = 0;
    while (i < n && t[i].dtype == t[0].dtype && t[i].count <= d->group_size - count)
        count += t[i++].count;
    return i > 1 ? i : 1;
}

static lk_status reduce_group(lk_ddl *d, int64_t n, const lk_ddl_tensor *t,
                              const lk_ddl_allreduce_options *how)
{
    int64_t count = 0, elem = (int64_t)lk_dtype_size(t->dtype);
    for (int64_t i = 0; i < n; i++)
        count += t[i].count;
    unsigned char *all = NULL, *at;
    d->group.n_used = 0;
    LK_TRY_COMM(d->comm->w, lk__ddl_room(&d->group, count * elem, &all));
    at = all;
    for (int64_t i = 0; i < n; at += t[i++].count * elem)
        if (t[i].count > 0)
            memcpy(at, t[i].in ? t[i].in : t[i].out, (size_t)(t[i].count * elem));
    lk_ddl_tensor whole = {t->name, NULL, all, count, t->dtype};
    lk_collective c = call_of(&whole, how->op);
    LK_TRY(lk__ddl_reduce(d, &c, how->mpi));
    at = all;
    for (int64_t i = 0; i < n; at += t[i++].count * elem)
        if (t[i].count > 0)
            memcpy(t[i].out, at, (size_t)(t[i].count * elem));
    return LK_OK;
}

static lk_status arguments_check(lk_ddl *d, int64_t n, const lk_ddl_tensor *t,
                                 const lk_ddl_allreduce_options *how)
{
    LK_CHECK(d && how && (t || n == 0), LK_EINVAL, "%s is NULL", !d ? "ddl" : !t ? "t" : "how");
    LK_CHECK(n >= 0, LK_EINVAL, "%lld tensors", (long long)n);
    LK_CHECK(how->op == LK_REDUCE_SUM || how->op == LK_REDUCE_AVG, LK_EINVAL,
             "the operator is %s; it must be sum or avg", lk_reduce_op_name(how->op));
    LK_CHECK(!how->check || (how->tolerance >= 0 && how->tolerance < 1e300), LK_EINVAL,
             "a tolerance of %g", how->tolerance);
    LK_CHECK(!how->mpi || strcmp(lk_comm_transport(d->comm), "mpi") == 0, LK_ENOTSUP,
             "MPI_Allreduce needs ranks that are MPI processes; these are of the transport %s",
             lk_comm_transport(d->comm));
    for (int64_t i = 0; i < n; i++) {
        int64_t bytes;
        const char *name = t[i].name ? t[i].name : "";
        LK_CHECK(lk__reduce_op_takes(how->op, t[i].dtype), LK_EDTYPE,
                 "tensor %lld \"%s\": no %s of %s", (long long)i, name, lk_reduce_op_name(how->op),
                 lk_dtype_name(t[i].dtype));
        LK_CHECK(t[i].count >= 0 && (t[i].out || t[i].count == 0), LK_EINVAL,
                 "tensor %lld \"%s\": %lld elements at %p", (long long)i, name,
                 (long long)t[i].count, t[i].out);
        LK_CHECK(!how->check || (t[i].dtype != LK_F16 && t[i].dtype != LK_BF16), LK_EDTYPE,
                 "tensor %lld \"%s\": no check of %s", (long long)i, name,
                 lk_dtype_name(t[i].dtype));
        LK_TRY(lk_mul_i64(t[i].count, (int64_t)lk_dtype_size(t[i].dtype), &bytes));
    }
    return LK_OK;
}

static void times_begin(lk_ddl *d)
{
    d->times = (lk_ddl_times){.calls = d->times.calls + 1, .n_tiers = d->tiers.n};
    for (int t = 0; t < d->tiers.n; t++) {
        d->times.tier[t].size = d->tiers.size[t];
        d->times.tier[t].algorithm = "";
    }
}

lk_status lk_ddl_allreduce_n(lk_ddl *d, int64_t n, const lk_ddl_tensor *t,
                             const lk_ddl_allreduce_options *how)
{
    LK_FP_GUARD();
    LK_TRY(arguments_check(d, n, t, how));
    LK_INSIDE(d->comm->w);
    int64_t start = lk_clock_ns();
    times_begin(d);
    d->outside += 1e-9 * (double)(start - d->left_ns);
    if (d->options.dev_sync >= 1)
        LK_TRY(lk_barrier(d->comm, "dev_sync"));
    for (int64_t i = 0, length; i < n; i += length) {
        length = how->check ? 1 : group_length(d, n - i, t + i);
        if (length == 1)
            LK_TRY(reduce_one(d, t + i, how));
        else
            LK_TRY(reduce_group(d, length, t + i, how));
    }
    if (d->options.dev_sync >= 2)
        LK_TRY(lk_barrier(d->comm, "dev_sync"));
    d->times.seconds = 1e-9 * (double)(lk_clock_ns() - start);
    d->inside += d->times.seconds;
    if (d->options.dbg_level >= 2)
        lk__ddl_log(d, LK_LOG_DEBUG, "ddl: allreduce of %lld tensors from \"%s\" on: %.3f ms",
                    (long long)n, n > 0 && t->name ? t->name : "", 1e3 * d->times.seconds);
    LK_TRY(lk__ddl_watch(d));
    d->left_ns = lk_clock_ns();
    return LK_OK;
}

lk_status lk_ddl_allreduce(lk_ddl *d, const lk_ddl_tensor *t, const lk_ddl_allreduce_options *how)
{
    return LK_TRACE(lk_ddl_allreduce_n(d, 1, t, how));
}
