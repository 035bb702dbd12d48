/* An answer for each position: dice, iou and weighted cross entropy against another program
 * (tests/data/segmentation.py says how) and against positions counted one by one. */
#include "real.h"
#include "written.h"

#include <lockstep/loss.h>
#include <lockstep/metric.h>
#include <lockstep/rng.h>

#include <inttypes.h>

enum { MOST_CLASSES = 8 };

static lk_config parsed(const lk_registry *registry, const char *name, const char *options,
                        lk_arena *arena)
{
    lk_config choice;
    ASSERT_OK(lk_config_parse(registry, name, options, arena, &choice));
    return choice;
}

static const lk_metric *metric_of(const lk_config *c)
{
    return (const lk_metric *)(const void *)c->descriptor;
}

static lk_tensor *filled(lk_dtype dtype, lk_shape shape, const double *value, int n)
{
    lk_tensor *t = NULL;
    void *data = NULL;
    ASSERT_OK(lk_tensor_new(dtype, shape, &t));
    ASSERT_EQ(lk_tensor_count(t), n);
    ASSERT_OK(lk_tensor_writable_data(t, &data));
    numbers_set(dtype, data, value, n);
    return t;
}

/* ---- against another program ---- */

/* A case: scores [samples][rows][columns][classes] with labels and weights. */
typedef struct segments {
    lk_shape shape;
    lk_tensor *y, *dy, *label;
    char weights[256];
} segments;

static lk_tensor_type answer_type(const segments *s)
{
    return (lk_tensor_type){lk_tensor_dtype(s->y),
                            LK_SHAPE(s->shape.dim[1], s->shape.dim[2], s->shape.dim[3])};
}

static lk_tensor_type label_type(const segments *s)
{
    return (lk_tensor_type){LK_I64, LK_SHAPE(s->shape.dim[1], s->shape.dim[2])};
}

static void check_metric(const segments *s, const char *line, double want, lk_arena *arena)
{
    char name[16], ignore[16], options[32];
    double number[3 * MOST_CLASSES] = {0};
    ASSERT_EQ(sscanf(line, "metric %15s %15s", name, ignore), 2);
    snprintf(options, sizeof options, "ignore=%s", ignore);
    lk_config c = parsed(&lk_registry_metric, name, ignore[0] == '-' ? NULL : options, arena);
    const lk_metric *m = metric_of(&c);
    ASSERT_OK(m->check(c.options, answer_type(s), label_type(s)));
    ASSERT_EQ(m->numbers(c.options, answer_type(s)), 3 * s->shape.dim[3]);
    ASSERT_OK(m->add(c.options, s->y, s->label, number));
    double got = m->value(c.options, answer_type(s), number);
    if (isnan(want))
        ASSERT_TRUE(isnan(got));
    else
        check_near(line, got, want, 1e-15);
}

/* The loss of the scores, and their gradient. */
static double loss_run(const segments *s, lk_tensor *target, lk_arena *arena)
{
    lk_tape *tape = NULL;
    lk_var y, t, loss;
    double value = 0;
    lk_config c = parsed(&lk_registry_loss, "softmax_cross_entropy", s->weights, arena);
    const lk_loss *cost = (const lk_loss *)(const void *)c.descriptor;
    lk_tensor_type of = label_type(s);
    if (lk_tensor_dtype(target) != LK_I64)
        of = answer_type(s);
    ASSERT_OK(cost->check(c.options, answer_type(s), of));
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_leaf(tape, s->y, s->dy, &y));
    ASSERT_OK(lk_constant(tape, target, &t));
    ASSERT_OK(cost->apply(c.options, y, t, &loss));
    ASSERT_OK(lk_item(loss, &value));
    ASSERT_OK(lk_tensor_fill_f64(s->dy, 0));
    ASSERT_OK(lk_backward(tape, &(lk_seed){loss, NULL}, 1, 0));
    lk_tape_free(tape);
    return value / (double)cost->parts(answer_type(s)) / (double)s->shape.dim[0];
}

/* Labels as vectors: 1 at the class. */
static lk_tensor *one_hot(const segments *s)
{
    double v[MOST_VALUES] = {0};
    const int64_t *label = lk_tensor_data(s->label);
    int n = (int)lk_tensor_count(s->label), classes = (int)s->shape.dim[3];
    for (int i = 0; i < n; i++)
        v[(int64_t)i * classes + label[i]] = 1;
    return filled(lk_tensor_dtype(s->y), s->shape, v, n * classes);
}

static double number_of(const lk_tensor *t, int i)
{
    return real_get(lk_tensor_dtype(t), lk_tensor_data(t), i);
}

static void check_gradient(const segments *s, const double *value, int n, double tolerance)
{
    double parts = (double)lk_tensor_count(s->label);
    ASSERT_EQ(lk_tensor_count(s->dy), n);
    for (int i = 0; i < n; i++)
        check_near("gradient", number_of(s->dy, i) / parts, value[i], tolerance);
}

static void take_weights(segments *s, const double *value, int n)
{
    size_t at = (size_t)snprintf(s->weights, sizeof s->weights, "weights=");
    for (int i = 0; i < n; i++)
        at += (size_t)snprintf(s->weights + at, sizeof s->weights - at, "%s%.17g", i ? "," : "",
                               value[i]);
}

/* Both kinds of targets: labels, then vectors of them, the gradient of which `line` has. */
static void check_loss(const segments *s, const char *line, const double *value, int n,
                       double tolerance, lk_arena *arena)
{
    lk_tensor *vectors = one_hot(s);
    for (int i = 0; i < 2; i++) {
        double loss = loss_run(s, i ? vectors : s->label, arena);
        if (line[0] == 'l')
            check_near("loss", loss, value[0], tolerance);
        else
            check_gradient(s, value, n, tolerance);
    }
    lk_tensor_free(vectors);
}

static void segments_free(segments *s)
{
    lk_tensor_free(s->y);
    lk_tensor_free(s->dy);
    lk_tensor_free(s->label);
    *s = (segments){.y = NULL};
}

static int check_line(segments *s, const char *line, lk_dtype dtype, double tolerance,
                      lk_arena *arena)
{
    double value[MOST_VALUES];
    int64_t *d = s->shape.dim;
    if (strncmp(line, "case", 4) == 0) {
        segments_free(s);
        s->shape.ndim = 4;
        ASSERT_EQ(sscanf(line, "case %*s %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64, &d[0],
                         &d[1], &d[2], &d[3]),
                  4);
        return 0;
    }
    int n = read_values(line, value);
    if (strncmp(line, "scores", 6) == 0) {
        s->y = filled(dtype, s->shape, value, n);
        ASSERT_OK(lk_tensor_zeros(dtype, s->shape, &s->dy));
    } else if (strncmp(line, "labels", 6) == 0) {
        s->label = filled(LK_I64, LK_SHAPE(d[0], d[1], d[2]), value, n);
    } else if (strncmp(line, "weights", 7) == 0) {
        take_weights(s, value, n);
    } else if (strncmp(line, "metric", 6) == 0) {
        check_metric(s, line, value[0], arena);
        return 1;
    } else {
        check_loss(s, line, value, n, tolerance, arena);
        return 1;
    }
    return 0;
}

TEST(values_are_those_of_another_program)
{
    for (int p = 0; p < 2; p++) {
        FILE *f = fopen("tests/data/segmentation.txt", "r");
        char line[4096];
        segments s = {.y = NULL};
        lk_arena *arena = NULL;
        int checked = 0;
        ASSERT_OK(lk_arena_new(&arena));
        ASSERT_TRUE(f && fgets(line, sizeof line, f));
        while (fgets(line, sizeof line, f))
            checked += check_line(&s, line, p == 0 ? LK_F64 : LK_F32, p == 0 ? 1e-14 : 1e-6, arena);
        ASSERT_EQ(checked, 4 + 6 + 6 + 3 * 2);
        segments_free(&s);
        lk_arena_free(arena);
        fclose(f);
    }
}

/* ---- against counted positions ---- */

enum { SIDE = 9, SAMPLES = 5, CLASSES = 5 };

/* Random scores and labels of 0, 1, 3 and 4, of a few samples. */
typedef struct pixels {
    float y[SAMPLES][SIDE][SIDE][CLASSES];
    int64_t label[SAMPLES][SIDE][SIDE];
} pixels;

static void pixels_draw(pixels *p)
{
    lk_rng rng = lk_rng_start(3, "test", "pixels");
    enum { POSITIONS = SAMPLES * SIDE * SIDE };
    float u[POSITIONS], *score = &p->y[0][0][0][0];
    int64_t scores = sizeof p->y / sizeof *score, *label = &p->label[0][0][0];
    ASSERT_OK(lk_rng_uniform_f32(rng, (lk_rng_at){.step = 0}, scores, score));
    ASSERT_OK(lk_rng_uniform_f32(rng, (lk_rng_at){.step = 1}, POSITIONS, u));
    for (int64_t i = 0; i < POSITIONS; i++, score += CLASSES) {
        int64_t k = (int64_t)(u[i] * 4);
        label[i] = k < 2 ? k : k + 1;
        score[2] = -1; /* nobody answers 2 */
        score[label[i]] += 0.3F;
    }
}

/* Positions of a class in answers (1), labels (2) or both (3), over all samples. */
static int64_t positions_of(const pixels *p, int64_t class, int in)
{
    int64_t n = 0;
    for (int s = 0; s < SAMPLES; s++)
        for (int i = 0; i < SIDE; i++)
            for (int j = 0; j < SIDE; j++) {
                const float *v = p->y[s][i][j];
                int64_t best = 0;
                for (int64_t k = 1; k < CLASSES; k++)
                    best = v[k] > v[best] ? k : best;
                n += (!(in & 1) || best == class) && (!(in & 2) || p->label[s][i][j] == class);
            }
    return n;
}

/* Samples rows `first` to first + n - 1 of `s`. */
static void rows_add(const lk_metric *m, const void *options, const pixels *p, int s, int first,
                     int n, double *number)
{
    lk_tensor *y = NULL, *label = NULL;
    ASSERT_OK(lk_tensor_wrap_const(LK_F32, LK_SHAPE(1, n, SIDE, CLASSES), p->y[s][first], NULL,
                                   NULL, &y));
    ASSERT_OK(
        lk_tensor_wrap_const(LK_I64, LK_SHAPE(1, n, SIDE), p->label[s][first], NULL, NULL, &label));
    ASSERT_OK(m->add(options, y, label, number));
    lk_tensor_free(y);
    lk_tensor_free(label);
}

/* Sums of parts in any order are those of the whole: counts are exact. */
TEST(parts_add_up_to_counted_positions)
{
    static pixels p;
    static const char *const name[] = {"dice", "iou"};
    lk_arena *arena = NULL;
    lk_tensor_type out = {LK_F32, LK_SHAPE(SIDE, SIDE, CLASSES)};
    ASSERT_OK(lk_arena_new(&arena));
    pixels_draw(&p);
    for (int i = 0; i < 2; i++) {
        lk_config c = parsed(&lk_registry_metric, name[i], "ignore=4", arena);
        double number[3 * CLASSES] = {0}, want = 0;
        for (int s = SAMPLES - 1; s >= 0; s--)
            for (int r = 0; r < SIDE; r += 4)
                rows_add(metric_of(&c), c.options, &p, s, r, r + 4 < SIDE ? 4 : SIDE - r, number);
        for (int64_t k = 0; k < 4; k++) {
            double a = (double)positions_of(&p, k, 1), b = (double)positions_of(&p, k, 2),
                   both = (double)positions_of(&p, k, 3);
            ASSERT_TRUE(number[3 * k] == both && number[3 * k + 1] == a && number[3 * k + 2] == b);
            ASSERT_TRUE((k == 2) == (a + b == 0));
            if (k != 2)
                want += (i == 0 ? 2 * both / (a + b) : both / (a + b - both)) / 3;
        }
        ASSERT_NEAR(metric_of(&c)->value(c.options, out, number), want, 1e-15);
    }
    lk_arena_free(arena);
}

/* ---- what does not fit ---- */

TEST(what_does_not_fit_is_refused)
{
    lk_arena *arena = NULL;
    lk_config c;
    lk_tensor_type out = {LK_F32, LK_SHAPE(4, 4, 3)}, labels = {LK_I64, LK_SHAPE(4, 4)};
    ASSERT_OK(lk_arena_new(&arena));
    c = parsed(&lk_registry_metric, "dice", "ignore=3", arena);
    ASSERT_FAILS(metric_of(&c)->check(c.options, out, labels), LK_EINVAL,
                 "dice: class 3 to ignore is not in [0, 3)");
    c = parsed(&lk_registry_metric, "iou", "ignore=0,1,2", arena);
    ASSERT_FAILS(metric_of(&c)->check(c.options, out, labels), LK_EINVAL,
                 "iou: all 3 classes are ignored");
    c = parsed(&lk_registry_metric, "iou", NULL, arena);
    ASSERT_FAILS(metric_of(&c)->check(c.options, out, (lk_tensor_type){LK_I64, LK_SHAPE(4)}),
                 LK_ESHAPE, "it is for classes");
    c = parsed(&lk_registry_loss, "softmax_cross_entropy", "weights=1,2", arena);
    const lk_loss *cost = (const lk_loss *)(const void *)c.descriptor;
    ASSERT_FAILS(cost->check(c.options, out, labels), LK_EINVAL,
                 "softmax_cross_entropy: 2 weights, but the model gives 3 classes");
    c = parsed(&lk_registry_loss, "softmax_cross_entropy", "weights=0,0,0", arena);
    ASSERT_FAILS(cost->check(c.options, out, labels), LK_EINVAL, "all weights are 0");
    ASSERT_FAILS(
        lk_config_parse(&lk_registry_loss, "softmax_cross_entropy", "weights=1,-2,1", arena, &c),
        LK_EINVAL, "\"-2\"");
    lk_arena_free(arena);
}

/* Where there are no weights, a run is the one that it was before there were any. */
TEST(weights_that_are_not_given_are_not_in_the_hash)
{
    lk_arena *arena = NULL;
    lk_hash hash[3];
    static const char *const options[] = {NULL, "weights=1,1", "weights=1,2"};
    ASSERT_OK(lk_arena_new(&arena));
    for (int i = 0; i < 3; i++) {
        lk_config c = parsed(&lk_registry_loss, "softmax_cross_entropy", options[i], arena);
        hash[i] = lk_hash_start();
        ASSERT_OK(lk_config_hash(&c, &hash[i]));
    }
    lk_hash bare = lk_hash_start();
    lk_hash_add_text(&bare, "softmax_cross_entropy");
    lk_hash_add_text(&bare, "");
    ASSERT_TRUE(lk_hash_value(&hash[0]) == lk_hash_value(&bare));
    ASSERT_TRUE(lk_hash_value(&hash[0]) != lk_hash_value(&hash[1]));
    ASSERT_TRUE(lk_hash_value(&hash[1]) != lk_hash_value(&hash[2]));
    lk_arena_free(arena);
}
