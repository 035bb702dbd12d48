/* Rates of the tiers, and which way each goes.
 *
 * A rate is measured as the tier is used: all ranks at once send to the next member of their line
 * and receive from the one before, so what the lines share (a link, a core) counts.  Latency from
 * messages of 8 bytes, bandwidth from ones that are larger than what a link may let pass in a burst.
 * The slowest rank's numbers are everybody's, so all ranks choose the same.
 */
#include "coll/ddl.h"

#include <lockstep/alloc.h>
#include <lockstep/clock.h>

#include <string.h>

enum { SMALL = 8, LARGE = 256 * 1024, SMALL_ROUNDS = 20, LARGE_ROUNDS = 3 };

/* Seconds for one exchange along a tier; the last of `rounds`, when bursts are over, for large
 * ones, the least for small ones. */
static lk_status exchange_time(lk_ddl *d, int tier, int stride, void *buffer, int64_t bytes,
                               double *out)
{
    int rank = d->place.rank, p = d->tiers.size[tier], me = rank / stride % p;
    int next = rank + ((me + 1) % p - me) * stride,
        before = rank + ((me + p - 1) % p - me) * stride;
    lk_part send = {buffer, bytes, next, tier};
    lk_part recv = {(unsigned char *)buffer + LARGE, bytes, before, tier};
    int rounds = bytes == SMALL ? SMALL_ROUNDS : LARGE_ROUNDS;
    for (int i = 0; i < rounds; i++) {
        int64_t start = lk_clock_ns();
        LK_TRY(lk_sendrecv(d->comm, LK_U8, &send, &recv, "rates", NULL));
        double seconds = 1e-9 * (double)(lk_clock_ns() - start);
        *out = i == 0 || bytes == LARGE || seconds < *out ? seconds : *out;
    }
    return LK_OK;
}

lk_status lk__ddl_measure(lk_ddl *d)
{
    lk_status st = LK_OK;
    unsigned char *buffer = NULL;
    LK_TRY_COMM(d->comm->w, lk_alloc_zero(&buffer, 2 * LARGE, 1));
    int stride = 1;
    for (int t = 0; t < d->tiers.n; t++) {
        double seconds[2] = {0, 0};
        if (d->tiers.size[t] > 1) {
            LK_TRY_TO(done, lk_barrier(d->comm, "rates"));
            LK_TRY_TO(done, exchange_time(d, t, stride, buffer, SMALL, &seconds[0]));
            LK_TRY_TO(done, lk_barrier(d->comm, "rates"));
            LK_TRY_TO(done, exchange_time(d, t, stride, buffer, LARGE, &seconds[1]));
            LK_TRY_TO(done, lk_allreduce(d->comm, NULL, seconds, 2, LK_F64, LK_FOLD_MAX, "rates"));
        }
        double beta = (seconds[1] - seconds[0]) / LARGE;
        d->tiers.rates[t] = (lk__rates){seconds[0], beta > 1e-12 ? beta : 1e-12, 5e-11};
        stride *= d->tiers.size[t];
    }
    d->measured = true;
done:
    lk_free(buffer);
    return st;
}

static bool can_halve(int p)
{
    return p > 2 && (p & (p - 1)) == 0;
}

static lk__ddl_class *class_of(lk_ddl *d, const lk__case *k)
{
    return &d->probe[k->bytes > 0 ? 63 - __builtin_clzll((unsigned long long)k->bytes) : 0];
}

void lk__ddl_ways(lk_ddl *d, const lk__case *k, lk__tiers *tiers)
{
    lk_mode_letter letter = d->options.mode.letter;
    if (letter == LK_MODE_BEST) {
        lk__tiers_choose(k, tiers);
        return;
    }
    const lk__ddl_class *c = class_of(d, k);
    for (int t = 0; t < tiers->n; t++) {
        bool halves = can_halve(tiers->size[t]) &&
                      (letter == LK_MODE_CUT || (letter == LK_MODE_PROBE && c->n_tried % 2 == 1));
        tiers->way[t] = letter == LK_MODE_RING  ? LK_WAY_RING
                        : letter == LK_MODE_MPI ? LK_WAY_MPI
                        : halves                ? LK_WAY_HALVES
                                                : LK_WAY_DIRECT;
        if (letter == LK_MODE_PROBE && c->chosen)
            tiers->way[t] = c->way[t];
    }
}

lk_status lk__ddl_learn(lk_ddl *d, const lk__case *k, const double *seconds)
{
    lk__ddl_class *c = class_of(d, k);
    if (d->options.mode.letter != LK_MODE_PROBE || c->chosen)
        return LK_OK;
    for (int t = 0; t < d->tiers.n; t++) {
        int way = c->n_tried % 2;
        if (c->n_tried < 2 || seconds[t] < c->best[t][way])
            c->best[t][way] = seconds[t];
    }
    if (++c->n_tried < 2 * LK_DDL_TRIES)
        return LK_OK;
    double slowest[2 * LK_MAX_TIERS];
    memcpy(slowest, c->best, sizeof slowest);
    LK_TRY(lk_allreduce(d->comm, NULL, slowest, 2 * LK_MAX_TIERS, LK_F64, LK_FOLD_MAX, "probe"));
    for (int t = 0; t < d->tiers.n; t++) {
        bool halves = can_halve(d->tiers.size[t]) && slowest[2 * t + 1] < slowest[2 * t];
        c->way[t] = halves ? LK_WAY_HALVES : LK_WAY_DIRECT;
    }
    c->chosen = true;
    return LK_OK;
}
