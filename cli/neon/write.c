/* The experiment of a neon recipe, as a file with comments. */
#include "neon/neon.h"

#include <lockstep/extra/text.h>

#include <stdlib.h>
#include <string.h>

enum { WIDTH = 100, NUMBER = 40 };

/* The shortest text that is read as the same number. */
static const char *number(double value, char *buf)
{
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(buf, NUMBER, "%.*g", digits, value);
        if (strtod(buf, NULL) == value)
            break;
    }
    return buf;
}

/* A text in double quotes. */
static void quoted(const char *text, FILE *to)
{
    fputc('"', to);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c < 0x20 || *c == 0x7f)
            fprintf(to, "\\x%02x", *c);
        else
            fprintf(to, "%s%c", *c == '"' || *c == '\\' ? "\\" : "", *c);
    }
    fputc('"', to);
}

/* A comment of one or more lines, the first behind "# * ". */
static void note(const char *text, FILE *to)
{
    int column = fprintf(to, "# *");
    while (*text) {
        int n = (int)strcspn(text, " ");
        if (column + 1 + n > WIDTH)
            column = fprintf(to, "\n#  ") - 1;
        column += fprintf(to, " %.*s", n, text);
        text += n;
        text += strspn(text, " ");
    }
    fputc('\n', to);
}

static void facts(const neon_recipe *r, FILE *to)
{
    char name[256];
    const char *slash = strrchr(r->path, '/');
    lk_sanitize_text(slash ? slash + 1 : r->path, name, sizeof name);
    fprintf(to, "# Made by lockstep convert neon of %s.", name);
    fprintf(to, "%s\n", r->notes ? "  What differs from neon:" : "");
    for (const neon_remark *n = r->notes; n; n = n->next)
        note(n->text, to);
    fprintf(to, "about: ");
    quoted(name, to);
    fputc('\n', to);
    if (r->has_seed)
        fprintf(to, "seed: %lld\n", (long long)r->seed);
    if (r->is_double)
        fprintf(to, "dtype: f64\n");
}

static void data(const neon_recipe *r, FILE *to)
{
    static const char *const type[] = {"mnist", "cifar10", "shapes"};
    char buf[NUMBER];
    fprintf(to, "data:\n  type: %s\n", type[r->set]);
    if (r->set == NEON_TOY)
        fprintf(to, "  count: 128\n  test_count: 128\n  shape: [32, 32, 3]\n");
    if (r->folder) {
        fprintf(to, "  path: ");
        quoted(r->folder, to);
        fputc('\n', to);
    }
    if (r->cache) {
        fprintf(to, "  cache: ");
        quoted(r->cache, to);
        fputc('\n', to);
    }
    if (r->share > 0)
        fprintf(to, "  samples: %s\n", number(r->share, buf));
    fprintf(to, "  batch: %lld\n  one_hot: true\n", (long long)r->batch);
}

/* ---- the model ---- */

/* On a line of its own. */
static void init(int indent, const char *key, const neon_init *i, FILE *to)
{
    char a[NUMBER], b[NUMBER];
    number(i->a, a);
    number(i->b, b);
    fprintf(to, ",\n%*s%s: ", indent, "", key);
    switch (i->type) {
    case NEON_INIT_UNIFORM: fprintf(to, "{type: uniform, low: %s, high: %s}", a, b); break;
    case NEON_INIT_NORMAL: fprintf(to, "{type: normal, mean: %s, deviation: %s}", a, b); break;
    case NEON_INIT_CONSTANT: fprintf(to, "{type: constant, value: %s}", a); break;
    }
}

static void sides(const char *key, int64_t h, int64_t w, FILE *to)
{
    if (h == w)
        fprintf(to, ", %s: %lld", key, (long long)h);
    else
        fprintf(to, ", %s: [%lld, %lld]", key, (long long)h, (long long)w);
}

static void window(const char *key, const neon_layer *l, FILE *to)
{
    sides(key, l->kernel[0], l->kernel[1], to);
    if (l->stride > 1 || strcmp(key, "size") == 0)
        fprintf(to, ", stride: %lld", (long long)l->stride);
}

/* Local filtering that is pretrained: an autoencoder around it. */
static void autoencoder(const neon_layer *l, int64_t n, FILE *to)
{
    fprintf(to, "  - type: autoencoder\n    name: features%lld\n", (long long)n);
    fprintf(to, "    encode:\n      - {type: local_conv, name: filter, filters: %lld",
            (long long)l->out.c);
    window("kernel", l, to);
    fprintf(to, ", unit_norm: true");
    init(9, "init", &l->weight, to);
    fprintf(to, "}\n    decode:\n      - {type: local_conv_transpose, filters: %lld",
            (long long)l->in.c);
    window("kernel", l, to);
    if (l->stride > 1)
        sides("size", l->in.h, l->in.w, to);
    fprintf(to, ", tie: features%lld.filter.weight}\n", (long long)n);
}

static void weights(const neon_layer *l, FILE *to)
{
    if (l->type == NEON_LINEAR) {
        fprintf(to, "  - {type: linear, units: %lld", (long long)l->out.c);
    } else {
        fprintf(to, "  - {type: %s, filters: %lld", l->type == NEON_CONV ? "conv" : "local_conv",
                (long long)l->out.c);
        window("kernel", l, to);
    }
    if (l->type == NEON_LOCAL)
        fprintf(to, ", unit_norm: true");
    else if (!l->bias)
        fprintf(to, ", bias: false");
    init(5, "init", &l->weight, to);
    if (l->bias)
        init(5, "bias_init", &l->bias_begins, to);
    fprintf(to, "}\n");
}

static void pool(const neon_layer *l, FILE *to)
{
    const char *type = l->type == NEON_MAXPOOL   ? "maxpool"
                       : l->type == NEON_AVGPOOL ? "avgpool"
                       : l->type == NEON_L2POOL  ? "l2pool"
                                                 : "lcn";
    fprintf(to, "  - {type: %s", type);
    if (l->type == NEON_LCN)
        sides("size", l->kernel[0], l->kernel[1], to);
    else
        window("size", l, to);
    fprintf(to, "}\n");
}

static void shape(neon_shape s, FILE *to)
{
    if (s.h > 1 || s.w > 1)
        fprintf(to, "%lldx%lldx", (long long)s.h, (long long)s.w);
    fprintf(to, "%lld", (long long)s.c);
}

static void title(const neon_layer *l, FILE *to)
{
    char name[64];
    lk_sanitize_text(l->name ? l->name : "", name, sizeof name);
    fprintf(to, "  # %s%s", name, *name ? ": " : "");
    shape(l->in, to);
    fprintf(to, " to ");
    shape(l->out, to);
    fputc('\n', to);
}

static bool has_weights(const neon_layer *l)
{
    return l->type == NEON_CONV || l->type == NEON_LOCAL || l->type == NEON_LINEAR;
}

static void model(const neon_recipe *r, FILE *to)
{
    static const char *const act[] = {NULL, "relu", "sigmoid", "tanh"};
    char buf[NUMBER];
    int64_t features = 0;
    bool flat = false;
    fprintf(to, "model:\n");
    for (int64_t i = 0; i < r->n_layers; i++) {
        const neon_layer *l = &r->layer[i];
        bool last = i == r->n_layers - 1;
        if (l->type == NEON_LINEAR && !flat)
            fprintf(to, "  - flatten\n");
        flat = flat || l->type == NEON_LINEAR;
        title(l, to);
        if (r->pretrains && l->type == NEON_LOCAL)
            autoencoder(l, features++, to);
        else if (has_weights(l))
            weights(l, to);
        else
            pool(l, to);
        if (l->act != NEON_ACT_NONE && !(last && r->cross_entropy))
            fprintf(to, "  - %s\n", act[l->act]);
        if (r->pretrains && r->sparsity > 0 && i > 0 && r->layer[i - 1].type == NEON_LOCAL)
            fprintf(to, "  - {type: penalty, name: sparse%lld, of: sum, weight: %s}\n",
                    (long long)features - 1, number(r->sparsity, buf));
    }
}

/* ---- training ---- */

static void optimizer(const neon_recipe *r, FILE *to)
{
    const neon_rule *rule = &r->rule;
    char a[NUMBER], b[NUMBER], c[NUMBER];
    double most = rule->momentum > rule->saturated ? rule->momentum : rule->saturated;
    if (rule->adadelta) {
        fprintf(to, "optimizer: {type: adadelta, rho: %s, eps: %s}\n", number(rule->rho, a),
                number(rule->eps, b));
        return;
    }
    fprintf(to, "optimizer: {type: sgd, rate: %s",
            number(rule->rate * (double)(r->cross_entropy ? r->classes : 1), a));
    if (!rule->monotone && rule->momentum > 0)
        fprintf(to, ", momentum: %s", number(rule->momentum, a));
    if (rule->monotone && most > 0)
        fprintf(to,
                ", momentum: %s,\n            momentum_schedule: {type: linear_monotone, initial: "
                "%s, saturated: %s,\n                                saturate: %lld}",
                number(most, a), number(rule->momentum / most, b),
                number(rule->saturated / most, c), (long long)rule->saturate);
    fprintf(to, "}\n");
}

static void phases(const neon_recipe *r, FILE *to)
{
    const char *counts = r->pretrains ? ", losses: [loss]" : "";
    char rate[NUMBER];
    int64_t features = 0, linear = 0;
    number(r->rule.pretrain_rate, rate);
    fprintf(to, "phases:\n");
    for (int64_t i = 0; i < r->n_layers; i++) {
        long long n = (long long)features;
        linear += r->layer[i].type == NEON_LINEAR;
        if (r->layer[i].type != NEON_LOCAL || !r->pretrains)
            continue;
        features++;
        fprintf(to, "  - {name: features%lld, epochs: %lld, losses: [features%lld", n,
                (long long)r->pretrain_epochs, n);
        if (r->sparsity > 0)
            fprintf(to, ", sparse%lld", n);
        fprintf(to, "], layers: [features%lld],\n     optimizer: {type: sgd, rate: %s}}\n", n,
                rate);
    }
    if (r->initial_epochs > 0)
        fprintf(to, "  - {name: last, epochs: %lld%s, layers: [linear%lld]}\n",
                (long long)r->initial_epochs, counts, (long long)linear);
    if (r->epochs > r->initial_epochs)
        fprintf(to, "  - {name: all, epochs: %lld%s}\n", (long long)(r->epochs - r->initial_epochs),
                counts);
}

/* Who computes what is the user's to say; neon's way is a comment. */
static void layout(const neon_recipe *r, FILE *to)
{
    switch (r->mode) {
    case NEON_HALOPAR:
        if (r->layer[0].type == NEON_LINEAR)
            fprintf(to,
                    "# halopar gives each process a tile of the input, which this model flattens "
                    "at once.  By samples:\n# parallel: {data: 4}\n");
        else
            fprintf(to, "pieces: {tiles: 4x4, least_tile: 1}\n"
                        "# halopar is a grid of tiles; here any grid up to 4x4 has the same bits:\n"
                        "# parallel: {spatial: 2x2}\n");
        break;
    case NEON_VECPAR:
        fprintf(to, "# vecpar, parts of the flattened input, is the layout `features`: files may "
                    "say it, but it cannot\n# be trained on yet.  By samples it can:\n"
                    "# parallel: {data: 4}\n");
        break;
    case NEON_DATAPAR:
        fprintf(to, "# datapar is the layout `data`:\n# parallel: {data: %lld}\n",
                (long long)r->processes);
        break;
    default: break;
    }
}

void neon_write(const neon_recipe *r, FILE *to)
{
    facts(r, to);
    data(r, to);
    model(r, to);
    fprintf(to, "loss: %s\n", r->cross_entropy ? "logistic_cross_entropy" : "sum_squared_error");
    if (r->predicts)
        fprintf(to, "metrics: [misclassification]\n");
    optimizer(r, to);
    if (r->pretrains || r->initial_epochs > 0)
        phases(r, to);
    else
        fprintf(to, "train: {epochs: %lld}\n", (long long)r->epochs);
    layout(r, to);
}
