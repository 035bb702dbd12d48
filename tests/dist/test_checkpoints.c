/* Checkpoints of several ranks: saved on any number, loaded on any other, failed on all alike. */
#include "checkpoints.h"
#include "io/checkpoint.h"
#include "ranks.h"

#include <lockstep/coll.h>

#include <errno.h>

enum { PATH = 256 };

/* A new folder that all ranks know; rank 0 removes it with folder_end(). */
static void folder_new(lk_comm *comm, char path[PATH])
{
    if (lk_comm_rank(comm) == 0) {
        snprintf(path, PATH, "/tmp/lockstep-test-XXXXXX");
        ASSERT_TRUE(mkdtemp(path));
    }
    lk__storage_sync_skip(true);
    ASSERT_OK(lk_bcast(comm, path, PATH, LK_U8, 0, "path"));
}

static void folder_end(lk_comm *comm, const char *path)
{
    char command[PATH + 16];
    ASSERT_OK(lk_barrier(comm, "end"));
    snprintf(command, sizeof command, "rm -rf '%s'", path);
    if (lk_comm_rank(comm) == 0)
        ASSERT_EQ(system(command), 0);
}

static lk_checkpoint_dir *folder_open(lk_comm *comm, const char *path)
{
    lk_checkpoint_dir *c;
    lk_checkpoint_dir_options o = test_options(3);
    o.wait_seconds = 5;
    ASSERT_OK(lk_checkpoint_dir_open(comm, path, &o, &c));
    return c;
}

static void expect_newest(lk_checkpoint_dir *c, int64_t step)
{
    test_state s;
    bool found;
    test_state_at(&s, 999);
    ASSERT_OK(lk_checkpoint_dir_load(c, &s.state, &found));
    ASSERT_EQ(found, step >= 0);
    test_state_expect(&s, found ? step : 999);
}

static void saved_on_some_loaded_on_others(lk_comm *comm)
{
    char path[PATH];
    test_state s;
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    folder_new(comm, path);
    lk_checkpoint_dir *c = folder_open(comm, path);
    expect_newest(c, -1);
    ASSERT_OK(lk_checkpoint_dir_save(c, test_state_at(&s, 1)));
    expect_newest(c, 1);
    lk_checkpoint_dir_close(c);
    for (int ranks = size; ranks >= 1; ranks--) { /* 5 to 4, 4 to 3, ... */
        lk_comm *some;
        int64_t step = size - ranks + 1;
        ASSERT_OK(lk_comm_split(comm, rank < ranks ? 0 : -1, 0, &some));
        if (some) {
            c = folder_open(some, path);
            expect_newest(c, step);
            ASSERT_OK(lk_checkpoint_dir_save(c, test_state_at(&s, step + 1)));
            lk_checkpoint_dir_close(c);
        }
        lk_comm_close(some);
        ASSERT_OK(lk_barrier(comm, "next"));
    }
    c = folder_open(comm, path);
    expect_newest(c, size + 1);
    lk_checkpoint_dir_close(c);
    folder_end(comm, path);
}

static void the_parts_do_not_depend_on_the_ranks(lk_comm *comm)
{
    char path[PATH], command[3 * PATH + 64];
    test_state s;
    folder_new(comm, path);
    lk_checkpoint_dir *c = folder_open(comm, path);
    ASSERT_OK(lk_checkpoint_dir_save(c, test_state_at(&s, 8)));
    lk_checkpoint_dir_close(c);
    if (lk_comm_rank(comm) == 0) {
        char alone[PATH + 16];
        snprintf(alone, sizeof alone, "%s/alone", path);
        c = folder_open(NULL, alone);
        ASSERT_OK(lk_checkpoint_dir_save(c, test_state_at(&s, 8)));
        lk_checkpoint_dir_close(c);
        snprintf(command, sizeof command,
                 "cd %s && for i in 0 1 2; do cmp alone/step-000000000008/part-0000$i.safetensors "
                 "step-000000000008/part-0000$i.safetensors || exit 1; done",
                 path);
        ASSERT_EQ(system(command), 0);
        snprintf(command, sizeof command,
                 "cd %s && grep -v -e ranks -e time -e check alone/step-000000000008/MANIFEST >a; "
                 "grep -v -e ranks -e time -e check step-000000000008/MANIFEST | cmp - a",
                 path);
        ASSERT_EQ(system(command), 0);
    }
    folder_end(comm, path);
}

static void a_save_goes_on_while_ranks_compute(lk_comm *comm)
{
    char path[PATH];
    test_state s;
    folder_new(comm, path);
    lk_checkpoint_dir *c = folder_open(comm, path);
    for (int step = 1; step <= 3; step++) {
        int32_t done = 0;
        ASSERT_OK(lk_checkpoint_dir_begin(c, test_state_at(&s, step)));
        test_state_fill(&s, 555);
        while (!done) { /* as the steps of a training would: until all ranks are ready */
            int32_t mine = lk_checkpoint_dir_poll(c);
            ASSERT_OK(lk_allreduce(comm, &mine, &done, 1, LK_I32, LK_REDUCE_MIN, "done"));
        }
        ASSERT_OK(lk_checkpoint_dir_commit(c));
        expect_newest(c, step);
    }
    lk_checkpoint_dir_close(c);
    folder_end(comm, path);
}

/* A rank that failed says so (of ranks in one process it may be any), the others name it. */
static void expect_named(lk_comm *comm)
{
    int32_t own = strncmp(lk_error_message(), "rank ", 5) != 0;
    ASSERT_OK(lk_allreduce(comm, NULL, &own, 1, LK_I32, LK_REDUCE_SUM, "who failed"));
    ASSERT_EQ(own, 1);
}

/* One call fails on one rank (of those in this process): all ranks fail, and nothing is lost. */
static void a_failure_of_one_rank_is_that_of_all(lk_comm *comm)
{
    static const lk__storage_call calls[] = {LK__STORAGE_OPEN, LK__STORAGE_WRITE, LK__STORAGE_SYNC,
                                             LK__STORAGE_CLOSE};
    char path[PATH];
    test_state s;
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    int last = size < 3 ? size - 1 : 2; /* the last that has a part */
    folder_new(comm, path);
    lk_checkpoint_dir *c = folder_open(comm, path);
    ASSERT_OK(lk_checkpoint_dir_save(c, test_state_at(&s, 1)));
    for (int i = 0; i < 4; i++) {
        ASSERT_OK(lk_barrier(comm, "before"));
        if (rank == last)
            lk__storage_fail(calls[i], 1, ENOSPC, false);
        ASSERT_OK(lk_barrier(comm, "ready"));
        lk_status st = lk_checkpoint_dir_save(c, test_state_at(&s, 2));
        ASSERT_EQ(st, LK_EIO);
        ASSERT_TRUE(strstr(lk_error_message(), "/part-0000") && strstr(lk_error_message(), path) &&
                    strstr(lk_error_message(), strerror(ENOSPC)));
        expect_named(comm);
        lk_error_clear();
        ASSERT_TRUE(!lk_checkpoint_dir_is_saving(c));
        expect_newest(c, 1);
    }
    ASSERT_OK(lk_checkpoint_dir_save(c, test_state_at(&s, 2)));
    expect_newest(c, 2);
    lk_checkpoint_dir_close(c);
    folder_end(comm, path);
}

/* What rank 0 alone does fails on all as well: every call of it in turn. */
static void a_failure_to_publish_is_that_of_all(lk_comm *comm)
{
    static const lk__storage_call calls[] = {LK__STORAGE_MKDIR, LK__STORAGE_SPACE,
                                             LK__STORAGE_RENAME};
    char path[PATH];
    test_state s;
    folder_new(comm, path);
    lk_checkpoint_dir *c = folder_open(comm, path);
    ASSERT_OK(lk_checkpoint_dir_save(c, test_state_at(&s, 1)));
    for (int i = 0; i < 3; i++) {
        if (lk_comm_rank(comm) == 0)
            lk__storage_fail(calls[i], 1, EIO, false);
        ASSERT_OK(lk_barrier(comm, "ready"));
        ASSERT_EQ(lk_checkpoint_dir_save(c, test_state_at(&s, 2)), LK_EIO);
        expect_named(comm);
        lk_error_clear();
        expect_newest(c, 1);
    }
    lk_checkpoint_dir_close(c);
    /* So do opening and loading. */
    if (lk_comm_rank(comm) == 0)
        lk__storage_fail(LK__STORAGE_LIST, 1, EIO, false);
    ASSERT_OK(lk_barrier(comm, "ready"));
    lk_checkpoint_dir_options o = test_options(0);
    ASSERT_EQ(lk_checkpoint_dir_open(comm, path, &o, &c), LK_EIO);
    ASSERT_TRUE(!c);
    expect_named(comm);
    o.identity++;
    ASSERT_EQ(lk_checkpoint_dir_open(comm, path, &o, &c), LK_EIDENTITY);
    expect_named(comm);
    lk_error_clear();
    folder_end(comm, path);
}

static void ranks_with_other_states_are_named(lk_comm *comm)
{
    char path[PATH];
    test_state s;
    int size = lk_comm_size(comm);
    folder_new(comm, path);
    lk_checkpoint_dir *c = folder_open(comm, path);
    test_state_at(&s, 4);
    if (lk_comm_rank(comm) == size - 1)
        s.state.hash ^= 1;
    if (size > 1)
        ASSERT_FAILS(lk_checkpoint_dir_save(c, &s.state), LK_ESTATE,
                     "its state at step 4 is not that of rank 0: the hashes are abc0000000000005 "
                     "and abc0000000000004");
    ASSERT_OK(lk_checkpoint_dir_save(c, test_state_at(&s, 4)));
    expect_newest(c, 4);
    lk_checkpoint_dir_close(c);
    folder_end(comm, path);
}

/* Only rank 0, and the last, see the folder: they write all of it, and all ranks load it. */
static void ranks_that_do_not_see_the_folder_take_part(lk_comm *comm)
{
    char path[PATH], elsewhere[PATH + 16];
    test_state s;
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    folder_new(comm, path);
    snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere", path);
    bool sees = rank == 0 || rank == size - 1;
    lk_checkpoint_dir *c = folder_open(comm, sees ? path : elsewhere);
    ASSERT_EQ(c->writer.writers, size < 2 ? size : 2);
    ASSERT_EQ(c->writer.place, rank == 0 ? 0 : sees ? 1 : -1);
    ASSERT_OK(lk_checkpoint_dir_save(c, test_state_at(&s, 6)));
    ASSERT_EQ(lk_checkpoint_dir_messages(c)[0], '\0');
    expect_newest(c, 6);
    lk_checkpoint_dir_close(c);
    folder_end(comm, path);
}

RANKS_MAIN(TEST(saved_on_some_loaded_on_others), TEST(the_parts_do_not_depend_on_the_ranks),
           TEST(a_save_goes_on_while_ranks_compute), TEST(a_failure_of_one_rank_is_that_of_all),
           TEST(a_failure_to_publish_is_that_of_all), TEST(ranks_with_other_states_are_named),
           TEST(ranks_that_do_not_see_the_folder_take_part))
