/* Checkpoints of which each rank holds a part, on disks that fail: what one rank finds is that of all. */
#include "box_folders.h"

#include <errno.h>

/* The newest is that of one of two steps: one that failed when it had its name already may be there. */
static void expect_one_of(lk_checkpoint_dir *c, int64_t step, int64_t or_step)
{
    boxed_state b;
    bool found;
    boxed_at(&b, 999, CUT_GRID, c->rank, c->size);
    ASSERT_OK(lk_checkpoint_dir_load(c, &b.all.state, &found));
    ASSERT_TRUE(b.all.state.step == step || b.all.state.step == or_step);
    boxed_expect(&b, b.all.state.step, CUT_GRID, c->rank, c->size);
}

/* Every call of one kind in turn fails on the last rank (of ranks in one process, on any). */
static void save_with_faults(lk_comm *comm, lk_checkpoint_dir *c, lk__storage_call call,
                             const char *path)
{
    boxed_state b;
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    for (int n = 1;; n++) {
        int64_t before = lk__storage_calls(call);
        ASSERT_OK(lk_barrier(comm, "before"));
        if (rank == size - 1)
            lk__storage_fail(call, n, ENOSPC, false);
        ASSERT_OK(lk_barrier(comm, "ready"));
        lk_status st = lk_checkpoint_dir_save(c, boxed_at(&b, 2, CUT_COLUMNS, rank, size));
        ASSERT_OK(lk_barrier(comm, "saved"));
        if (rank == size - 1)
            lk__storage_fail(call, 0, 0, false);
        int32_t happened = lk__storage_calls(call) - before >= n;
        ASSERT_OK(lk_bcast(comm, &happened, 1, LK_I32, size - 1, "happened"));
        int32_t failed = st != LK_OK, all = failed;
        ASSERT_OK(lk_allreduce(comm, NULL, &all, 1, LK_I32, LK_REDUCE_SUM, "failed"));
        ASSERT_EQ(all, failed * size);
        if (failed) {
            ASSERT_TRUE(happened);
            ASSERT_EQ(st, LK_EIO);
            ASSERT_TRUE(strstr(lk_error_message(), path) &&
                        strstr(lk_error_message(), strerror(ENOSPC)));
            lk_error_clear();
            ASSERT_TRUE(!lk_checkpoint_dir_is_saving(c));
        }
        expect_one_of(c, failed ? 1 : 2, 2);
        char gone[PATH + 64];
        snprintf(gone, sizeof gone, "%s/step-000000000002", path);
        ASSERT_OK(lk_barrier(comm, "seen"));
        if (rank == 0)
            ASSERT_TRUE(!lk__path_exists(gone) || lk__storage_remove_folder(gone) == LK_OK);
        ASSERT_OK(lk_barrier(comm, "gone"));
        if (!happened)
            return;
    }
}

RANKS_TEST(a_failure_of_one_rank_is_that_of_all)
{
    static const lk__storage_call calls[] = {LK__STORAGE_OPEN, LK__STORAGE_WRITE, LK__STORAGE_SYNC,
                                             LK__STORAGE_CLOSE};
    char path[PATH];
    boxed_state b;
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    folder_new(comm, path);
    lk_checkpoint_dir *c = folder_open(comm, path, 1, 40);
    ASSERT_OK(lk_checkpoint_dir_save(c, boxed_at(&b, 1, CUT_ROWS, rank, size)));
    for (int i = 0; i < 4; i++)
        save_with_faults(comm, c, calls[i], path);
    lk_checkpoint_dir_close(c);
    folder_remove(comm, path);
}

/* A part that any rank finds damaged is left out by all, and so is one that vanishes. */
RANKS_TEST(damage_that_one_rank_finds_is_left_out_by_all)
{
    char path[PATH], file[2 * PATH];
    boxed_state b;
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    folder_new(comm, path);
    lk_checkpoint_dir *c = folder_open(comm, path, 112, 40);
    ASSERT_OK(lk_checkpoint_dir_save(c, boxed_at(&b, 1, CUT_GRID, rank, size)));
    for (int part = 0; part < 3; part++) {
        ASSERT_OK(lk_checkpoint_dir_save(c, boxed_at(&b, 2, CUT_ROWS, rank, size)));
        snprintf(file, sizeof file, "%s/step-000000000002/part-0000%d.safetensors", path, part);
        if (rank == 0) {
            FILE *f = fopen(file, "r+b");
            ASSERT_TRUE(f && fseek(f, -3, SEEK_END) == 0);
            int byte = fgetc(f);
            ASSERT_TRUE(fseek(f, -3, SEEK_END) == 0 && fputc(byte ^ 64, f) != EOF &&
                        fclose(f) == 0);
        }
        ASSERT_OK(lk_barrier(comm, "damaged"));
        expect_newest(c, 1, CUT_COLUMNS);
        if (rank == 0)
            ASSERT_TRUE(strstr(lk_checkpoint_dir_messages(c), file) &&
                        strstr(lk_checkpoint_dir_messages(c), "step-000000000001, which is older"));
        else
            ASSERT_EQ(lk_checkpoint_dir_messages(c)[0], '\0');
    }
    lk_checkpoint_dir_close(c);
    folder_remove(comm, path);
}
