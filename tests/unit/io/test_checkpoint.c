/* Checkpoints of one rank: what is saved comes back, and the folder is what the format says. */
#include "checkpoints.h"
#include "data_files.h"
#include "faults.h"
#include "io/checkpoint/checkpoint.h"

static char folder[256]; /* of the test that runs */

static void folder_new(const char *name)
{
    lk__storage_sync_skip(strcmp(name, "back") != 0); /* one test waits for the disk */
    snprintf(folder, sizeof folder, "%s", test_path(name));
}

static lk_checkpoint_dir *folder_open(int64_t keep)
{
    lk_checkpoint_dir *c;
    lk_checkpoint_dir_options o = test_options(keep);
    ASSERT_OK(lk_checkpoint_dir_open(NULL, folder, &o, &c));
    return c;
}

static void save(lk_checkpoint_dir *c, int64_t step)
{
    test_state s;
    ASSERT_OK(lk_checkpoint_dir_save(c, test_state_at(&s, step)));
}

static bool exists(const char *file)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    return access(path, F_OK) == 0;
}

TEST(what_is_saved_comes_back)
{
    folder_new("back");
    lk_checkpoint_dir *c = folder_open(0);
    test_newest_expect(c, -1);
    save(c, 0);
    test_newest_expect(c, 0);
    save(c, 12);
    save(c, 7);
    test_newest_expect(c, 12);
    ASSERT_EQ(lk_checkpoint_dir_messages(c)[0], '\0');
    lk_checkpoint_dir_close(c);
    c = folder_open(0);
    test_newest_expect(c, 12);
    lk_checkpoint_dir_close(c);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

TEST(the_folder_has_what_the_format_says)
{
    char path[320];
    struct stat about;
    folder_new("format");
    lk_checkpoint_dir *c = folder_open(0);
    save(c, 34);
    lk_checkpoint_dir_close(c);
    static const char latest[] = "step-000000000034\n";
    test_expect_file(test_path("format/LATEST"), latest, sizeof latest - 1);
    static const char *const files[] = {"MANIFEST", "part-00000.safetensors",
                                        "part-00002.safetensors"};
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/step-000000000034/%s", folder, files[i]);
        ASSERT_EQ(stat(path, &about), 0);
        ASSERT_EQ(about.st_mode & 0777, 0600);
    }
    ASSERT_TRUE(!exists("step-000000000034/part-00003.safetensors"));
    /* A part is a safetensors file like any other. */
    lk_safetensors *f;
    lk_safetensors_info t;
    ASSERT_OK(lk_safetensors_open(path, &f));
    ASSERT_EQ(lk_safetensors_count(f), 2);
    ASSERT_OK(lk_safetensors_at(f, 1, &t));
    ASSERT_TRUE(strcmp(t.name, "m\xc3\xa4sk") == 0 || strcmp(t.name, "empty") == 0);
    lk_safetensors_close(f);
}

TEST(a_manifest_says_what_there_is)
{
    folder_new("manifest");
    lk_checkpoint_dir *c = folder_open(0);
    lk_checkpoint *k;
    save(c, 5);
    save(c, 6);
    ASSERT_TRUE(lk_checkpoint_exists(folder));
    ASSERT_TRUE(lk_checkpoint_exists(test_path("manifest/step-000000000005")));
    ASSERT_TRUE(!lk_checkpoint_exists(test_folder()));
    ASSERT_TRUE(!lk_checkpoint_exists(test_path("manifest/LATEST")));
    ASSERT_OK(lk_checkpoint_read(folder, &k));
    ASSERT_EQ(k->step, 6);
    lk_checkpoint_free(k);
    ASSERT_OK(lk_checkpoint_read(test_path("manifest/step-000000000005"), &k));
    ASSERT_EQ(k->step, 5);
    ASSERT_EQ(k->identity, STATE_IDENTITY);
    ASSERT_EQ(k->n_parts, 3);
    ASSERT_EQ(k->n_tensors, STATE_TENSORS);
    ASSERT_EQ(k->n_numbers, STATE_NUMBERS);
    ASSERT_EQ(k->n_metadata, 4);
    for (int64_t i = 0; i < k->n_parts; i++)
        ASSERT_OK(lk_checkpoint_verify(k, i));
    double moment[13];
    test_state s;
    test_state_at(&s, 5);
    ASSERT_OK(lk_checkpoint_read_tensor(k, 1, moment));
    ASSERT_SAME_BITS(moment, s.moment, sizeof moment);
    ASSERT_FAILS(lk_checkpoint_read_tensor(k, 5, moment), LK_EINVAL, "there is no tensor 5");
    ASSERT_FAILS(lk_checkpoint_verify(k, 3), LK_EINVAL, "there is no part 3");
    lk_checkpoint_free(k);
    ASSERT_FAILS(lk_checkpoint_read(test_folder(), &k), LK_EIO, "is no checkpoint, and holds none");
    lk_checkpoint_dir_close(c);
}

TEST(the_newest_ones_are_kept)
{
    folder_new("keep");
    lk_checkpoint_dir *c = folder_open(3);
    for (int step = 1; step <= 6; step++)
        save(c, step);
    ASSERT_TRUE(!exists("step-000000000003") && exists("step-000000000004"));
    /* One that is older than those there are is kept for itself, and they are not counted. */
    save(c, 2);
    ASSERT_TRUE(exists("step-000000000002") && exists("step-000000000006"));
    lk_checkpoint_dir_close(c);
    /* One counts as two: there must be one to fall back on. */
    c = folder_open(1);
    save(c, 7);
    ASSERT_TRUE(exists("step-000000000006") && !exists("step-000000000005"));
    lk_checkpoint_dir_close(c);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

TEST(a_save_goes_on_while_the_state_changes)
{
    folder_new("meanwhile");
    lk_checkpoint_dir *c = folder_open(0);
    test_state s;
    for (int step = 1; step < 20; step++) {
        ASSERT_TRUE(lk_checkpoint_dir_poll(c) && !lk_checkpoint_dir_is_saving(c));
        ASSERT_OK(lk_checkpoint_dir_begin(c, test_state_at(&s, step)));
        ASSERT_TRUE(lk_checkpoint_dir_is_saving(c));
        test_state_fill(&s, 777);
        ASSERT_FAILS(lk_checkpoint_dir_begin(c, &s.state), LK_ESTATE, "not committed yet");
        bool found;
        ASSERT_FAILS(lk_checkpoint_dir_load(c, &s.state, &found), LK_ESTATE, "not committed yet");
        while (!lk_checkpoint_dir_poll(c))
            usleep(100);
        ASSERT_OK(lk_checkpoint_dir_commit(c));
        test_newest_expect(c, step);
    }
    ASSERT_FAILS(lk_checkpoint_dir_commit(c), LK_ESTATE, "no save is under way");
    int64_t live = lk_alloc_stats_now().live_bytes;
    save(c, 20);
    ASSERT_EQ(lk_alloc_stats_now().live_bytes, live);
    /* One that is not committed leaves nothing. */
    ASSERT_OK(lk_checkpoint_dir_begin(c, test_state_at(&s, 21)));
    lk_checkpoint_dir_close(c);
    c = folder_open(0);
    test_newest_expect(c, 20);
    ASSERT_EQ(lk_checkpoint_dir_messages(c)[0], '\0');
    lk_checkpoint_dir_close(c);
}

TEST(a_step_that_is_there_is_not_written_again)
{
    folder_new("again");
    test_state s;
    lk_checkpoint_dir *c = folder_open(0);
    save(c, 3);
    int64_t writes = lk__storage_calls(LK__STORAGE_WRITE);
    save(c, 3);
    ASSERT_EQ(lk__storage_calls(LK__STORAGE_WRITE), writes);
    test_state_at(&s, 3);
    s.state.hash++;
    ASSERT_FAILS(lk_checkpoint_dir_save(c, &s.state), LK_ESTATE,
                 "is there with the state abc0000000000003, and now step 3 has the state "
                 "abc0000000000004");
    test_newest_expect(c, 3);
    /* One that does not verify is replaced. */
    test_write("again/step-000000000003/part-00001.safetensors", "x", 1);
    save(c, 3);
    ASSERT_TRUE(
        strstr(lk_checkpoint_dir_messages(c), "part-00001.safetensors: offset 1: ends here"));
    test_newest_expect(c, 3);
    lk_checkpoint_dir_close(c);
}

/* Make the checkpoint of a step what a program wrote before hashes had a format. */
static void make_old(int64_t step, uint64_t hash)
{
    char path[LK_PATH_SIZE], file[128];
    lk_checkpoint *c;
    lk__out text = {0};
    ASSERT_OK(lk__step_path(folder, step, "", path));
    ASSERT_OK(lk__manifest_read(path, &c));
    ASSERT_EQ(c->hash_format, LK_HASH_FORMAT);
    c->hash_format = 1;
    c->hash = hash;
    lk__manifest_put(&text, c);
    ASSERT_TRUE(!strstr(text.text, "\"hash\""));
    snprintf(file, sizeof file, "%s/MANIFEST", strstr(path, "old/"));
    test_write(file, text.text, (size_t)text.n);
    lk_checkpoint_free(c);
    lk_free(text.text);
}

/* Its hash is given back as it was recorded, with its format, and compared with nothing. */
TEST(a_hash_of_an_older_format_is_compared_with_nothing)
{
    folder_new("old");
    test_state s;
    bool found;
    lk_checkpoint_dir *c = folder_open(0);
    save(c, 3);
    make_old(3, 0x5eed);
    test_state_at(&s, 999);
    ASSERT_OK(lk_checkpoint_dir_load(c, &s.state, &found));
    ASSERT_TRUE(found && s.state.hash == 0x5eed && s.state.hash_format == 1);
    s.state.hash = 0xabc0000000000003U;
    test_state_expect(&s, 3);
    save(c, 3);
    ASSERT_TRUE(strstr(lk_checkpoint_dir_messages(c),
                       "a checkpoint of this step is replaced: its state is of an older hash "
                       "format and cannot be compared"));
    test_state_at(&s, 999);
    ASSERT_OK(lk_checkpoint_dir_load(c, &s.state, &found));
    ASSERT_TRUE(found && s.state.hash_format == LK_HASH_FORMAT && s.state.ranks == 1);
    test_state_expect(&s, 3);
    lk_checkpoint_dir_close(c);
}

TEST(checkpoints_of_another_run_are_refused)
{
    folder_new("other");
    test_state s;
    lk_checkpoint_dir *c = folder_open(0);
    lk_checkpoint_dir_options o = test_options(0);
    save(c, 3);
    lk_checkpoint_dir_close(c);
    o.identity = 0x77;
    ASSERT_FAILS(lk_checkpoint_dir_open(NULL, folder, &o, &c), LK_EIDENTITY,
                 "its identity is 0000000000001234, this run's is 0000000000000077");
    ASSERT_TRUE(!c);
    /* Also when it comes later, and although an older one would do. */
    c = folder_open(0);
    c->options.identity = 0x78;
    save(c, 9);
    c->options.identity = STATE_IDENTITY;
    bool found;
    ASSERT_FAILS(lk_checkpoint_dir_load(c, test_state_at(&s, 1), &found), LK_EIDENTITY,
                 "step-000000000009: is of another run: its identity is 0000000000000078");
    test_state_expect(&s, 1);
    lk_checkpoint_dir_close(c);
}

TEST(a_second_run_that_lives_is_refused)
{
    folder_new("second");
    lk_checkpoint_dir *first = folder_open(0), *second;
    lk_checkpoint_dir_options o = test_options(0);
    test_state s;
    char text[64];
    snprintf(text, sizeof text, "process %lld", (long long)getpid());
    ASSERT_OK(lk_checkpoint_dir_begin(first, test_state_at(&s, 1)));
    ASSERT_FAILS(lk_checkpoint_dir_open(NULL, folder, &o, &second), LK_ESTATE, text);
    ASSERT_OK(lk_checkpoint_dir_commit(first)); /* nothing of it was removed */
    lk_checkpoint_dir_close(first);
    ASSERT_OK(lk_checkpoint_dir_open(NULL, folder, &o, &second));
    test_newest_expect(second, 1);
    lk_checkpoint_dir_close(second);
}

TEST(what_dead_runs_left_is_removed)
{
    folder_new("left");
    lk_checkpoint_dir *c = folder_open(0);
    save(c, 1);
    lk_checkpoint_dir_close(c);
    ASSERT_EQ(mkdir(test_path("left/step-000000000002.tmp-0123456789abcdef"), 0700), 0);
    test_write("left/step-000000000002.tmp-0123456789abcdef/part-00000.safetensors", "abc", 3);
    test_write("left/LATEST.tmp-0123456789abcdef", "abc", 3);
    test_write("left/mine.tmp-1", "abc", 3);
    c = folder_open(0);
    ASSERT_TRUE(!exists("step-000000000002.tmp-0123456789abcdef"));
    ASSERT_TRUE(!exists("LATEST.tmp-0123456789abcdef"));
    ASSERT_TRUE(exists("mine.tmp-1"));
    test_newest_expect(c, 1);
    /* What cannot be removed does no harm. */
    lk_checkpoint_dir_close(c);
    test_write("left/step-000000000003.tmp-0", "abc", 3);
    ASSERT_EQ(mkdir(test_path("left/step-000000000004.tmp-0"), 0700), 0);
    ASSERT_EQ(mkdir(test_path("left/step-000000000004.tmp-0/in"), 0700), 0);
    c = folder_open(0);
    ASSERT_TRUE(!exists("step-000000000003.tmp-0"));
    ASSERT_TRUE(
        strstr(lk_checkpoint_dir_messages(c), "step-000000000004.tmp-0/in: cannot be removed"));
    test_newest_expect(c, 1);
    lk_checkpoint_dir_close(c);
}

TEST(a_state_that_does_not_fit_is_named)
{
    folder_new("fit");
    test_state s;
    bool found;
    lk_checkpoint_dir *c = folder_open(0);
    save(c, 3);
#define REFUSED(text)                                                        \
    ASSERT_FAILS(lk_checkpoint_dir_load(c, &s.state, &found), LK_EIO, text); \
    ASSERT_TRUE(strstr(lk_checkpoint_dir_messages(c), text))
    test_state_at(&s, 1);
    s.tensor[0].shape = LK_SHAPE(11, 7);
    REFUSED("\"fc1.weight\" is f32[7,11], the state's is f32[11,7]");
    test_state_at(&s, 1);
    s.tensor[1].dtype = LK_I64;
    REFUSED("\"optimizer/moment\" is f64[13], the state's is i64[13]");
    test_state_at(&s, 1);
    s.tensor[0].name = "fc2.weight";
    REFUSED("has no tensor \"fc2.weight\"");
    s.state.n_tensors--;
    REFUSED("has 5 tensors, the state 4");
    test_state_at(&s, 1);
    s.number[1] = lk_state_i64("best loss", 0);
    REFUSED("\"best loss\" is f64, the state's is i64");
    s.number[1].name = "worst";
    REFUSED("has no number \"worst\"");
    test_state_at(&s, 1);
    lk_state_tensor first = s.tensor[0]; /* the order does not matter */
    s.tensor[0] = s.tensor[3];
    s.tensor[3] = first;
    ASSERT_OK(lk_checkpoint_dir_load(c, &s.state, &found));
    test_state_expect(&s, 3);
    lk_checkpoint_dir_close(c);
}

/* Save a state with all its numbers but the last. */
static void save_without_last_number(lk_checkpoint_dir *c)
{
    test_state s;
    test_state_at(&s, 3);
    s.state.n_numbers--;
    ASSERT_OK(lk_checkpoint_dir_save(c, &s.state));
}

TEST(an_optional_number_may_be_missing)
{
    folder_new("optional");
    test_state s;
    bool found;
    lk_checkpoint_dir *c = folder_open(0);
    save_without_last_number(c);
    test_state_at(&s, 1);
    REFUSED("has 2 numbers, the state 3");
    s.number[2].optional = true;
    s.number[2].f64 = 42;
    ASSERT_OK(lk_checkpoint_dir_load(c, &s.state, &found));
    ASSERT_TRUE(found && s.number[2].f64 == 42);
    s.number[2].f64 = -0.0;
    test_state_expect(&s, 3);
    s.number[1].name = "worst"; /* only what may be missing */
    REFUSED("has no number \"worst\"");
    s.number[1].optional = true;
    REFUSED("has 2 numbers, the state 1");
    lk_checkpoint_dir_close(c);
}

TEST(an_optional_number_that_is_there_is_loaded)
{
    folder_new("loaded");
    test_state s;
    bool found;
    lk_checkpoint_dir *c = folder_open(0);
    save(c, 3);
    test_state_at(&s, 1);
    s.number[0].optional = s.number[1].optional = s.number[2].optional = true;
    ASSERT_OK(lk_checkpoint_dir_load(c, &s.state, &found));
    test_state_expect(&s, 3);
    lk_checkpoint_dir_close(c);
}

TEST(misuse_is_refused)
{
    folder_new("misuse");
    test_state s;
    lk_checkpoint_dir *c;
    lk_checkpoint_dir_options o = test_options(-1);
    ASSERT_FAILS(lk_checkpoint_dir_open(NULL, folder, &o, &c), LK_EINVAL, "keep");
    o.keep = 0;
    ASSERT_FAILS(lk_checkpoint_dir_open(NULL, NULL, &o, &c), LK_EINVAL, "folder or options");
    ASSERT_FAILS(lk_checkpoint_dir_open(NULL, test_path("no/such"), &o, &c), LK_EIO,
                 "no/such: cannot be made: No such file or directory");
    test_write("file", "", 0);
    ASSERT_FAILS(lk_checkpoint_dir_open(NULL, test_path("file"), &o, &c), LK_EIO,
                 "file: cannot be made: it is a file, where a folder is needed");
    c = folder_open(0);
    test_state_at(&s, -1);
    ASSERT_FAILS(lk_checkpoint_dir_save(c, &s.state), LK_EINVAL, "negative");
    test_state_at(&s, 1);
    s.tensor[1].name = "fc1.weight";
    ASSERT_FAILS(lk_checkpoint_dir_save(c, &s.state), LK_EINVAL,
                 "tensor \"fc1.weight\" is there twice");
    s.tensor[1].name = NULL;
    ASSERT_FAILS(lk_checkpoint_dir_save(c, &s.state), LK_EINVAL, "empty name");
    test_state_at(&s, 1);
    s.tensor[0].data = NULL;
    ASSERT_FAILS(lk_checkpoint_dir_save(c, &s.state), LK_EINVAL, "\"fc1.weight\" has 77 elements");
    test_state_at(&s, 1);
    s.number[0].dtype = LK_F32;
    ASSERT_FAILS(lk_checkpoint_dir_save(c, &s.state), LK_EDTYPE, "number \"seen\" is f32");
    ASSERT_FAILS(lk_checkpoint_dir_save(c, NULL), LK_EINVAL, "NULL");
    save(c, 1); /* none of them is in the way */
    test_newest_expect(c, 1);
    lk_checkpoint_dir_close(c);
    lk_checkpoint_dir_close(NULL);
    lk_checkpoint_free(NULL);
}

/* Parts as large as they are by default hold all of a small state. */
TEST(a_small_state_is_one_part)
{
    folder_new("one");
    lk_checkpoint_dir *c;
    lk_checkpoint *k;
    lk_checkpoint_dir_options o = {.identity = STATE_IDENTITY};
    ASSERT_OK(lk_checkpoint_dir_open(NULL, folder, &o, &c));
    save(c, 1);
    ASSERT_OK(lk_checkpoint_read(folder, &k));
    ASSERT_EQ(k->n_parts, 1);
    lk_checkpoint_free(k);
    lk_state nothing = {.step = 2, .hash = 5};
    ASSERT_OK(lk_checkpoint_dir_save(c, &nothing));
    bool found;
    nothing.step = 0;
    nothing.hash = 0;
    ASSERT_OK(lk_checkpoint_dir_load(c, &nothing, &found));
    ASSERT_EQ(nothing.step, 2);
    ASSERT_EQ(nothing.hash, 5);
    lk_checkpoint_dir_close(c);
}

static lk_status scenario(void)
{
    test_state s;
    bool found;
    lk_checkpoint_dir *c;
    lk_checkpoint *k = NULL;
    lk_tensors *t = NULL;
    lk_checkpoint_dir_options o = test_options(2);
    char path[LK_PATH_SIZE];
    for (int step = 1; step <= 3; step++) /* each time from the beginning */
        if (lk__step_path(folder, step, "", path) != LK_OK ||
            lk__storage_remove_folder(path) != LK_OK)
            lk_error_clear();
    LK_TRY(lk_checkpoint_dir_open(NULL, folder, &o, &c));
    lk_status st = LK_OK;
    for (int step = 1; st == LK_OK && step <= 3; step++) {
        st = lk_checkpoint_dir_save(c, test_state_at(&s, step));
        if (st == LK_OK && lk_checkpoint_dir_messages(c)[0])
            st = LK_ENOMEM; /* of removing an old one, which is no failure */
    }
    if (st == LK_OK)
        st = lk_checkpoint_dir_load(c, &s.state, &found);
    if (st == LK_OK)
        st = lk_checkpoint_read(folder, &k);
    lk_checkpoint_free(k);
    if (st == LK_OK)
        st = lk_tensors_load(path, &t);
    lk_tensors_free(t);
    lk_checkpoint_dir_close(c);
    return st;
}

TEST(every_allocation_may_fail)
{
    folder_new("memory");
    ASSERT_TRUE(test_every_allocation_fails(scenario) > 50);
}
