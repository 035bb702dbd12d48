/* Random programs that communicate, against their evaluation on one tape without communication.
 *
 *   test_programs [--count N] [--first SEED] [--ranks P]      local: P is 2 to 8, by the seed
 *   test_programs --seed SEED [--ranks P]                     one of them, printed
 *
 * A program that fails is made smaller, printed with its seed, and ends the test.  Under an MPI
 * launcher (TEST_TRANSPORT=mpi) the ranks are the job's.
 */
#include "harness.h"
#include "programs/programs.h"

#include <lockstep/extra/alloc.h>

static struct program program;
static const double deadline = 20 * TEST_SLOWNESS;

/* Print what is left of the program when it is made smaller, unless only the whole fails, and stop. */
static void fail(const char *why)
{
    static struct program whole;
    char small[512];
    whole = program;
    program_shrink(&program, &program_calls, 2);
    if (program_is_right(&program, &program_calls, deadline, small, sizeof small)) {
        program = whole;
        snprintf(small, sizeof small, "only the whole program fails, or only sometimes");
    }
    program_print(&program);
    fflush(stdout);
    TEST_FAIL("%s\n  made smaller: %s\n  replay: test_programs --seed %llu --ranks %d", why, small,
              (unsigned long long)whole.seed, whole.size);
}

static int ranks_of(uint64_t seed, int ranks)
{
    return ranks > 0 ? ranks : 2 + (int)(seed % (MAX_RANKS - 1));
}

static void local(uint64_t first, uint64_t count, int ranks)
{
    char why[512];
    for (uint64_t seed = first; seed < first + count; seed++) {
        alarm(10 * TEST_TIMEOUT_S);
        program_make(&program, seed, ranks_of(seed, ranks));
        if (!program_is_right(&program, &program_calls, deadline, why, sizeof why))
            fail(why);
    }
}

/* All ranks of the job make the same programs; each compares what is its own. */
static void job(uint64_t first, uint64_t count)
{
    static struct outcome expected;
    lk_comm *comm, *own;
    char why[512];
    ASSERT_OK(lk_comm_open("mpi", &comm));
    for (uint64_t seed = first; seed < first + count; seed++) {
        alarm(10 * TEST_TIMEOUT_S);
        program_make(&program, seed, lk_comm_size(comm));
        ASSERT_OK(program_reference(&program, &expected));
        ASSERT_OK(lk_comm_dup(comm, &own));
        ASSERT_OK(program_run(&program, own, &program_calls, &expected, why, sizeof why));
        lk_comm_close(own);
        if (why[0])
            TEST_FAIL("%s\n  mpirun -n %d test_programs --seed %llu", why, program.size,
                      (unsigned long long)seed);
    }
    lk_comm_close(comm);
}

struct arguments {
    uint64_t first, count;
    int ranks;
    bool one;
};

static struct arguments arguments_read(int argc, char **argv)
{
    struct arguments a = {.first = 1, .count = TEST_SLOWNESS > 1 ? 50 : 400};
    for (int i = 1; i + 1 < argc; i += 2) {
        uint64_t n = strtoull(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--first") == 0)
            a.first = n;
        else if (strcmp(argv[i], "--count") == 0)
            a.count = n;
        else if (strcmp(argv[i], "--ranks") == 0)
            a.ranks = (int)n;
        else if (strcmp(argv[i], "--seed") == 0)
            a = (struct arguments){.first = n, .count = 1, .ranks = a.ranks, .one = true};
        else
            TEST_FAIL("no option %s", argv[i]);
    }
    return a;
}

int main(int argc, char **argv)
{
    test_current = "random_programs_are_right";
    signal(SIGALRM, test_on_alarm);
    struct arguments a = arguments_read(argc, argv);
    if (a.one) {
        program_make(&program, a.first, ranks_of(a.first, a.ranks));
        program_print(&program);
        fflush(stdout);
    }
    if (getenv("TEST_TRANSPORT"))
        job(a.first, a.count > 50 ? 50 : a.count);
    else
        local(a.first, a.count, a.ranks);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
    printf("ok %s\n", test_current);
    return 0;
}
