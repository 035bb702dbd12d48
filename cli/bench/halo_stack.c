/* A stack of convolutions on the whole sample, or on tiles. */
#include "bench/halo_stack.h"

#include <lockstep/ops.h>
#include <lockstep/rng.h>

#include <string.h>

static lk_window window_of(int ndim)
{
    lk_window w = {.ndim = ndim};
    for (int d = 0; d < ndim; d++) {
        w.kernel[d] = 3;
        w.pad_lo[d] = w.pad_hi[d] = 1;
    }
    return w;
}

/* Numbers from -scale to scale. */
static lk_status random_tensor(lk_shape shape, const char *name, float scale, lk_tensor **out)
{
    void *data;
    LK_TRY(lk_tensor_new(LK_F32, shape, out));
    LK_TRY(lk_tensor_writable_data(*out, &data));
    LK_TRY(lk_rng_uniform_f32(lk_rng_start(1, name, "bench"), (lk_rng_at){0}, lk_tensor_count(*out),
                              data));
    for (int64_t i = 0; i < lk_tensor_count(*out); i++)
        ((float *)data)[i] = scale * (2 * ((float *)data)[i] - 1);
    return LK_OK;
}

static lk_status tile_make(halo_stack *s, const int64_t *size, lk_comm *comm, const int64_t *tiles)
{
    lk_tile_spec spec = {.kind = LK_TILE_CONV, .window = window_of(s->ndim)};
    lk_grid grid = {.ndim = 2, .dim = {1, 1}};
    memcpy(spec.in, size, (size_t)s->ndim * sizeof *size);
    memcpy(spec.out, size, (size_t)s->ndim * sizeof *size);
    if (comm)
        LK_TRY(lk_grid_make(comm, 2, (int[]){lk_comm_size(comm), 1}, NULL, &grid));
    LK_TRY(lk_tiling_new(comm, &grid, tiles, 1, &s->tiling));
    LK_TRY(lk_tiling_hold(s->tiling, &spec, 1));
    return LK_TRACE(lk_tile_new(s->tiling, &spec, &s->tile));
}

lk_status halo_stack_start(halo_stack *s, const halo_case *c, const int64_t *size, lk_comm *comm,
                           const int64_t *tiles)
{
    lk_shape value = {.ndim = c->ndim + 2, .dim = {1}}, weight = {.ndim = c->ndim + 2};
    float scale = 1;
    s->ndim = c->ndim;
    if (tiles)
        LK_TRY(tile_make(s, size, comm, tiles));
    for (int d = 0; d < c->ndim; d++) {
        value.dim[d + 1] = s->tile ? s->tile->x.box.n[d] : size[d];
        weight.dim[d] = 3;
        scale /= 2;
    }
    value.dim[c->ndim + 1] = weight.dim[c->ndim] = weight.dim[c->ndim + 1] = c->channels;
    LK_TRY(random_tensor(value, "x", 1, &s->x));
    LK_TRY(random_tensor(value, "dy", 1, &s->dy));
    for (int k = 0; k < HALO_LAYERS; k++) {
        LK_TRY(random_tensor(weight, "w", scale, &s->w[k]));
        LK_TRY(random_tensor(LK_SHAPE(c->channels), "b", scale, &s->b[k]));
        LK_TRY(lk_tensor_new(LK_F32, weight, &s->dw[k]));
        LK_TRY(lk_tensor_new(LK_F32, LK_SHAPE(c->channels), &s->db[k]));
    }
    return LK_TRACE(lk_tape_new(&s->tape));
}

lk_status halo_stack_pass(halo_stack *s)
{
    lk_conv_attr attr = {.window = window_of(s->ndim)};
    lk_var x, w, b;
    lk_tape_reset(s->tape);
    LK_TRY(lk_constant(s->tape, s->x, &x));
    for (int k = 0; k < HALO_LAYERS; k++) {
        LK_TRY(lk_tensor_fill_f64(s->dw[k], 0));
        LK_TRY(lk_tensor_fill_f64(s->db[k], 0));
        LK_TRY(lk_leaf(s->tape, s->w[k], s->dw[k], &w));
        LK_TRY(lk_leaf(s->tape, s->b[k], s->db[k], &b));
        if (s->tile)
            LK_TRY(lk_dist_tile_conv(s->tile, x, w, b, NULL, LK_ACT_RELU, "conv", &x));
        else
            LK_TRY(lk_conv_relu(x, w, b, &attr, &x));
    }
    return LK_TRACE(lk_backward(s->tape, &(lk_seed){x, s->dy}, 1, 0));
}

void halo_stack_end(halo_stack *s)
{
    lk_tape_free(s->tape);
    lk_tensor_free(s->x);
    lk_tensor_free(s->dy);
    for (int k = 0; k < HALO_LAYERS; k++) {
        lk_tensor_free(s->w[k]);
        lk_tensor_free(s->b[k]);
        lk_tensor_free(s->dw[k]);
        lk_tensor_free(s->db[k]);
    }
    lk_tile_free(s->tile);
    lk_tiling_free(s->tiling);
}
