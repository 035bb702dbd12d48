/* Tags: nodes that go together are accepted and have, on any ranks, the bits of one rank, values and
 * gradients; those that do not are refused, with words that name them. */
#include "feature_values.h"

/* ---- what is refused ---- */

enum { STEPS = 8 };

#define STEP(text, what, from)                              \
    {                                                       \
        .name = text, .kind = what, .in = {(from), (from) } \
    }

struct example {
    lk_feature_step step[STEPS];
    const char *message; /* NULL: it is right */
};

static const struct example examples[] = {
    /* columns, columns, and all of it */
    {{STEP("fc1.in", "copy", -1), STEP("fc1", "linear_partial", 0), STEP("relu", "element_wise", 1),
      STEP("fc2", "linear_scattered", 2), STEP("fc2.out", "gather", 3), STEP("norm", "whole", 4)},
     NULL},
    {{STEP("up", "linear", -1), STEP("gelu", "element_wise", 0), STEP("down", "linear_in", 1)},
     NULL},
    {{STEP("up", "linear", -1), STEP("down", "linear_in_partial", 0), STEP("sum", "join", 1),
      STEP("b", "bias", 2)},
     NULL},
    {{STEP("words", "embedding_rows", -1), STEP("norm", "whole", 0), STEP("head", "linear", 1),
      STEP("loss", "cross_entropy", 2)},
     NULL},
    {{STEP("words", "embedding_units", -1), STEP("first", "recurrent_scattered", 0),
      STEP("all", "gather", 1), STEP("second", "recurrent", 2),
      STEP("head", "linear_scattered", 3)},
     NULL},
    {{STEP("words", "embedding_units", -1), STEP("all", "gather", 0), STEP("norm", "whole", 1)},
     NULL},
    /* a block with its way around: the value is read twice, and each gradient is replicated */
    {{STEP("norm", "whole", -1),
      STEP("up", "linear", 0),
      STEP("down", "linear_in", 1),
      {"res", "add", {2, -1}}},
     NULL},
    {{STEP("norm", "whole", -1), STEP("up", "linear_partial", 0), STEP("down", "linear_in", 1)},
     "norm (whole) takes a gradient that is replicated, and what up (linear_partial) gives is "
     "partial along features: a copy or a gather_sum before the layer joins it"},
    {{STEP("up", "linear_partial", -1)},
     "what comes in (input) takes a gradient that is replicated, and what up (linear_partial) "
     "gives "
     "is partial"},
    {{STEP("up", "linear", -1), STEP("down", "linear_in_partial", 0),
      STEP("relu", "element_wise", 1), STEP("sum", "join", 2)},
     "relu (element_wise) takes a value that is replicated or varying, and that of down "
     "(linear_in_partial) is partial along features: a join comes first"},
    {{STEP("up", "linear", -1), STEP("down", "linear_in_partial", 0), STEP("b", "bias", 1),
      STEP("sum", "join", 2)},
     "b (bias) takes a value that is replicated or varying, and that of down"},
    {{STEP("up", "linear", -1), STEP("down", "linear_in_partial", 0)},
     "down (linear_in_partial) is the last, and its value is partial along features"},
    {{STEP("words", "embedding_units", -1), STEP("lstm", "recurrent", 0)},
     "lstm (recurrent) takes a value that is replicated, and that of words (embedding_units) is "
     "varying"},
    {{STEP("norm", "whole", -1), STEP("lstm", "recurrent_partial", 0)},
     "norm (whole) takes a gradient that is replicated, and what lstm (recurrent_partial) gives"},
    /* once for each rank */
    {{STEP("up", "linear", -1), STEP("all", "gather_sum", 0), STEP("norm", "whole", 1)},
     "all (gather_sum) takes a gradient that is partial, and what norm (whole) gives is replicated "
     "along features: there is nothing to join"},
    {{STEP("in", "copy", -1), STEP("norm", "whole", 0)},
     "in (copy) takes a gradient that is partial, and what norm (whole) gives is replicated"},
    {{STEP("up", "linear", -1), STEP("norm", "whole", 0)},
     "norm (whole) takes a value that is replicated, and that of up (linear) is varying along "
     "features: a gather comes first"},
    {{STEP("up", "linear", -1), {"res", "add", {0, -1}}},
     "res (add) takes two values alike, and that of up (linear) is varying, that of what comes in "
     "(input) replicated"},
    /* a sum of partial gradients is another tree */
    {{STEP("in", "copy", -1),
      STEP("q", "linear_partial", 0),
      STEP("k", "linear_partial", 0),
      {"qk", "add", {1, 2}}},
     "q (linear_partial) and k (linear_partial) read in (copy), and the gradients that they give "
     "are "
     "partial and partial along features"},
    {{STEP("in", "copy", -1),
      STEP("q", "linear_partial", 0),
      STEP("all", "gather", 1),
      {"res", "add", {2, 0}}},
     "in (copy) takes a gradient that is partial, and what res (add) gives is replicated"},
    {{STEP("up", "lineal", -1)}, "did you mean \"linear\"?"},
    {{STEP("up", "linear", 0)}, "up (linear), step 0, reads step 0: it can read earlier ones"},
};

RANKS_TEST(wrong_compositions_are_named)
{
    lk_feature_tag y;
    (void)comm;
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
        const struct example *e = &examples[i];
        int64_t n = 0;
        while (n < STEPS && e->step[n].kind)
            n++;
        lk_status st = lk_feature_tags_check(e->step, n, LK_FEATURE_TAG_REPLICATED, &y);
        if (!e->message && st != LK_OK)
            TEST_FAIL("example %d is right: %s", (int)i, lk_error_message());
        if (e->message && (st != LK_EINVAL || !strstr(lk_error_message(), e->message)))
            TEST_FAIL("example %d: \"%s\", not \"%s\"", (int)i,
                      st == LK_OK ? "accepted" : lk_error_message(), e->message);
        lk_error_clear();
    }
    ASSERT_FAILS(lk_feature_tags_check(NULL, 1, LK_FEATURE_TAG_REPLICATED, NULL), LK_EINVAL,
                 "which are NULL");
    ASSERT_FAILS(lk_feature_tags_check(NULL, 0, LK_FEATURE_TAG_PARTIAL, NULL), LK_EINVAL,
                 "what comes in");
    ASSERT_OK(lk_feature_tags_check(NULL, 0, LK_FEATURE_TAG_VARYING, &y));
    ASSERT_EQ(y, LK_FEATURE_TAG_VARYING);
}

/* ---- what is accepted ---- */

enum { N = 24, ROWS = 3, NETS = 4000, LONGEST = 6 };

static const char *const kinds[] = {"copy",
                                    "gather",
                                    "gather_sum",
                                    "join",
                                    "linear",
                                    "linear_in",
                                    "element_wise",
                                    "add",
                                    "linear_partial",
                                    "linear_in_partial",
                                    "whole",
                                    "bias",
                                    "linear_scattered"};

enum { KINDS = sizeof kinds / sizeof kinds[0] };

static bool is_kind(const lk_feature_step *s, const char *kind)
{
    return strcmp(s->kind, kind) == 0;
}

/* Net number i: each step reads the one before it, and sometimes an earlier one. */
static int64_t net_draw(int64_t i, lk_feature_step *step)
{
    uint64_t state = (uint64_t)i * 77 + 5;
    int64_t n = 1 + real_random(&state) % LONGEST;
    for (int64_t k = 0; k < n; k++) {
        int64_t other = (int64_t)(real_random(&state) % (uint32_t)(k + 1)) - 1;
        int64_t before = real_random(&state) % 8 == 0 ? other : k - 1;
        step[k] = (lk_feature_step){"step", kinds[real_random(&state) % KINDS], {before, other}};
    }
    return n;
}

/* Weights [N][N] of a step, of which this rank has some rows or columns. */
static lk_var weights_of(lk_tape *tape, const lk_feature_split *s, int64_t seed, bool in,
                         bool whole)
{
    void *all = real_new(LK_F32, N * N, (uint64_t)seed, false);
    lk_range own = whole ? (lk_range){0, N} : range_of(s, N);
    void *part = array_part(LK_F32, all, in ? 1 : N, N, in ? N : 1, own);
    lk_tensor *t;
    lk_var w;
    ASSERT_OK(lk_tensor_new(LK_F32, in ? LK_SHAPE(own.n, N) : LK_SHAPE(N, own.n), &t));
    memcpy((void *)(uintptr_t)lk_tensor_data(t), part, (size_t)(N * own.n) * sizeof(float));
    ASSERT_OK(lk_constant(tape, t, &w));
    lk_tensor_free(t);
    free(all), free(part);
    return w;
}

static lk_var step_linear(const lk_feature_split *s, const lk_feature_step *k, lk_var x,
                          int64_t seed)
{
    bool in = strncmp(k->kind, "linear_in", 9) == 0;
    lk_feature_linear_attr a = {.cut = in ? LK_FEATURE_IN : LK_FEATURE_OUT,
                                .sum = strstr(k->kind, "partial")     ? LK_FEATURE_PARTIAL
                                       : strstr(k->kind, "scattered") ? LK_FEATURE_SCATTERED
                                                                      : LK_FEATURE_JOINED,
                                .in = N,
                                .units = N};
    lk_var y;
    ASSERT_OK(lk_dist_feature_linear(s, &a, x, weights_of(x.tape, s, seed, in, false), LK_NO_VAR,
                                     "linear", &y));
    return y;
}

static lk_var step_run(const lk_feature_split *s, const lk_feature_step *k, lk_var x, lk_var other,
                       int64_t seed)
{
    lk_var y = LK_NO_VAR;
    if (is_kind(k, "copy"))
        ASSERT_OK(lk_dist_feature_copy(s, x, N, "copy", &y));
    else if (is_kind(k, "gather"))
        ASSERT_OK(lk_dist_feature_gather(s, x, N, "gather", &y));
    else if (is_kind(k, "gather_sum"))
        ASSERT_OK(lk_dist_feature_gather_sum(s, x, N, N, "gather_sum", &y));
    else if (is_kind(k, "join"))
        ASSERT_OK(lk_dist_feature_join(s, x, N, "join", &y));
    else if (is_kind(k, "element_wise"))
        ASSERT_OK(lk_tanh(x, &y));
    else if (is_kind(k, "bias"))
        ASSERT_OK(lk_mul(x, x, &y));
    else if (is_kind(k, "add"))
        ASSERT_OK(lk_add(x, other, &y));
    else if (is_kind(k, "whole"))
        ASSERT_OK(lk_linear(x, weights_of(x.tape, s, seed, false, true), LK_NO_VAR, &y));
    else
        y = step_linear(s, k, x, seed);
    return y;
}

/* y and dx of a net whose input and result have these tags, of this rank. */
static void net_run(const lk_feature_split *s, const lk_feature_step *step, int64_t n,
                    const lk_feature_tag tag[2], float *y, float *dx)
{
    lk_range all = {0, N}, own[2];
    void *x = real_new(LK_F32, ROWS * N, 1, false), *dy = real_new(LK_F32, ROWS * N, 2, false);
    lk_tape *tape;
    lk_var value[LONGEST + 1];
    for (int i = 0; i < 2; i++)
        own[i] = tag[i] == LK_FEATURE_TAG_VARYING ? range_of(s, N) : all;
    void *x_part = array_part(LK_F32, x, ROWS, N, 1, own[0]);
    void *dy_part = array_part(LK_F32, dy, ROWS, N, 1, own[1]);
    memset(dx, 0, ROWS * N * sizeof *dx);
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_leaf_data(tape, LK_F32, LK_SHAPE(ROWS, own[0].n), x_part, dx, &value[0]));
    for (int64_t i = 0; i < n; i++)
        value[i + 1] = step_run(s, &step[i], value[step[i].in[0] + 1], value[step[i].in[1] + 1], i);
    memcpy(y, value_of(value[n]), (size_t)(ROWS * own[1].n) * sizeof *y);
    backward_from(value[n], dy_part);
    lk_tape_free(tape);
    free(x), free(dy), free(x_part), free(dy_part);
}

RANKS_TEST(what_is_accepted_has_the_bits_of_one_rank)
{
    const struct cut_rule rule = cut_rule_of(lk_comm_size(comm), 1);
    lk_feature_split *ranks = split_new(comm, rule), *one = split_new(NULL, rule);
    int64_t used[KINDS] = {0}, accepted = 0;
    for (int64_t i = 0; i < NETS; i++) {
        lk_feature_step step[LONGEST];
        int64_t n = net_draw(i, step);
        lk_feature_tag tag[2] = {i % 2 ? LK_FEATURE_TAG_VARYING : LK_FEATURE_TAG_REPLICATED};
        float y[2][ROWS * N], dx[2][ROWS * N];
        if (lk_feature_tags_check(step, n, tag[0], &tag[1]) != LK_OK) {
            lk_error_clear();
            continue;
        }
        accepted++;
        for (int k = 0; k < KINDS; k++)
            for (int64_t j = 0; j < n; j++)
                used[k] += is_kind(&step[j], kinds[k]);
        net_run(ranks, step, n, tag, y[0], dx[0]);
        net_run(one, step, n, tag, y[1], dx[1]);
        lk_range all = {0, N}, own = range_of(ranks, N);
        assert_part_of(LK_F32, y[0], y[1], ROWS, N, 1,
                       tag[1] == LK_FEATURE_TAG_VARYING ? own : all);
        assert_part_of(LK_F32, dx[0], dx[1], ROWS, N, 1,
                       tag[0] == LK_FEATURE_TAG_VARYING ? own : all);
    }
    ASSERT_TRUE(accepted > 200 && accepted < NETS / 2);
    for (int k = 0; k < KINDS; k++)
        if (used[k] == 0)
            TEST_FAIL("no net that is accepted has a %s", kinds[k]);
    lk_feature_split_free(ranks);
    lk_feature_split_free(one);
}
