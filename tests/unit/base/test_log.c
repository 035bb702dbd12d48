/* The log: nothing without a sink, one clean line with one. */
#include "harness.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/log.h>

#include <pthread.h>

static char last_line[2048];
static lk_log_level last_level;
static int n_lines, n_inside;

static void remember(void *context, lk_log_level level, const char *line)
{
    (void)context;
    snprintf(last_line, sizeof last_line, "%s", line);
    last_level = level;
    n_lines++;
}

static void start(lk_log_level level)
{
    n_lines = 0;
    last_line[0] = '\0';
    lk_log_set_sink(remember, NULL);
    lk_log_set_level(level);
    ASSERT_OK(lk_log_set_rank(0, 0));
    ASSERT_OK(lk_log_set_thread_rank(0, 0));
}

TEST(without_a_sink_nothing_happens)
{
    lk_log_set_sink(NULL, NULL);
    lk_log_set_level(LK_LOG_DEBUG);
    ASSERT_TRUE(!lk_log_is_enabled(LK_LOG_ERROR));
    lk_log_write(LK_LOG_ERROR, "into the void %d", 1);
}

TEST(messages_of_more_detail_are_dropped)
{
    start(LK_LOG_WARN);
    ASSERT_EQ(lk_log_level_now(), LK_LOG_WARN);
    lk_log_write(LK_LOG_INFO, "no");
    ASSERT_EQ(n_lines, 0);
    lk_log_write(LK_LOG_WARN, "%s and %d", "yes", 2);
    ASSERT_EQ(n_lines, 1);
    ASSERT_EQ(last_level, LK_LOG_WARN);
    ASSERT_TRUE(strcmp(last_line, "yes and 2") == 0);
    lk_log_set_level(LK_LOG_OFF);
    lk_log_write(LK_LOG_ERROR, "no");
    lk_log_write(LK_LOG_OFF, "no");
    ASSERT_EQ(n_lines, 1);
}

TEST(the_rank_is_a_prefix)
{
    start(LK_LOG_INFO);
    ASSERT_OK(lk_log_set_rank(3, 16));
    lk_log_write(LK_LOG_INFO, "hello");
    ASSERT_TRUE(strcmp(last_line, "[3/16] hello") == 0);
    ASSERT_OK(lk_log_set_thread_rank(1, 2));
    lk_log_write(LK_LOG_INFO, "hello");
    ASSERT_TRUE(strcmp(last_line, "[1/2] hello") == 0);
    ASSERT_OK(lk_log_set_thread_rank(0, 0));
    lk_log_write(LK_LOG_INFO, "hello");
    ASSERT_TRUE(strcmp(last_line, "[3/16] hello") == 0);
    ASSERT_FAILS(lk_log_set_rank(4, 4), LK_EINVAL, "rank 4 of size 4");
    ASSERT_FAILS(lk_log_set_rank(-1, 4), LK_EINVAL, "rank -1 of size 4");
    ASSERT_FAILS(lk_log_set_thread_rank(0, -1), LK_EINVAL, "rank 0 of size -1");
}

TEST(terminal_escapes_are_made_harmless)
{
    start(LK_LOG_INFO);
    lk_log_write(LK_LOG_INFO, "loading %s", "x\x1b]0;owned\x07\r\n[0/1] forged");
    ASSERT_TRUE(strcmp(last_line, "loading x\\x1b]0;owned\\x07\\x0d\\x0a[0/1] forged") == 0);
}

TEST(a_long_message_is_cut_and_says_so)
{
    start(LK_LOG_INFO);
    ASSERT_OK(lk_log_set_rank(2147483646, 2147483647));
    char text[3000];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    lk_log_write(LK_LOG_INFO, "%s", text);
    const char *message = strstr(last_line, "] ") + 2;
    ASSERT_EQ(strlen(message), 1023);
    ASSERT_TRUE(strcmp(message + 1020, "...") == 0);
    text[1023] = '\0';
    lk_log_write(LK_LOG_INFO, "%s", text);
    ASSERT_TRUE(strcmp(strstr(last_line, "] ") + 2, text) == 0);
}

static void chatty(void *context, lk_log_level level, const char *line)
{
    n_inside++;
    lk_log_write(LK_LOG_ERROR, "a sink that logs");
    lk_log_set_sink(remember, context);
    remember(context, level, line);
}

TEST(a_sink_may_log_and_replace_itself)
{
    start(LK_LOG_INFO);
    lk_log_set_sink(chatty, NULL);
    lk_log_write(LK_LOG_INFO, "one");
    lk_log_write(LK_LOG_INFO, "two");
    ASSERT_EQ(n_inside, 1);
    ASSERT_EQ(n_lines, 2);
}

TEST(logging_does_not_allocate)
{
    start(LK_LOG_INFO);
    int64_t calls = lk_alloc_stats_now().calls;
    lk_log_write(LK_LOG_INFO, "%s", "x");
    ASSERT_EQ(lk_alloc_stats_now().calls, calls);
}

TEST(levels_are_found_by_name)
{
    for (int i = 0; i < LK_N_LOG_LEVELS; i++) {
        lk_log_level found;
        ASSERT_OK(lk_log_level_find(lk_log_level_name((lk_log_level)i), &found));
        ASSERT_EQ(found, i);
    }
    lk_log_level level;
    ASSERT_FAILS(lk_log_level_find("loud", &level), LK_EINVAL, "off error warn info debug");
    ASSERT_FAILS(lk_log_level_find(NULL, &level), LK_EINVAL, "is NULL");
    ASSERT_TRUE(strcmp(lk_log_level_name(LK_N_LOG_LEVELS), "?") == 0);
}

enum { THREADS = 4, PER_THREAD = 2000 };

static void expect_whole_line(void *context, lk_log_level level, const char *line)
{
    (void)level;
    int rank, size, i;
    if (sscanf(line, "[%d/%d] line %d.", &rank, &size, &i) == 3 && size == THREADS)
        ++((int *)context)[rank];
}

static void *log_many(void *rank)
{
    if (lk_log_set_thread_rank(*(int *)rank, THREADS) == LK_OK)
        for (int i = 0; i < PER_THREAD; i++)
            lk_log_write(LK_LOG_INFO, "line %d.", i);
    return NULL;
}

TEST(threads_log_whole_lines_under_their_own_rank)
{
    start(LK_LOG_INFO);
    int counts[THREADS] = {0}, ranks[THREADS];
    pthread_t t[THREADS];
    lk_log_set_sink(expect_whole_line, counts);
    for (int i = 0; i < THREADS; i++) {
        ranks[i] = i;
        ASSERT_EQ(pthread_create(&t[i], NULL, log_many, &ranks[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        ASSERT_EQ(pthread_join(t[i], NULL), 0);
    for (int i = 0; i < THREADS; i++)
        ASSERT_EQ(counts[i], PER_THREAD);
    lk_log_set_sink(NULL, NULL);
}
