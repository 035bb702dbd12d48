/* Check of lk_tree: pieces pushed one by one. */
#include "kernel/reference/reference.h"
#include "selfcheck/check.h"

#include <lockstep/extra/reduce.h>

#include <stdio.h>

enum { WHOLE, TWICE };

static const struct {
    int64_t pieces, count;
} cases[] = {{0, 5},   {1, 7},  {2, 1},    {3, 33},    {8, 16},
             {13, 17}, {64, 3}, {100, 61}, {5, 20011}, {4, 0}};

static lk_status tree_setup(check_case *c)
{
    int64_t pieces = cases[c->index].pieces, count = cases[c->index].count;
    snprintf(c->label, sizeof c->label, "%lld pieces of %lld", (long long)pieces, (long long)count);
    LK_TRY(check_input(c, c->dtype, pieces * count, -1, 1));
    LK_TRY(check_output(c, c->dtype, count, false));
    c->ways = 1U << WHOLE | 1U << TWICE;
    return LK_OK;
}

static lk_status push_all(const check_case *c, lk_tree *tree, void *out)
{
    for (int64_t p = 0; p < cases[c->index].pieces; p++)
        LK_TRY(lk_tree_push(tree, check_at(c->dtype, c->in[0].data, p * c->out[0].n)));
    return LK_TRACE(lk_tree_finish(tree, out));
}

static lk_status tree_run(const check_case *c, int way, void *const *out)
{
    lk_status st;
    lk_tree *tree;
    LK_TRY(lk_tree_new(c->dtype, c->out[0].n, &tree));
    LK_TRY_TO(done, push_all(c, tree, out[0]));
    if (way == TWICE)
        LK_TRY_TO(done, push_all(c, tree, out[0]));
done:
    lk_tree_free(tree);
    return st;
}

static lk_status tree_expect(const check_case *c, check_truth *truth)
{
    truth->has_bits[0] = true;
    lk__ref_tree_vectors(c->dtype, cases[c->index].pieces, c->out[0].n, c->in[0].data,
                         truth->bits[0], truth->value[0]);
    return LK_OK;
}

const lk__check lk__check_tree = {
    .name = "tree",
    .summary = "the fixed pairwise tree over vectors, as a stream, and used again",
    .n_cases = sizeof cases / sizeof cases[0],
    .ways = {"whole", "again"},
    .setup = tree_setup,
    .run = tree_run,
    .expect = tree_expect,
};
