/* What ranks observe over time: means and functions of all values of all ranks, and the trigger that stops
 * when they get no better, with the numbers of ChainerMN's tests. */
#include "base/storage/fault.h"
#include "rank_folders.h"

#include <lockstep/observe.h>

#include <math.h>

enum { MOST_RANKS = 16, PATH = 256, PER_EPOCH = 2 };

static lk_position at_step(int64_t step)
{
    return (lk_position){step, step / PER_EPOCH, step % PER_EPOCH, PER_EPOCH};
}

/* ---- aggregators ---- */

/* What rank r observes behind step `step`: ranks observe in different steps. */
static bool observes(int rank, int64_t step)
{
    return rank == 0 || step % (rank + 1) == 0;
}

static double observed(int rank, int64_t step)
{
    return (step % 3 ? 0.1 : -1e9) * (double)(rank + 1) + 1e-7 * (double)step;
}

static void expect_mean(lk_comm *comm, lk_period every, int64_t steps)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    lk_aggregator *a, *alone;
    ASSERT_OK(lk_aggregator_new(comm, every, NULL, NULL, &a));
    ASSERT_OK(lk_aggregator_new(NULL, (lk_period){1, true}, NULL, NULL, &alone));
    for (int64_t step = 1, last = 0; step <= steps; step++) {
        lk_position at = at_step(step);
        double x = observed(rank, step), got = 0, want = 0;
        bool due, time = false;
        ASSERT_OK(lk_aggregator_observe(a, &at, observes(rank, step) ? &x : NULL, &got, &due));
        ASSERT_EQ(due, lk_period_is_due(every, &at));
        if (!due)
            continue;
        lk_position never = {.step = 0}; /* one rank observes all of it, in another order */
        for (int64_t k = step; k > last; k--)
            for (int r = 0; r < size; r++) {
                double y = observed(r, k);
                if (observes(r, k))
                    ASSERT_OK(lk_aggregator_observe(alone, &never, &y, &want, &time));
            }
        ASSERT_OK(lk_aggregator_observe(alone, &at, NULL, &want, &time));
        ASSERT_TRUE(time);
        ASSERT_SAME_BITS(&got, &want, sizeof got);
        last = step;
    }
    lk_aggregator_free(a);
    lk_aggregator_free(alone);
}

RANKS_TEST(means_are_over_all_values_of_all_ranks)
{
    expect_mean(comm, (lk_period){1, true}, 7);
    expect_mean(comm, (lk_period){5, true}, 23);
    expect_mean(comm, (lk_period){1, false}, 9);
    expect_mean(comm, (lk_period){3, false}, 20);
}

/* Rank r observes 2 r in r + 1 steps of 10: the mean is weighted, and is not that of the ranks' means. */
RANKS_TEST(a_rank_that_observes_more_counts_more)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    lk_aggregator *a;
    double x = 2 * rank, got = 0, sum = 0, n = 0;
    bool due = false;
    ASSERT_OK(lk_aggregator_new(comm, (lk_period){10, true}, NULL, NULL, &a));
    for (int64_t step = 1; step <= 10; step++) {
        lk_position at = at_step(step);
        ASSERT_OK(lk_aggregator_observe(a, &at, step <= rank + 1 ? &x : NULL, &got, &due));
    }
    for (int r = 0; r < size; r++) {
        sum += 2 * r * (r + 1);
        n += r + 1;
    }
    double want = sum / n;
    ASSERT_TRUE(due);
    ASSERT_SAME_BITS(&got, &want, sizeof got);
    ASSERT_TRUE(size == 1 || got > size - 1); /* which the mean of means is */
    lk_aggregator_free(a);
}

/* The largest of the ranks' last values, to which the number of all values is added. */
static lk_status largest_last(void *context, const double *value, const int64_t *first, int size,
                              double *out)
{
    LK_CHECK(!*(bool *)context, LK_ENOTSUP, "planted in a function");
    *out = -1;
    for (int r = 0; r < size; r++)
        if (first[r + 1] > first[r] && value[first[r + 1] - 1] > *out)
            *out = value[first[r + 1] - 1];
    *out += 1000 * (double)first[size];
    return LK_OK;
}

RANKS_TEST(a_function_gets_the_values_of_all_ranks)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    bool fails = false;
    lk_aggregator *a;
    ASSERT_OK(lk_aggregator_new(comm, (lk_period){4, true}, largest_last, &fails, &a));
    for (int64_t step = 1; step <= 12; step++) {
        lk_position at = at_step(step);
        double x = (double)(100 * rank + step), got = 0;
        bool due, here = rank == size - 1 || step % 2;
        ASSERT_OK(lk_aggregator_observe(a, &at, here ? &x : NULL, &got, &due));
        ASSERT_EQ(due, step % 4 == 0);
        if (due)
            ASSERT_EQ(got, 100 * (size - 1) + step + 1000 * (4 + 2 * (size - 1)));
    }
    for (int64_t step = 13; step <= 16; step++) { /* nobody observes anything */
        lk_position at = at_step(step);
        double got;
        bool due;
        ASSERT_OK(lk_aggregator_observe(a, &at, NULL, &got, &due));
        ASSERT_TRUE(!due);
    }
    lk_position at = at_step(20);
    double x = 1, got;
    bool due;
    fails = true;
    ASSERT_FAILS(lk_aggregator_observe(a, &at, &x, &got, &due), LK_ENOTSUP,
                 "planted in a function");
    ASSERT_TRUE(!due);
    fails = false; /* what was observed is dropped */
    at = at_step(24);
    ASSERT_OK(lk_aggregator_observe(a, &at, rank == 0 ? &x : NULL, &got, &due));
    ASSERT_TRUE(due && got == 1001);
    lk_aggregator_free(a);
}

RANKS_TEST(a_function_can_be_alone)
{
    bool fails = false, due;
    double x = 7, got = 0;
    lk_position at = at_step(1);
    lk_aggregator *a;
    (void)comm;
    ASSERT_OK(lk_aggregator_new(NULL, (lk_period){1, true}, largest_last, &fails, &a));
    ASSERT_OK(lk_aggregator_observe(a, &at, &x, &got, &due));
    ASSERT_TRUE(due && got == 1007);
    ASSERT_OK(lk_aggregator_observe(a, &at, NULL, &got, &due));
    ASSERT_TRUE(!due);
    lk_aggregator_free(a);
}

/* Saved between two times and restored, alone too, the mean is what it would have been. */
RANKS_TEST(a_restored_aggregator_goes_on)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    lk_aggregator *a, *b, *alone;
    lk_state_tensor from, to, single;
    const lk_period every = {7, true};
    ASSERT_OK(lk_aggregator_new(comm, every, NULL, NULL, &a));
    ASSERT_OK(lk_aggregator_new(comm, every, NULL, NULL, &b));
    ASSERT_OK(lk_aggregator_new(NULL, every, NULL, NULL, &alone));
    for (int64_t step = 1; step <= 7; step++) {
        lk_position at = at_step(step);
        double x = observed(rank, step), got = 0, want = 0;
        bool due;
        if (step == 4) {
            ASSERT_OK(lk_aggregator_state(a, "mean", &from));
            ASSERT_OK(lk_aggregator_state(b, "mean", &to));
            ASSERT_OK(lk_aggregator_state(alone, "mean", &single));
            size_t bytes = (size_t)from.shape.dim[0] * 8;
            memcpy(to.data, from.data, bytes);
            memcpy(single.data, from.data, bytes);
            ASSERT_OK(lk_aggregator_restore(b));
            ASSERT_OK(lk_aggregator_restore(alone));
        }
        ASSERT_OK(lk_aggregator_observe(a, &at, &x, &want, &due));
        if (step < 4)
            continue;
        ASSERT_OK(lk_aggregator_observe(b, &at, &x, &got, &due));
        ASSERT_EQ(due, step == 7);
        if (due)
            ASSERT_SAME_BITS(&got, &want, sizeof got);
        for (int r = 0; r < size; r++) {
            lk_position same = {.step = r + 1 < size ? 0 : step};
            x = observed(r, step);
            ASSERT_OK(lk_aggregator_observe(alone, &same, &x, &got, &due));
        }
        if (due)
            ASSERT_SAME_BITS(&got, &want, sizeof got);
    }
    ((int64_t *)to.data)[3] = -1;
    ASSERT_FAILS(lk_aggregator_restore(b), LK_EINVAL, "no state of an aggregator");
    ((int64_t *)to.data)[3] = 0;
    ((int64_t *)to.data)[to.shape.dim[0] - 1] = INT64_MAX; /* values: no more could be counted */
    ASSERT_FAILS(lk_aggregator_restore(b), LK_EINVAL, "no state of an aggregator");
    lk_aggregator_free(a);
    lk_aggregator_free(b);
    lk_aggregator_free(alone);
}

RANKS_TEST(values_for_a_function_cannot_be_saved)
{
    bool fails = false, due;
    int rank = lk_comm_rank(comm), last = lk_comm_size(comm) - 1;
    double x = 1, got;
    lk_position at = at_step(1);
    lk_aggregator *a;
    lk_state_tensor tensor;
    ASSERT_OK(lk_aggregator_new(comm, (lk_period){2, true}, largest_last, &fails, &a));
    ASSERT_OK(lk_aggregator_state(a, "values", &tensor));
    ASSERT_OK(lk_aggregator_restore(a));
    ASSERT_OK(lk_aggregator_observe(a, &at, rank == last ? &x : NULL, &got, &due));
    ASSERT_FAILS(lk_aggregator_state(a, "values", &tensor), LK_ESTATE, "1 values were observed");
    lk_aggregator_free(a);
}

/* ---- early stop ---- */

/* Behind which of 16 steps, two to an epoch, the trigger fires, as bits; each rank observes an accuracy that
 * is smaller the higher it is. */
static int pattern(lk_comm *comm, const char *options)
{
    static const double accuracy[] = {0.5, 0.5, 0.6, 0.7, 0.6, 0.4, 0.3, 0.2};
    double scale = 1 - (double)lk_comm_rank(comm) / lk_comm_size(comm);
    lk_early_stop_trigger *t;
    int bits = 0;
    ASSERT_OK(lk_early_stop_trigger_new(comm, options, &t));
    for (int i = 0; i < 16; i++) {
        lk_position at = at_step(i + 1);
        double x = accuracy[i / 2] * scale;
        bool stop;
        ASSERT_OK(lk_early_stop_trigger_observe(t, &at, &x, &stop));
        bits |= stop << i;
    }
    lk_early_stop_trigger_free(t);
    return bits;
}

RANKS_TEST(the_pattern_of_the_original)
{
    ASSERT_EQ(pattern(comm, "monitor=main/accuracy patience=3"), 1 << 13 | 1 << 15);
    ASSERT_EQ(pattern(comm, "monitor=accuracy"), 1 << 13 | 1 << 15);
    ASSERT_EQ(pattern(comm, "monitor=main/score mode=max"), 1 << 13 | 1 << 15);
    ASSERT_EQ(pattern(comm, "monitor=accuracy patience=4"), 1 << 15);
    ASSERT_EQ(pattern(comm, "monitor=accuracy patience=5"), 0);
    ASSERT_EQ(pattern(comm, "monitor=accuracy patience=1"),
              1 << 3 | 1 << 9 | 1 << 11 | 1 << 13 | 1 << 15);
    /* Where less is better, 0.5 stays the best until 0.4: without 1, 2, 3, 4, then better. */
    ASSERT_EQ(pattern(comm, "patience=3"), 1 << 7 | 1 << 9);
    ASSERT_EQ(pattern(comm, "monitor=accuracy mode=min patience=3"), 1 << 7 | 1 << 9);
    ASSERT_EQ(pattern(comm, "monitor=accuracy check=\"4 epochs\" patience=1"), 1 << 15);
    ASSERT_EQ(pattern(comm, "monitor=accuracy patience=9 max=\"3 epochs\""), 1 << 5 | 1 << 11);
    ASSERT_EQ(pattern(comm, "monitor=accuracy max=\"5 steps\" patience=9"),
              1 << 4 | 1 << 9 | 1 << 14);
    /* Progress of less than half an accuracy is none. */
    ASSERT_EQ(pattern(comm, "monitor=accuracy change=0.5 patience=7"), 1 << 15);
}

/* Checks of steps see what the last steps brought: 0.5 0.5 0.5 0.5 0.6 ... twice each. */
RANKS_TEST(checks_can_be_of_steps)
{
    ASSERT_EQ(pattern(comm, "monitor=accuracy check=\"1 step\" patience=3"),
              1 << 3 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 12 | 1 << 13 | 1 << 14 | 1 << 15);
}

/* Half of the ranks get better, half worse: the mean decides, for all alike. */
RANKS_TEST(all_ranks_stop_together)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    lk_early_stop_trigger *t;
    ASSERT_OK(lk_early_stop_trigger_new(comm, "check=\"1 step\" patience=2", &t));
    for (int64_t step = 1; step <= 5; step++) {
        lk_position at = at_step(step);
        double x = rank == 0 ? -(double)step : 3 * (double)step;
        bool stop;
        ASSERT_OK(lk_early_stop_trigger_observe(t, &at, &x, &stop));
        ASSERT_EQ(stop, size > 1 && step >= 3);
    }
    double best = lk_early_stop_trigger_best(t), want = size == 1 ? -5 : (3.0 * size - 4) / size;
    ASSERT_SAME_BITS(&best, &want, sizeof best);
    lk_early_stop_trigger_free(t);
}

/* No value, no check; a NaN is no progress. */
RANKS_TEST(missing_values_are_not_progress)
{
    lk_early_stop_trigger *t;
    ASSERT_OK(lk_early_stop_trigger_new(comm, "check=\"1 step\" patience=2", &t));
    for (int64_t step = 1; step <= 8; step++) {
        lk_position at = at_step(step);
        double x = step == 1 ? 1 : (double)NAN;
        bool stop;
        ASSERT_OK(lk_early_stop_trigger_observe(t, &at, step == 1 || step >= 7 ? &x : NULL, &stop));
        ASSERT_EQ(stop, step == 8);
    }
    lk_early_stop_trigger_free(t);
}

/* Saved behind any step, in a checkpoint, and restored: it stops where it would have. */
RANKS_TEST(a_restored_trigger_stops_where_it_would_have)
{
    static const double loss[] = {0.9, 0.3, 0.7, 0.6, 0.8, 0.5, 0.7, 0.6};
    int rank = lk_comm_rank(comm);
    char folder[PATH];
    lk_checkpoint_dir *dir;
    lk__storage_sync_skip(true);
    folder_share(comm, folder, sizeof folder);
    ASSERT_OK(lk_checkpoint_dir_open(comm, folder, &(lk_checkpoint_dir_options){.keep = 2}, &dir));
    for (int save = 1; save < 8; save++) {
        lk_early_stop_trigger *whole, *part;
        ASSERT_OK(lk_early_stop_trigger_new(comm, "patience=2", &whole));
        ASSERT_OK(lk_early_stop_trigger_new(comm, "patience=2", &part));
        for (int i = 0; i < 8; i++) {
            lk_position at = at_step(i + 1);
            double x = loss[i] * (1 + rank);
            bool stop = false, same = false, found;
            ASSERT_OK(lk_early_stop_trigger_observe(whole, &at, &x, &stop));
            if (i < save)
                ASSERT_OK(lk_early_stop_trigger_observe(part, &at, &x, &same));
            else
                same = stop;
            ASSERT_EQ(stop, same);
            if (i + 1 != save)
                continue;
            lk_state_tensor tensor;
            lk_state state = {.step = save, .tensor = &tensor, .n_tensors = 1};
            ASSERT_OK(lk_early_stop_trigger_state(part, "early_stop", &tensor));
            ASSERT_OK(lk_checkpoint_dir_save(dir, &state));
            lk_early_stop_trigger_free(part);
            ASSERT_OK(lk_early_stop_trigger_new(comm, "patience=2", &part));
            ASSERT_OK(lk_early_stop_trigger_state(part, "early_stop", &tensor));
            ASSERT_OK(lk_checkpoint_dir_load(dir, &state, &found));
            ASSERT_TRUE(found);
            ASSERT_OK(lk_early_stop_trigger_restore(part));
            for (int k = save; k < 8; k++) { /* to the end, before `whole` does */
                at = at_step(k + 1);
                x = loss[k] * (1 + rank);
                ASSERT_OK(lk_early_stop_trigger_observe(part, &at, &x, &same));
                ASSERT_EQ(same, k == 5 || k == 7); /* means 0.6, 0.65, 0.65, 0.65 */
            }
        }
        double best = lk_early_stop_trigger_best(part), want = lk_early_stop_trigger_best(whole);
        ASSERT_SAME_BITS(&best, &want, sizeof best);
        lk_early_stop_trigger_free(part);
        lk_early_stop_trigger_free(whole);
    }
    lk_checkpoint_dir_close(dir);
    folder_remove(comm, folder);
}

RANKS_TEST(wrong_options_fail_on_all)
{
    bool last = lk_comm_rank(comm) == lk_comm_size(comm) - 1;
    lk_early_stop_trigger *t;
    lk_aggregator *a;
    ASSERT_FAILS(lk_early_stop_trigger_new(comm, last ? "check=often" : NULL, &t), LK_EINVAL,
                 "check: \"often\" is no period");
    ASSERT_FAILS(lk_early_stop_trigger_new(comm, "check=never", &t), LK_EINVAL,
                 "it would never be time");
    ASSERT_FAILS(lk_early_stop_trigger_new(comm, last ? "patience=0" : NULL, &t), LK_EINVAL,
                 "patience");
    lk_early_stop_trigger_options o = {.check = {1, true}};
    ASSERT_FAILS(lk_early_stop_trigger_new_options(comm, &o, &t), LK_EINVAL, "patience of 0");
    o.patience = 1;
    o.mode = 3;
    ASSERT_FAILS(lk_early_stop_trigger_new_options(comm, &o, &t), LK_EINVAL, "3 is no mode");
    o.mode = LK_STOP_AUTO;
    ASSERT_OK(lk_early_stop_trigger_new_options(comm, &o, &t));
    lk_early_stop_trigger_free(t);
    ASSERT_FAILS(lk_aggregator_new(comm, (lk_period){last ? 0 : 1, false}, NULL, NULL, &a),
                 LK_EINVAL, "every 0 epochs");
}

RANKS_TEST(ranks_must_look_at_the_same_time)
{
    static const char *const differs[][3] = {
        {"check=\"3 steps\"", "check=\"2 steps\"", "check is 3 on rank 0 and 2 on rank"},
        {"check=\"3 steps\"", "check=\"3 epochs\"", "whether check is of steps is 1 on rank 0"},
        {"max=\"9 epochs\"", "max=\"8 epochs\"", "max is 9 on rank 0 and 8 on rank"},
        {"patience=2", "patience=3", "patience is 2 on rank 0 and 3 on rank"},
        {"change=0.5", NULL, "has another change than rank 0"},
        {"mode=max", NULL, "whether less is better is 0 on rank 0 and 1 on rank"}};
    bool last = lk_comm_rank(comm) == lk_comm_size(comm) - 1, fails = false;
    lk_early_stop_trigger *t;
    lk_aggregator *a;
    if (lk_comm_size(comm) == 1)
        return;
    for (size_t i = 0; i < sizeof differs / sizeof *differs; i++)
        ASSERT_FAILS(lk_early_stop_trigger_new(comm, differs[i][last ? 1 : 0], &t), LK_ESTATE,
                     differs[i][2]);
    ASSERT_FAILS(lk_aggregator_new(comm, (lk_period){last ? 4 : 5, true}, NULL, NULL, &a),
                 LK_ESTATE, "every so many is 5 on rank 0 and 4 on rank");
    ASSERT_FAILS(
        lk_aggregator_new(comm, (lk_period){1, true}, last ? largest_last : NULL, &fails, &a),
        LK_ESTATE, "whether it has a function is 0 on rank 0 and 1 on rank");
}
