/* Rates of the tiers, and which way each goes.
 *
 * A rate is measured as the tier is used: all ranks at once send to the next member of their line
 * and receive from the one before, so what the lines share (a link, a core) counts.  Latency is that
 * of 8 bytes, bandwidth the difference between two large sizes: larger than what a link lets pass in
 * a burst, and without what it takes to agree on a large message.  A large message can be slower than
 * the same bytes in small ones: MPIs agree on each before they send it, and where the answer has to
 * queue behind other large messages a link carries only one direction at a time.  So both are tried.
 * The slowest rank's numbers are everybody's, so all ranks choose the same.
 */
#include "coll/ddl.h"

#include <lockstep/alloc.h>
#include <lockstep/clock.h>

#include <string.h>

enum {
    SMALL = 8,
    PIECE = 8192,
    MIDDLE = 8 * PIECE,
    LARGE = 40 * PIECE,
    VAST = 160 * PIECE, /* on links that are so slow that nothing less shows */
    SMALL_ROUNDS = 20,
    LARGE_ROUNDS = 2,
    MAX_PIECES = VAST / PIECE
};

static const double slow_link = 0.005; /* seconds for LARGE */

/* The line of a tier that this rank is on: its neighbours, and room for 2 * VAST bytes. */
struct line {
    lk_comm *comm;
    int next, before, tier;
    unsigned char *buffer;
};

static lk_status exchange(const struct line *l, int64_t bytes, int64_t piece)
{
    lk_request *r[2 * MAX_PIECES] = {NULL};
    int n = 0;
    lk_status st = LK_OK;
    for (int64_t at = 0; at < bytes && st == LK_OK; at += piece)
        st = lk_irecv(l->comm, l->buffer + at, piece, LK_U8, l->before, l->tier, "rates", &r[n++]);
    for (int64_t at = 0; at < bytes && st == LK_OK; at += piece)
        st = lk_isend(l->comm, l->buffer + VAST + at, piece, LK_U8, l->next, l->tier, "rates",
                      &r[n++]);
    lk_status waited = lk_waitall(n, r);
    LK_TRY(st);
    LK_TRY(waited);
    return LK_OK;
}

/* Seconds for an exchange on the slowest rank: of small ones the least, of others the last, when
 * bursts are over. */
static lk_status exchange_time(const struct line *l, int64_t bytes, int64_t piece, double *out)
{
    int rounds = bytes == SMALL ? SMALL_ROUNDS : bytes == VAST ? 1 : LARGE_ROUNDS;
    LK_TRY(lk_barrier(l->comm, "rates"));
    for (int i = 0; i < rounds; i++) {
        int64_t start = lk_clock_ns();
        LK_TRY(exchange(l, bytes, piece));
        double seconds = 1e-9 * (double)(lk_clock_ns() - start);
        *out = i == 0 || bytes != SMALL || seconds < *out ? seconds : *out;
    }
    LK_TRY(lk_allreduce(l->comm, NULL, out, 1, LK_F64, LK_FOLD_MAX, "rates"));
    return LK_OK;
}

static lk_status line_measure(const struct line *l, lk__tiers *tiers)
{
    double alpha, middle[2], large[2]; /* as one message, and in pieces */
    int64_t bytes = LARGE;
    LK_TRY(exchange_time(l, SMALL, SMALL, &alpha));
    for (int cut = 0; cut < 2; cut++) {
        LK_TRY(exchange_time(l, LARGE, cut ? PIECE : LARGE, &large[cut]));
        LK_TRY(exchange_time(l, MIDDLE, cut ? PIECE : MIDDLE, &middle[cut]));
    }
    if (large[0] > slow_link) {
        bytes = VAST;
        for (int cut = 0; cut < 2; cut++)
            LK_TRY(exchange_time(l, VAST, cut ? PIECE : VAST, &large[cut]));
    }
    int cut = large[1] < large[0];
    double beta = (large[cut] - middle[cut]) / (double)(bytes - MIDDLE);
    tiers->rates[l->tier] = (lk__rates){alpha, beta > 1e-12 ? beta : 1e-12, 5e-11};
    tiers->piece[l->tier] = cut ? PIECE : 0;
    return LK_OK;
}

lk_status lk__ddl_measure(lk_ddl *d)
{
    lk_status st = LK_OK;
    unsigned char *buffer = NULL;
    LK_TRY_COMM(d->comm->w, lk_alloc_zero(&buffer, 2 * (int64_t)VAST, 1));
    int stride = 1, rank = d->place.rank;
    for (int t = 0; t < d->tiers.n; t++) {
        int p = d->tiers.size[t], me = rank / stride % p;
        struct line line = {.comm = d->comm,
                            .next = rank + ((me + 1) % p - me) * stride,
                            .before = rank + ((me + p - 1) % p - me) * stride,
                            .tier = t,
                            .buffer = buffer};
        if (p > 1)
            LK_TRY_TO(done, line_measure(&line, &d->tiers));
        stride *= p;
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
    double slowest[LK_MAX_TIERS][2];
    int64_t n = sizeof slowest / sizeof(double);
    memcpy(slowest, c->best, sizeof slowest);
    LK_TRY(lk_allreduce(d->comm, NULL, slowest, n, LK_F64, LK_FOLD_MAX, "probe"));
    for (int t = 0; t < d->tiers.n; t++) {
        bool halves = can_halve(d->tiers.size[t]) && slowest[t][1] < slowest[t][0];
        c->way[t] = halves ? LK_WAY_HALVES : LK_WAY_DIRECT;
    }
    c->chosen = true;
    return LK_OK;
}
