/* Recurrent models that begin with a carry: values and gradients are those of another program
 * (tests/data/carry.py says how), at once and in parts. */
#include "carries.h"

enum { MOST_ITEMS = 48, MOST_NUMBERS = 64 };

struct item {
    char kind[16], name[32];
    double value[MOST_NUMBERS];
    int n;
};

/* The items of one network, up to the line of the next. */
static int items_read(FILE *f, struct item *item)
{
    char line[4096];
    int n = 0;
    while (fgets(line, sizeof line, f) && strncmp(line, "network", 7) != 0) {
        char *at = strchr(line, ':'), *end;
        struct item *i = &item[n++];
        ASSERT_TRUE(n <= MOST_ITEMS);
        *i = (struct item){.n = 0};
        ASSERT_EQ(sscanf(line, "%15s %31s", i->kind, i->name), 2);
        for (at = at ? at + 1 : line + 4;; at = end) {
            double v = strtod(at, &end);
            if (end == at)
                break;
            ASSERT_TRUE(i->n < MOST_NUMBERS);
            i->value[i->n++] = v;
        }
    }
    return n;
}

static const struct item *item_of(const struct item *item, int n, const char *kind,
                                  const char *before, const char *name)
{
    char whole[64];
    snprintf(whole, sizeof whole, "%s%s", before, name);
    for (int i = 0; i < n; i++)
        if (strcmp(item[i].kind, kind) == 0 && strcmp(item[i].name, whole) == 0)
            return &item[i];
    TEST_FAIL("carry.txt has no %s %s", kind, whole);
    return NULL;
}

/* Number `e` of a tensor, row-major, and where it is in that of all times, of which it has those from
 * `at` on. */
static lk_shape place_of(const lk_tensor *t, int64_t e, int64_t at, int64_t all, int64_t *in_all)
{
    lk_shape shape = lk_tensor_shape(t), place = {.ndim = shape.ndim};
    *in_all = 0;
    for (int k = shape.ndim - 1; k >= 0; k--) {
        place.dim[k] = e % shape.dim[k];
        e /= shape.dim[k];
    }
    for (int k = 0; k < shape.ndim; k++)
        *in_all = *in_all * (k == 1 && shape.ndim == 3 ? all : shape.dim[k]) + place.dim[k] +
                  (k == 1 ? at : 0);
    return place;
}

static void tensor_set(lk_tensor *t, const struct item *i, int64_t at, int64_t all)
{
    int64_t from;
    for (int64_t e = 0; e < lk_tensor_count(t); e++) {
        lk_shape place = place_of(t, e, at, all, &from);
        ASSERT_TRUE(from < i->n);
        ASSERT_OK(lk_tensor_set_f64(t, place, i->value[from]));
    }
}

static void tensor_near(const lk_tensor *t, const struct item *i, int64_t at, int64_t all,
                        double tolerance)
{
    int64_t from;
    double v;
    for (int64_t e = 0; e < lk_tensor_count(t); e++) {
        ASSERT_OK(lk_tensor_get_f64(t, place_of(t, e, at, all, &from), &v));
        if (!(fabs(v - i->value[from]) <= tolerance * (1 + fabs(i->value[from]))))
            TEST_FAIL("%s %s[%lld]: %.17g, not %.17g", i->kind, i->name, (long long)from, v,
                      i->value[from]);
    }
}

/* Give all models the parameters of the file; or compare the sums of their gradients with its. */
static void params_set_or_check(const struct net *s, const struct item *item, int n, bool set,
                                double tolerance)
{
    const lk_slab_layout *layout = lk_model_layout(s->model[0]);
    for (int64_t i = 0; i < lk_slab_layout_slices(layout); i++) {
        lk_slab_slice slice;
        ASSERT_OK(lk_slab_layout_slice(layout, i, &slice));
        const struct item *of = item_of(item, n, set ? "tensor" : "grad", "", slice.name);
        ASSERT_EQ(slice.count, of->n);
        for (int e = 0; e < of->n; e++) {
            double sum = 0;
            for (int k = 0; k < s->n; k++) {
                lk_slab *slab = set ? lk_model_params(s->model[k])
                                    : lk_accumulator_slab(s->sums[k]);
                char *at = (char *)lk_slab_data(slab) + slice.offset;
                float *f = (float *)(void *)at + e;
                double *d = (double *)(void *)at + e;
                if (set && s->dtype == LK_F32)
                    *f = (float)of->value[e];
                else if (set)
                    *d = of->value[e];
                else
                    sum += s->dtype == LK_F32 ? (double)*f : *d;
            }
            if (!set && !(fabs(sum - of->value[e]) <= tolerance * (1 + fabs(of->value[e]))))
                TEST_FAIL("grad %s[%d]: %.17g, not %.17g", slice.name, e, sum, of->value[e]);
        }
    }
}

static void check_network(const char *const *layers, const struct item *item, int n, lk_dtype dtype,
                          const int64_t *times, int parts)
{
    double tolerance = dtype == LK_F32 ? 1e-5 : 1e-13;
    int64_t at = 0, all = 5;
    struct net s = net_new(layers, dtype, 2, times, parts);
    for (int k = 0; k < parts; at += times[k++]) {
        tensor_set(s.x[k], item_of(item, n, "tensor", "", "x"), at, all);
        tensor_set(s.c[k], item_of(item, n, "tensor", "", "c"), at, all);
    }
    lk_carry_info info;
    for (int i = 0; i < s.carries; i++) {
        ASSERT_OK(lk_model_carry(s.model[0], i, &info));
        tensor_set(s.first[i], item_of(item, n, "tensor", "first.", info.name), 0, 0);
        tensor_set(s.d[i], item_of(item, n, "tensor", "d.", info.name), 0, 0);
    }
    params_set_or_check(&s, item, n, true, 0);
    double loss = 0;
    for (int i = 0; i < n; i++)
        if (strcmp(item[i].kind, "loss") == 0)
            loss = item[i].value[0];
    ASSERT_TRUE(loss != 0);
    ASSERT_NEAR(net_run(&s), loss, tolerance * (1 + fabs(loss)));
    at = 0;
    for (int k = 0; k < parts; at += times[k++])
        tensor_near(s.dx[k], item_of(item, n, "grad", "", "x"), at, all, tolerance);
    for (int i = 0; i < s.carries; i++) {
        ASSERT_OK(lk_model_carry(s.model[0], i, &info));
        tensor_near(s.last[i], item_of(item, n, "last", "", info.name), 0, 0, tolerance);
        tensor_near(s.dfirst[i], item_of(item, n, "grad", "first.", info.name), 0, 0, tolerance);
    }
    params_set_or_check(&s, item, n, false, tolerance);
    net_free(&s);
}

TEST(values_and_gradients_are_those_of_another_program)
{
    static const char *const nets[][7] = {{"rnn", "units=3 output=all", NULL},
                                          {"gru", "units=3 output=all", NULL},
                                          {"lstm", "units=3 output=all", NULL},
                                          {"lstm", "units=2 output=all", "gru",
                                           "units=3 output=all", "rnn", "units=2 output=all",
                                           NULL}};
    static struct item item[MOST_ITEMS];
    FILE *f = fopen("tests/data/carry.txt", "r");
    char line[256];
    ASSERT_TRUE(f && fgets(line, sizeof line, f) && fgets(line, sizeof line, f));
    for (size_t i = 0; i < sizeof nets / sizeof nets[0]; i++) {
        int n = items_read(f, item);
        for (int p = 0; p < 2; p++) {
            lk_dtype dtype = p == 0 ? LK_F64 : LK_F32;
            check_network(nets[i], item, n, dtype, (const int64_t[]){5}, 1);
            check_network(nets[i], item, n, dtype, (const int64_t[]){2, 0, 3}, 3);
        }
    }
    ASSERT_EQ(items_read(f, item), 0);
    fclose(f);
}
