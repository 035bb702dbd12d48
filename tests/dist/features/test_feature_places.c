/* Places of labels among classes that are cut over ranks: any ranks count what sorting a row gives, and the
 * metrics that take places what they count of whole rows; equal numbers, infinities and NaN among them. */
#include "feature_values.h"

#include <lockstep/metric.h>

enum { ROWS = 24, MOST = 50 };

/* Rows of a few numbers, so that many are equal. */
struct rows {
    lk_dtype dtype, index;
    int64_t classes;
    void *x;
    int64_t label[ROWS];
    int32_t label32[ROWS];
};

static struct rows rows_new(int i)
{
    static const int64_t sizes[] = {2, 5, 16, 33, MOST};
    static const double strange[] = {(double)NAN, HUGE_VAL, -HUGE_VAL, -0.0, 0.0};
    struct rows r = {.dtype = i % 2 ? LK_F64 : LK_F32,
                     .index = i % 3 ? LK_I64 : LK_I32,
                     .classes = sizes[i % 5]};
    uint64_t state = (uint64_t)i + 1;
    r.x = array_new(r.dtype, ROWS * r.classes);
    for (int64_t k = 0; k < ROWS * r.classes; k++)
        real_set(r.dtype, r.x, k,
                 real_random(&state) % 8 == 0 ? strange[real_random(&state) % 5]
                                              : (double)(real_random(&state) % 6));
    for (int64_t k = 0; k < ROWS; k++) {
        r.label[k] = (int64_t)(real_random(&state) % (uint64_t)r.classes);
        r.label32[k] = (int32_t)r.label[k];
    }
    return r;
}

/* Take the first of the largest away, NaN before all, until it is the label. */
static int64_t plain_place(const struct rows *r, int64_t row)
{
    bool taken[MOST] = {false};
    for (int64_t place = 0;; place++) {
        int64_t best = -1;
        double most = 0;
        for (int64_t k = 0; k < r->classes; k++) {
            double v = real_get(r->dtype, r->x, row * r->classes + k);
            if (taken[k] || (best >= 0 && (isnan(most) || !(v > most || isnan(v)))))
                continue;
            best = k;
            most = v;
        }
        if (best == r->label[row])
            return place;
        taken[best] = true;
    }
}

static lk_var label_enter(const struct rows *r, lk_tape *tape)
{
    lk_var v;
    ASSERT_OK(lk_constant_data(tape, r->index, LK_SHAPE(ROWS / 4, 4),
                               r->index == LK_I32 ? (const void *)r->label32 : r->label, &v));
    return v;
}

static void places_are(const lk_feature_split *s, const struct rows *r)
{
    lk_range own = range_of(s, r->classes);
    void *part = array_part(r->dtype, r->x, ROWS, r->classes, 1, own), *dx;
    lk_tape *tape;
    lk_var x, y;
    dx = array_new(r->dtype, ROWS * own.n);
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_leaf_data(tape, r->dtype, LK_SHAPE(ROWS / 4, 4, own.n), part, dx, &x));
    ASSERT_OK(lk_dist_feature_places(s, r->classes, x, label_enter(r, tape), "places", &y));
    ASSERT_TRUE(lk_dtype_of(y) == LK_I64 && lk_shape_is_equal(lk_shape_of(y), LK_SHAPE(6, 4)));
    ASSERT_TRUE(!lk_needs_grad(y));
    const int64_t *place = value_of(y);
    for (int64_t i = 0; i < ROWS; i++)
        ASSERT_EQ(place[i], plain_place(r, i));
    lk_tape_free(tape);
    free(part), free(dx);
}

RANKS_TEST(classes_over_ranks_are_counted_as_on_one)
{
    for (int kind = 0; kind < CUT_RULES; kind++) {
        struct cut_rule rule = cut_rule_of(lk_comm_size(comm), kind);
        lk_feature_split *ranks = split_new(comm, rule), *one = split_new(NULL, rule);
        for (int i = 0; i < 30; i++) {
            struct rows r = rows_new(i);
            places_are(ranks, &r);
            places_are(one, &r);
            free(r.x);
        }
        lk_feature_split_free(ranks);
        lk_feature_split_free(one);
    }
}

/* What a metric counts of whole rows, it counts of their places. */
static void metric_counts_places(const char *name, const char *options, const struct rows *r)
{
    const lk_metric *m;
    lk_arena *arena;
    lk_config choice;
    lk_tensor *y, *label;
    double whole[2] = {0}, placed[2] = {0};
    int64_t place[ROWS];
    ASSERT_OK(lk_arena_new(&arena));
    ASSERT_OK(lk_config_parse(&lk_registry_metric, name, options, arena, &choice));
    m = (const lk_metric *)(const void *)choice.descriptor;
    ASSERT_OK(lk_tensor_wrap_const(r->dtype, LK_SHAPE(ROWS, r->classes), r->x, NULL, NULL, &y));
    ASSERT_OK(lk_tensor_wrap_const(LK_I64, LK_SHAPE(ROWS), r->label, NULL, NULL, &label));
    ASSERT_EQ(m->numbers(choice.options, (lk_tensor_type){r->dtype, LK_SHAPE(r->classes)}), 2);
    ASSERT_OK(m->add(choice.options, y, label, whole));
    for (int64_t i = 0; i < ROWS; i++)
        place[i] = plain_place(r, i);
    m->add_places(choice.options, ROWS, place, placed);
    ASSERT_SAME_BITS(whole, placed, sizeof whole);
    ASSERT_EQ(whole[1], ROWS);
    lk_tensor_free(y);
    lk_tensor_free(label);
    lk_arena_free(arena);
}

RANKS_TEST(metrics_count_the_same_of_rows_and_of_places)
{
    if (lk_comm_size(comm) > 1)
        return;
    for (int i = 0; i < 30; i++) {
        struct rows r = rows_new(i);
        metric_counts_places("accuracy", NULL, &r);
        metric_counts_places("misclassification", NULL, &r);
        metric_counts_places("top_k", "k=1", &r);
        metric_counts_places("top_k", "k=2", &r);
        free(r.x);
    }
}

RANKS_TEST(misuse_is_refused)
{
    const int64_t beyond[] = {3, 16};
    lk_feature_split *s = split_new(comm, (struct cut_rule){8, 1});
    float zeros[64] = {0};
    lk_tape *tape;
    lk_var x, k, y;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_constant_data(tape, LK_F32, LK_SHAPE(2, range_of(s, 16).n), zeros, &x));
    ASSERT_OK(lk_constant_data(tape, LK_I64, LK_SHAPE(2), beyond, &k));
    ASSERT_FAILS(lk_dist_feature_places(s, 16, x, k, "p", &y), LK_EINVAL, "label");
    ASSERT_FAILS(lk_dist_feature_places(s, 16, x, x, "p", &y), LK_ESHAPE, "labels are i64 or i32");
    ASSERT_FAILS(lk_dist_feature_places(s, 160, x, k, "p", &y), LK_ESHAPE,
                 "features along the last axis");
    lk_tape_free(tape);
    lk_feature_split_free(s);
}
