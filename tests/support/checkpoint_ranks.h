/* Checkpoints of ranks that hold boxes, on a disk and in memory that fail: each allocation of any rank,
 * killed at each call that changes the disk, a power cut after each call.  How many of them are tried is
 * said by the test. */
#ifndef LK_TEST_CHECKPOINT_RANKS_H
#define LK_TEST_CHECKPOINT_RANKS_H

#include "boxes.h"
#include "crash.h"
#include "data_files.h"
#include "io/checkpoint/checkpoint.h"

#include <lockstep/comm.h>

#include <dirent.h>
#include <sys/wait.h>

enum { RANKS = 3 };

static char folder[300];

/* What ranks do: save the steps from `first` to `last`, and load the newest. */
typedef struct plan {
    int64_t first, last;
    crash_trace *trace; /* told what is acknowledged; NULL: nobody is */
    int64_t loaded;
} plan;

static inline lk_checkpoint_dir_options options(void)
{
    lk_checkpoint_dir_options o = test_options(2);
    o.part_bytes = 1; /* tensors above the share of a rank are streamed */
    return o;
}

static inline lk_status saves(lk_checkpoint_dir *c, plan *p)
{
    boxed_state b;
    bool found = false;
    box_cut how = CUT_COLUMNS;
    c->band = 40;
    for (int64_t step = p->first; step <= p->last; step++) {
        LK_TRY(lk_checkpoint_dir_save(c, boxed_at(&b, step, how, c->rank, c->size)));
        if (lk_checkpoint_dir_messages(c)[0])
            return LK_RAISE(LK_ENOMEM, "%s", lk_checkpoint_dir_messages(c)); /* of an old one */
        if (p->trace && c->rank == 0)
            crash_mark(p->trace, step);
        how = step % 2 ? CUT_GRID : CUT_COLUMNS;
    }
    boxed_at(&b, 999, CUT_ROWS, c->rank, c->size);
    LK_TRY(lk_checkpoint_dir_load(c, &b.all.state, &found));
    if (found)
        boxed_expect(&b, b.all.state.step, CUT_ROWS, c->rank, c->size);
    if (c->rank == 0)
        p->loaded = found ? b.all.state.step : -1;
    return LK_OK;
}

static inline lk_status rank_run(lk_comm *comm, void *arg)
{
    lk_checkpoint_dir *c;
    lk_checkpoint_dir_options o = options();
    LK_TRY(lk_checkpoint_dir_open(comm, folder, &o, &c));
    lk_status st = saves(c, arg);
    lk_checkpoint_dir_close(c);
    return LK_TRACE(st);
}

static inline void folder_new(const char *name)
{
    lk__storage_sync_skip(true);
    snprintf(folder, sizeof folder, "%s", test_path(name));
}

/* Of one rank that holds all: the newest is of one of these steps. */
static inline int64_t newest_check(int64_t least, int64_t most)
{
    lk_checkpoint_dir *c;
    lk_checkpoint_dir_options o = options();
    test_state s;
    bool found;
    test_state_at(&s, 999);
    ASSERT_OK(lk_checkpoint_dir_open(NULL, folder, &o, &c));
    ASSERT_OK(lk_checkpoint_dir_load(c, &s.state, &found));
    ASSERT_EQ(lk_checkpoint_dir_messages(c)[0], '\0');
    lk_checkpoint_dir_close(c);
    int64_t step = found ? s.state.step : 0;
    ASSERT_TRUE(step >= least && step <= most);
    if (found)
        test_state_expect(&s, step);
    return step;
}

/* Files that this process has open. */
static inline int files_open(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    for (; d && readdir(d); n++) {
    }
    ASSERT_TRUE(!d || closedir(d) == 0);
    return n;
}

/* Fail each `every`-th allocation of all ranks. */
static inline void allocations_fail(int64_t every)
{
    folder_new("memory");
    plan p = {.first = 1, .last = 1};
    ASSERT_OK(lk_run_local(RANKS, rank_run, &p));
    int64_t live = lk_alloc_stats_now().live_blocks, step = 1, failed = 0;
    int files = files_open();
    for (int64_t n = 1;; n += every) {
        p = (plan){.first = step + 1, .last = step + 1};
        int64_t calls = lk_alloc_stats_now().calls;
        lk_alloc_fail_at(n);
        lk_status st = lk_run_local(RANKS, rank_run, &p);
        lk_alloc_fail_at(0);
        bool happened = lk_alloc_stats_now().calls - calls >= n;
        ASSERT_EQ(lk_alloc_stats_now().live_blocks, live);
        ASSERT_EQ(files_open(), files);
        bool told = st == LK_ENOMEM || strstr(lk_error_message(), "out of memory");
        if (st != LK_OK &&
            (!happened || !told)) /* memory of messages ends the job, and is told so */
            TEST_FAIL("allocation %lld: %s: %s", (long long)n, lk_status_text(st),
                      lk_error_message());
        lk_error_clear();
        int64_t before = step;
        step = newest_check(st == LK_OK ? step + 1 : step, step + 1);
        failed += st != LK_OK;
        if (!happened)
            break;
        if (st != LK_OK && step > before) { /* old ones may be left, and each takes more memory */
            p = (plan){.first = step + 1, .last = step + 1};
            ASSERT_OK(lk_run_local(RANKS, rank_run, &p));
            step++;
        }
    }
    printf("%lld allocations\n", (long long)failed);
    ASSERT_TRUE(failed > 100 / every);
}

/* In a process of its own, which dies at the n-th call of a kind; false: there are fewer. */
static inline bool killed_at(lk__storage_call call, int64_t n, int64_t step)
{
    int status;
    fflush(stdout);
    pid_t child = fork();
    ASSERT_TRUE(child >= 0);
    if (child == 0) {
        plan p = {.first = step, .last = step};
        lk__storage_fail(call, n, LK__STORAGE_KILL, false);
        _exit(lk_run_local(RANKS, rank_run, &p) == LK_OK ? 0 : 1);
    }
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

/* Kill saves twice in a row at the same renaming: LATEST names one that is there. */
static inline void kills_between_names(void)
{
    char path[400], name[64];
    folder_new("names");
    int64_t step = 0;
    bool killed = true;
    for (int64_t n = 1; killed; n++) {
        while (step % 4 != 3) /* until there are as many as are kept */
            (void)killed_at(LK__STORAGE_RENAME, 0, ++step);
        for (int again = 0; again < 2; again++) {
            killed = killed_at(LK__STORAGE_RENAME, n, step + 1);
            step = newest_check(step, step + 1);
            snprintf(path, sizeof path, "%s/LATEST", folder);
            FILE *f = fopen(path, "r");
            ASSERT_TRUE(f && fscanf(f, "%63s", name) == 1 && fclose(f) == 0);
            snprintf(path, sizeof path, "%s/%s", folder, name);
            ASSERT_EQ(access(path, F_OK), 0);
        }
    }
}

/* Kill all ranks at each `every`-th call of the kinds that change what is on disk. */
static inline void kills(int64_t every)
{
    static const lk__storage_call calls[] = {LK__STORAGE_WRITE, LK__STORAGE_SYNC,
                                             LK__STORAGE_RENAME, LK__STORAGE_MKDIR,
                                             LK__STORAGE_REMOVE};
    folder_new("killed");
    int64_t step = 0, n_kills = 0;
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        for (int64_t n = 1;; n += every) {
            bool killed = killed_at(calls[i], n, step + 1);
            n_kills += killed;
            step = newest_check(killed ? step : step + 1, step + 1);
            if (!killed)
                break;
        }
    printf("%lld kills\n", (long long)n_kills);
    ASSERT_TRUE(n_kills > 20 / every);
}

/* After a power cut: what was acknowledged is there, and nothing that has the name of a checkpoint is less
 * than one. */
static inline void survived(void *arg, const char *root, int64_t acknowledged)
{
    const int64_t *last = arg;
    snprintf(folder, sizeof folder, "%s/checkpoints", root);
    if (access(folder, F_OK) != 0)
        ASSERT_EQ(acknowledged, 0);
    else
        (void)newest_check(acknowledged, *last);
}

/* Let the power fail after each call, with so many states of each point. */
static inline void power_cuts(int64_t most)
{
    crash_trace t;
    char root[200];
    int64_t last = 3;
    snprintf(root, sizeof root, "%s", test_path("real"));
    ASSERT_EQ(mkdir(root, 0700), 0);
    folder_new("real/checkpoints");
    crash_record(&t, root);
    plan p = {.first = 1, .last = last, .trace = &t};
    ASSERT_OK(lk_run_local(RANKS, rank_run, &p));
    crash_stop();
    ASSERT_EQ(p.loaded, last);
    ASSERT_TRUE(crash_replay(&t, &(crash_check){.fn = survived, .arg = &last, .most = most}) > 60);
    crash_free(&t);
}

#endif /* LK_TEST_CHECKPOINT_RANKS_H */
