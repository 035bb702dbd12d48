/* Rates of the tiers, measured.
 *
 * A rate is measured as the tier is used: all ranks at once send to the next member of their line
 * and receive from the one before, so what the lines share (a link, a core) counts.  Latency is that
 * of 8 bytes, bandwidth the difference between two large sizes: larger than what a link lets pass in
 * a burst, and without what it takes to agree on a large message.  A large message can be slower than
 * the same bytes in small ones: MPIs agree on each before they send it, and where the answer has to
 * queue behind other large messages a link carries only one direction at a time.  So both are tried, and
 * on slow links messages are cut in any case: whether one direction waits for the other there is a matter of
 * chance, from call to call, so whole messages are counted as if it did.  The longer the pieces the less
 * they cost a core, as long as MPI sends them without being asked.
 * All take the slowest rank's numbers, so all choose the same.
 */
#include "base/fpenv.h"
#include "coll/tiers/tiers.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/clock.h>

enum {
    SMALL = 8,
    PIECE = 8192,       /* goes with its header, whatever MPI is used */
    LONG_PIECE = 61440, /* Open MPI sends so much on TCP unasked, UCX if it is told to */
    MIDDLE = 8 * PIECE,
    LARGE = 40 * PIECE,
    VAST = 180 * PIECE, /* on links that are so slow that nothing less shows */
    SMALL_ROUNDS = 20,
    LARGE_ROUNDS = 3,
    MAX_PIECES = VAST / PIECE
};

static const double slow_link = 0.0015; /* seconds for LARGE: about 1 Gbit/s */
static const double clearly = 0.98;     /* of another time, to be called less */

/* The line of a tier that this rank is on: its neighbours (-1: it is on none), and room for 2 * VAST
 * bytes. */
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
    bytes = l->next < 0 ? 0 : bytes;
    for (int64_t at = 0; at < bytes && st == LK_OK; at += piece)
        st = lk_irecv(l->comm, l->buffer + at, piece, LK_U8, l->before, l->tier, "rates", &r[n++]);
    for (int64_t at = 0; at < bytes && st == LK_OK; at += piece)
        st = lk_isend(l->comm, l->buffer + VAST + at, piece, LK_U8, l->next, l->tier, "rates",
                      &r[n++]);
    lk_status waited = lk_waitall(n, r);
    LK_TRY(st);
    return LK_TRACE(waited);
}

/* Seconds for an exchange on the slowest rank: the least, since others use the machine too; but on slow
 * links the last, when bursts are over. */
static lk_status exchange_time(const struct line *l, int64_t bytes, int64_t piece, double *out)
{
    int rounds = bytes == SMALL ? SMALL_ROUNDS : bytes == VAST ? 1 : LARGE_ROUNDS;
    LK_TRY(lk_barrier(l->comm, "rates"));
    for (int i = 0; i < rounds; i++) {
        int64_t start = lk_clock_ns();
        LK_TRY(exchange(l, bytes, piece));
        double seconds = 1e-9 * (double)(lk_clock_ns() - start);
        bool slow = bytes != SMALL && seconds > slow_link;
        *out = i == 0 || slow || seconds < *out ? seconds : *out;
    }
    return LK_TRACE(lk_allreduce(l->comm, NULL, out, 1, LK_F64, LK_REDUCE_MAX, "rates"));
}

/* From the seconds that so many bytes more have taken. */
static lk__rates rates_of(double alpha, double seconds, int64_t bytes)
{
    double beta = seconds / (double)bytes;
    return (lk__rates){alpha, beta > 1e-12 ? beta : 1e-12, 5e-11};
}

/* How a slow link is used: the piece that messages are cut to, and the seconds for VAST of such.  Long pieces
 * are taken only if they are the faster ones each time. */
static lk_status slow_link_measure(const struct line *l, int64_t *piece, double *out)
{
    double in_short, in_long = 0;
    LK_TRY(exchange_time(l, VAST, PIECE, &in_short));
    for (int i = 0; i < LARGE_ROUNDS; i++) {
        double seconds;
        LK_TRY(exchange_time(l, VAST, LONG_PIECE, &seconds));
        in_long = seconds > in_long ? seconds : in_long;
    }
    bool faster = in_long < clearly * in_short;
    *piece = faster ? LONG_PIECE : PIECE;
    *out = faster ? in_long : in_short;
    return LK_OK;
}

static lk_status line_measure(const struct line *l, lk__tiers *tiers)
{
    double alpha, middle[2], large[2]; /* as one message, and in pieces */
    int64_t bytes = LARGE, piece = PIECE;
    LK_TRY(exchange_time(l, SMALL, SMALL, &alpha));
    for (int cut = 0; cut < 2; cut++) {
        LK_TRY(exchange_time(l, LARGE, cut ? PIECE : LARGE, &large[cut]));
        LK_TRY(exchange_time(l, MIDDLE, cut ? PIECE : MIDDLE, &middle[cut]));
    }
    tiers->uncut[l->tier] = rates_of(alpha, large[0] - middle[0], LARGE - MIDDLE);
    int cut = large[1] < large[0];
    if (large[cut] > slow_link) { /* small messages cost nothing there, and may halve the time */
        cut = 1;
        bytes = VAST;
        LK_TRY(slow_link_measure(l, &piece, &large[cut]));
    }
    lk__rates *uncut = &tiers->uncut[l->tier], *rates = &tiers->rates[l->tier];
    *rates = rates_of(alpha, large[cut] - middle[cut], bytes - MIDDLE);
    if (bytes == VAST && uncut->beta < 2 * rates->beta)
        uncut->beta = 2 * rates->beta;
    tiers->piece[l->tier] = cut ? piece : 0;
    return LK_OK;
}

/* Those of tiers that are not numbered as the ranks are; the first is in shared memory. */
static lk_status line_of_any(lk_comm *comm, const lk__tiers *tiers, struct line *l)
{
    int64_t helps = 2 * (int64_t)comm->w->size, carriers = tiers->size[0], nodes = tiers->size[1];
    int *room = NULL, y = comm->inter_rank;
    l->next = l->before = -1;
    LK_TRY_COMM(comm->w, lk_alloc(&room, helps + carriers * nodes, sizeof *room));
    lk__tiers_places(comm, tiers, room, room + helps);
    if (lk__tiers_place(comm, tiers) >= 0) {
        const int *line = room + helps + comm->intra_rank;
        l->next = line[(y + 1) % nodes * carriers];
        l->before = line[(y + nodes - 1) % nodes * carriers];
    }
    lk_free(room);
    return LK_OK;
}

lk_status lk__tiers_measure(lk_comm *comm, lk__tiers *tiers)
{
    lk_status st = LK_OK;
    unsigned char *buffer = NULL;
    LK_TRY_COMM(comm->w, lk_alloc_zero(&buffer, 2 * (int64_t)VAST, 1));
    int stride = 1, rank = comm->rank;
    for (int t = tiers->any ? 1 : 0; t < tiers->n; t++) {
        int p = tiers->size[t], me = rank / stride % p;
        struct line line = {.comm = comm,
                            .next = rank + ((me + 1) % p - me) * stride,
                            .before = rank + ((me + p - 1) % p - me) * stride,
                            .tier = t,
                            .buffer = buffer};
        if (tiers->any)
            LK_TRY_TO(done, line_of_any(comm, tiers, &line));
        if (p > 1)
            LK_TRY_TO(done, line_measure(&line, tiers));
        stride *= p;
    }
done:
    lk_free(buffer);
    return st;
}

/* On a communicator of its own, whose calls count nowhere.  Before that all ranks compare the call they
 * are in, so that a mismatch names this one. */
static lk_status rates_find(const lk__coll_args *k, lk__tiers *tiers, unsigned char *all)
{
    lk_status st;
    lk_comm *comm = k->comm, *own = NULL;
    int64_t n_calls = comm->n_calls;
    uint64_t past = comm->past;
    lk__call call = lk__coll_args_call(k, 0);
    unsigned char mine = 0;
    LK_TRY(lk__tiers_of(comm, lk__within_can(k), tiers));
    LK_TRY(lk__exchange(comm, &call, &mine, 1, all));
    LK_TRY(lk_comm_dup(comm, &own));
    lk__call_rewind(comm, n_calls, past);
    own->deadline_ns = comm->deadline_ns;
    LK_TRY_TO(done, lk__tiers_measure(own, tiers));
    /* From here on no rank is in a call before this one. */
    LK_TRY_TO(done, lk_barrier(own, "rates"));
done:
    lk_comm_close(own);
    return st;
}

lk_status lk__tiers_learn(const lk__coll_args *k)
{
    LK_FP_GUARD();
    lk_status st;
    lk__coll_state *state = k->comm->coll;
    lk__tiers *tiers = NULL;
    unsigned char *all = NULL;
    LK_TRY_TO(fault, lk_alloc_zero(&tiers, 1, sizeof *tiers));
    LK_TRY_TO(fault, lk_alloc(&all, k->size, 1));
    LK_TRY_TO(done, rates_find(k, tiers, all));
    state->tiers = tiers;
    tiers = NULL;
    goto done;
fault:
    st = lk__fault_raise(k->comm->w);
done:
    lk_free(tiers);
    lk_free(all);
    return st;
}
