/* unet: for each level down convolutions, then, half as large and twice as wide, the levels below; what comes
 * back from there, as large as before, goes behind the channels of this level, and convolutions join
 * both.  At last the classes of each position.
 *
 *     convs ------------------- concat - convs - 1x1     level 0, width
 *       pool - convs ---- concat - convs - up            level 1, 2 width
 *                pool - convs - up                       level 2 = depth, 4 width
 *
 * For 1 to 3 spatial axes, as the samples have them, and any sizes: pools round up, and what grows
 * again fits the sizes of its level.
 */
#include "models/list.h"

enum { BATCH_NORM, LAYER_NORM, NO_NORM };
enum { TRANSPOSE, REPEAT };

typedef struct unet_options {
    int64_t depth, width, most, convs, classes;
    int norm, up;
} unet_options;

static const lk_option options[] = {
    {"depth", LK_OPTION_INT, offsetof(unet_options, depth), .value = "N", .def = "4", .min = 1,
     .max = 10, .help = "levels below the first, each half as large and twice as wide"},
    {"width", LK_OPTION_INT, offsetof(unet_options, width), .value = "N", .def = "64", .min = 1,
     .max = 1e6, .help = "channels of the first level"},
    {"most", LK_OPTION_INT, offsetof(unet_options, most), .value = "N", .def = "1024", .min = 1,
     .max = 1e6, .help = "channels are not doubled beyond this"},
    {"convs", LK_OPTION_INT, offsetof(unet_options, convs), .value = "N", .def = "2", .min = 1,
     .max = 100, .help = "convolutions of each level, on the way down and on the way up"},
    {"norm", LK_OPTION_CHOICE, offsetof(unet_options, norm), .def = "batch",
     .choices = "batch layer none",
     .help = "behind each convolution: batch_norm, layer_norm over channels, or none"},
    {"up", LK_OPTION_CHOICE, offsetof(unet_options, up), .def = "transpose",
     .choices = "transpose repeat",
     .help = "how sizes are doubled: by conv_transpose, or by repeat and a convolution"},
    {"classes", LK_OPTION_INT, offsetof(unet_options, classes), .value = "N", .def = "2", .min = 1,
     .max = 1e9, .help = "size of the output at each position"},
    {0}};

static void convs_add(lk__layers *l, const unet_options *o, int64_t width)
{
    for (int64_t i = 0; i < o->convs; i++) {
        lk__layers_add(l, "conv", "filters=%lld kernel=3 padding=1 bias=%s init=he",
                       (long long)width, o->norm == NO_NORM ? "true" : "false");
        if (o->norm != NO_NORM)
            lk__layers_add(l, o->norm == BATCH_NORM ? "batch_norm" : "layer_norm", NULL);
        lk__layers_add(l, "relu", NULL);
    }
}

static void up_add(lk__layers *l, const unet_options *o, int64_t width)
{
    if (o->up == TRANSPOSE) {
        lk__layers_add(l, "conv_transpose", "filters=%lld kernel=2 stride=2 fit=true",
                       (long long)width);
        return;
    }
    lk__layers_add(l, "repeat", "size=2 fit=true");
    lk__layers_add(l, "conv", "filters=%lld kernel=3 padding=1", (long long)width);
}

static int64_t width_of(const unet_options *o, int64_t level)
{
    int64_t width = o->width << level;
    return width < o->most ? width : o->most;
}

/* A list for each level, the deepest first, which becomes a block of the one above. */
static lk_status unet_expand(const void *opt, lk_arena *arena, lk_configs *out)
{
    const unet_options *o = opt;
    lk__layers below = {.arena = arena}, level = below;
    for (int64_t k = o->depth; k >= 0; k--) {
        int64_t width = width_of(o, k);
        level = (lk__layers){.arena = arena};
        if (k > 0)
            lk__layers_add(&level, "maxpool", "size=2 pad=same");
        convs_add(&level, o, width);
        if (k < o->depth) {
            lk__layers_concat(&level, &below);
            convs_add(&level, o, width);
        }
        if (k > 0)
            up_add(&level, o, width_of(o, k - 1));
        below = level;
    }
    lk__layers_add(&level, "conv", "filters=%lld kernel=1", (long long)o->classes);
    return LK_TRACE(lk__layers_end(&level, out));
}

const lk_model_preset lk__model_preset_unet = {
    .descriptor =
        {.name = "unet",
         .summary = "levels of convolutions down and up again, for a class at each position",
         .details = "For images and volumes of any size: 2-D or 3-D, as the samples are. Data has "
                    "labels at each position, as `fractal` and `npz` files.",
         .options = options,
         .options_size = sizeof(unet_options)},
    .expand = unet_expand};
