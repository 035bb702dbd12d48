/* Checkpoints on a bad disk: the n-th call fails, for every call and every n.  What was acknowledged
 * is still there, what failed is named, and what is loaded is one of the states, whole. */
#include "checkpoints.h"
#include "data_files.h"
#include "io/checkpoint/checkpoint.h"

#include <dirent.h>
#include <errno.h>

static char folder[256];
static int64_t acknowledged; /* the newest step whose save returned LK_OK */

static lk_status folder_open(lk_checkpoint_dir **c)
{
    lk_checkpoint_dir_options o = test_options(2);
    return lk_checkpoint_dir_open(NULL, folder, &o, c);
}

static void folder_new(const char *name)
{
    lk_checkpoint_dir *c;
    test_state s;
    lk__storage_sync_skip(true);
    snprintf(folder, sizeof folder, "%s", test_path(name));
    ASSERT_OK(folder_open(&c));
    for (acknowledged = 0; acknowledged < 2;) {
        ASSERT_OK(lk_checkpoint_dir_save(c, test_state_at(&s, acknowledged + 1)));
        acknowledged++;
    }
    lk_checkpoint_dir_close(c);
}

/* The failure names something in the folder, and the reason. */
static void expect_named(const char *message, int error)
{
    if (!strstr(message, folder) || !strstr(message, strerror(error)))
        TEST_FAIL("\"%s\" does not name the file and \"%s\"", message, strerror(error));
}

/* How many things in the folder are temporary. */
static int temporaries(void)
{
    int n = 0;
    DIR *d = opendir(folder);
    for (const struct dirent *e; (e = readdir(d));)
        n += strstr(e->d_name, ".tmp-") != NULL;
    closedir(d);
    return n;
}

/* Without faults, the newest is one that was acknowledged, or a newer one that is whole. */
static void expect_nothing_lost(lk_checkpoint_dir *c, int64_t attempted)
{
    test_state s;
    bool found;
    test_state_at(&s, 999);
    ASSERT_OK(lk_checkpoint_dir_load(c, &s.state, &found));
    ASSERT_TRUE(found);
    ASSERT_TRUE(s.state.step == acknowledged || s.state.step == attempted);
    test_state_expect(&s, s.state.step);
    acknowledged = s.state.step;
}

/* Parts, MANIFEST and their folder are on disk before the name is given: the first calls of sync, and
 * of open, are theirs. */
enum { BEFORE_RENAME = 5 };

/* A save in which the n-th call of a kind fails; false when there are fewer calls. */
static bool save_with_fault(lk__storage_call call, int64_t n, int error, bool lasting)
{
    lk_checkpoint_dir *c;
    test_state s;
    int64_t step = acknowledged + 1;
    ASSERT_OK(folder_open(&c));
    int64_t before = lk__storage_calls(call);
    lk__storage_fail(call, n, error, lasting);
    lk_status st = lk_checkpoint_dir_save(c, test_state_at(&s, step));
    lk__storage_fail(call, 0, 0, false);
    bool happened = lk__storage_calls(call) - before >= n;
    if (st != LK_OK) {
        ASSERT_EQ(st, LK_EIO);
        expect_named(lk_error_message(), error);
        lk_error_clear();
        if (call != LK__STORAGE_REMOVE && call != LK__STORAGE_LIST)
            ASSERT_EQ(temporaries(), 0);
    } else {
        acknowledged = step;
        /* A fault that is no failure of the save is in the messages. */
        if (happened && error != EINTR && error != 0)
            expect_named(lk_checkpoint_dir_messages(c), error);
        else
            ASSERT_EQ(lk_checkpoint_dir_messages(c)[0], '\0');
    }
    ASSERT_TRUE(st == LK_OK || happened);
    bool early = n <= BEFORE_RENAME || (call != LK__STORAGE_SYNC && call != LK__STORAGE_OPEN);
    expect_nothing_lost(c, st == LK_OK || !early ? step : acknowledged);
    lk_checkpoint_dir_close(c);
    return happened;
}

TEST(every_call_of_a_save_may_fail)
{
    static const int errors[] = {EIO, ENOSPC, EDQUOT, EROFS};
    int faults = 0;
    folder_new("save");
    for (int call = 0; call < LK__N_STORAGE_CALLS; call++)
        for (int lasting = 0; lasting < 2; lasting++)
            for (int e = 0; e < (call == LK__STORAGE_WRITE ? 4 : 1); e++)
                for (int64_t n = 1; save_with_fault((lk__storage_call)call, n, errors[e], lasting);
                     n++)
                    faults++;
    ASSERT_TRUE(faults > 80);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

TEST(all_is_on_disk_before_it_is_acknowledged)
{
    lk_checkpoint_dir *c;
    test_state s;
    folder_new("disk");
    ASSERT_OK(folder_open(&c));
    int64_t syncs = lk__storage_calls(LK__STORAGE_SYNC);
    ASSERT_OK(lk_checkpoint_dir_save(c, test_state_at(&s, 3)));
    /* The folder above; then LATEST, and the folder above again. */
    ASSERT_EQ(lk__storage_calls(LK__STORAGE_SYNC) - syncs, BEFORE_RENAME + 1 + 2);
    lk_checkpoint_dir_close(c);
}

TEST(interruptions_and_short_writes_are_no_failures)
{
    folder_new("signals");
    for (int call = 0; call < LK__N_STORAGE_CALLS; call++)
        for (int64_t n = 1, before = acknowledged;
             save_with_fault((lk__storage_call)call, n, EINTR, false); n++)
            ASSERT_EQ(acknowledged, before + n);
    for (int64_t n = 1, before = acknowledged; save_with_fault(LK__STORAGE_WRITE, n, 0, false); n++)
        ASSERT_EQ(acknowledged, before + n);
    int64_t before = acknowledged;
    ASSERT_TRUE(save_with_fault(LK__STORAGE_WRITE, 1, 0, true));
    ASSERT_EQ(acknowledged, before + 1);
}

/* A load in which the n-th call fails; false when there are fewer calls. */
static bool load_with_fault(lk__storage_call call, int64_t n, int error, bool lasting)
{
    lk_checkpoint_dir *c;
    test_state s;
    bool found;
    ASSERT_OK(folder_open(&c));
    int64_t before = lk__storage_calls(call);
    test_state_at(&s, 999);
    lk__storage_fail(call, n, error, lasting);
    lk_status st = lk_checkpoint_dir_load(c, &s.state, &found);
    lk__storage_fail(call, 0, 0, false);
    bool happened = lk__storage_calls(call) - before >= n;
    if (st != LK_OK) {
        ASSERT_EQ(st, LK_EIO);
        expect_named(lk_error_message(), error);
        if (!strstr(lk_error_message(), "not whole"))
            test_state_expect(&s, 999);
        lk_error_clear();
    } else {
        ASSERT_TRUE(found);
        test_state_expect(&s, s.state.step);
        ASSERT_TRUE(s.state.step == acknowledged || s.state.step == acknowledged - 1);
        if (s.state.step != acknowledged)
            expect_named(lk_checkpoint_dir_messages(c), error);
    }
    if (error == EINTR || error == 0)
        ASSERT_EQ(s.state.step, acknowledged);
    expect_nothing_lost(c, acknowledged);
    lk_checkpoint_dir_close(c);
    return happened;
}

TEST(every_call_of_a_load_may_fail)
{
    static const int errors[] = {EIO, EACCES, EINTR};
    int faults = 0;
    folder_new("load");
    for (int call = 0; call < LK__N_STORAGE_CALLS; call++)
        for (int e = 0; e < 3; e++)
            for (int lasting = 0; lasting < 2 - (errors[e] == EINTR); lasting++)
                for (int64_t n = 1; load_with_fault((lk__storage_call)call, n, errors[e], lasting);
                     n++)
                    faults++;
    ASSERT_TRUE(faults > 60);
    for (int64_t n = 1; load_with_fault(LK__STORAGE_READ, n, 0, true); n++)
        faults++;
    ASSERT_EQ(acknowledged, 2);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

TEST(every_call_of_opening_may_fail)
{
    int faults = 0;
    folder_new("open");
    for (int call = 0; call < LK__N_STORAGE_CALLS; call++)
        for (int64_t n = 1;; n++) {
            lk_checkpoint_dir *c;
            int64_t before = lk__storage_calls((lk__storage_call)call);
            lk__storage_fail((lk__storage_call)call, n, EIO, false);
            lk_status st = folder_open(&c);
            lk__storage_fail((lk__storage_call)call, 0, 0, false);
            if (st != LK_OK)
                expect_named(lk_error_message(), EIO);
            lk_error_clear();
            lk_checkpoint_dir_close(c);
            if (lk__storage_calls((lk__storage_call)call) - before < n)
                break;
            faults++;
            ASSERT_OK(folder_open(&c));
            expect_nothing_lost(c, 2);
            lk_checkpoint_dir_close(c);
        }
    ASSERT_TRUE(faults > 8);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

/* Also a folder that goes away while the run has it, and one that nobody may write to. */
TEST(a_folder_that_vanishes_is_named)
{
    char command[600];
    lk_checkpoint_dir *c;
    test_state s;
    folder_new("vanish");
    ASSERT_OK(folder_open(&c));
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    ASSERT_EQ(system(command), 0);
    for (int i = 0; i < 2; i++)
        ASSERT_FAILS(lk_checkpoint_dir_save(c, test_state_at(&s, 9)), LK_EIO,
                     "No such file or directory");
    ASSERT_OK(lk__storage_mkdir(folder, 0777));
    ASSERT_OK(lk_checkpoint_dir_save(c, test_state_at(&s, 9))); /* it came back */
    lk_checkpoint_dir_close(c);
}

/* A disk that is too small is noticed before anything is written. */
TEST(too_little_space_is_noticed_first)
{
    static unsigned char element;
    lk_state_tensor large = {"large", LK_U8, LK_DIMS(INT64_C(1) << 60), &element, NULL, NULL};
    lk_state state = {.step = 9, .tensor = &large, .n_tensors = 1};
    lk_checkpoint_dir *c;
    lk_checkpoint *plan;
    int64_t before;
    folder_new("space");
    ASSERT_OK(folder_open(&c));
    before = lk__storage_calls(LK__STORAGE_MKDIR);
    ASSERT_FAILS(lk_checkpoint_dir_save(c, &state), LK_EIO, "are free on the disk");
    ASSERT_EQ(lk__storage_calls(LK__STORAGE_MKDIR), before);
    ASSERT_OK(lk__plan_make(&state, 0, 1, &plan));
    ASSERT_EQ(plan->n_parts, 1);
    lk_checkpoint_free(plan);
    lk_checkpoint_dir_close(c);
}
