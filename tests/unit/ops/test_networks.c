/* Networks against numbers from outside: tests/data/networks.txt, which another program computed in
 * high precision (tests/data/networks.py says how).  Losses, gradients and Hessian-vector products,
 * in f64 and f32, on 1, 2 and 4 threads and every instruction set with the same bits. */
#include "harness.h"

#include <lockstep/extra/isa.h>
#include <lockstep/lockstep.h>

enum { MAX_ITEMS = 16, MAX_NAME = 16, MAX_VALUES = 512 };

/* A line of the data. */
struct item {
    char kind[MAX_NAME], name[MAX_NAME];
    lk_shape shape;
    int n;
    double value[MAX_VALUES];
};

/* A network as it is read, and on a tape. */
struct network {
    char name[MAX_NAME];
    int n;
    struct item item[4 * MAX_ITEMS];
    double loss;
    lk_tape *tape;
    lk_dtype dtype;
    lk_tensor *tensor[4 * MAX_ITEMS], *grad[4 * MAX_ITEMS];
    lk_var var[4 * MAX_ITEMS];
};

/* ---- reading ---- */

static void read_values(struct item *it, char *text)
{
    for (char *word = strtok(text, " \n"); word; word = strtok(NULL, " \n")) {
        ASSERT_TRUE(it->n < MAX_VALUES);
        it->value[it->n++] = strtod(word, NULL);
    }
}

/* "tensor x 2 3 : 1 2 ...", "grad x : ..." */
static void read_item(struct item *it, char *line)
{
    char *colon = strstr(line, " :");
    int used = 0;
    *it = (struct item){.n = 0};
    ASSERT_TRUE(colon);
    *colon = '\0';
    ASSERT_EQ(sscanf(line, "%15s %15s%n", it->kind, it->name, &used), 2);
    char *end = line + used;
    while (*end) {
        it->shape.dim[it->shape.ndim++] = strtoll(end, &end, 10);
        ASSERT_TRUE(it->shape.ndim <= LK_MAX_NDIM);
    }
    read_values(it, colon + 2);
}

/* The next network of the file; false at its end. */
static bool read_network(FILE *f, struct network *net)
{
    static char line[1 << 16];
    long start = ftell(f);
    memset(net, 0, sizeof *net);
    while (fgets(line, sizeof line, f)) {
        if (strncmp(line, "network ", 8) == 0) {
            if (net->name[0]) {
                ASSERT_EQ(fseek(f, start, SEEK_SET), 0);
                return true;
            }
            ASSERT_EQ(sscanf(line, "network %15s", net->name), 1);
        } else if (strncmp(line, "loss ", 5) == 0) {
            net->loss = strtod(line + 5, NULL);
        } else if (line[0] != '#') {
            ASSERT_TRUE(net->n < 4 * MAX_ITEMS);
            read_item(&net->item[net->n++], line);
        }
        start = ftell(f);
    }
    return net->name[0];
}

static int find(const struct network *net, const char *kind, const char *name)
{
    for (int i = 0; i < net->n; i++)
        if (strcmp(net->item[i].kind, kind) == 0 && strcmp(net->item[i].name, name) == 0)
            return i;
    return -1;
}

/* ---- on the tape ---- */

static lk_tensor *tensor_of(const struct item *it, lk_dtype dtype)
{
    lk_tensor *all, *t;
    ASSERT_OK(lk_tensor_wrap_const(LK_F64, it->shape, it->value, NULL, NULL, &all));
    ASSERT_OK(lk_tensor_clone(all, dtype, &t));
    lk_tensor_free(all);
    return t;
}

static bool is_index(const struct item *it)
{
    return strcmp(it->name, "labels") == 0 || strcmp(it->name, "indices") == 0;
}

static void start(struct network *net, lk_dtype dtype)
{
    net->dtype = dtype;
    ASSERT_OK(lk_tape_new(&net->tape));
    for (int i = 0; i < net->n; i++) {
        const struct item *it = &net->item[i];
        if (strcmp(it->kind, "tensor") != 0)
            continue;
        bool differentiated = find(net, "grad", it->name) >= 0;
        net->tensor[i] = tensor_of(it, is_index(it) ? LK_I64 : dtype);
        if (differentiated)
            ASSERT_OK(lk_tensor_zeros(dtype, it->shape, &net->grad[i]));
        ASSERT_OK(differentiated ? lk_leaf(net->tape, net->tensor[i], net->grad[i], &net->var[i])
                                 : lk_constant(net->tape, net->tensor[i], &net->var[i]));
    }
}

static void end(struct network *net)
{
    lk_tape_free(net->tape);
    for (int i = 0; i < net->n; i++) {
        lk_tensor_free(net->tensor[i]);
        lk_tensor_free(net->grad[i]);
        net->tensor[i] = net->grad[i] = NULL;
    }
}

static lk_var var(const struct network *net, const char *name)
{
    int i = find(net, "tensor", name);
    ASSERT_TRUE(i >= 0);
    return net->var[i];
}

/* ---- the networks, as the other program has them ---- */

static lk_status mlp(const struct network *net, lk_var *loss)
{
    lk_var h;
    LK_TRY(lk_linear(var(net, "x"), var(net, "w1"), var(net, "b1"), &h));
    LK_TRY(lk_tanh(h, &h));
    LK_TRY(lk_linear(h, var(net, "w2"), var(net, "b2"), &h));
    return LK_TRACE(lk_softmax_cross_entropy(h, var(net, "labels"), LK_LOSS_DEFAULT, loss));
}

static lk_status cnn(const struct network *net, lk_var *loss)
{
    const lk_conv_attr same = {.window = {.pad_lo = {1, 1}, .pad_hi = {1, 1}}};
    const lk_pool_attr half = {.window = {.kernel = {2, 2}, .stride = {2, 2}}};
    lk_var y;
    LK_TRY(lk_conv(var(net, "x"), var(net, "w1"), var(net, "b1"), &same, &y));
    LK_TRY(lk_gelu(y, &y));
    LK_TRY(lk_avg_pool(y, &half, &y));
    LK_TRY(lk_reshape(y, LK_SHAPE(2, 18), &y));
    LK_TRY(lk_linear(y, var(net, "w2"), var(net, "b2"), &y));
    return LK_TRACE(lk_mean_squared_error(y, var(net, "t"), LK_LOSS_DEFAULT, loss));
}

static lk_status norms(const struct network *net, lk_var *loss)
{
    const double eps = 1.0 / 64;
    lk_var y;
    LK_TRY(lk_layer_norm(var(net, "x"), var(net, "g1"), var(net, "b1"),
                         &(lk_layer_norm_attr){.eps = eps}, &y));
    LK_TRY(lk_softplus(y, &y));
    LK_TRY(lk_batch_norm(y, var(net, "g2"), var(net, "b2"), &(lk_batch_norm_attr){.eps = eps}, &y,
                         NULL, NULL));
    return LK_TRACE(lk_logistic_cross_entropy(y, var(net, "t"), LK_LOSS_DEFAULT, loss));
}

static lk_status attention(const struct network *net, lk_var *loss)
{
    lk_var a;
    LK_TRY(lk_matmul_trans(var(net, "q"), var(net, "k"), false, true, &a));
    LK_TRY(lk_affine(a, 0.5, 0, &a));
    LK_TRY(lk_softmax(a, LK_LAST_AXIS, &a));
    LK_TRY(lk_matmul(a, var(net, "v"), &a));
    LK_TRY(lk_norm(a, LK_AXES(2), &a));
    return LK_TRACE(lk_sum(a, NULL, loss));
}

static lk_status rnn(const struct network *net, lk_var *loss)
{
    lk_var h, e, r, index;
    LK_TRY(lk_full(net->tape, net->dtype, LK_SHAPE(2, 4), 0, &h));
    for (int step = 0; step < 4; step++) {
        LK_TRY(lk_slice(var(net, "indices"), 1, step, step + 1, 1, &index));
        LK_TRY(lk_embedding(var(net, "table"), index, &e));
        LK_TRY(lk_reshape(e, LK_SHAPE(2, 3), &e));
        LK_TRY(lk_linear(e, var(net, "wx"), var(net, "b"), &e));
        LK_TRY(lk_linear(h, var(net, "wh"), LK_NO_VAR, &r));
        LK_TRY(lk_add(e, r, &h));
        LK_TRY(lk_tanh(h, &h));
    }
    LK_TRY(lk_elu(h, 1, &h));
    return LK_TRACE(lk_sum_squared_error(h, var(net, "t"), LK_LOSS_DEFAULT, loss));
}

static lk_status poolnet(const struct network *net, lk_var *loss)
{
    const lk_pool_attr half = {.window = {.kernel = {2}, .stride = {2}}};
    lk_var y, a, b;
    LK_TRY(lk_conv_transpose(var(net, "x"), var(net, "w"), var(net, "b"),
                             &(lk_conv_attr){.window.stride = {2}}, &y));
    LK_TRY(lk_l2_pool(y, &half, &y));
    LK_TRY(lk_max_pool(y, &half, &y, NULL));
    LK_TRY(lk_square(y, &a));
    LK_TRY(lk_affine(a, 1, 1, &a));
    LK_TRY(lk_log(a, &a));
    LK_TRY(lk_cos(y, &b));
    LK_TRY(lk_mul(a, b, &a));
    LK_TRY(lk_sin(y, &b));
    LK_TRY(lk_pow_scalar(b, 3, &b));
    LK_TRY(lk_add(a, b, &a));
    return LK_TRACE(lk_sum(a, NULL, loss));
}

static lk_status contrast(const struct network *net, lk_var *loss)
{
    lk_var y;
    LK_TRY(lk_lcn(var(net, "x"), 3, 3, &y));
    LK_TRY(lk_mul(y, var(net, "t"), &y));
    return LK_TRACE(lk_sum(y, NULL, loss));
}

static const struct {
    const char *name;
    lk_status (*build)(const struct network *net, lk_var *loss);
} networks[] = {{"mlp", mlp}, {"cnn", cnn},         {"norms", norms},      {"attention", attention},
                {"rnn", rnn}, {"poolnet", poolnet}, {"contrast", contrast}};

enum { N_NETWORKS = sizeof networks / sizeof networks[0] };

static void build(const struct network *net, lk_var *loss)
{
    for (int i = 0; i < N_NETWORKS; i++)
        if (strcmp(networks[i].name, net->name) == 0) {
            ASSERT_OK(networks[i].build(net, loss));
            return;
        }
    TEST_FAIL("there is no network %s", net->name);
}

/* ---- comparing ---- */

static void expect_near(const struct network *net, const struct item *it, const lk_tensor *got,
                        double tolerance)
{
    lk_tensor *all;
    double scale = 0;
    ASSERT_OK(lk_tensor_clone(got, LK_F64, &all));
    ASSERT_EQ(lk_tensor_count(all), it->n);
    const double *value = lk_tensor_data(all);
    for (int e = 0; e < it->n; e++)
        scale = fmax(scale, fabs(it->value[e]));
    for (int e = 0; e < it->n; e++)
        if (!(fabs(value[e] - it->value[e]) <= tolerance * scale))
            TEST_FAIL("%s %s, %s %s[%d]: %.17g, not %.17g", net->name, lk_dtype_name(net->dtype),
                      it->kind, it->name, e, value[e], it->value[e]);
    lk_tensor_free(all);
}

static void check_gradients(struct network *net, double tolerance, lk_hash *bits)
{
    lk_var loss;
    double item;
    build(net, &loss);
    ASSERT_OK(lk_backward(net->tape, &(lk_seed){.of = loss}, 1, 0));
    ASSERT_OK(lk_item(loss, &item));
    if (!(fabs(item - net->loss) <= tolerance * fabs(net->loss)))
        TEST_FAIL("%s %s: loss %.17g, not %.17g", net->name, lk_dtype_name(net->dtype), item,
                  net->loss);
    for (int i = 0; i < net->n; i++) {
        const struct item *it = &net->item[i];
        if (strcmp(it->kind, "grad") != 0)
            continue;
        const lk_tensor *grad = net->grad[find(net, "tensor", it->name)];
        expect_near(net, it, grad, tolerance);
        lk_tensor_hash(grad, it->name, bits);
    }
}

/* H v: the gradient of the recorded gradient, seeded with v. */
static void check_hessian(struct network *net, double tolerance)
{
    lk_var loss, wrt[MAX_ITEMS], grad[MAX_ITEMS], v[MAX_ITEMS], hv[MAX_ITEMS];
    int at[MAX_ITEMS], n = 0;
    lk_tensor *direction[MAX_ITEMS];
    for (int i = 0; i < net->n; i++) {
        if (strcmp(net->item[i].kind, "direction") != 0)
            continue;
        at[n] = find(net, "hvp", net->item[i].name);
        wrt[n] = var(net, net->item[i].name);
        struct item flat = net->item[i];
        flat.shape = lk_shape_of(wrt[n]);
        direction[n] = tensor_of(&flat, net->dtype);
        ASSERT_OK(lk_constant(net->tape, direction[n], &v[n]));
        n++;
    }
    if (n == 0)
        return;
    build(net, &loss);
    ASSERT_OK(lk_grad(net->tape, &loss, NULL, 1, wrt, n, LK_RECORD, grad));
    ASSERT_OK(lk_grad(net->tape, grad, v, n, wrt, n, 0, hv));
    for (int k = 0; k < n; k++) {
        const lk_tensor *value;
        ASSERT_OK(lk_value(hv[k], &value));
        expect_near(net, &net->item[at[k]], value, tolerance);
        lk_tensor_free(direction[k]);
    }
}

static const struct {
    lk_dtype dtype;
    double tolerance;
} precisions[] = {{LK_F64, 1e-13}, {LK_F32, 1e-5}};

typedef void each_fn(struct network *net, int precision);

static void for_each(each_fn *fn)
{
    static struct network net;
    FILE *f = fopen("tests/data/networks.txt", "r");
    int seen = 0;
    ASSERT_TRUE(f);
    for (; read_network(f, &net); seen++)
        for (int p = 0; p < 2; p++)
            fn(&net, p);
    ASSERT_EQ(seen, N_NETWORKS);
    fclose(f);
}

static void gradients(struct network *net, int p)
{
    lk_hash bits = lk_hash_start();
    start(net, precisions[p].dtype);
    check_gradients(net, precisions[p].tolerance, &bits);
    end(net);
}

static void hessians(struct network *net, int p)
{
    start(net, precisions[p].dtype);
    check_hessian(net, 10 * precisions[p].tolerance);
    end(net);
}

static void configurations(struct network *net, int p)
{
    uint64_t first = 0;
    for (int isa = 0; isa < LK_N_ISAS; isa++) {
        if (!lk_isa_is_available((lk_isa)isa))
            continue;
        ASSERT_OK(lk_isa_set((lk_isa)isa));
        for (int threads = 1; threads <= 4; threads *= 2) {
            lk_hash bits = lk_hash_start();
            ASSERT_OK(lk_threads_set(threads));
            start(net, precisions[p].dtype);
            check_gradients(net, precisions[p].tolerance, &bits);
            end(net);
            if (first == 0)
                first = lk_hash_value(&bits);
            ASSERT_TRUE(lk_hash_value(&bits) == first);
        }
    }
    ASSERT_OK(lk_threads_set(0));
}

TEST(losses_and_gradients_are_those_of_another_program)
{
    for_each(gradients);
}

TEST(hessian_vector_products_are_those_of_another_program)
{
    for_each(hessians);
}

TEST(threads_and_instruction_sets_give_the_same_bits)
{
    for_each(configurations);
}
