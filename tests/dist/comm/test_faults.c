/* Ranks that make different calls, leave, stop or end are named on every rank, in time.
 *
 *     test_faults                  every kind of mistake, small and large, on local ranks or under MPI
 *     test_faults stop|kill|exit   under MPI: rank 1 is stopped, killed or exits in the middle; the
 *                                  others print the report (tests/dist/ended.sh)
 */
#include "comm/comm.h"
#include "ranks.h"

#include <lockstep/coll.h>
#include <lockstep/extra/clock.h>

enum { SMALL = 10, LARGE = 100000 };

static const double deadline = 0.5;

/* What rank 1 does instead of the call of the others, and how both read. */
struct mistake {
    const char *kind;
    lk_comm_call call, others_call;
    const char *name, *mine, *others; /* texts with one %d for the count */
    lk_dtype dtype;
    lk_reduce_op fold;
    int more, root;
};

#define SUM(name, dtype) "allreduce(\"" name "\", " dtype " x %d, sum) #4"

static const struct mistake mistakes[] = {
    {.kind = "operation",
     .call = LK_CALL_BCAST,
     .name = "fc1.grad",
     .mine = "bcast(\"fc1.grad\", f32 x %d, root 0) #4",
     .others = SUM("fc1.grad", "f32")},
    {.kind = "name",
     .name = "fc2.grad",
     .mine = SUM("fc2.grad", "f32"),
     .others = SUM("fc1.grad", "f32")},
    {.kind = "dtype",
     .name = "fc1.grad",
     .dtype = LK_I32,
     .mine = SUM("fc1.grad", "i32"),
     .others = SUM("fc1.grad", "f32")},
    {.kind = "count",
     .name = "fc1.grad",
     .more = 2,
     .mine = SUM("fc1.grad", "f32"),
     .others = SUM("fc1.grad", "f32")},
    {.kind = "operator",
     .name = "fc1.grad",
     .fold = LK_REDUCE_MAX,
     .mine = "allreduce(\"fc1.grad\", f32 x %d, max) #4",
     .others = SUM("fc1.grad", "f32")},
    {.kind = "root",
     .call = LK_CALL_BCAST,
     .others_call = LK_CALL_BCAST,
     .name = "fc1.grad",
     .root = 1,
     .mine = "bcast(\"fc1.grad\", f32 x %d, root 1) #4",
     .others = "bcast(\"fc1.grad\", f32 x %d, root 0) #4"},
    {.kind = "order", .name = "next", .mine = SUM("next", "f32"), .others = SUM("fc1.grad", "f32")},
    {.kind = "skip",
     .call = LK_CALL_BARRIER,
     .name = "end",
     .mine = "barrier(\"end\") #4",
     .others = SUM("fc1.grad", "f32")},
};

enum { N_MISTAKES = sizeof mistakes / sizeof mistakes[0] };

/* The calls of one rank; `data` has room for all counts. */
static lk_status make_calls(lk_comm *comm, const struct mistake *m, int count, void *data)
{
    bool errs = lk_comm_rank(comm) == 1;
    lk_collective c = {.call = LK_CALL_ALLREDUCE, .name = "fc1.grad", .out = data, .count = count};
    LK_TRY(lk_comm_set_deadline(comm, deadline));
    for (int i = 0; i < 3; i++)
        LK_TRY(lk_allreduce(comm, NULL, data, 4, LK_F32, LK_REDUCE_SUM, "warmup"));
    if (m->others_call)
        c.call = m->others_call;
    if (errs) {
        c.call = m->call ? m->call : c.call;
        c.name = m->name;
        c.dtype = m->dtype;
        c.op = m->fold;
        c.count += m->more;
        c.root = m->root;
    }
    LK_TRY(lk_coll_run(comm, &c));
    c.name = errs ? "fc1.grad" : "next";
    if (strcmp(m->kind, "order") == 0)
        LK_TRY(lk_coll_run(comm, &c));
    return LK_TRACE(lk_barrier(comm, "end"));
}

static void expect_text(const struct mistake *m, int count, const char *format, bool mine)
{
    char call[200], want[260];
    /* The texts are constants of the table above. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(call, sizeof call, format, mine ? count + m->more : count);
#pragma GCC diagnostic pop
    snprintf(want, sizeof want, "%s calls %s", mine ? "rank 1" : "", call);
    if (!strstr(lk_error_message(), want + (mine ? 0 : 1)))
        TEST_FAIL("%s x %d: no \"%s\" in \"%s\"", m->kind, count, want, lk_error_message());
}

static void mistake_is_named(lk_comm *comm, const struct mistake *m, int count)
{
    float *data;
    ASSERT_OK(lk_alloc_zero(&data, LARGE + 10, sizeof *data));
    int64_t start = lk_clock_ns();
    lk_status st = make_calls(comm, m, count, data);
    double seconds = (double)(lk_clock_ns() - start) / 1e9;
    if (st != LK_EMISMATCH || strncmp(lk_error_message(), "mismatch: rank ", 15) != 0)
        TEST_FAIL("%s x %d: %s: %s", m->kind, count, lk_status_text(st), lk_error_message());
    expect_text(m, count, m->mine, true);
    expect_text(m, count, m->others, false);
    if (seconds > (deadline + 2) * TEST_SLOWNESS)
        TEST_FAIL("%s x %d: named after %.1f s", m->kind, count, seconds);
    /* From now on every call returns it. */
    ASSERT_EQ(lk_barrier(comm, "after"), LK_EMISMATCH);
    lk_error_clear();
    lk_free(data);
}

/* Rank 0 expects another dtype than rank 1 sends, or fewer elements. */
static void message_is_named(lk_comm *comm, int count, bool dtype)
{
    float *x;
    char want[200];
    ASSERT_OK(lk_alloc_zero(&x, LARGE, sizeof *x));
    ASSERT_OK(lk_comm_set_deadline(comm, deadline));
    int64_t start = lk_clock_ns();
    lk_status st = lk_barrier(comm, "all are there"); /* some are quick to leave it, and fail */
    if (st == LK_OK && lk_comm_rank(comm) == 0)
        st = lk_recv(comm, x, dtype ? count : count - 1, dtype ? LK_I32 : LK_F32, 1, 7, "in", NULL);
    else if (st == LK_OK && lk_comm_rank(comm) == 1)
        st = lk_send(comm, x, count, LK_F32, 0, 7, "out");
    if (st == LK_OK)
        st = lk_barrier(comm, "end");
    snprintf(
        want, sizeof want,
        "mismatch: rank 0 calls recv(\"in\", %s x %d, tag 7) but rank 1 calls send(\"out\", f32 "
        "x %d, tag 7)",
        dtype ? "i32" : "f32", dtype ? count : count - 1, count);
    ASSERT_FAILS(st, LK_EMISMATCH, want);
    ASSERT_TRUE((double)(lk_clock_ns() - start) / 1e9 < (deadline + 2) * TEST_SLOWNESS);
    lk_free(x);
}

/* A rank that tests, and never waits, has the same deadline. */
static void testing_has_a_deadline(lk_comm *comm)
{
    lk_request *r;
    float x;
    ASSERT_OK(lk_comm_set_deadline(comm, deadline));
    ASSERT_OK(lk_irecv(comm, &x, 1, LK_F32, lk_comm_rank(comm), 3, "never", &r));
    int64_t start = lk_clock_ns();
    lk_status st = LK_OK;
    for (bool done = false; !done;)
        st = lk_test(&r, &done, NULL);
    ASSERT_EQ(st, LK_ESTALL);
    ASSERT_TRUE(!r && strstr(lk_error_message(), "in recv(\"never\") for rank"));
    ASSERT_TRUE((double)(lk_clock_ns() - start) / 1e9 < (deadline + 2) * TEST_SLOWNESS);
    lk_error_clear();
}

static bool has_fault(const lk_comm *comm)
{
    return atomic_load(&comm->w->fault->state) == 2;
}

/* A rank leaves, or computes on: the others wait in vain, at once or until the deadline. */
static void absence_is_named(lk_comm *comm, bool leaves)
{
    float x[4] = {0};
    int rank = lk_comm_rank(comm);
    /* Ranks of other processes' nodes answer as long as they wait; of others the host is named. */
    bool seen = strcmp(lk_comm_transport(comm), "local") == 0 || lk_comm_nodes(comm) == 1;
    ASSERT_OK(lk_comm_set_deadline(comm, leaves && seen ? 60 : deadline));
    for (int i = 0; i < 3; i++)
        ASSERT_OK(lk_allreduce(comm, NULL, x, 4, LK_F32, LK_REDUCE_SUM, "warmup"));
    int64_t start = lk_clock_ns();
    if (rank == 1 && leaves)
        return;
    /* rank 1 computes until the others have given up, which it sees if they are on its node */
    const int64_t longest = (int64_t)((deadline + 1) * 1e9 * TEST_SLOWNESS);
    while (rank == 1 && lk_clock_ns() - start < longest && !(seen && has_fault(comm)))
        usleep(10000);
    char want[200];
    snprintf(want, sizeof want, "rank 1, which %s after allreduce(\"warmup\") #3",
             leaves ? "left" : "computes");
    if (!seen && lk_comm_nodes(comm) == lk_comm_size(comm))
        snprintf(want, sizeof want, "for rank 1 on host \"");
    else if (!seen) /* it is a neighbour of some, who may be the first to tell */
        snprintf(want, sizeof want, "for rank 1");
    ASSERT_FAILS(lk_allreduce(comm, NULL, x, 4, LK_F32, LK_REDUCE_SUM, "aux"), LK_ESTALL, want);
    ASSERT_TRUE((double)(lk_clock_ns() - start) / 1e9 < (deadline + 3) * TEST_SLOWNESS);
}

/* All but rank 0 leave: it need not wait for any of them until the deadline. */
static void nobody_is_left(lk_comm *comm)
{
    float x;
    bool seen = strcmp(lk_comm_transport(comm), "local") == 0 || lk_comm_nodes(comm) == 1;
    ASSERT_OK(lk_comm_set_deadline(comm, 60));
    int64_t start = lk_clock_ns();
    if (lk_comm_rank(comm) > 0 || !seen)
        return;
    ASSERT_FAILS(lk_recv(comm, &x, 1, LK_F32, LK_ANY_RANK, 0, "never", NULL), LK_ESTALL,
                 "for any rank, and all others left");
    ASSERT_TRUE((double)(lk_clock_ns() - start) / 1e9 < (deadline + 3) * TEST_SLOWNESS);
}

/* Rank 1 fails at what concerns nobody else, and the program does not handle it. */
static void failure_is_told(lk_comm *comm)
{
    char *printed = NULL, want[64];
    size_t bytes;
    float x[4] = {0};
    ASSERT_OK(lk_comm_set_deadline(comm, 60));
    lk_status st = lk_allreduce(comm, NULL, x, 4, LK_F32, LK_REDUCE_SUM, "warmup"); /* or here */
    int64_t start = lk_clock_ns();
    if (lk_comm_rank(comm) == 1) {
        FILE *errors = open_memstream(&printed, &bytes);
        ASSERT_EQ(LK_RAISE(LK_EIO, "there is no sample 7"), LK_EIO);
        ASSERT_EQ(lk_comm_fail(comm, errors), 1);
        ASSERT_EQ(lk_error_status(), LK_OK);
        ASSERT_EQ(fclose(errors), 0);
        snprintf(want, sizeof want, "rank 1 of %d on host \"", lk_comm_size(comm));
        ASSERT_TRUE(strncmp(printed, want, strlen(want)) == 0);
        ASSERT_TRUE(
            strstr(printed, "\" failed\nerror: input/output error: there is no sample 7\n"));
        ASSERT_TRUE(strstr(printed, "  #0 failure_is_told ("));
        free(printed);
    }
    if (st == LK_OK)
        st = lk_allreduce(comm, NULL, x, 4, LK_F32, LK_REDUCE_SUM, "aux");
    ASSERT_FAILS(st, LK_ECOMM, "rank 1 failed: input/output error: there is no sample 7");
    ASSERT_TRUE((double)(lk_clock_ns() - start) / 1e9 < 3 * TEST_SLOWNESS);
    /* Who passes it on, or gives up after it, changes nothing. */
    ASSERT_EQ(lk_comm_fail(comm, NULL), 1);
    ASSERT_FAILS(lk_barrier(comm, "after"), LK_ECOMM, "rank 1 failed: input/output error");
}

/* One case, on a world of its own: what goes wrong is the end of it. */
struct fault_case {
    const struct mistake *mistake; /* NULL: absence */
    int count;
    bool leaves, tests, alone, gives_up;
    char message; /* 'd': another dtype, 'c': count */
};

static lk_status run_case(lk_comm *comm, void *arg)
{
    const struct fault_case *f = arg;
    if (lk_comm_size(comm) == 1)
        return LK_OK;
    if (f->message)
        message_is_named(comm, f->count, f->message == 'd');
    else if (f->alone)
        nobody_is_left(comm);
    else if (f->gives_up)
        failure_is_told(comm);
    else if (f->tests)
        testing_has_a_deadline(comm);
    else if (f->mistake)
        mistake_is_named(comm, f->mistake, f->count);
    else
        absence_is_named(comm, f->leaves);
    return LK_OK;
}

static void run(struct fault_case f, const char *transport)
{
    alarm(4 * TEST_TIMEOUT_S);
    for (int n = 2; n <= 4 && !transport; n++)
        ASSERT_OK(lk_run_local(n, run_case, &f));
    if (transport) {
        lk_comm *comm;
        ASSERT_OK(lk_comm_open(transport, &comm));
        ASSERT_OK(run_case(comm, &f));
        lk_comm_close(comm);
    }
}

/* Rank 1 stops being there; the others say what they know of it. */
static int end_badly(const char *how)
{
    lk_comm *comm;
    float x[4] = {0};
    signal(SIGUSR1, SIG_IGN); /* MPICH's launcher says so that a process has ended */
    ASSERT_OK(lk_comm_open("mpi", &comm));
    ASSERT_OK(lk_comm_set_deadline(comm, 1));
    for (int i = 0; i < 3; i++)
        ASSERT_OK(lk_allreduce(comm, NULL, x, 4, LK_F32, LK_REDUCE_SUM, "warmup"));
    if (lk_comm_rank(comm) == 1 && strcmp(how, "exit") == 0)
        _exit(0);
    if (lk_comm_rank(comm) == 1)
        raise(strcmp(how, "stop") == 0 ? SIGSTOP : SIGKILL);
    int64_t start = lk_clock_ns();
    lk_status st = lk_allreduce(comm, NULL, x, 4, LK_F32, LK_REDUCE_SUM, "aux");
    printf("%s after %.1f s: %s\n", lk_status_text(st), (double)(lk_clock_ns() - start) / 1e9,
           lk_error_message());
    fflush(stdout);
    lk_comm_close(comm);
    usleep(500000); /* the other one speaks too */
    _exit(1);       /* the launcher ends whoever is left */
}

int main(int argc, char **argv)
{
    const char *transport = getenv("TEST_TRANSPORT");
    signal(SIGALRM, test_on_alarm);
    if (argc > 1)
        return end_badly(argv[1]);
    lk_comm *base = NULL; /* keeps MPI running */
    if (transport)
        ASSERT_OK(lk_comm_open(transport, &base));
    for (int i = 0; i < N_MISTAKES; i++) {
        test_current = mistakes[i].kind;
        run((struct fault_case){.mistake = &mistakes[i], .count = SMALL}, transport);
        run((struct fault_case){.mistake = &mistakes[i], .count = LARGE}, transport);
    }
    test_current = "message";
    for (const char *k = "dc"; *k; k++) {
        run((struct fault_case){.message = *k, .count = SMALL}, transport);
        run((struct fault_case){.message = *k, .count = LARGE}, transport);
    }
    test_current = "absence";
    run((struct fault_case){.leaves = true}, transport);
    run((struct fault_case){.leaves = false}, transport);
    run((struct fault_case){.tests = true}, transport);
    run((struct fault_case){.alone = true}, transport);
    run((struct fault_case){.gives_up = true}, transport);
    if (!base || lk_comm_rank(base) == 0)
        printf("ok mistakes_and_absence_are_named\n");
    lk_comm_close(base);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
    return 0;
}
