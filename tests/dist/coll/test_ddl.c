/* DDL's interface: every mode against the tree, averages, groups, checks and their dump files. */
#include "ranks.h"

#include <lockstep/ddl.h>
#include <lockstep/log.h>

#include <dirent.h>
#include <sys/stat.h>

static float value_of(int rank, int64_t i)
{
    uint32_t x = (uint32_t)(rank * 7919 + i) * 2654435761U;
    x ^= x >> 15;
    return (float)((double)x / 4294967296.0 - 0.5) * (float)(1 << x % 13);
}

static bool on_mpi(lk_comm *comm)
{
    return strcmp(lk_comm_transport(comm), "mpi") == 0;
}

/* X x Y that hold the ranks: 2 x n/2, or n x 1. */
static const char *options_of(char letter, int size, char out[64])
{
    if (size % 2 == 0)
        snprintf(out, 64, "-mode %c:2x%d", letter, size / 2);
    else
        snprintf(out, 64, "-mode %c:%dx1", letter, size);
    return out;
}

static lk_ddl_tensor tensor_of(const char *name, float *x, int64_t n)
{
    return (lk_ddl_tensor){.name = name, .out = x, .count = n, .dtype = LK_F32};
}

RANKS_TEST(init_says_who_and_where)
{
    int size = lk_comm_size(comm);
    char options[64];
    lk_ddl *d;
    ASSERT_OK(lk_ddl_init(comm, size + 1, options_of('n', size, options), &d));
    lk_ddl_location p = lk_ddl_location_of(d);
    ASSERT_EQ(p.rank, lk_comm_rank(comm));
    ASSERT_EQ(p.size, size);
    ASSERT_EQ(p.local_rank, lk_comm_node_rank(comm));
    ASSERT_EQ(p.local_size, lk_comm_node_size(comm));
    ASSERT_EQ(p.device, p.local_rank);
    ASSERT_EQ(p.n_devices, size + 1);
    ASSERT_TRUE(p.cores[0] >= '0' && p.cores[0] <= '9');
    lk_tier_spec m = lk_ddl_mode(d);
    ASSERT_EQ(m.algorithm, LK_TIER_NEAR);
    ASSERT_EQ(m.n_tiers, 2);
    lk_ddl_free(d);
}

RANKS_TEST(bad_options_are_refused_by_all)
{
    static const struct {
        const char *options, *says;
        lk_status st;
    } bad[] = {
        {"-mode b:97", "the dimensions 97 hold 97 ranks, but there are", LK_ESHAPE},
        {"-mode z:1", "no algorithm \"z\"", LK_EINVAL},
        {"-mode", "option -mode lacks its value", LK_EINVAL},
        {"-fast 1", "no option \"-fast\"; the options are -mode -dump_iter -dev_sync", LK_EINVAL},
        {"-dev_sync 3", "option -dev_sync is \"3\"; it must be a number from 0 to 2", LK_EINVAL},
        {"-dump_iter x", "option -dump_iter is \"x\"; it must be a number from 0 to", LK_EINVAL},
        {"-dump_iter -1", "option -dump_iter is \"-1\"", LK_EINVAL},
        {"-dbg_level 1 -dbg_level 1", "option -dbg_level is there twice", LK_EINVAL},
    };
    lk_ddl *d;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ASSERT_FAILS(lk_ddl_init(comm, 0, bad[i].options, &d), bad[i].st, bad[i].says);
    ASSERT_FAILS(lk_ddl_init(comm, -1, "", &d), LK_EINVAL, "-1 devices");
    if (lk_comm_size(comm) > 1)
        ASSERT_FAILS(lk_ddl_init(comm, 1, "", &d), LK_EINVAL, "which has 1 devices");
    if (!on_mpi(comm))
        ASSERT_FAILS(lk_ddl_init(comm, 0, "-mode m", &d), LK_ENOTSUP, "MPI processes");
}

RANKS_TEST(bcast_is_from_rank_0)
{
    lk_ddl *d;
    float x[3] = {(float)lk_comm_rank(comm), 1, 2};
    ASSERT_OK(lk_ddl_init(comm, 0, "", &d));
    lk_ddl_tensor t = tensor_of("w", x, 3);
    ASSERT_OK(lk_ddl_bcast(d, &t));
    ASSERT_TRUE(x[0] == 0 && x[2] == 2);
    lk_ddl_free(d);
}

/* DDL refuses to be initialised twice.  Calls of the two do not meet. */
RANKS_TEST(initialising_twice_makes_two)
{
    lk_ddl *first, *second;
    int size = lk_comm_size(comm);
    float x = 1, y = 2;
    lk_ddl_tensor t[2] = {tensor_of("x", &x, 1), tensor_of("y", &y, 1)};
    ASSERT_OK(lk_ddl_init(comm, 0, "-mode n", &first));
    ASSERT_OK(lk_ddl_init(comm, 0, "-mode c", &second));
    ASSERT_OK(lk_ddl_allreduce(second, &t[1], &(lk_ddl_allreduce_options){.op = LK_REDUCE_SUM}));
    ASSERT_OK(lk_ddl_allreduce(first, &t[0], &(lk_ddl_allreduce_options){.op = LK_REDUCE_SUM}));
    ASSERT_TRUE(x == (float)size && y == (float)(2 * size));
    ASSERT_EQ(lk_ddl_mode(second).algorithm, LK_TIER_CUT);
    lk_ddl_free(first);
    ASSERT_OK(lk_ddl_bcast(second, &t[1]));
    lk_ddl_free(second);
}

/* DDL_TYPE_HALF: 2048, and a one of each other rank.  In f16 the ones would be lost one by one; in f32 they are
 * not, and the sum is rounded once. */
RANKS_TEST(halves_are_summed_in_f32)
{
    lk_ddl *d;
    int ones = lk_comm_size(comm) - 1;
    /* From 2048 on numbers are 2 apart, and one in the middle is rounded to the even one. */
    int steps = ones / 2 + (ones % 2 == 1 && ones / 2 % 2 == 1);
    uint16_t x = lk_comm_rank(comm) == 0 ? 0x6800 : 0x3c00;
    lk_ddl_tensor t = {"x", NULL, &x, 1, LK_F16};
    ASSERT_OK(lk_ddl_init(comm, 0, "", &d));
    ASSERT_OK(lk_ddl_allreduce(d, &t, &(lk_ddl_allreduce_options){.op = LK_REDUCE_SUM}));
    ASSERT_EQ(x, 0x6800 + steps);
    lk_ddl_free(d);
}

/* What lies in `out` before is of no account, and `in` stays as it is. */
RANKS_TEST(bcast_sends_in_where_it_is_given)
{
    lk_ddl *d;
    float rank = (float)lk_comm_rank(comm);
    float in[3] = {rank + 5, 1, 2}, out[3] = {rank - 9, rank - 9, rank - 9};
    ASSERT_OK(lk_ddl_init(comm, 0, "", &d));
    lk_ddl_tensor t = tensor_of("w", out, 3);
    t.in = in;
    ASSERT_OK(lk_ddl_bcast(d, &t));
    ASSERT_TRUE(out[0] == 5 && out[1] == 1 && out[2] == 2);
    ASSERT_TRUE(in[0] == rank + 5);
    t.in = out;
    out[0] = rank + 7;
    ASSERT_OK(lk_ddl_bcast(d, &t));
    ASSERT_TRUE(out[0] == 7 && out[1] == 1);
    t.out = NULL;
    ASSERT_FAILS(lk_ddl_bcast(d, &t), LK_EINVAL, "tensor \"w\": 3 elements at");
    lk_ddl_free(d);
}

/* The same array as input and output is in place, one by one and in a group. */
RANKS_TEST(an_input_that_is_the_output_is_in_place)
{
    lk_ddl *d;
    int size = lk_comm_size(comm);
    float x[2][3];
    ASSERT_OK(lk_ddl_init(comm, 0, "", &d));
    for (int n = 1; n <= 2; n++) {
        lk_ddl_tensor t[2] = {tensor_of("a", x[0], 3), tensor_of("b", x[1], 3)};
        for (int i = 0; i < 6; i++)
            x[i / 3][i % 3] = (float)i;
        t[0].in = x[0];
        t[1].in = x[1];
        ASSERT_OK(lk_ddl_allreduce_n(d, n, t, &(lk_ddl_allreduce_options){.op = LK_REDUCE_SUM}));
        for (int i = 0; i < 3 * n; i++)
            ASSERT_TRUE(x[i / 3][i % 3] == (float)(i * size));
    }
    lk_ddl_free(d);
}

/* The canonical modes give the bits of lk_allreduce(), again and again; r and m are close. */
RANKS_TEST(every_mode_sums)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    static const char letters[] = "bncprm";
    static const int64_t counts[] = {0, 1, 7, 1009, 30011};
    static _Thread_local float in[30011], out[30011], want[30011];
    for (int l = 0; l < 6; l++) {
        if (letters[l] == 'm' && !on_mpi(comm))
            continue;
        lk_ddl *d;
        char options[64];
        ASSERT_OK(lk_ddl_init(comm, 0, options_of(letters[l], size, options), &d));
        for (int k = 0; k < 5; k++) {
            int64_t n = counts[k];
            for (int64_t i = 0; i < n; i++)
                in[i] = value_of(rank, i);
            ASSERT_OK(lk_allreduce(comm, in, want, n, LK_F32, LK_REDUCE_AVG, "want"));
            for (int again = 0; again < 8; again++) {
                lk_ddl_tensor t = {"x", in, out, n, LK_F32};
                memset(out, 0xff, sizeof out);
                ASSERT_OK(
                    lk_ddl_allreduce(d, &t, &(lk_ddl_allreduce_options){.op = LK_REDUCE_AVG}));
                for (int64_t i = 0; i < n && l >= 4; i++)
                    ASSERT_NEAR(out[i], want[i], 2e-3);
                if (l < 4)
                    ASSERT_SAME_BITS(out, want, n * 4);
            }
        }
        ASSERT_EQ(lk_ddl_times_of(d).calls, 40);
        lk_ddl_free(d);
    }
}

RANKS_TEST(groups_change_no_bit)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    enum { N = 7 };
    static const int64_t counts[N] = {5, 0, 300000, 17, 64, 1, 1100000};
    static const lk_dtype dtypes[N] = {LK_F32, LK_F32, LK_F32, LK_F32, LK_F64, LK_F64, LK_F32};
    lk_ddl_tensor t[N];
    void *want[N];
    lk_ddl *d;
    char options[64];
    ASSERT_OK(lk_ddl_init(comm, 0, options_of('b', size, options), &d));
    for (int k = 0; k < N; k++) {
        void *x;
        size_t bytes = lk_dtype_size(dtypes[k]);
        ASSERT_OK(lk_alloc(&x, counts[k], bytes));
        ASSERT_OK(lk_alloc(&want[k], counts[k], bytes));
        for (int64_t i = 0; i < counts[k]; i++)
            if (dtypes[k] == LK_F32)
                ((float *)x)[i] = value_of(rank + k, i);
            else
                ((double *)x)[i] = (double)value_of(rank + k, i) / 3;
        t[k] = (lk_ddl_tensor){"g", NULL, x, counts[k], dtypes[k]};
        ASSERT_OK(lk_allreduce(comm, x, want[k], counts[k], dtypes[k], LK_REDUCE_SUM, "want"));
    }
    ASSERT_OK(lk_ddl_allreduce_n(d, N, t, &(lk_ddl_allreduce_options){.op = LK_REDUCE_SUM}));
    ASSERT_EQ(lk_ddl_times_of(d).calls, 1);
    for (int k = 0; k < N; k++) {
        ASSERT_SAME_BITS(t[k].out, want[k], counts[k] * (int64_t)lk_dtype_size(dtypes[k]));
        lk_free(t[k].out);
        lk_free(want[k]);
    }
    lk_ddl_free(d);
}

/* The dump file that the last error names: its text.  Rank 0 removes it. */
static void dump_read(lk_comm *comm, char *text, size_t room)
{
    const char *at = strstr(lk_error_message(), "dump file ");
    char name[64];
    ASSERT_TRUE(at != NULL);
    snprintf(name, sizeof name, "%s", at + strlen("dump file "));
    FILE *f = fopen(name, "r");
    ASSERT_TRUE(f != NULL);
    struct stat info;
    ASSERT_EQ(fstat(fileno(f), &info), 0);
    ASSERT_EQ(info.st_mode & 0777, 0600);
    text[fread(text, 1, room - 1, f)] = '\0';
    fclose(f);
    lk_error_clear();
    ASSERT_OK(lk_barrier(comm, "read"));
    if (lk_comm_rank(comm) == 0)
        ASSERT_EQ(remove(name), 0);
}

RANKS_TEST(check_0_passes_in_canonical_modes)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    for (const char *letter = "bncp"; *letter; letter++) {
        lk_ddl *d;
        char options[64];
        float x[100];
        for (int i = 0; i < 100; i++)
            x[i] = value_of(rank, i);
        ASSERT_OK(lk_ddl_init(comm, 0, options_of(*letter, size, options), &d));
        lk_ddl_tensor t = tensor_of("w", x, 100);
        ASSERT_OK(lk_ddl_allreduce(d, &t, &(lk_ddl_allreduce_options){.check = true}));
        ASSERT_OK(
            lk_ddl_allreduce(d, &t, &(lk_ddl_allreduce_options){.check = true, .tolerance = 0.17}));
        lk_ddl_free(d);
    }
}

/* Ranks give 1e8, 1, -1e8, ...: a ring adds in another order than the tree. */
RANKS_TEST(a_check_that_fails_writes_a_dump)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    if (size < 3)
        return;
    lk_ddl *d;
    char options[64], text[4096];
    snprintf(options, sizeof options, "-mode r:%d", size);
    float x[64];
    for (int i = 0; i < 64; i++)
        x[i] = i < 20 ? 1 : rank == 0 ? 1e8F : rank == size - 1 ? -1e8F : (float)(rank + i);
    float gave = x[20];
    ASSERT_OK(lk_ddl_init(comm, 0, options, &d));
    lk_ddl_tensor t = tensor_of("fc1.weight", x, 64);
    lk_status st = lk_ddl_allreduce(d, &t, &(lk_ddl_allreduce_options){.check = true});
    ASSERT_EQ(st, LK_ECOMM);
    ASSERT_TRUE(strstr(lk_error_message(), "check: tensor \"fc1.weight\" index 2") != NULL);
    dump_read(comm, text, sizeof text);
    ASSERT_TRUE(strstr(text, "allreduce of tensor \"fc1.weight\", f32 x 64, sum, mode r:") != NULL);
    ASSERT_TRUE(strstr(text, "reference: the fixed tree, tolerance 0\n") != NULL);
    ASSERT_TRUE(strstr(text, "\nindex 2") != NULL);
    char line[64];
    snprintf(line, sizeof line, "\n  rank %d: gave %.17g got ", rank, (double)gave);
    if (rank == 0 || rank == size - 1)
        ASSERT_TRUE(strstr(text, line) != NULL);
    /* all ranks failed together: the next call works */
    lk_ddl_tensor small = tensor_of("b", x, 1);
    ASSERT_OK(
        lk_ddl_allreduce(d, &small, &(lk_ddl_allreduce_options){.check = true, .tolerance = 1e-5}));
    lk_ddl_free(d);
}

RANKS_TEST(a_nan_fails_a_check)
{
    lk_ddl *d;
    char text[4096];
    float x[2] = {1, lk_comm_rank(comm) == 0 ? NAN : 2};
    ASSERT_OK(lk_ddl_init(comm, 0, "", &d));
    lk_ddl_tensor t = tensor_of("loss", x, 2);
    ASSERT_EQ(
        lk_ddl_allreduce(d, &t, &(lk_ddl_allreduce_options){.check = true, .tolerance = 1000}),
        LK_ECOMM);
    ASSERT_TRUE(strstr(lk_error_message(), "tensor \"loss\" index 1 on rank 0: got ") != NULL);
    dump_read(comm, text, sizeof text);
    ASSERT_TRUE(strstr(text, "  rank 0: gave nan got nan reference ") != NULL);
    lk_ddl_free(d);
}

RANKS_TEST(mpi_is_the_baseline)
{
    int size = lk_comm_size(comm);
    lk_ddl *d;
    double x[3] = {1, 2, lk_comm_rank(comm)};
    lk_ddl_tensor t = {"x", NULL, x, 3, LK_F64};
    ASSERT_OK(lk_ddl_init(comm, 0, "", &d));
    lk_ddl_allreduce_options how = {
        .op = LK_REDUCE_AVG, .mpi = true, .check = true, .tolerance = 1e-12};
    if (!on_mpi(comm))
        ASSERT_FAILS(lk_ddl_allreduce(d, &t, &how), LK_ENOTSUP, "MPI processes");
    else {
        ASSERT_OK(lk_ddl_allreduce(d, &t, &how));
        ASSERT_TRUE(x[0] == 1 && x[1] == 2 && x[2] == (double)(size - 1) / 2);
    }
    lk_ddl_free(d);
}

/* Lines that a rank logged. */
struct lines {
    int n;
    char text[400];
};

static _Thread_local struct lines *mine;

static void sink(void *context, lk_log_level level, const char *line)
{
    (void)context;
    (void)level;
    if (!mine)
        return;
    mine->n++;
    size_t used = strlen(mine->text);
    snprintf(mine->text + used, sizeof mine->text - used, "%s\n", line);
}

RANKS_TEST(every_n_calls_rank_0_reports)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    struct lines lines = {0, ""};
    lk_ddl *d;
    char options[64], dump[96], want[64];
    ASSERT_OK(lk_barrier(comm, "before"));
    lk_log_set_sink(sink, NULL);
    mine = &lines;
    snprintf(dump, sizeof dump, "%s -dump_iter 3 -dev_sync 2", options_of('n', size, options));
    ASSERT_OK(lk_ddl_init(comm, 0, dump, &d));
    float x[8] = {0};
    lk_ddl_tensor t = tensor_of("x", x, 8);
    for (int i = 0; i < 5; i++)
        ASSERT_OK(lk_ddl_allreduce(d, &t, &(lk_ddl_allreduce_options){0}));
    ASSERT_EQ(lines.n, rank == 0 ? 2 : 0);
    if (rank == 0) {
        ASSERT_TRUE(strstr(lines.text, "ddl: calls to 3: slowest is rank ") != NULL);
        ASSERT_TRUE(strstr(lines.text, "; end to end ") != NULL);
        bool shared = size > 1 && lk_comm_nodes(comm) == 1;
        snprintf(want, sizeof want, "ddl: tiers: X %d %s ", size % 2 ? size : 2,
                 shared ? "shared" : "direct");
        ASSERT_TRUE(strstr(lines.text, want) != NULL);
        ASSERT_TRUE(lk_ddl_times_of(d).predicted >= 0);
    }
    mine = NULL;
    lk_ddl_free(d);
    ASSERT_OK(lk_barrier(comm, "after"));
    lk_log_set_sink(NULL, NULL);
    lk_log_set_level(LK_LOG_WARN);
}

/* What stderr of this process gets in between. */
static int capture_begin(FILE *to)
{
    fflush(stderr);
    int before = dup(STDERR_FILENO);
    ASSERT_TRUE(before >= 0 && dup2(fileno(to), STDERR_FILENO) >= 0);
    return before;
}

static void capture_end(int before)
{
    fflush(stderr);
    ASSERT_TRUE(dup2(before, STDERR_FILENO) >= 0);
    close(before);
}

/* Without a sink rank 0 prints; ranks that are threads have one stderr. */
RANKS_TEST(without_a_sink_rank_0_prints)
{
    int rank = lk_comm_rank(comm), before = -1;
    bool captures = rank == 0 || on_mpi(comm);
    char text[1000] = "";
    FILE *f = captures ? tmpfile() : NULL;
    float x[8] = {0};
    lk_ddl_tensor t = tensor_of("x", x, 8);
    lk_ddl *d;
    ASSERT_TRUE(f || !captures);
    if (captures)
        before = capture_begin(f);
    ASSERT_OK(lk_barrier(comm, "before"));
    ASSERT_OK(lk_ddl_init(comm, 0, "-mode n -dump_iter 2 -dbg_level 1", &d));
    for (int i = 0; i < 3; i++)
        ASSERT_OK(lk_ddl_allreduce(d, &t, &(lk_ddl_allreduce_options){0}));
    ASSERT_OK(lk_barrier(comm, "after"));
    lk_ddl_free(d);
    if (captures)
        capture_end(before);
    lk_log_set_level(LK_LOG_WARN);
    if (!captures)
        return;
    rewind(f);
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    ASSERT_EQ(n > 0, rank == 0);
    if (rank > 0)
        return;
    const char *dump = strstr(text, "ddl: calls to 2: slowest is rank ");
    ASSERT_TRUE(strncmp(text, "ddl: rank 0 of ", 15) == 0 && !strstr(text, "ddl: rank 1 of "));
    ASSERT_TRUE(dump && !strstr(dump + 1, "ddl: calls to"));
    ASSERT_TRUE(strstr(dump, "\nddl: tiers: ") && text[n - 1] == '\n');
}

RANKS_TEST(bad_calls_are_refused)
{
    lk_ddl *d;
    float x[2] = {1, 2};
    lk_ddl_tensor t = tensor_of("w", x, 2);
    ASSERT_OK(lk_ddl_init(comm, 0, "", &d));
    ASSERT_FAILS(lk_ddl_allreduce(d, &t, &(lk_ddl_allreduce_options){.op = LK_REDUCE_MAX}),
                 LK_EINVAL, "the operator is max; it must be sum or avg");
    ASSERT_FAILS(
        lk_ddl_allreduce(d, &t, &(lk_ddl_allreduce_options){.check = true, .tolerance = -1}),
        LK_EINVAL, "a tolerance of -1");
    t.count = -1;
    ASSERT_FAILS(lk_ddl_allreduce(d, &t, &(lk_ddl_allreduce_options){0}), LK_EINVAL,
                 "tensor 0 \"w\": -1 elements");
    t = (lk_ddl_tensor){"i", NULL, x, 2, LK_I32};
    ASSERT_FAILS(lk_ddl_allreduce(d, &t, &(lk_ddl_allreduce_options){.op = LK_REDUCE_AVG}),
                 LK_EDTYPE, "no avg of i32");
    ASSERT_FAILS(lk_ddl_allreduce(NULL, &t, &(lk_ddl_allreduce_options){0}), LK_EINVAL,
                 "ddl is NULL");
    lk_ddl_free(d);
}
