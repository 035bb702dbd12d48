/* Ranks on simulated hosts, one each, that train on tiles: what goes through each host's interface is what
 * was planned, within a tenth.
 *
 *     tiles STEPS FILE [SETTING...]      every rank prints what it was to send and get in so many steps,
 *                                        what the kernel counted at eth0, and their ratio
 *
 * Planned are fetches and changes of domain, by the plan; other collective calls by the formulas of the
 * algorithms that were chosen.  The payload that the transport is given is compared exactly; at the
 * interface there are headers of TCP and MPI, labels of messages and acknowledgements besides.  All is
 * counted from a barrier behind two steps to one behind the last, so no start is in it.
 */
#include "dist/made_calls.h"
#include "dist/planned_bytes.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/trainer_plan.h>
#include <lockstep/train.h>

typedef struct passed {
    int64_t sent, got;
} passed;

/* What the interface of this process's namespace has passed so far: got first, sent in the 9th column. */
static passed interface_now(void)
{
    FILE *f = fopen("/proc/net/dev", "r");
    char line[512];
    long long number[9];
    passed out = {-1, -1};
    ASSERT_TRUE(f != NULL);
    while (fgets(line, sizeof line, f)) {
        char *at = strstr(line, "eth0:");
        for (int i = 0; at && i < 9; i++) {
            at += i == 0 ? strlen("eth0:") : 0;
            number[i] = strtoll(at, &at, 10);
        }
        if (at)
            out = (passed){number[8], number[0]};
    }
    fclose(f);
    ASSERT_TRUE(out.sent >= 0);
    return out;
}

static int64_t fetches_get(const lk_plan *p)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < p->n_layers; i++)
        sum += p->layer[i].get_x_bytes + p->layer[i].get_dy_bytes;
    return sum;
}

/* What was to pass in the steps whose calls were counted. */
static passed planned_to_pass(const lk_plan *plan, int64_t steps, int n_calls, passed *calls)
{
    planned want = planned_of(plan);
    passed out = {steps * (want.fetched + want.moved), steps * fetches_get(plan)};
    *calls = (passed){0, 0};
    ASSERT_EQ(n_calls, steps * want.calls);
    for (int i = 0; i < n_calls; i++) {
        const formula_call *c = &made[i].as;
        bool halves = made[i].sent != formula_bytes(c, true, false);
        ASSERT_TRUE(made_as_formula(&made[i]));
        if (c->call != LK_CALL_ALLTOALL) {
            calls->sent += formula_bytes(c, true, halves);
            calls->got += formula_bytes(c, false, halves);
        } else {
            out.got += formula_bytes(c, false, false);
        }
    }
    out.sent += calls->sent;
    out.got += calls->got;
    return out;
}

static void compare(const char *host, const char *what, int64_t counted, int64_t was_planned,
                    int64_t of_calls)
{
    double ratio = (double)counted / (double)was_planned;
    printf("%s %s %lld bytes, planned %lld (%lld of them by collectives), ratio %.4f\n", host, what,
           (long long)counted, (long long)was_planned, (long long)of_calls, ratio);
    fflush(stdout);
    if (!(ratio >= 1 && ratio <= 1.1))
        TEST_FAIL("%s %s: not within a tenth", host, what);
}

static void train(lk_comm *comm, lk_trainer *t, int64_t steps)
{
    char host[64] = "";
    sent_bytes payload;
    passed calls;
    for (int i = 0; i < 2; i++)
        ASSERT_OK(lk_trainer_step(t, NULL));
    ASSERT_OK(lk_barrier(comm, "begin"));
    passed before = interface_now();
    made_begin(comm);
    for (int64_t i = 0; i < steps; i++)
        ASSERT_OK(lk_trainer_step(t, NULL));
    int n = made_end(comm, &payload);
    ASSERT_OK(lk_barrier(comm, "end"));
    passed after = interface_now();
    passed want = planned_to_pass(lk_trainer_plan(t), steps, n, &calls);
    ASSERT_EQ(payload.all, want.sent);
    ASSERT_EQ(gethostname(host, sizeof host - 1), 0);
    compare(host, "sent", after.sent - before.sent, want.sent, calls.sent);
    compare(host, "got", after.got - before.got, want.got, calls.got);
}

/* MPICH over TCP by UCX may not return from MPI_Finalize() between hosts, whatever the program: one rank
 * closes what others serve no more. */
static bool stays_in_finalize(void)
{
    const char *mpi = getenv("LK_MPI");
    fflush(stdout);
    return mpi && strcmp(mpi, "mpich") == 0;
}

int main(int argc, char **argv)
{
    lk_comm *comm = NULL;
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    signal(SIGALRM, test_on_alarm);
    alarm(120);
    ASSERT_TRUE(argc >= 3);
    ASSERT_OK(lk_comm_open("mpi", &comm));
    ASSERT_EQ(lk_comm_nodes(comm), lk_comm_size(comm));
    ASSERT_OK(lk_experiment_read(argv[2], (const char *const *)argv + 3, argc - 3, &e));
    ASSERT_OK(lk_job_new(e, comm, &job));
    train(comm, lk_job_trainer(job), atoll(argv[1]));
    lk_job_free(job);
    lk_experiment_free(e);
    ASSERT_OK(lk_barrier(comm, "compared"));
    if (stays_in_finalize())
        _exit(0);
    lk_comm_close(comm);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
    return 0;
}
