/* What several layers share: for the files of src/nn/layers, from their `build` and `forward`. */
#ifndef LK_NN_LAYERS_H
#define LK_NN_LAYERS_H

#include <lockstep/nn.h>

/** Build of a layer without parameters whose output is like its input: any real dtype and shape. */
lk_status lk__build_elementwise(lk_build *build, const void *options, lk_tensor_type in,
                                lk_tensor_type *out) LK_NODISCARD;

/** Fail unless the input has the dtype of the parameters and at least `ndim` axes. */
lk_status lk__build_check(const lk_build *build, lk_tensor_type in, int ndim) LK_NODISCARD;

/** Declare a parameter of this name, shape and cut that begins with 0 or 1 everywhere. */
lk_status lk__build_constant(lk_build *build, lk_param param, bool one) LK_NODISCARD;

/** Whether a dropout layer drops something in this pass, and what. */
bool lk__dropout_drops(const lk_pass *pass, const lk_layer_instance *layer, lk_dropout_attr *out);

/** lk_pass_layers() but for the last layer, `*last`, which the caller applies; NULL: all have run, because
 * an observer looks at what is between. */
lk_status lk__pass_layers_but_last(const lk_pass *pass, const lk_layer_instance *layer, int list,
                                   lk_var x, const lk_layer_instance **last,
                                   lk_var *out) LK_NODISCARD;

/** *x = the activation of it that the layer is to apply, by an op of its own: where the layer's cannot. */
lk_status lk__layer_act(const lk_pass *pass, lk_var *x) LK_NODISCARD;

/** Whether filters and channels of `groups` groups can be cut into blocks: each block has whole groups,
 * the same on both sides. */
bool lk__groups_cut(const lk_build *build, int64_t groups, int64_t filters, int64_t channels);

/** Spread an option of one number, or one for each of `n` axes, over these; `default_value`
 * if not given. */
lk_status lk__option_per_axis(const char *name, const lk_option_ints *list, int n,
                              int64_t default_value, int64_t *out) LK_NODISCARD;

/* ---- windows: what convolution and pooling share ---- */

typedef struct lk__window_options {
    lk_option_ints kernel, stride, padding, dilation;
    int pad; /* of "none same": how `padding` is filled in if it is not given */
} lk__window_options;

/** Options of a window, an lk__window_options `window` in `type`: `size` is the name of its positions, and
 * `by_default` the stride in words. */
#define LK__WINDOW_OPTIONS(type, size, by_default)                                                \
    {size,                                                                                        \
     LK_OPTION_INTS,                                                                              \
     offsetof(type, window.kernel),                                                               \
     .min = 1,                                                                                    \
     .max = 1e6,                                                                                  \
     .flags = LK_OPTION_REQUIRED,                                                                 \
     .help = "positions of a window: one number, or one for each spatial axis"},                  \
        {"stride",                                                                                \
         LK_OPTION_INTS,                                                                          \
         offsetof(type, window.stride),                                                           \
         .min = 1,                                                                                \
         .max = 1e6,                                                                              \
         .help = "positions from one window to the next; " by_default " by default"},             \
        {"padding", LK_OPTION_INTS, offsetof(type, window.padding),                               \
         .min = 0,  .max = 1e6,     .help = "positions before the first and behind the last"},    \
    {                                                                                             \
        "pad", LK_OPTION_CHOICE, offsetof(type, window.pad),                                      \
            .def = "none", .choices = "none same",                                                \
            .help =                                                                               \
                "same: pad so that there are as many windows as positions, divided by the stride" \
    }

/** Fill in a window over the spatial axes of an input [in..., channels], and the `positions` of its
 * output along each; `stride` is the default stride, 0: the kernel.  Errors: LK_ESHAPE for an input
 * without 1 to 3 spatial axes, or smaller than the window; LK_EINVAL. */
lk_status lk__layer_window(const lk__window_options *o, lk_shape in, int64_t stride,
                           lk_window *window, int64_t positions[3]) LK_NODISCARD;

/** The attributes of a convolution with this window. */
void lk__window_conv(const lk_window *w, int64_t groups, lk_conv_attr *out);

/** An option `algorithm` of a convolution: an int in `type`. */
#define LK__ALGORITHM_OPTION(type)                                                                \
    {                                                                                             \
        "algorithm", LK_OPTION_CHOICE, offsetof(type, algorithm),                                 \
            .def = "direct", .choices = "direct winograd",                                        \
            .help = "winograd: F(4x4, 3x3), for two axes, kernel 3, stride, dilation and groups " \
                    "1; less work with many channels, other bits, and an error that is 3 "        \
                    "to 5 times that of direct"                                                   \
    }

/** Set the algorithm of a convolution that is otherwise complete.  Errors: LK_ESHAPE unless it
 * computes convolutions with this kernel and these attributes. */
lk_status lk__layer_algorithm(int algorithm, int ndim, const int64_t *kernel,
                              lk_conv_attr *attr) LK_NODISCARD;

/** An option `fit` of a layer that grows images: a bool in `type`. */
#define LK__FIT_OPTION(type)                                                  \
    {                                                                         \
        "fit", LK_OPTION_FLAG, offsetof(type, fit),                           \
            .def = "false", .flags = LK_OPTION_LATER,                         \
            .help = "give the positions that the list of layers begins with " \
                    "(in a residual block, those of x): what is beyond is "   \
                    "cut from the end, less than a stride"                    \
    }

/** Let a transposed convolution that gives *out, of `ndim` spatial axes, give the positions that the list
 * begins with.  Errors: LK_ESHAPE if they are a stride away. */
lk_status lk__layer_fit(const lk_build *build, int ndim, lk_conv_attr *attr,
                        lk_shape *out) LK_NODISCARD;

/* ---- pooling ---- */

typedef struct lk__pool_options {
    lk__window_options window;
} lk__pool_options;

/** Build of a pooling layer; its data is an lk_pool_attr. */
lk_status lk__pool_build(lk_build *build, const void *options, lk_tensor_type in,
                         lk_tensor_type *out) LK_NODISCARD;

#endif /* LK_NN_LAYERS_H */
