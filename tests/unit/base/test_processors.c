/* Sets of processors as texts, and what a thread can be bound to. */
#include "processors.h"

#include <pthread.h>

static void start_plain(void)
{
    ASSERT_OK(lk__thread_bind(NULL));
}

TEST(sets_are_written_as_ranges)
{
    lk__processors set = {{0}};
    char text[32], small[8];
    ASSERT_EQ(lk__processors_text(&set, text, sizeof text), 0);
    static const int members[] = {0, 1, 2, 8, 63, 64, 4095};
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        lk__processors_add(&set, members[i]);
    ASSERT_EQ(lk__processors_text(&set, text, sizeof text), 16);
    ASSERT_EQ(strcmp(text, "0-2,8,63-64,4095"), 0);
    ASSERT_EQ(lk__processors_text(&set, text, 17), 15);
    ASSERT_EQ(strcmp(text, "0-2,8,63-64,..."), 0);
    ASSERT_EQ(lk__processors_text(&set, small, sizeof small), 7);
    ASSERT_EQ(strcmp(small, "0-2,..."), 0);
    ASSERT_EQ(lk__processors_count(&set), 7);
}

static void *is_free(void *arg)
{
    (void)arg;
    lk__processors mask, one = some(0, 1);
    ASSERT_TRUE(lk__processors_allowed(&mask));
    ASSERT_TRUE(lk__processors_same(&mask, &one));
    ASSERT_TRUE(!lk__thread_binding());
    return NULL;
}

TEST(on_this_machine)
{
    processors_begin();
}

TEST(a_thread_that_is_started_has_the_mask_and_is_not_bound)
{
    start_plain();
    lk__processors one = some(0, 1);
    ASSERT_OK(lk__thread_bind(&one));
    pthread_t thread;
    ASSERT_EQ(pthread_create(&thread, NULL, is_free, NULL), 0);
    ASSERT_EQ(pthread_join(thread, NULL), 0);
    ASSERT_OK(lk__thread_bind(NULL));
}

TEST(what_cannot_be_bound_is_refused_and_changes_nothing)
{
    start_plain();
    lk__processors none = {{0}}, beyond = some(0, 1), mask, one = some(n_all - 1, 1);
    for (int p = 0; p < LK__MAX_PROCESSORS; p++)
        if (!lk__processors_have(&all, p)) {
            lk__processors_add(&beyond, p);
            break;
        }
    ASSERT_OK(lk__thread_bind(&one));
    for (int bound = 1; bound >= 0; bound--) {
        ASSERT_FAILS(lk__thread_bind(&none), LK_EINVAL, "a set of no processors");
        ASSERT_FAILS(lk__thread_bind(&beyond), LK_EINVAL,
                     "are not all among those that this thread may use: ");
        ASSERT_TRUE(lk__processors_allowed(&mask));
        ASSERT_TRUE(lk__processors_same(&mask, bound ? &one : &all));
        ASSERT_EQ(lk__thread_binding() != NULL, bound);
        ASSERT_OK(lk__thread_bind(NULL));
    }
}

TEST(on_twelve_processors)
{
    start_plain();
    processors_pretend(12);
}

TEST_AGAIN(what_cannot_be_bound_is_refused_and_changes_nothing)

TEST(a_system_that_gives_less_is_found_out)
{
    start_plain();
    lk__processors mask, one = some(0, 1), two = some(0, 2);
    ASSERT_OK(lk__thread_bind(&one));
    gives_less = true;
    ASSERT_FAILS(lk__thread_bind(&two), LK_ENOTSUP, "only some of the processors ");
    ASSERT_TRUE(!gives_less);
    ASSERT_TRUE(lk__processors_allowed(&mask));
    ASSERT_TRUE(lk__processors_same(&mask, &one) && lk__thread_binding()->n == 1);
    start_plain();
}
