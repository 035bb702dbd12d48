/* Checkpoints of which each rank holds a part: the files are those of one rank that holds all, and any
 * ranks load them into any boxes. */
#include "box_folders.h"

static size_t file_read(const char *path, const char *folder, const char *file, char text[8192])
{
    char name[3 * PATH];
    snprintf(name, sizeof name, "%s/%s/%s", path, folder, file);
    FILE *f = fopen(name, "rb");
    size_t n = f ? fread(text, 1, 8191, f) : 0;
    ASSERT_TRUE(!f || fclose(f) == 0);
    text[n] = '\0';
    return n;
}

/* Files of two folders are equal; of MANIFEST what does not depend on ranks and time. */
static void expect_same_files(const char *path, const char *a, const char *b)
{
    static char one[8192], other[8192];
    size_t n = 1;
    for (int i = 0; n > 0; i++) {
        char file[32];
        snprintf(file, sizeof file, "part-%05d.safetensors", i);
        n = file_read(path, a, file, one);
        ASSERT_EQ(n, file_read(path, b, file, other));
        ASSERT_SAME_BITS(one, other, n);
    }
    ASSERT_TRUE(file_read(path, a, "MANIFEST", one) > 0 &&
                file_read(path, b, "MANIFEST", other) > 0);
    char *line = one, *to = other;
    for (char *x = NULL, *y = NULL; line; line = x ? x + 1 : NULL, to = y ? y + 1 : NULL) {
        x = strchr(line, '\n');
        y = strchr(to, '\n');
        ASSERT_EQ(x == NULL, y == NULL);
        bool own = strstr(line, "\"ranks\"") == line + 8 || strstr(line, "\"time\"") == line + 8 ||
                   strncmp(line, "\"check\"", 7) == 0;
        if (x && !own) {
            ASSERT_EQ(x - line, y - to);
            ASSERT_SAME_BITS(line, to, x - line);
        }
    }
}

RANKS_TEST(the_files_are_those_of_one_rank_that_holds_all)
{
    static const int64_t part_bytes[] = {112, 1, 0}, band[] = {8, 40, LK__BAND};
    char path[PATH], alone[PATH + 16];
    boxed_state b;
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    folder_new(comm, path);
    snprintf(alone, sizeof alone, "%s/alone", path);
    for (int k = 0; k < 3; k++) {
        lk_checkpoint_dir *c = folder_open(comm, path, part_bytes[k], band[k]);
        lk_checkpoint_dir *one = rank == 0 ? folder_open(NULL, alone, part_bytes[k], LK__BAND)
                                           : NULL;
        for (int how = 0; how < N_CUTS; how++) {
            int64_t step = N_CUTS * k + how;
            ASSERT_OK(lk_checkpoint_dir_save(c, boxed_at(&b, step, (box_cut)how, rank, size)));
            if (rank > 0)
                continue;
            char made[64], want[64];
            ASSERT_OK(lk_checkpoint_dir_save(one, test_state_at(&b.all, step)));
            snprintf(made, sizeof made, "step-%012lld", (long long)step);
            snprintf(want, sizeof want, "alone/step-%012lld", (long long)step);
            expect_same_files(path, made, want);
        }
        lk_checkpoint_dir_close(c);
        lk_checkpoint_dir_close(one);
    }
    folder_remove(comm, path);
}

/* One process reads what any rank of any number would hold, and none of them has to be there. */
RANKS_TEST(boxes_of_a_checkpoint_can_be_looked_at)
{
    char path[PATH];
    boxed_state b;
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    folder_new(comm, path);
    lk_checkpoint_dir *c = folder_open(comm, path, 112, 40);
    ASSERT_OK(lk_checkpoint_dir_save(c, boxed_at(&b, 3, CUT_GRID, rank, size)));
    lk_checkpoint_dir_close(c);
    lk_checkpoint *k;
    ASSERT_OK(lk_checkpoint_read(path, &k));
    for (int how = 0; how < N_CUTS; how++) {
        boxed_at(&b, 999, (box_cut)how, rank, size);
        for (int i = 0; i < STATE_TENSORS; i++)
            ASSERT_OK(lk_checkpoint_read_box(k, i, &b.box[i], b.data[i]));
        test_state_fill(&b.all, 3);
        boxed_expect(&b, 3, (box_cut)how, rank, size);
    }
    b.box[1].n[0] = 14;
    ASSERT_FAILS(lk_checkpoint_read_box(k, 1, &b.box[1], b.data[1]), LK_ESHAPE,
                 "not within the tensor \"optimizer/moment\", which is [13]");
    lk_checkpoint_free(k);
    ASSERT_OK(lk_barrier(comm, "looked"));
    if (rank == 0) { /* so does a run on one rank that holds a part */
        c = folder_open(NULL, path, 112, 40);
        boxed_at(&b, 999, CUT_COLUMNS, 1, 3);
        bool found;
        ASSERT_OK(lk_checkpoint_dir_load(c, &b.all.state, &found));
        boxed_expect(&b, 3, CUT_COLUMNS, 1, 3);
        lk_checkpoint_dir_close(c);
    }
    folder_remove(comm, path);
}

/* Save on the first `from` ranks and load on the first `to`, of which all others know nothing. */
static void save_and_load(lk_comm *comm, const char *path, int from, int to, int64_t step)
{
    boxed_state b;
    int rank = lk_comm_rank(comm);
    box_cut saved = (box_cut)(step % N_CUTS), loaded = (box_cut)(step / N_CUTS % N_CUTS);
    for (int load = 0; load < 2; load++) {
        lk_comm *some;
        int ranks = load ? to : from;
        ASSERT_OK(lk_comm_split(comm, rank < ranks ? 0 : -1, 0, &some));
        if (some) {
            lk_checkpoint_dir *c = folder_open(some, path, 112, 16 + 8 * (step % 5));
            if (load)
                expect_newest(c, step, loaded);
            else
                ASSERT_OK(lk_checkpoint_dir_save(c, boxed_at(&b, step, saved, rank, ranks)));
            lk_checkpoint_dir_close(c);
        }
        lk_comm_close(some);
        ASSERT_OK(lk_barrier(comm, "next"));
    }
}

/* From 1 to 5 ranks to 1 to 5 others, and from all to all; with all pairs of cuts, some each time. */
RANKS_TEST(any_ranks_load_what_any_others_saved)
{
    char path[PATH];
    int size = lk_comm_size(comm), step = size, most = size == 5 || ranks_brief() ? size : 0;
    folder_new(comm, path);
    for (int from = 1; from <= most; from++)
        for (int to = 1; to <= most; to++, step += 9)
            save_and_load(comm, path, from, to, step);
    for (int end = step + N_CUTS * N_CUTS; step < end; step += ranks_brief() ? 7 : 3)
        save_and_load(comm, path, size, size, step);
    folder_remove(comm, path);
}

RANKS_TEST(a_save_goes_on_while_ranks_compute)
{
    char path[PATH];
    boxed_state b;
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    folder_new(comm, path);
    lk_checkpoint_dir *c = folder_open(comm, path, 112, 24);
    for (int step = 1; step <= N_CUTS; step++) {
        box_cut how = (box_cut)(step % N_CUTS);
        int32_t done = 0;
        ASSERT_OK(lk_checkpoint_dir_begin(c, boxed_at(&b, step, how, rank, size)));
        boxed_at(&b, 555, how, rank, size);
        while (!done) {
            int32_t mine = lk_checkpoint_dir_poll(c);
            ASSERT_OK(lk_allreduce(comm, &mine, &done, 1, LK_I32, LK_REDUCE_MIN, "done"));
        }
        ASSERT_OK(lk_checkpoint_dir_commit(c));
        expect_newest(c, step, how);
    }
    lk_checkpoint_dir_close(c);
    folder_remove(comm, path);
}

RANKS_TEST(an_element_that_nobody_holds_is_named)
{
    char path[PATH];
    boxed_state b;
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    folder_new(comm, path);
    lk_checkpoint_dir *c = folder_open(comm, path, 112, 40);
    boxed_at(&b, 1, CUT_ROWS, rank, size);
    lk_box *mask = &b.box[3]; /* without column 40 of any row, and 41 of the last */
    *mask = lk_box_whole(2, b.tensor[3].shape.dim);
    mask->n[1] = 40;
    ASSERT_FAILS(lk_checkpoint_dir_save(c, &b.all.state), LK_EINVAL,
                 "tensor \"m\xc3\xa4sk\" [3,43]: no rank holds its element [0,40]");
    boxed_at(&b, 1, CUT_COLUMNS, rank, size);
    if (rank == size - 1)
        b.box[0].n[0] -= 2;
    char text[64];
    snprintf(text, sizeof text, "no rank holds its element [5,%d]", (size - 1) * 11 / size);
    ASSERT_FAILS(lk_checkpoint_dir_save(c, &b.all.state), LK_EINVAL, text);
    ASSERT_TRUE(!lk_checkpoint_dir_is_saving(c));
    ASSERT_OK(lk_checkpoint_dir_save(c, boxed_at(&b, 1, CUT_COLUMNS, rank, size)));
    expect_newest(c, 1, CUT_ROWS);
    lk_checkpoint_dir_close(c);
    folder_remove(comm, path);
}

RANKS_TEST(boxes_that_reach_out_are_refused)
{
    char path[PATH];
    boxed_state b;
    bool found;
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    folder_new(comm, path);
    lk_checkpoint_dir *c = folder_open(comm, path, 112, 40);
    boxed_at(&b, 1, CUT_WHOLE, rank, size);
    if (rank == size - 1)
        b.box[0].first[1] = 1;
    static const char out[] =
        "tensor \"fc1.weight\" is [7,11], its box of [7,11] from [0,1] on is not within it";
    ASSERT_FAILS(lk_checkpoint_dir_save(c, &b.all.state), LK_ESHAPE, out);
    ASSERT_FAILS(lk_checkpoint_dir_load(c, &b.all.state, &found), LK_ESHAPE, out);
    boxed_at(&b, 1, CUT_WHOLE, rank, size);
    if (rank == 0)
        b.box[1].ndim = 2;
    ASSERT_FAILS(lk_checkpoint_dir_save(c, &b.all.state), LK_ESHAPE,
                 "tensor \"optimizer/moment\" has 1 axes, its box 2");
    boxed_at(&b, 1, CUT_WHOLE, rank, size);
    b.tensor[0].name = rank == size - 1 && size > 1 ? "fc2.weight" : "fc1.weight";
    if (size > 1)
        ASSERT_FAILS(lk_checkpoint_dir_load(c, &b.all.state, &found), LK_ESTATE,
                     "the tensors and numbers of its state are not those of rank 0");
    lk_checkpoint_dir_close(c);
    folder_remove(comm, path);
}

/* Where boxes overlap, what the lowest rank has is saved, or another that holds the same box. */
RANKS_TEST(the_lowest_rank_gives_what_several_hold)
{
    char path[PATH];
    boxed_state b;
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    folder_new(comm, path);
    lk_checkpoint_dir *c = folder_open(comm, path, 112, 24);
    boxed_at(&b, 1, CUT_OVERLAP, rank, size);
    memset(b.data[3], rank, sizeof b.data[3]);
    ASSERT_OK(lk_checkpoint_dir_save(c, &b.all.state));
    boxed_at(&b, 2, CUT_WHOLE, rank, size);
    bool found;
    ASSERT_OK(lk_checkpoint_dir_load(c, &b.all.state, &found));
    for (int row = 0; row < 3; row++) {
        int lowest = size;
        for (int r = size - 1; r >= 0; r--) {
            lk_box box = cut_box(CUT_OVERLAP, 3, &b.tensor[3].shape, r, size);
            if (box.n[0] > 0 && box.first[0] <= row && row < box.first[0] + box.n[0])
                lowest = r;
        }
        lk_box want = cut_box(CUT_OVERLAP, 3, &b.tensor[3].shape, lowest, size);
        for (int i = 0; i < 43; i++) {
            lk_box given = cut_box(CUT_OVERLAP, 3, &b.tensor[3].shape, b.data[3][row * 43 + i],
                                   size);
            ASSERT_TRUE(lk_box_is_equal(&given, &want));
        }
    }
    lk_checkpoint_dir_close(c);
    folder_remove(comm, path);
}

/* Only some ranks see the folder: they write what the others hold, and send what they want. */
RANKS_TEST(ranks_that_do_not_see_the_folder_give_and_take)
{
    char path[PATH], elsewhere[PATH + 16];
    boxed_state b;
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    folder_new(comm, path);
    snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere", path);
    lk_checkpoint_dir *c = folder_open(comm, rank % 3 == 0 ? path : elsewhere, 112, 24);
    for (int how = 0; how < N_CUTS; how++) {
        ASSERT_OK(lk_checkpoint_dir_save(c, boxed_at(&b, how, (box_cut)how, rank, size)));
        expect_newest(c, how, (box_cut)((how + 3) % N_CUTS));
    }
    lk_checkpoint_dir_close(c);
    folder_remove(comm, path);
}
