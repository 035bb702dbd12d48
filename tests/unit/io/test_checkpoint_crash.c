/* Checkpoints after a power cut at any point: what was acknowledged is there, and nothing that has the
 * name of a checkpoint is less than one. */
#include "checkpoints.h"
#include "crash.h"
#include "data_files.h"
#include "io/checkpoint/checkpoint.h"

#include <lockstep/io.h>

static lk_checkpoint_dir *folder_open(const char *folder, int64_t keep, bool anew)
{
    lk_checkpoint_dir *c;
    lk_checkpoint_dir_options o = test_options(keep);
    o.anew = anew;
    ASSERT_OK(lk_checkpoint_dir_open(NULL, folder, &o, &c));
    return c;
}

/* All checkpoints of a folder verify. */
static void all_verify(const char *folder)
{
    lk_arena *arena;
    int64_t *step, n;
    char path[LK_PATH_SIZE];
    ASSERT_OK(lk_arena_new(&arena));
    ASSERT_OK(lk__steps_list(folder, arena, &step, &n));
    for (int64_t i = 0; i < n; i++) {
        lk_checkpoint *c;
        ASSERT_OK(lk__step_path(folder, step[i], "", path));
        ASSERT_OK(lk_checkpoint_read(path, &c));
        ASSERT_OK(lk__checkpoint_verify_all(c));
        lk_checkpoint_free(c);
    }
    lk_arena_free(arena);
}

/* `acknowledged` is the step of the last save that returned; -1 after a start anew, when none of the
 * run before may be found. */
static void survived(void *arg, const char *root, int64_t acknowledged)
{
    char folder[300];
    test_state s;
    bool found = false;
    (void)arg;
    snprintf(folder, sizeof folder, "%s/checkpoints", root);
    if (access(folder, F_OK) != 0) {
        ASSERT_EQ(acknowledged, 0);
        return;
    }
    all_verify(folder);
    lk_checkpoint_dir *c = folder_open(folder, 2, false);
    test_state_at(&s, 999);
    ASSERT_OK(lk_checkpoint_dir_load(c, &s.state, &found));
    ASSERT_TRUE(found || acknowledged <= 0);
    if (found)
        test_state_expect(&s, s.state.step);
    ASSERT_TRUE(!found || acknowledged >= 0 || s.state.step == 1);
    ASSERT_TRUE(!found || s.state.step >= acknowledged);
    ASSERT_TRUE(lk_checkpoint_dir_messages(c)[0] == '\0');
    /* and it goes on from there */
    int64_t next = found ? s.state.step + 1 : 1;
    ASSERT_OK(lk_checkpoint_dir_save(c, test_state_at(&s, next)));
    lk_checkpoint_dir_close(c);
}

static void saves(crash_trace *t, const char *folder, int64_t first, int64_t last, int64_t keep)
{
    test_state s;
    lk_checkpoint_dir *c = folder_open(folder, keep, false);
    for (int64_t step = first; step <= last; step++) {
        ASSERT_OK(lk_checkpoint_dir_save(c, test_state_at(&s, step)));
        crash_mark(t, step);
    }
    lk_checkpoint_dir_close(c);
}

TEST(what_was_acknowledged_survives_a_power_cut)
{
    crash_trace t;
    char root[200], folder[256];
    snprintf(root, sizeof root, "%s", test_path("real"));
    snprintf(folder, sizeof folder, "%s/checkpoints", root);
    ASSERT_EQ(mkdir(root, 0700), 0);
    crash_record(&t, root);
    saves(&t, folder, 1, 4, 2);
    saves(&t, folder, 5, 5, 2); /* another run */
    crash_stop();
    ASSERT_TRUE(crash_replay(&t, &(crash_check){.fn = survived, .most = 32}) > 100);
    crash_free(&t);
}

TEST(a_start_anew_survives_a_power_cut)
{
    crash_trace t;
    char root[200], folder[256];
    test_state s;
    snprintf(root, sizeof root, "%s", test_path("anew"));
    snprintf(folder, sizeof folder, "%s/checkpoints", root);
    ASSERT_EQ(mkdir(root, 0700), 0);
    crash_record(&t, root);
    saves(&t, folder, 1, 2, 2);
    crash_mark(&t, 0); /* from here on they may be set aside */
    lk_checkpoint_dir *c = folder_open(folder, 2, true);
    crash_mark(&t, -1);
    ASSERT_OK(lk_checkpoint_dir_save(c, test_state_at(&s, 1)));
    crash_mark(&t, 1);
    lk_checkpoint_dir_close(c);
    crash_stop();
    ASSERT_TRUE(crash_replay(&t, &(crash_check){.fn = survived, .most = 32}) > 60);
    crash_free(&t);
}
