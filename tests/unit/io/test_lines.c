/* JSON lines: exact texts, numbers that read back, files that go on. */
#include "base/storage/storage.h"
#include "data_files.h"
#include "faults.h"

#include <lockstep/io.h>

#include <errno.h>
#include <float.h>
#include <sys/resource.h>

static void expect_json(const lk_kv *fact, int64_t n, const char *want)
{
    lk_arena *arena;
    const char *got;
    ASSERT_OK(lk_arena_new(&arena));
    ASSERT_OK(lk_kvs_json(fact, n, arena, &got));
    if (strcmp(got, want) != 0)
        TEST_FAIL("%s, not %s", got, want);
    lk_arena_free(arena);
}

TEST(facts_are_an_object)
{
    const lk_kv facts[] = {
        lk_kv_int("epoch", 3),         lk_kv_real("loss", 0.1),
        lk_kv_text("name", "a\"b\n<"), lk_kv_json_value("table", "[[1,2],[3,4]]"),
        lk_kv_int("least", INT64_MIN), lk_kv_real("k\xc3\xa9", 1)};
    expect_json(facts, 6,
                "{\"epoch\": 3, \"loss\": 0.1, \"name\": \"a\\\"b\\u000a<\", \"table\": "
                "[[1,2],[3,4]], \"least\": -9223372036854775808, \"k\xc3\xa9\": 1}");
    expect_json(NULL, 0, "{}");
}

TEST(numbers_have_as_many_digits_as_they_need)
{
    static const struct {
        double value;
        const char *text;
    } cases[] = {{0, "0"},
                 {-0.0, "-0"},
                 {0.5, "0.5"},
                 {1.0 / 3, "0.3333333333333333"},
                 {0.1 + 0.2, "0.30000000000000004"},
                 {100000, "100000"},
                 {1e15, "1e+15"},
                 {123456.789, "123456.789"},
                 {DBL_MAX, "1.7976931348623157e+308"},
                 {5e-324, "5e-324"},
                 {(double)NAN, "null"},
                 {(double)INFINITY, "null"},
                 {-(double)INFINITY, "null"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char want[64];
        lk_kv fact = lk_kv_real("x", cases[i].value);
        snprintf(want, sizeof want, "{\"x\": %s}", cases[i].text);
        expect_json(&fact, 1, want);
    }
}

TEST(every_line_is_in_the_file_when_the_call_returns)
{
    const char *path = test_path("metrics.jsonl");
    lk_jsonl *l;
    ASSERT_OK(lk_jsonl_open(path, false, &l));
    test_expect_file(path, "", 0);
    for (int i = 0; i < 2; i++) {
        lk_kv fact = lk_kv_int("epoch", i);
        ASSERT_OK(lk_jsonl_add(l, &fact, 1));
        test_expect_file(path, "{\"epoch\": 0}\n{\"epoch\": 1}\n", (size_t)(13 * (i + 1)));
    }
    int64_t calls = lk_alloc_stats_now().calls;
    lk_kv fact = lk_kv_int("epoch", 2);
    ASSERT_OK(lk_jsonl_add(l, &fact, 1));
    ASSERT_EQ(lk_alloc_stats_now().calls, calls);
    ASSERT_OK(lk_jsonl_close(l));
    ASSERT_OK(lk_jsonl_close(NULL));
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

static void append(const char *path, bool go_on)
{
    lk_jsonl *l;
    lk_kv fact = lk_kv_int("n", 1);
    ASSERT_OK(lk_jsonl_open(path, go_on, &l));
    ASSERT_OK(lk_jsonl_add(l, &fact, 1));
    ASSERT_OK(lk_jsonl_close(l));
}

TEST(a_file_goes_on_behind_its_last_whole_line)
{
    const char *path = test_path("cut");
    append(path, true); /* there is none yet */
    test_expect_file(path, "{\"n\": 1}\n", 9);
    append(path, true);
    test_expect_file(path, "{\"n\": 1}\n{\"n\": 1}\n", 18);
    test_write("cut", "{\"n\": 1}\n{\"n", 12);
    append(path, true);
    test_expect_file(path, "{\"n\": 1}\n{\"n\": 1}\n", 18);
    test_write("cut", "{\"n", 3);
    append(path, true);
    test_expect_file(path, "{\"n\": 1}\n", 9);
    append(path, false); /* begins anew */
    test_expect_file(path, "{\"n\": 1}\n", 9);
    /* A last line longer than what is looked at in one go, on either side of the limit. */
    for (size_t n = 4090; n < 4102; n++) {
        char *long_line = malloc(n + 9);
        memset(long_line, 'x', n);
        long_line[2] = '\n';
        test_write("cut", long_line, n);
        append(path, true);
        memcpy(long_line + 3, "{\"n\": 1}\n", 9);
        test_expect_file(path, long_line, 12);
        free(long_line);
    }
}

TEST(misuse_is_refused)
{
    const char *path = test_path("misuse");
    lk_jsonl *l;
    ASSERT_FAILS(lk_jsonl_open(NULL, false, &l), LK_EINVAL, "path is NULL");
    ASSERT_FAILS(lk_jsonl_open("/nowhere/m", true, &l), LK_EIO, "/nowhere/m: cannot be written");
    ASSERT_FAILS(lk_jsonl_open(test_folder(), false, &l), LK_EIO, "cannot be written");
    ASSERT_OK(lk_jsonl_open(path, false, &l));
    lk_kv wrong[] = {lk_kv_json_value("j", "[1,\n2]"), lk_kv_text("t", NULL), lk_kv_int(NULL, 1)};
    ASSERT_FAILS(lk_jsonl_add(l, &wrong[0], 1), LK_EINVAL,
                 "the JSON of \"j\" has more than one line");
    ASSERT_FAILS(lk_jsonl_add(l, &wrong[1], 1), LK_EINVAL, "kv 0 or its name is NULL");
    ASSERT_FAILS(lk_jsonl_add(l, &wrong[2], 1), LK_EINVAL, "kv 0 or its name is NULL");
    test_expect_file(path, "", 0);
    ASSERT_OK(lk_jsonl_close(l));
}

/* A disk that is full, as far as this process sees. */
TEST(a_line_that_does_not_fit_leaves_nothing_and_comes_before_the_next)
{
    struct rlimit before, small;
    lk_jsonl *l;
    lk_kv fact = lk_kv_int("epoch", 0);
    const char *path = test_path("full");
    ASSERT_OK(lk_jsonl_open(path, false, &l));
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_IGN);
    small = (struct rlimit){.rlim_cur = 20, .rlim_max = before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    ASSERT_OK(lk_jsonl_add(l, &fact, 1));
    fact.integer = 1;
    ASSERT_FAILS(lk_jsonl_add(l, &fact, 1), LK_EIO, "full: cannot be written at offset ");
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    test_expect_file(path, "{\"epoch\": 0}\n", 13);
    fact.integer = 2;
    ASSERT_OK(lk_jsonl_add(l, &fact, 1));
    test_expect_file(path, "{\"epoch\": 0}\n{\"epoch\": 1}\n{\"epoch\": 2}\n", 39);
    ASSERT_OK(lk_jsonl_close(l));
}

TEST(lines_that_never_fit_fail_at_the_end)
{
    lk_jsonl *l;
    lk_kv fact = lk_kv_int("epoch", 7);
    const char *path = test_path("never");
    ASSERT_OK(lk_jsonl_open(path, false, &l));
    lk__storage_fail(LK__STORAGE_WRITE, 1, ENOSPC, true);
    ASSERT_FAILS(lk_jsonl_add(l, &fact, 1), LK_EIO, "No space left on device");
    ASSERT_FAILS(lk_jsonl_close(l), LK_EIO, "never: cannot be written at offset 0: No space left");
    lk__storage_fail(LK__STORAGE_WRITE, 0, 0, false);
    test_expect_file(path, "", 0);

    ASSERT_OK(lk_jsonl_open(path, false, &l)); /* kept until the end, and then there is room */
    lk__storage_fail(LK__STORAGE_WRITE, 1, EIO, false);
    ASSERT_FAILS(lk_jsonl_add(l, &fact, 1), LK_EIO, "Input/output error");
    ASSERT_OK(lk_jsonl_close(l));
    test_expect_file(path, "{\"epoch\": 7}\n", 13);
}

static lk_status write_lines(void)
{
    lk_jsonl *l = NULL;
    lk_kv fact = lk_kv_real("x", 0.5);
    LK_TRY(lk_jsonl_open(test_path("faults"), true, &l));
    lk_status st = lk_jsonl_add(l, &fact, 1);
    lk_status closed = lk_jsonl_close(l);
    return st != LK_OK ? st : closed;
}

TEST(every_allocation_may_fail)
{
    ASSERT_TRUE(test_every_allocation_fails(write_lines) > 2);
}
