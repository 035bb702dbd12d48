/* Named models that a program adds by name: the layers that an experiment file gets by the same name. */
#include "faults.h"

#include <lockstep/models.h>

static lk_status build(lk_model *model)
{
    LK_TRY(lk_model_build(model, &(lk_model_spec){.in = {LK_F32, LK_SHAPE(8, 8, 3)}, .seed = 5}));
    return LK_TRACE(lk_model_hold(model, NULL));
}

TEST(a_text_and_a_config_give_the_same_model)
{
    static const char *const presets[][2] = {{"mlp", "units=20,10 classes=4 dropout=0.5"},
                                             {"resnet", "blocks=1 classes=4"},
                                             {"unet", "depth=2 width=4 classes=4"}};
    for (size_t k = 0; k < sizeof presets / sizeof presets[0]; k++) {
        char text[64];
        lk_model *a = NULL, *b = NULL;
        lk_arena *arena = NULL;
        lk_config config;
        lk_configs layers;
        snprintf(text, sizeof text, "%s", presets[k][1]);
        ASSERT_OK(lk_arena_new(&arena));
        ASSERT_OK(lk_model_new(&a));
        ASSERT_OK(lk_model_new(&b));
        ASSERT_OK(lk_config_parse(&lk_registry_model, presets[k][0], text, arena, &config));
        ASSERT_OK(lk_model_expand(&config, arena, &layers));
        for (int64_t i = 0; i < layers.n; i++)
            ASSERT_OK(lk_model_add_config(b, &layers.item[i]));
        ASSERT_OK(lk_model_add_preset(a, presets[k][0], text));
        memset(text, 'x', sizeof text);
        ASSERT_OK(build(a));
        ASSERT_OK(build(b));
        ASSERT_EQ(lk_model_layers(a), lk_model_layers(b));
        int64_t bytes = lk_slab_layout_bytes(lk_model_layout(a));
        ASSERT_EQ(bytes, lk_slab_layout_bytes(lk_model_layout(b)));
        ASSERT_SAME_BITS(lk_slab_data(lk_model_params(a)), lk_slab_data(lk_model_params(b)),
                         (size_t)bytes);
        lk_model_free(a);
        lk_model_free(b);
        lk_arena_free(arena);
    }
}

TEST(what_is_wrong_is_told_and_adds_nothing)
{
    lk_model *model = NULL;
    ASSERT_OK(lk_model_new(&model));
    ASSERT_FAILS(lk_model_add_preset(model, "resnte", NULL), LK_EINVAL,
                 "unknown model \"resnte\"; did you mean \"resnet\"?");
    ASSERT_FAILS(lk_model_add_preset(model, "mlp", "classes=3 unit=3"), LK_EINVAL,
                 "options, column 11: model mlp has no option \"unit\"; did you mean \"units\"?");
    ASSERT_FAILS(lk_model_add_preset(model, "mlp", "activation=rleu"), LK_EINVAL,
                 "unknown layer \"rleu\"; did you mean \"relu\"?");
    ASSERT_FAILS(build(model), LK_EINVAL, "a model without layers");
    ASSERT_OK(lk_model_add_preset(model, "mlp", NULL));
    ASSERT_OK(build(model));
    ASSERT_FAILS(lk_model_add_preset(model, "mlp", NULL), LK_ESTATE, "the model is built");
    lk_model_free(model);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

static lk_status make(void)
{
    lk_model *model = NULL;
    lk_status st = LK_OK;
    LK_TRY_TO(done, lk_model_new(&model));
    LK_TRY_TO(done, lk_model_add_preset(model, "resnet", "blocks=1"));
done:
    lk_model_free(model);
    return st;
}

TEST(every_allocation_may_fail)
{
    ASSERT_TRUE(test_every_allocation_fails(make) >= 4);
}

/* Wherever memory ends, also in the middle of the layers. */
TEST(a_failure_leaves_the_model_as_it_was)
{
    for (int64_t n = 1;; n++) {
        lk_model *model = NULL;
        ASSERT_OK(lk_model_new(&model));
        lk_alloc_fail_at(n);
        lk_status st = lk_model_add_preset(model, "mlp",
                                           "units=1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1 dropout=0.1");
        lk_alloc_fail_at(0);
        if (st == LK_OK) {
            lk_model_free(model);
            break;
        }
        ASSERT_EQ(st, LK_ENOMEM);
        ASSERT_FAILS(build(model), LK_EINVAL, "a model without layers");
        lk_model_free(model);
    }
}
