/* Frozen tensors: a step with some frozen moves the others as if these were alone, by every rule, and leaves
 * the frozen ones and their state to the bit. */
#include "harness.h"

#include <lockstep/optim.h>

enum { TENSORS = 7, STEPS = 6 };

/* One that moves has nothing here: other ranks hold it. */
static const int64_t size[TENSORS] = {33, 5000, 17, 0, 40, 4099, 7};
static const bool frozen[TENSORS] = {true, false, true, false, true, false, true};

/* Parameters and gradients of all tensors, or of those that move. */
struct problem {
    lk_slab *w, *g;
};

static struct problem problem_new(bool all)
{
    struct problem p = {0};
    lk_slab_layout *layout = NULL;
    char name[8];
    ASSERT_OK(lk_slab_layout_new(&layout));
    for (int i = 0; i < TENSORS; i++) {
        snprintf(name, sizeof name, "t%d", i);
        if (all || !frozen[i])
            ASSERT_OK(lk_slab_layout_add(layout, name, LK_F32, LK_SHAPE(size[i])));
    }
    ASSERT_OK(lk_slab_new(layout, &p.w));
    ASSERT_OK(lk_slab_new_like(p.w, &p.g));
    lk_slab_layout_free(layout);
    return p;
}

static void problem_free(struct problem *p)
{
    lk_slab_free(p->w);
    lk_slab_free(p->g);
}

/* Tensor `i` of a slab of all tensors, or of those that move. */
static float *tensor(const lk_slab *slab, bool all, int i)
{
    lk_slab_slice slice;
    int number = 0;
    for (int k = 0; k < i; k++)
        number += all || !frozen[k];
    ASSERT_OK(lk_slab_layout_slice(lk_slab_layout_of(slab), number, &slice));
    return (float *)(void *)((char *)lk_slab_data(slab) + slice.offset);
}

/* Values and gradients: those of a frozen tensor are not 0, so that a step that took them would show. */
static void fill(struct problem *p, bool all, int step)
{
    for (int i = 0; i < TENSORS; i++)
        for (int64_t k = 0; k < size[i] && (all || !frozen[i]); k++) {
            if (step == 0)
                tensor(p->w, all, i)[k] = k % 5 ? (float)(k % 37 - 18) / 16 : -0.0f;
            tensor(p->g, all, i)[k] = (float)((k * 7 + i + step) % 23 - 11) / 8;
        }
}

static void run(const char *rule, const char *options, bool all, struct problem *p,
                lk_optimizer **out)
{
    ASSERT_OK(lk_optimizer_new(p->w, rule, options, out));
    for (int step = 0; step < STEPS; step++) {
        fill(p, all, step);
        lk_optimizer_input in = {.grads = p->g, .at = {.step = step}};
        in.frozen = all ? frozen : NULL;
        ASSERT_OK(lk_optimizer_step(*out, &in, NULL));
    }
}

static void expect_zero_state(const lk_optimizer *o, int i)
{
    const char *name;
    const lk_slab *state;
    for (int s = 0; (state = lk_optimizer_slab(o, s, &name)); s++)
        for (int64_t k = 0; k < size[i]; k++)
            if (tensor(state, true, i)[k] != tensor(state, true, 0)[0])
                TEST_FAIL("state %s of frozen tensor %d has moved", name, i);
}

static void expect_alone(const char *rule, const char *options)
{
    struct problem all = problem_new(true), some = problem_new(false), start = problem_new(true);
    lk_optimizer *o[2] = {NULL};
    fill(&start, true, 0);
    run(rule, options, true, &all, &o[0]);
    run(rule, options, false, &some, &o[1]);
    for (int i = 0; i < TENSORS; i++) {
        const float *got = tensor(all.w, true, i);
        const float *want = frozen[i] ? tensor(start.w, true, i) : tensor(some.w, false, i);
        if (memcmp(got, want, (size_t)size[i] * sizeof *got) != 0)
            TEST_FAIL("%s %s: tensor %d is not as it should be", rule, options, i);
        ASSERT_TRUE(frozen[i] || size[i] == 0 ||
                    memcmp(got, tensor(start.w, true, i), (size_t)size[i] * sizeof *got) != 0);
        if (frozen[i])
            expect_zero_state(o[0], i);
    }
    for (int i = 0; i < 2; i++)
        lk_optimizer_free(o[i]);
    problem_free(&all);
    problem_free(&some);
    problem_free(&start);
}

TEST(every_rule_leaves_frozen_tensors)
{
    for (int i = 0; lk_update_rules[i]; i++) {
        expect_alone(lk_update_rules[i]->descriptor.name, "decay=0.01");
        expect_alone(lk_update_rules[i]->descriptor.name, "clip_norm=0.5 decay=0.01");
    }
    expect_alone("sgd", "momentum=0.9 nesterov=true decay=0.01");
}

/* Gradients that are asked for by range, as ranks that share a copy do. */
static lk_status gradient_read(void *context, int64_t first, int64_t n, void *out)
{
    const struct problem *p = context;
    memcpy(out, (const float *)lk_slab_data(p->g) + first, (size_t)n * sizeof(float));
    return LK_OK;
}

TEST(ranges_leave_frozen_tensors)
{
    struct problem whole = problem_new(true), parts = problem_new(true);
    lk_optimizer *o[2] = {NULL};
    run("adam", "decay=0.01", true, &whole, &o[0]);
    ASSERT_OK(lk_optimizer_new(parts.w, "adam", "decay=0.01", &o[1]));
    int64_t n = lk_slab_layout_bytes(lk_slab_layout_of(parts.w)) / (int64_t)sizeof(float);
    for (int step = 0; step < STEPS; step++) {
        fill(&parts, true, step);
        for (int64_t at = 0; at < n; at += 2048) {
            lk_optimizer_input in = {.read_gradient = gradient_read,
                                     .context = &parts,
                                     .first = at,
                                     .n = n - at < 2048 ? n - at : 2048,
                                     .at = {.step = step},
                                     .frozen = frozen};
            ASSERT_OK(lk_optimizer_step(o[1], &in, NULL));
        }
    }
    ASSERT_EQ(memcmp(lk_slab_data(whole.w), lk_slab_data(parts.w), (size_t)n * sizeof(float)), 0);
    for (int i = 0; i < 2; i++)
        lk_optimizer_free(o[i]);
    problem_free(&whole);
    problem_free(&parts);
}
