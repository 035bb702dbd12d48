/* What several layers share: checks of inputs, and options for each axis, for the files of src/nn/layers to
 * call from `build`; and the activation behind a layer, from `forward`.
 */
#include "nn/layers.h"

lk_status lk__build_elementwise(lk_build *build, const void *options, lk_tensor_type in,
                                lk_tensor_type *out)
{
    (void)options;
    LK_TRY(lk__build_check(build, in, 0));
    *out = in;
    return LK_OK;
}

lk_status lk__build_check(const lk_build *build, lk_tensor_type in, int ndim)
{
    LK_CHECK(in.dtype == lk_build_dtype(build), LK_EDTYPE, "the input must be %s, not %s",
             lk_dtype_name(lk_build_dtype(build)), lk_dtype_name(in.dtype));
    LK_CHECK(in.shape.ndim >= ndim, LK_ESHAPE, "the input %s must have at least %d axes",
             lk_shape_text(in.shape).s, ndim);
    return LK_OK;
}

extern const lk_init lk__init_constant;

lk_status lk__build_constant(lk_build *build, lk_param param, bool one)
{
    static double values[] = {0, 1}; /* options of the initial value, which are never written */
    lk_config init = {.descriptor = &lk__init_constant.descriptor, .options = &values[one]};
    param.init = &init;
    return LK_TRACE(lk_build_param(build, &param));
}

bool lk__groups_cut(const lk_build *build, int64_t groups, int64_t filters, int64_t channels)
{
    lk_pieces p = lk_build_pieces(build);
    int64_t out = lk_block_size(filters, p.blocks, p.least_block), out_each = filters / groups;
    int64_t in = lk_block_size(channels, p.blocks, p.least_block), in_each = channels / groups;
    return groups == 1 || (out % out_each == 0 && in % in_each == 0 && in_each > 0 &&
                           out / out_each == in / in_each);
}

lk_status lk__option_per_axis(const char *name, const lk_option_ints *list, int n,
                              int64_t default_value, int64_t *out)
{
    LK_CHECK(list->n <= 1 || list->n == n, LK_EINVAL, "%s has %d numbers for %d spatial axes", name,
             list->n, n);
    for (int i = 0; i < n; i++)
        out[i] = list->n == 0 ? default_value : list->item[list->n == 1 ? 0 : i];
    return LK_OK;
}

lk_status lk__layer_act(const lk_pass *pass, lk_var *x)
{
    static lk_status (*const apply[])(lk_var x, lk_var * out) = {
        [LK_ACT_RELU] = lk_relu, [LK_ACT_SIGMOID] = lk_sigmoid, [LK_ACT_TANH] = lk_tanh};
    lk_act act = lk_pass_fused_act(pass);
    if (act != LK_ACT_NONE)
        LK_TRY(apply[act](*x, x));
    return LK_OK;
}
