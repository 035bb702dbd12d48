/* Layers of a neon recipe, and the shapes between them.  neon's features are channels, rows, columns; ours rows,
 * columns, channels: only shapes are converted, never weights.
 */
#include "neon/neon.h"

#include <math.h>
#include <string.h>

#define COMMON "name backend batch_size pos learning_rate learning_rule "

static const struct layer_class {
    const char *name, *keys;
    neon_layer_type type;
    bool bias;
} layer_classes[] = {
    {"ConvLayer", COMMON "nifm nofm ifmshape fshape stride weight_init activation", NEON_CONV,
     false},
    {"LocalFilteringLayer", COMMON "nifm nofm ifmshape fshape stride weight_init activation",
     NEON_LOCAL, false},
    {"MaxPoolingLayer", COMMON "nifm ifmshape fshape stride", NEON_MAXPOOL, false},
    {"AveragePoolingLayer", COMMON "nifm ifmshape fshape stride", NEON_AVGPOOL, false},
    {"AveragePooling", COMMON "nifm ifmshape fshape stride", NEON_AVGPOOL, false},
    {"L2PoolingLayer", COMMON "nifm ifmshape fshape stride", NEON_L2POOL, false},
    {"LCNLayer", COMMON "nifm ifmshape fshape stride", NEON_LCN, false},
    {"LayerWithNoBias", COMMON "nin nout weight_init activation", NEON_LINEAR, false},
    {"Layer", COMMON "nin nout weight_init activation", NEON_LINEAR, true}};

/* ---- what weights begin with ---- */

/* Rows and columns of neon's weights: of a linear layer with the bias as a column. */
static double weight_sides(const neon_layer *l)
{
    double taps = (double)l->kernel[0] * (double)l->kernel[1] * (double)l->in.c;
    if (l->type == NEON_LINEAR)
        return (double)(l->in.h * l->in.w * l->in.c + l->bias + l->out.c);
    if (l->type == NEON_LOCAL)
        return taps + (double)l->out.h * (double)l->out.w * (double)l->out.c;
    return taps + (double)l->out.c;
}

static void init_type_read(neon_recipe *r, const lk_recipe_node *map, neon_layer *l)
{
    const lk_recipe_entry *e = lk_recipe_find(map, "type");
    const char *type = "";
    neon_need(r, map, "weight_init", "type");
    if (!neon_text(r, map, "type", &type))
        return;
    if (strcmp(type, "uniform") == 0) {
        l->weight = (neon_init){NEON_INIT_UNIFORM, 0, 1};
        neon_keys(r, map, "weight_init", "type low high bias_init dtype");
        (void)neon_real(r, map, "low", -1e30, &l->weight.a);
        (void)neon_real(r, map, "high", -1e30, &l->weight.b);
    } else if (strcmp(type, "gaussian") == 0 || strcmp(type, "normal") == 0) {
        l->weight = (neon_init){NEON_INIT_NORMAL, 0, 1};
        neon_keys(r, map, "weight_init", "type loc scale bias_init dtype");
        (void)neon_real(r, map, "loc", -1e30, &l->weight.a);
        (void)neon_real(r, map, "scale", 0, &l->weight.b);
    } else if (strcmp(type, "node_normalized") == 0) {
        double scale = 0;
        neon_keys(r, map, "weight_init", "type scale bias_init dtype");
        neon_need(r, map, "weight_init", "scale");
        (void)neon_real(r, map, "scale", 0, &scale);
        double high = scale * sqrt(6 / weight_sides(l));
        l->weight = (neon_init){NEON_INIT_UNIFORM, -high, high};
    } else {
        neon_issue(r, e->line, e->column,
                   "value \"%.100s\" of key \"type\" of weight_init is not known; uniform, "
                   "gaussian, normal and node_normalized are",
                   type);
    }
}

static void init_read(neon_recipe *r, neon_layer *l)
{
    const lk_recipe_node *map = neon_map(r, l->node, "weight_init");
    const char *dtype;
    double value;
    neon_need(r, l->node, "a layer", "weight_init");
    if (!map)
        return;
    init_type_read(r, map, l);
    l->bias_begins = l->weight; /* as another column, unless it is said */
    const lk_recipe_entry *e = lk_recipe_find(map, "bias_init");
    if (neon_real(r, map, "bias_init", -1e30, &value)) {
        l->bias_begins = (neon_init){NEON_INIT_CONSTANT, value, 0};
        if (!l->bias)
            neon_issue(r, e->line, e->column, "key \"bias_init\" of a layer without a bias");
    }
    e = lk_recipe_find(map, "dtype");
    if (neon_text(r, map, "dtype", &dtype) &&
        strcmp(dtype, r->is_double ? "float64" : "float32") != 0)
        neon_issue(r, e->line, e->column, "value \"%.100s\" of key \"dtype\": the backend has %s",
                   dtype, r->is_double ? "float64" : "float32");
}

static void act_read(neon_recipe *r, neon_layer *l)
{
    static const char *const names[] = {"Linear", "RectLin", "Logistic", "Tanh"};
    static const neon_act acts[] = {NEON_ACT_NONE, NEON_ACT_RELU, NEON_ACT_LOGISTIC, NEON_ACT_TANH};
    const lk_recipe_node *node = neon_map(r, l->node, "activation");
    size_t i = 0;
    if (!node)
        return;
    const char *name = neon_class(r, node);
    while (i < 4 && strcmp(name, names[i]) != 0)
        i++;
    if (i == 4) {
        neon_issue(r, node->line, node->column,
                   "class %s is not known as an activation; RectLin, Logistic, Tanh and Linear are",
                   node->class_name ? node->class_name : "(none)");
        return;
    }
    l->act = acts[i];
    neon_keys(r, node, name, "");
}

/* ---- shapes ---- */

/* What a layer says about its input, compared with what the layers before it give. */
static void in_compare(neon_recipe *r, const neon_layer *l)
{
    int64_t given, size[2];
    if (l->in.h == 0) /* what is before it is an issue already */
        return;
    const lk_recipe_entry *e = lk_recipe_find(l->node, "nifm");
    if (neon_whole(r, l->node, "nifm", 1, &given) && given != l->in.c)
        neon_issue(r, e->line, e->column, "value %lld of key \"nifm\": %lld channels come in",
                   (long long)given, (long long)l->in.c);
    e = lk_recipe_find(l->node, "ifmshape");
    if (neon_pair(r, l->node, "ifmshape", size) && (size[0] != l->in.h || size[1] != l->in.w))
        neon_issue(r, e->line, e->column,
                   "value [%lld, %lld] of key \"ifmshape\": %lldx%lld come in", (long long)size[0],
                   (long long)size[1], (long long)l->in.h, (long long)l->in.w);
    int64_t n = l->in.h * l->in.w * l->in.c + l->bias;
    e = lk_recipe_find(l->node, "nin");
    if (neon_whole(r, l->node, "nin", 1, &given) && given != n)
        neon_issue(r, e->line, e->column, "value %lld of key \"nin\": %lld come in%s",
                   (long long)given, (long long)n, l->bias ? ", the bias included" : "");
}

/* Positions along one axis; 0 after an issue. */
static int64_t windows(neon_recipe *r, const neon_layer *l, int64_t n, int64_t kernel)
{
    const lk_recipe_entry *e = lk_recipe_find(l->node, "fshape");
    if (l->type == NEON_LCN && kernel % 2 == 0)
        neon_issue(r, e->line, e->column, "value %lld of key \"fshape\" of LCN must be odd",
                   (long long)kernel);
    if (l->type == NEON_LCN || n == 0)
        return n;
    if (kernel > n)
        neon_issue(r, e->line, e->column, "value %lld of key \"fshape\": %lld positions come in",
                   (long long)kernel, (long long)n);
    return kernel > n ? 0 : (n - kernel) / l->stride + 1;
}

static void window_read(neon_recipe *r, neon_layer *l, const char *name)
{
    const lk_recipe_entry *e = lk_recipe_find(l->node, "stride");
    neon_need(r, l->node, name, "fshape");
    if (l->type != NEON_LCN)
        neon_need(r, l->node, name, "stride");
    (void)neon_whole(r, l->node, "stride", 1, &l->stride);
    if (l->type == NEON_LCN && l->stride > 1)
        neon_issue(r, e->line, e->column, "value %lld of key \"stride\": LCN has none",
                   (long long)l->stride);
    l->out = (neon_shape){0, 0, l->in.c};
    if (!neon_pair(r, l->node, "fshape", l->kernel))
        return;
    l->out.h = windows(r, l, l->in.h, l->kernel[0]);
    l->out.w = windows(r, l, l->in.w, l->kernel[1]);
}

static void layer_read(neon_recipe *r, const lk_recipe_node *node, neon_shape in)
{
    const struct layer_class *c = NULL;
    const char *name = neon_class(r, node);
    for (size_t i = 0; i < sizeof layer_classes / sizeof *layer_classes; i++)
        if (strcmp(layer_classes[i].name, name) == 0)
            c = &layer_classes[i];
    neon_layer *l = &r->layer[r->n_layers++];
    *l = (neon_layer){.node = node, .in = in, .kernel = {1, 1}, .stride = 1};
    if (!c) {
        neon_issue(r, node->line, node->column, "class %s is not known as a layer",
                   node->class_name ? node->class_name : "(none)");
        return;
    }
    l->type = c->type;
    l->bias = c->bias;
    neon_keys(r, node, name, c->keys);
    neon_take_backend(r, node);
    (void)neon_text(r, node, "name", &l->name);
    bool linear = c->type == NEON_LINEAR,
         learns = linear || c->type == NEON_CONV || c->type == NEON_LOCAL;
    const char *wide = linear ? "nout" : "nofm";
    if (!linear)
        window_read(r, l, name);
    else
        l->out = (neon_shape){1, 1, 1};
    in_compare(r, l);
    if (!learns)
        return;
    neon_need(r, node, name, wide);
    (void)neon_whole(r, node, wide, 1, &l->out.c);
    init_read(r, l);
    act_read(r, l);
}

void neon_take_layers(neon_recipe *r, const lk_recipe_node *model)
{
    const lk_recipe_entry *list = lk_recipe_find(model, "layers");
    if (!list || list->value->type != LK_RECIPE_LIST || list->value->n < 1 ||
        list->value->n > NEON_LAYERS) {
        neon_issue(r, list ? list->line : model->line, list ? list->column : model->column,
                   "key \"layers\" must be a list of 1 to %d layers", NEON_LAYERS);
        return;
    }
    lk_status st = lk_arena_alloc(r->arena, &r->layer, list->value->n, sizeof *r->layer);
    if (st != LK_OK) {
        r->status = st;
        return;
    }
    neon_shape in = r->image;
    for (const lk_recipe_entry *e = list->value->first; e; e = e->next) {
        if (e->value->type != LK_RECIPE_MAP) {
            neon_issue(r, e->line, e->column, "a layer must be !obj:MODULE.CLASS with a map");
            continue;
        }
        layer_read(r, e->value, in);
        in = r->layer[r->n_layers - 1].out;
    }
}
