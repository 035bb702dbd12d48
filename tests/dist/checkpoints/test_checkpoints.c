/* Checkpoints of several ranks: saved on any number, loaded on any other, failed on all alike. */
#include "checkpoints.h"
#include "io/checkpoint/checkpoint.h"
#include "rank_folders.h"

#include <lockstep/coll.h>

#include <errno.h>

enum { PATH = 256 };

/* Files need not be on disk; folder_remove() ends it. */
static void folder_new(lk_comm *comm, char path[PATH])
{
    lk__storage_sync_skip(true);
    folder_share(comm, path, PATH);
}

static lk_checkpoint_dir *folder_open_by(lk_comm *comm, const char *path, const char *replica_sets)
{
    lk_checkpoint_dir *c;
    lk_checkpoint_dir_options o = test_options(3);
    o.wait_seconds = 5;
    o.replica_sets = replica_sets;
    ASSERT_OK(lk_checkpoint_dir_open(comm, path, &o, &c));
    return c;
}

static lk_checkpoint_dir *folder_open(lk_comm *comm, const char *path)
{
    return folder_open_by(comm, path, NULL);
}

RANKS_TEST(saved_on_some_loaded_on_others)
{
    char path[PATH];
    test_state s;
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    folder_new(comm, path);
    lk_checkpoint_dir *c = folder_open(comm, path);
    test_newest_expect(c, -1);
    ASSERT_OK(lk_checkpoint_dir_save(c, test_state_at(&s, 1)));
    test_newest_expect(c, 1);
    lk_checkpoint_dir_close(c);
    for (int ranks = size; ranks >= 1; ranks--) { /* 5 to 4, 4 to 3, ... */
        lk_comm *some;
        int64_t step = size - ranks + 1;
        ASSERT_OK(lk_comm_split(comm, rank < ranks ? 0 : -1, 0, &some));
        if (some) {
            c = folder_open(some, path);
            test_newest_expect(c, step);
            ASSERT_OK(lk_checkpoint_dir_save(c, test_state_at(&s, step + 1)));
            lk_checkpoint_dir_close(c);
        }
        lk_comm_close(some);
        ASSERT_OK(lk_barrier(comm, "next"));
    }
    c = folder_open(comm, path);
    test_newest_expect(c, size + 1);
    lk_checkpoint_dir_close(c);
    folder_remove(comm, path);
}

/* The checkpoint of these writers has the parts, to the byte, of one rank alone. */
static void expect_the_parts_of_one_rank(lk_comm *comm, const char *replica_sets)
{
    char path[PATH], command[3 * PATH + 64];
    test_state s;
    folder_new(comm, path);
    lk_checkpoint_dir *c = folder_open_by(comm, path, replica_sets);
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
    folder_remove(comm, path);
}

RANKS_TEST(the_parts_do_not_depend_on_the_ranks)
{
    expect_the_parts_of_one_rank(comm, NULL);
}

RANKS_TEST(a_save_goes_on_while_ranks_compute)
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
        test_newest_expect(c, step);
    }
    lk_checkpoint_dir_close(c);
    folder_remove(comm, path);
}

/* A rank that failed says so (of ranks in one process it may be any), the others name it. */
static void expect_named(lk_comm *comm)
{
    int32_t own = strncmp(lk_error_message(), "rank ", 5) != 0;
    ASSERT_OK(lk_allreduce(comm, NULL, &own, 1, LK_I32, LK_REDUCE_SUM, "who failed"));
    ASSERT_EQ(own, 1);
}

/* One call fails on one rank (of those in this process): all ranks fail, and nothing is lost. */
RANKS_TEST(a_failure_of_one_rank_is_that_of_all)
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
        test_newest_expect(c, 1);
    }
    ASSERT_OK(lk_checkpoint_dir_save(c, test_state_at(&s, 2)));
    test_newest_expect(c, 2);
    lk_checkpoint_dir_close(c);
    folder_remove(comm, path);
}

/* What rank 0 alone does fails on all as well: every call of it in turn. */
RANKS_TEST(a_failure_to_publish_is_that_of_all)
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
        test_newest_expect(c, 1);
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
    folder_remove(comm, path);
}

RANKS_TEST(ranks_with_other_states_are_named)
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
    test_newest_expect(c, 4);
    lk_checkpoint_dir_close(c);
    folder_remove(comm, path);
}

/* Only rank 0, and the last, see the folder: they write all of it, and all ranks load it. */
RANKS_TEST(ranks_that_do_not_see_the_folder_take_part)
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
    test_newest_expect(c, 6);
    lk_checkpoint_dir_close(c);
    folder_remove(comm, path);
}

RANKS_TEST(the_parts_do_not_depend_on_replica_sets)
{
    expect_the_parts_of_one_rank(comm, "");
    expect_the_parts_of_one_rank(comm, "0");
    if (lk_comm_size(comm) >= 3)
        expect_the_parts_of_one_rank(comm, "1,2");
}

/* Of each set the lowest rank writes: {0, 1} and the rest; then all ranks load it, by other sets, and by
 * none. */
RANKS_TEST(the_lowest_rank_of_each_replica_set_writes)
{
    char path[PATH];
    test_state s;
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    folder_new(comm, path);
    lk_checkpoint_dir *c = folder_open_by(comm, path, size > 1 ? "0,1" : "0");
    ASSERT_EQ(c->writer.writers, size > 2 ? 2 : 1);
    ASSERT_EQ(c->writer.place, rank == 0 ? 0 : rank == 2 ? 1 : -1);
    ASSERT_OK(lk_checkpoint_dir_save(c, test_state_at(&s, 3)));
    test_newest_expect(c, 3);
    lk_checkpoint_dir_close(c);
    const char *const others[] = {"", "0", NULL};
    for (int i = 0; i < 3; i++) {
        c = folder_open_by(comm, path, others[i]);
        ASSERT_EQ(c->writer.writers, i == 0 || size == 1 ? 1 : i == 1 ? 2 : size);
        test_newest_expect(c, 3);
        lk_checkpoint_dir_close(c);
    }
    folder_remove(comm, path);
}

/* Nothing has changed then, also where the run was to begin anew. */
RANKS_TEST(wrong_replica_sets_are_refused_on_all_ranks)
{
    char path[PATH];
    test_state s;
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    lk_checkpoint_dir_options o = test_options(3);
    folder_new(comm, path);
    lk_checkpoint_dir *c = folder_open(comm, path);
    ASSERT_OK(lk_checkpoint_dir_save(c, test_state_at(&s, 5)));
    lk_checkpoint_dir_close(c);
    o.anew = true;
    o.replica_sets = "0;0";
    ASSERT_FAILS(lk_checkpoint_dir_open(comm, path, &o, &c), LK_EINVAL, "rank 0 is named twice");
    o.replica_sets = rank == size - 1 ? "99" : NULL; /* wrong on one rank only */
    ASSERT_FAILS(lk_checkpoint_dir_open(comm, path, &o, &c), LK_EINVAL, "there is no rank 99");
    c = folder_open(comm, path);
    test_newest_expect(c, 5);
    lk_checkpoint_dir_close(c);
    folder_remove(comm, path);
}
