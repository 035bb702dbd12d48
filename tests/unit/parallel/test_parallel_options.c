/* make_parallel: options, devices, and what it says of itself. */
#include "parallel_models.h"

static int n_warned;

static void warned(void *context, lk_log_level level, const char *line)
{
    (void)context;
    n_warned += level == LK_LOG_WARN && strstr(line, "make_parallel: ") != NULL;
}

TEST(an_option_without_effect_says_so)
{
    lk_model *m = pm_model(&pm_kinds[0]);
    lk_parallel_model *p = NULL;
    lk_log_set_sink(warned, NULL);
    ASSERT_OK(lk_make_parallel(m, pm_devices(2), NULL, &p));
    ASSERT_EQ(n_warned, 0);
    ASSERT_TRUE(strcmp(lk_parallel_model_notes(p), "") == 0);
    lk_parallel_model_free(p);
    ASSERT_OK(lk_make_parallel(m, pm_devices(2),
                               "usenccl=true initsync=false syncopt=true enqueue=true", &p));
    lk_log_set_sink(NULL, NULL);
    ASSERT_EQ(n_warned, 4);
    static const char *const word[] = {"usenccl=true has no effect", "initsync=false has no effect",
                                       "syncopt=true changes no bits",
                                       "enqueue=true has no effect"};
    for (int i = 0; i < 4; i++)
        ASSERT_TRUE(strstr(lk_parallel_model_notes(p), word[i]));
    lk_parallel_model_free(p);
    lk_model_free(m);
}

TEST(a_tape_without_shards_is_told_once)
{
    lk_model *m = pm_model(&pm_kinds[0]);
    lk_parallel_model *p = NULL;
    struct pm_batch b = pm_batch_new(&pm_kinds[0], m, 6, 0);
    struct pm_outcome want = pm_serial(m, &b);
    ASSERT_OK(lk_make_parallel(m, pm_devices(2), NULL, &p));
    n_warned = 0;
    lk_log_set_sink(warned, NULL);
    for (int i = 0; i < 3; i++) {
        struct pm_outcome got = pm_parallel(p, &b);
        ASSERT_TRUE(pm_same(&want, &got));
        pm_outcome_free(&got);
    }
    lk_log_set_sink(NULL, NULL);
    ASSERT_EQ(n_warned, 1);
    pm_outcome_free(&want);
    pm_batch_free(&b);
    lk_parallel_model_free(p);
    lk_model_free(m);
}

TEST(fewer_than_two_devices_are_serial_or_refused)
{
    lk_model *m = pm_model(&pm_kinds[0]);
    lk_parallel_model *p = NULL;
    for (int n = 0; n < 2; n++) {
        ASSERT_OK(lk_make_parallel(m, pm_devices(n), NULL, &p));
        ASSERT_TRUE(lk_parallel_model_is_serial(p));
        ASSERT_EQ(lk_parallel_model_devices(p), n);
        ASSERT_TRUE(lk_parallel_model_serial(p) == m && !lk_parallel_model_device(p, n));
        lk_parallel_model_free(p);
        ASSERT_FAILS(lk_parallel_model_new(m, pm_devices(n), NULL, &p), LK_EINVAL,
                     "needs two at least");
        ASSERT_TRUE(!p);
    }
    ASSERT_FAILS(lk_parallel_model_new_options(m, NULL, 0, NULL, &p), LK_EINVAL, "0 devices");
    ASSERT_FAILS(lk_make_parallel(m, "cpu:0,gpu:1", NULL, &p), LK_EINVAL, "gpu:1");
    ASSERT_FAILS(lk_make_parallel(m, pm_devices(2), "usencl=true", &p), LK_EINVAL, "usenccl");
    ASSERT_FAILS(lk_make_parallel(NULL, pm_devices(2), NULL, &p), LK_EINVAL, "serial is NULL");
    lk_model_free(m);
    ASSERT_OK(lk_model_new(&m));
    ASSERT_FAILS(lk_make_parallel(m, pm_devices(2), NULL, &p), LK_ESTATE, "not built");
    lk_model_free(m);
}

TEST(structs_do_what_texts_do)
{
    lk_model *m = pm_model(&pm_kinds[0]);
    lk_parallel_model *p = NULL, *q = NULL;
    lk_device device[2];
    const lk_parallel_model_options o = {.usenccl = true, .initsync = true};
    ASSERT_OK(lk_make_parallel(m, pm_devices(2), "usenccl=true", &p));
    for (int i = 0; i < 2; i++)
        device[i] = *lk_parallel_model_device(p, i);
    ASSERT_OK(lk_parallel_model_new_options(m, device, 2, &o, &q));
    ASSERT_TRUE(strcmp(lk_parallel_model_notes(p), lk_parallel_model_notes(q)) == 0);
    ASSERT_TRUE(strcmp(lk_parallel_model_device(q, 1)->name, device[1].name) == 0);
    lk_parallel_model_free(p);
    lk_parallel_model_free(q);
    lk_model_free(m);
}

TEST(syncopt_takes_only_optimizers_that_can_be_split)
{
    lk_model *m = pm_model(&pm_kinds[0]);
    lk_optimizer *adam = NULL, *clipped = NULL;
    ASSERT_OK(lk_optimizer_new(lk_model_params(m), "adam", NULL, &adam));
    ASSERT_OK(lk_optimizer_new(lk_model_params(m), "adam", "clip_norm=1", &clipped));
    for (int sync = 0; sync < 2; sync++) {
        lk_parallel_model *p = NULL;
        ASSERT_OK(lk_make_parallel(m, pm_devices(2), sync ? "syncopt=true" : NULL, &p));
        ASSERT_OK(lk_parallel_model_check_optimizer(p, adam));
        if (sync)
            ASSERT_FAILS(lk_parallel_model_check_optimizer(p, clipped), LK_EINVAL,
                         "adam with clip_norm cannot update the parameters in parts");
        else
            ASSERT_OK(lk_parallel_model_check_optimizer(p, clipped));
        lk_parallel_model_free(p);
    }
    lk_optimizer_free(adam);
    lk_optimizer_free(clipped);
    lk_model_free(m);
}

TEST(the_summary_has_devices_slices_and_parameters_once)
{
    char text[2048], want[256];
    lk_model *m = pm_model(&pm_kinds[0]);
    lk_parallel_model *p = NULL;
    ASSERT_OK(lk_make_parallel(m, pm_devices(2), NULL, &p));
    int64_t n = lk_parallel_model_summary(p, 13, 2, text, sizeof text);
    ASSERT_EQ(n, (int64_t)strlen(text));
    snprintf(want, sizeof want, "model on 2 devices, a batch of 13:\n  %-12s samples 0 to 5\n",
             lk_parallel_model_device(p, 0)->name);
    ASSERT_TRUE(strstr(text, want) == text);
    ASSERT_TRUE(strstr(text, "samples 6 to 12\n"));
    ASSERT_TRUE(strstr(text, "\n103 parameters in one copy, "));
    ASSERT_EQ(lk_parallel_model_summary(p, 13, 2, NULL, 0), n);
    ASSERT_EQ(lk_parallel_model_summary(p, 13, 2, want, 20), n);
    ASSERT_EQ((int64_t)strlen(want), 19);
    ASSERT_EQ(lk_parallel_model_slice(p, 13, 0, 0).n + lk_parallel_model_slice(p, 13, 0, 1).n, 13);
    ASSERT_EQ(lk_parallel_model_slice(p, 1, 2, 2).n, 0);
    lk_parallel_model_free(p);
    lk_model_free(m);
}
