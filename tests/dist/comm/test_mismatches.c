/* One rank does something else than the others: who and what is named on every rank, in time.
 *
 *     what it does   another call, name, order, count, dtype, operator, root, number or runs of pieces,
 *                    counts by rank, algorithm, root or axis on the tape, LK_FINITE; it starts what others run,
 *                    does not compare its calls, leaves a call out, leaves, sends another message (of another
 *                    dtype, count or tag, or to another rank), is expected to send by somebody it does
 *                    not send to, receives where others make a collective call, or sleeps
 *     in which call  all that are collective
 *     sizes          nothing, one element, some, around what goes with a header, 1 MiB
 *     when           in the first call on the communicator, or after others
 *     who            the first, the second or the last rank
 *
 *     test_mismatches                      some of each, on 2 and 4 local ranks; fewer under MPI
 *     test_mismatches --all [--part K/N]   all of them, or every N-th from the K-th on; prints the
 *                                          seconds of each (tests/long/mismatches.sh)
 *
 * A mismatch is told within 2 seconds, and so is that all wait in vain, with the default deadline of a
 * minute; a rank that sleeps within 2 seconds behind the deadline.
 */
#include "comm/comm.h"
#include "ranks.h"
#include "tape_mistakes.h"

#include <lockstep/coll.h>
#include <lockstep/extra/algorithms.h>
#include <lockstep/extra/clock.h>

enum kind {
    OTHER_CALL,
    NAME,
    ORDER,
    MISSING,
    GONE,
    MESSAGE_DTYPE,
    MESSAGE_COUNT,
    MESSAGE_TAG,
    MESSAGE_TO,
    MESSAGE_FROM,
    RECEIVES,
    COUNT,
    DTYPE,
    OPERATOR,
    ROOT,
    PIECES,
    RUNS,
    COUNTS,
    STARTS,
    ALGORITHM,
    UNCHECKED,
    TAPE_ROOT,
    TAPE_AXIS,
    FINITE,
    ASLEEP,
    N_KINDS
};

static const char *const kind_names[] = {
    "other call", "name",     "order",      "missing",          "gone",     "message dtype",
    "count sent", "tag",      "message to", "message from",     "receives", "count",
    "dtype",      "operator", "root",       "pieces",           "runs",     "counts",
    "start",      "other",    "check",      "root on the tape", "axis",     "finite",
    "asleep"};

#define IN_VAIN "ranks wait, and no message is under way: "

/* What the report must say of it, beside both ranks and the tensor. */
static const char *const said[N_KINDS] = {[PIECES] = "(pieces: ",
                                          [RUNS] = "runs of pieces",
                                          [COUNTS] = "counts by rank",
                                          [STARTS] = " starts it, rank ",
                                          [ALGORITHM] = "by different alg",
                                          [UNCHECKED] = "does not compare its calls",
                                          [MESSAGE_TAG] = IN_VAIN,
                                          [MESSAGE_TO] = IN_VAIN,
                                          [MESSAGE_FROM] = IN_VAIN,
                                          [RECEIVES] = IN_VAIN,
                                          [TAPE_ROOT] = " root 1\"",
                                          [TAPE_AXIS] = " axis 1",
                                          [FINITE] = " looks for numbers that are not finite"};

struct mistake {
    enum kind kind;
    lk_comm_call call, other; /* of the others; of the one that errs, if that is the mistake */
    int count;
    bool warm;
    int who; /* 0, 1, or 2: the last rank */
};

enum { MOST_RANKS = 4, LARGEST = 262144, ROOM = 16 * (LARGEST + 8), MAX_CASES = 40000 };

static const int sizes[] = {0, 1, 100, 1024, 1025, 2049, LARGEST};
enum { N_SIZES = sizeof sizes / sizeof sizes[0] };

static const double deadline = 60, short_deadline = 1, in_time = 2;

static float *room[MOST_RANKS][2]; /* in and out of each rank */
static struct mistake cases[MAX_CASES];
static int n_cases;
static bool whole;
static _Atomic int failures;
static double seconds_by[MOST_RANKS];

/* ---- which there are ---- */

static bool has_count(lk_comm_call call)
{
    return call != LK_CALL_BARRIER && call != LK_CALL_SHARE;
}

static bool folds(lk_comm_call call)
{
    return call == LK_CALL_REDUCE || call == LK_CALL_ALLREDUCE || call == LK_CALL_REDUCE_SCATTER;
}

static bool has_root(lk_comm_call call)
{
    return call == LK_CALL_REDUCE || call == LK_CALL_BCAST || call == LK_CALL_GATHER ||
           call == LK_CALL_SCATTER;
}

/* Whether one rank sends something else than another one expects. */
static bool is_message(enum kind kind)
{
    return kind >= MESSAGE_DTYPE && kind <= MESSAGE_FROM;
}

/* Whether no two messages or calls that differ meet: all ranks wait in vain. */
static bool is_in_vain(enum kind kind)
{
    return kind >= MESSAGE_TAG && kind <= RECEIVES;
}

/* Whether the mistake can be made in this call, of this size. */
static bool is_possible(enum kind kind, lk_comm_call call, int count)
{
    switch (kind) {
    case COUNT:
    case DTYPE: return has_count(call);
    case OPERATOR:
    case PIECES:
    case FINITE:
    case RUNS: return folds(call);
    case ROOT: return has_root(call);
    case COUNTS: return call >= LK_CALL_REDUCE_SCATTER && call <= LK_CALL_SCATTER && count > 0;
    case STARTS: return call != LK_CALL_SHARE;
    case ALGORITHM:
    case UNCHECKED: return call == LK_CALL_ALLREDUCE;
    case TAPE_ROOT: return tape_has_root(call);
    case TAPE_AXIS: return tape_has_axis(call) && count == 1;
    case MESSAGE_DTYPE:
    case MESSAGE_COUNT: return call == LK_CALL_BARRIER && count > 0;
    case MESSAGE_TAG:
    case MESSAGE_TO:
    case MESSAGE_FROM: return call == LK_CALL_BARRIER;
    default: return true;
    }
}

static void add(struct mistake m)
{
    if (!has_count(m.call) && (m.kind != OTHER_CALL || !has_count(m.other)) &&
        !is_message(m.kind) && m.count != 1)
        return; /* its size is no matter */
    ASSERT_TRUE(n_cases < MAX_CASES);
    cases[n_cases++] = m;
}

/* Neighbour has lists of its own. */
static void list_cases(void)
{
    for (int kind = 0; kind < N_KINDS; kind++)
        for (int call = LK_CALL_BARRIER; call <= LK_CALL_SHARE; call++)
            for (int other = LK_CALL_BARRIER; other <= LK_CALL_SHARE; other++)
                for (int size = 0; size < N_SIZES; size++)
                    for (int warm = 0; warm < 2; warm++) {
                        struct mistake m = {(enum kind)kind,     (lk_comm_call)call,
                                            (lk_comm_call)other, sizes[size],
                                            warm == 1,           (size + call + other + warm) % 3};
                        bool pair = kind == OTHER_CALL ? other != call : other == call;
                        bool few = kind == ASLEEP && (size % 3 != 1 || call % 3 != 0);
                        if (call != LK_CALL_NEIGHBOUR && other != LK_CALL_NEIGHBOUR && pair &&
                            !few && is_possible(m.kind, m.call, m.count))
                            add(m);
                    }
}

/* Some of each: every kind of mistake and every call, with sizes and moments in turn. */
static bool is_telling(int i)
{
    const struct mistake *m = &cases[i];
    if (m->kind == ASLEEP)
        return m->call == LK_CALL_ALLREDUCE && m->count == 1 && m->warm;
    if (m->kind == GONE)
        return i % 37 == 0;
    if (m->kind == RECEIVES)
        return m->call == LK_CALL_ALLREDUCE && (m->warm ? m->count == 100 : m->count == LARGEST);
    if (is_in_vain(m->kind))
        return m->count == (m->kind == MESSAGE_FROM ? 1 : LARGEST) && m->warm;
    if (m->kind == OTHER_CALL)
        return i % 97 == 0 || (i % 43 == 0 && m->call == LK_CALL_SHARE) ||
               (i % 7 == 0 && m->call == LK_CALL_ALLREDUCE && m->other == LK_CALL_BCAST);
    if (m->kind == TAPE_ROOT || m->kind == TAPE_AXIS)
        return true;
    return i % (m->kind == ROOT || m->kind == PIECES || m->kind == RUNS ? 7 : 17) == 0;
}

/* ---- making it ---- */

struct doing {
    lk_comm *comm;
    const struct mistake *m;
    int rank, size, who;
    bool errs;
};

/* Where the range of each rank begins; of the one that errs the first gives one piece to the second. */
static const int64_t *ranges_of(const struct doing *d, int64_t pieces, int64_t *first)
{
    first[0] = 0;
    for (int r = 0; r < d->size; r++) {
        lk_range range = lk_range_split(pieces, r, d->size);
        first[r + 1] = range.first + range.n;
    }
    first[1] -= d->errs;
    return first;
}

/* The call of this rank, with its mistake if it is the one. */
static lk_status make_call(const struct doing *d, const char *name)
{
    const struct mistake *m = d->m;
    int64_t first[MOST_RANKS + 1], counts[MOST_RANKS];
    static const lk_reduce_op of[] = {LK_REDUCE_AVG, LK_REDUCE_PROD, LK_REDUCE_MIN, LK_REDUCE_MAX,
                                      LK_REDUCE_MINLOC};
    if (m->kind == TAPE_ROOT || m->kind == TAPE_AXIS)
        return tape_call(d->comm, m->call, of[(m->count + 2 * m->warm) % 5], d->errs, name);
    lk_collective c = {.call = d->errs && m->kind == OTHER_CALL ? m->other : m->call,
                       .name = name,
                       .in = room[d->rank][0],
                       .out = room[d->rank][1],
                       .count = m->count + (d->errs && m->kind == COUNT),
                       .dtype = d->errs && m->kind == DTYPE ? LK_I32 : LK_F32};
    if (c.call == LK_CALL_SHARE) {
        lk_shm *s = NULL;
        LK_TRY(lk_shm_open(d->comm, 100, name, &s));
        lk_shm_close(s);
        return LK_OK;
    }
    if (c.call == LK_CALL_BCAST)
        c.in = NULL; /* what it sends is in `out` */
    if (m->kind == OPERATOR && d->errs)
        c.op = LK_REDUCE_MAX;
    if (m->kind == ROOT && d->errs)
        c.root = 1;
    if (m->kind == PIECES)
        c.pieces = d->errs ? 6 : 8;
    if (m->kind == RUNS) {
        c.pieces = 8;
        c.first = ranges_of(d, c.pieces, first);
    }
    for (int r = 0; r < d->size; r++)
        counts[r] = m->count;
    if (m->kind == COUNTS) {
        counts[0] += d->errs;
        counts[1] -= d->errs;
        c.counts = counts;
    }
    if (m->kind == ALGORITHM)
        c.algorithm = d->errs ? "tree" : "direct";
    if (m->kind != STARTS || !d->errs)
        return lk_coll_run(d->comm, &c);
    lk_request *r;
    LK_TRY(lk_coll_start(d->comm, &c, &r));
    return lk_wait(&r, NULL);
}

/* The one that errs sends something else than rank 0, or rank 1 if it is that one, expects.  Where the
 * message goes to another rank, or is expected from one, that is the last that is neither of them; of two
 * ranks it is the sender, or the receiver. */
static lk_status message(const struct doing *d)
{
    enum kind kind = d->m->kind;
    bool few = kind == MESSAGE_COUNT;
    int to = d->who == 0, third = d->size - 1;
    while (third >= 0 && (third == to || third == d->who))
        third--;
    int sent_to = kind != MESSAGE_TO ? to : third < 0 ? d->who : third;
    int from = kind != MESSAGE_FROM ? d->who : third < 0 ? to : third;
    if (d->errs)
        return lk_send(d->comm, room[d->rank][0], d->m->count, LK_F32, sent_to,
                       kind == MESSAGE_TAG ? 8 : 7, "w");
    if (d->rank == to)
        return lk_recv(d->comm, room[d->rank][1], d->m->count - few,
                       kind == MESSAGE_DTYPE ? LK_I32 : LK_F32, from, 7, "w", NULL);
    return LK_OK;
}

/* Where the others make a collective call it receives from one of them. */
static lk_status receive(const struct doing *d)
{
    return lk_recv(d->comm, room[d->rank][1], d->m->count, LK_F32, (d->rank + 1) % d->size, 7, "w",
                   NULL);
}

static lk_status warm_up(const struct doing *d)
{
    float x[4] = {0};
    for (int i = 0; i < 3 && d->m->warm; i++)
        LK_TRY(lk_allreduce(d->comm, NULL, x, 4, LK_F32, LK_REDUCE_SUM, "warm"));
    return LK_OK;
}

static lk_status make_calls(const struct doing *d)
{
    const struct mistake *m = d->m;
    if (m->kind == UNCHECKED && d->errs)
        LK_TRY(lk_coll_set_checks(d->comm, false));
    if (m->kind == FINITE)
        LK_TRY(lk_comm_set_finite_check(d->comm, d->errs));
    if (is_message(m->kind))
        LK_TRY(message(d));
    else if (m->kind == RECEIVES && d->errs)
        LK_TRY(receive(d));
    else if (m->kind == ORDER) {
        LK_TRY(make_call(d, d->errs ? "v" : "w"));
        LK_TRY(make_call(d, d->errs ? "w" : "v"));
    } else if (m->kind != MISSING || !d->errs)
        LK_TRY(make_call(d, m->kind == NAME && d->errs ? "v" : "w"));
    return LK_TRACE(lk_barrier(d->comm, "end"));
}

/* ---- what comes of it ---- */

static void fail(const struct doing *d, const char *what, double seconds)
{
    const struct mistake *m = d->m;
    failures++;
    fprintf(stderr,
            "FAIL %s: %s x %d%s%s, %s, rank %d of %d errs, seen by rank %d after %.2f s: %s: %s\n",
            kind_names[m->kind], lk_comm_call_name(m->call), m->count,
            m->kind == OTHER_CALL ? " against " : "",
            m->kind == OTHER_CALL ? lk_comm_call_name(m->other) : "", m->warm ? "warm" : "cold",
            d->who, d->size, d->rank, seconds, what, lk_error_message());
}

static bool is_apart(const lk_comm *comm)
{
    return strcmp(lk_comm_transport(comm), "mpi") == 0 && lk_comm_nodes(comm) > 1;
}

/* Whether it takes until the deadline: between nodes of processes nobody sees another leave, or that all
 * wait. */
static bool waits(const struct doing *d)
{
    bool unseen = d->m->kind == GONE || is_in_vain(d->m->kind);
    return d->m->kind == ASLEEP || (unseen && is_apart(d->comm));
}

/* Whether it is a stall: nothing that differs meets. */
static bool stalls(const struct doing *d)
{
    return d->m->kind == GONE || d->m->kind == ASLEEP || is_in_vain(d->m->kind);
}

/* Whether the report names the rank that errs, another one, and the tensor. */
static const char *is_named(const struct doing *d, const char *text)
{
    char it[16], other[16];
    bool any = false;
    snprintf(it, sizeof it, "rank %d", d->who);
    for (int r = 0; r < d->size; r++) {
        snprintf(other, sizeof other, "rank %d", r);
        any = any || (r != d->who && strstr(text, other));
    }
    /* Who has sent all it has to goes on, and waits in the next call.  Between nodes of processes the
     * earlier calls of others are not seen, but this rank's are told. */
    bool absent = d->m->kind == GONE || d->m->kind == ASLEEP || waits(d);
    bool before = is_apart(d->comm) && strstr(text, "an earlier call was different; before it");
    bool tape = d->m->kind == TAPE_ROOT || d->m->kind == TAPE_AXIS; /* more is behind the name */
    bool tensor = strstr(text, tape ? "(\"w" : "(\"w\"") || (absent && strstr(text, "(\"end\"")) ||
                  (before && strstr(text, "(\"v\""));
    const char *more = before || waits(d) ? NULL : said[d->m->kind];
    /* At the deadline a rank tells what it knows: whom it waits for, which may be itself. */
    bool alone = is_in_vain(d->m->kind) && waits(d);
    return !alone && !strstr(text, it)   ? "the rank that errs is not named"
           : !alone && !any              ? "no other rank is named"
           : !tensor                     ? "the tensor is not named"
           : more && !strstr(text, more) ? "the difference is not named"
                                         : NULL;
}

static void check(const struct doing *d, lk_status st, double seconds)
{
    double most = (waits(d) ? short_deadline : 0) + in_time * TEST_SLOWNESS * (whole ? 1 : 5);
    const char *unnamed = is_named(d, lk_error_message());
    if (st == LK_OK)
        fail(d, "silent", seconds);
    else if (st != (stalls(d) ? LK_ESTALL : LK_EMISMATCH))
        fail(d, "wrong status", seconds);
    else if (unnamed)
        fail(d, unnamed, seconds);
    else if (seconds > most)
        fail(d, "late", seconds);
    lk_error_clear();
}

static lk_status run_case(lk_comm *comm, void *arg)
{
    const struct mistake *m = arg;
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    struct doing d = {.comm = comm, .m = m, .rank = rank, .size = size};
    d.who = m->who == 2 ? size - 1 : m->who;
    d.errs = rank == d.who;
    ASSERT_OK(lk_comm_set_deadline(comm, waits(&d) ? short_deadline : deadline));
    lk_status st = warm_up(&d);
    if (m->kind == GONE && d.errs)
        return LK_OK;
    if (m->kind == ASLEEP && d.errs)
        usleep((useconds_t)((short_deadline + 1) * 1e6));
    int64_t start = lk_clock_ns();
    st = st == LK_OK ? make_calls(&d) : st;
    double seconds = (double)(lk_clock_ns() - start) / 1e9;
    seconds_by[rank] = seconds;
    check(&d, st, seconds);
    return LK_OK;
}

/* Returns the seconds until the last rank was told. */
static double run(struct mistake *m, lk_comm *base)
{
    double longest = 0;
    alarm(TEST_TIMEOUT_S);
    memset(seconds_by, 0, sizeof seconds_by);
    for (int n = 2; n <= MOST_RANKS && !base; n += 2)
        ASSERT_OK(lk_run_local(n, run_case, m));
    lk_comm *comm = NULL;
    if (base) {
        ASSERT_OK(lk_comm_open(lk_comm_transport(base), &comm));
        ASSERT_OK(lk_barrier(base, "all have opened it"));
        ASSERT_OK(run_case(comm, m));
        lk_comm_close(comm);
    }
    for (int r = 0; r < MOST_RANKS; r++)
        longest = seconds_by[r] > longest ? seconds_by[r] : longest;
    if (base)
        ASSERT_OK(lk_allreduce(base, NULL, &longest, 1, LK_F64, LK_REDUCE_MAX, "longest"));
    return longest;
}

int main(int argc, char **argv)
{
    const char *transport = getenv("TEST_TRANSPORT");
    int part = 0, parts = 1, done = 0;
    whole = argc > 1 && strcmp(argv[1], "--all") == 0;
    if (argc > 3 && strcmp(argv[2], "--part") == 0)
        ASSERT_TRUE(sscanf(argv[3], "%d/%d", &part, &parts) == 2 && parts > 0);
    signal(SIGALRM, test_on_alarm);
    lk_comm *base = NULL; /* keeps MPI running */
    if (transport)
        ASSERT_OK(lk_comm_open(transport, &base));
    for (int r = 0; r < MOST_RANKS; r++)
        for (int i = 0; i < 2; i++)
            ASSERT_OK(lk_alloc_zero(&room[r][i], ROOM, sizeof(float)));
    list_cases();
    bool prints = !base || lk_comm_rank(base) == 0;
    for (int i = 0; i < n_cases; i++) {
        if (i % parts != part ||
            (!whole && (!is_telling(i) || (base && i % 3 != 0 && !is_in_vain(cases[i].kind)))))
            continue;
        test_current = kind_names[cases[i].kind];
        double seconds = run(&cases[i], base);
        done++;
        if (whole && prints)
            printf("%.5f %s\n", seconds, kind_names[cases[i].kind]);
    }
    for (int r = 0; r < MOST_RANKS; r++)
        for (int i = 0; i < 2; i++)
            lk_free(room[r][i]);
    if (prints && failures == 0)
        printf("ok %d mismatches_are_named_in_time\n", done);
    lk_comm_close(base);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
    return failures > 0;
}
