/* A layer of a program whose every position has parameters of its own: on ranks that share space each holds
 * those of its tile, and losses and state have the bits of one rank.
 */
#include "spatial_nets.h"

#include <lockstep/op.h>

/* Filters of 3x3 around each position. */
static lk_window own_window(void)
{
    return (lk_window){.ndim = 2, .kernel = {3, 3}, .pad_lo = {1, 1}, .pad_hi = {1, 1}};
}

static lk_status own_build(lk_build *build, const void *options, lk_tensor_type in,
                           lk_tensor_type *out)
{
    const int64_t *dim = in.shape.dim;
    lk_window w = own_window();
    lk_config init = {0};
    (void)options;
    LK_TRY(lk_descriptor_find(&lk_registry_init, "glorot", &init.descriptor));
    lk_param weight = {.name = "weight",
                       .shape = LK_SHAPE(dim[0], dim[1], 3, 3, dim[2], 2),
                       .init = &init,
                       .fan_in = 9 * dim[2],
                       .fan_out = 18,
                       .per_position = true};
    LK_TRY(lk_build_param(build, &weight));
    lk_build_window(build, LK_TILE_LOCAL_CONV, &w);
    *out = in;
    out->shape.dim[2] = 2;
    return LK_OK;
}

static lk_status own_forward(const lk_pass *pass, const lk_layer_instance *layer, lk_var x,
                             lk_var *out)
{
    const lk_tile *tile = lk_pass_tile(pass, layer);
    lk_conv_attr attr = {.window = own_window(), .groups = 1};
    lk_var w = lk_pass_param(pass, layer, 0);
    if (tile)
        LK_TRY(lk_dist_tile_local_conv(tile, x, w, layer->name, out));
    else
        LK_TRY(lk_local_conv(x, w, &attr, out));
    return LK_OK;
}

static const lk_layer own = {.descriptor = {.name = "own", .summary = "filters of positions"},
                             .reach = LK_REACH_WINDOW,
                             .build = own_build,
                             .forward = own_forward};

/* Alone behind the input, and between layers whose parameters all positions share. */
RANKS_TEST(parameters_of_positions_have_the_bits_of_one_rank)
{
    for (int before = 0; before < 2 && lk_comm_size(comm) <= 4; before++) {
        struct net net = {.in = {LK_F32, LK_SHAPE(6, 5, 1)}};
        struct net_result r;
        if (before)
            net_add(&net, net_layer_of("conv"), "filters=1 kernel=3 padding=1");
        net.at = net.n;
        net_add(&net, &own, NULL);
        net_add(&net, net_layer_of("tanh"), NULL);
        net_add(&net, net_layer_of("conv"), "filters=1 kernel=3 padding=1");
        net_compare(comm, &net, &r);
        ASSERT_EQ(r.domain, lk_comm_size(comm) > 1 ? LK_BY_TILE : r.domain);
    }
}
