/* Turns of a stack of convolutions on one rank, two ranks and two copies.
 *
 * Both ranks go from turn to turn together; in that of one rank the other one waits, asleep after a few
 * milliseconds, and the untimed pass before each turn takes longer than that.  Everybody computes on the
 * processors that the process may use.
 */
#include "bench/halo.h"

#include <lockstep/coll.h>
#include <lockstep/extra/alloc.h>
#include <lockstep/extra/clock.h>
#include <lockstep/ops.h>
#include <lockstep/rng.h>
#include <lockstep/thread.h>
#include <lockstep/tiles.h>

#include <stdio.h>
#include <string.h>

/* ---- the stack ---- */

/* 3x3 or 3x3x3 convolutions with relu, forward and backward: what a side computes, on the whole sample or on this
 * rank's tiles.  Made by a rank for each of its sides; used by it alone. */
typedef struct halo_stack {
    lk_tiling *tiling; /* NULL: the whole sample */
    lk_tile *tile;     /* all layers are alike */
    lk_tape *tape;
    lk_tensor *x, *dy;
    lk_tensor *w[HALO_LAYERS], *b[HALO_LAYERS], *dw[HALO_LAYERS], *db[HALO_LAYERS];
    int ndim;
} halo_stack;

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

/*
 * Make a stack for a sample of `size`.  `tiles` NULL: without tiles; otherwise that many along the first
 * two axes, dealt to the ranks of `comm` by rows, or all to this one if it is NULL.
 *
 * Collective over `comm`.  `s` is all zero before; end it also after a failure.
 */
static lk_status halo_stack_start(halo_stack *s, const halo_case *c, const int64_t *size,
                                  lk_comm *comm, const int64_t *tiles)
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

/* Forward, and the gradients of all weights: one pass.  Collective over the tiling's ranks. */
static lk_status halo_stack_pass(halo_stack *s)
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

static void halo_stack_end(halo_stack *s)
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

/* ---- the sides ---- */

/* The passes of a turn take this long at least, so that no single one decides, where there is time. */
static const double shortest_turn = 0.05;

/* How often a library does each pass of a convolution: the first layer has no gradient of its input. */
static const int peer_runs[LK_N_PEER_PASSES] = {HALO_LAYERS, HALO_LAYERS - 1, HALO_LAYERS};

struct race {
    lk_comm *comm;
    const halo_case *c;
    halo_stack stack[HALO_SIDES];
    lk__peer_job *job[LK_N_PEER_PASSES];
    float *operand[4]; /* of these: x, w, bias, y */
    bool has_peer;     /* the same on all ranks */
    int passes, round;
    double seconds[HALO_SIDES][BENCH_MAX_ROUNDS];
};

static bool is_joint(int side)
{
    return side == HALO_FAST || side == HALO_CANON || side == HALO_APART;
}

/* ---- the library ---- */

/* x, w, bias and y, which are some numbers: none that are slow. */
static lk_status operands_make(struct race *r, lk_conv_shape *shape)
{
    const halo_case *c = r->c;
    int64_t positions = c->size[0] * c->size[1], m = c->channels;
    const int64_t n[4] = {positions * m, 9 * m * m, m, positions * m};
    *shape = (lk_conv_shape){.dtype = LK_F32,
                             .window = {.ndim = 2,
                                        .kernel = {3, 3},
                                        .stride = {1, 1},
                                        .dilation = {1, 1},
                                        .pad_lo = {1, 1}},
                             .batch = 1,
                             .in_channels = m,
                             .out_channels = m,
                             .groups = 1,
                             .in = {c->size[0], c->size[1]},
                             .out = {c->size[0], c->size[1]},
                             .piece = 1};
    for (int i = 0; i < 4; i++) {
        LK_TRY(lk_alloc(&r->operand[i], n[i], sizeof *r->operand[i]));
        for (int64_t k = 0; k < n[i]; k++)
            r->operand[i][k] = (float)(k % 251) / 251 - 0.5F;
    }
    return LK_OK;
}

/* The jobs of a library, on rank 0; without them `about` says why. */
static lk_status peer_invite(struct race *r, char *about, size_t size)
{
    const lk__peer *peer = r->c->peer;
    const char *why = "";
    lk_conv_shape shape;
    if (r->c->ndim != 2) {
        snprintf(about, size, "it is asked for two spatial axes only");
        return LK_OK;
    }
    LK_TRY(operands_make(r, &shape));
    peer->set_threads(HALO_RANKS);
    for (int p = 0; p < LK_N_PEER_PASSES; p++) {
        const lk__peer_conv conv = {.shape = &shape,
                                    .pass = (lk__peer_pass)p,
                                    .x = r->operand[0],
                                    .w = r->operand[1],
                                    .bias = p == LK_PEER_FORWARD ? r->operand[2] : NULL,
                                    .y = r->operand[3]};
        r->job[p] = peer->conv_new ? peer->conv_new(&conv, &why) : NULL;
        if (!r->job[p]) {
            snprintf(about, size, "%s", peer->conv_new ? why : "it has no convolutions");
            return LK_OK;
        }
    }
    snprintf(about, size, "%s", peer->job_about(r->job[0]));
    r->has_peer = true;
    return LK_OK;
}

static lk_status peer_pass(const struct race *r)
{
    for (int p = 0; p < LK_N_PEER_PASSES; p++)
        for (int i = 0; i < peer_runs[p]; i++)
            LK_CHECK(r->c->peer->job_run(r->job[p]), LK_ENOTSUP, "%s failed", r->c->peer->name);
    return LK_OK;
}

/* ---- turns ---- */

static lk_status passes_run(struct race *r, int side, int passes)
{
    for (int i = 0; i < passes; i++)
        LK_TRY(side == HALO_PEER ? peer_pass(r) : halo_stack_pass(&r->stack[side]));
    return LK_OK;
}

static lk_status passes_time(struct race *r, int side, int passes, double *seconds)
{
    LK_TRY(passes_run(r, side, 1));
    if (is_joint(side))
        LK_TRY(lk_barrier(r->comm, "begin"));
    int64_t start = lk_clock_ns();
    LK_TRY(passes_run(r, side, passes));
    *seconds = 1e-9 * (double)(lk_clock_ns() - start) / passes;
    return LK_OK;
}

/* The turn of one side; all ranks know the seconds of a pass, on the slowest. */
static lk_status turn(struct race *r, int side, int passes, double *seconds)
{
    bool leads = lk_comm_rank(r->comm) == 0;
    lk_status st = LK_OK;
    *seconds = 0;
    if (leads) /* neither computes: both are on their way to the barrier */
        st = lk_threads_set(is_joint(side) ? 1 : HALO_RANKS);
    LK_TRY(lk_agree(r->comm, st));
    if (leads || is_joint(side))
        st = passes_time(r, side, passes, seconds);
    LK_TRY(lk_agree(r->comm, st));
    return LK_TRACE(lk_allreduce(r->comm, NULL, seconds, 1, LK_F64, LK_REDUCE_MAX, "slowest"));
}

static bool takes_part(const struct race *r, int side)
{
    return side != HALO_PEER || r->has_peer;
}

static lk_status warm(struct race *r)
{
    double seconds, longest = 0;
    double least = r->c->seconds < shortest_turn ? r->c->seconds : shortest_turn;
    for (int side = 0; side < HALO_SIDES; side++)
        if (takes_part(r, side)) {
            LK_TRY(turn(r, side, 1, &seconds));
            longest = seconds > longest ? seconds : longest;
        }
    r->passes = (int)(least / longest) + 1;
    return LK_OK;
}

/* Everybody once a round, another one first each time; all ranks do as many, which rank 0 decides. */
static lk_status rounds_run(struct race *r)
{
    int32_t go = 1;
    LK_TRY(warm(r));
    double end = bench_now() + r->c->seconds;
    for (; go; r->round++) {
        for (int k = 0; k < HALO_SIDES; k++) {
            int side = (k + r->round) % HALO_SIDES;
            if (takes_part(r, side))
                LK_TRY(turn(r, side, r->passes, &r->seconds[side][r->round]));
        }
        go = bench_goes_on(r->round + 1, end);
        LK_TRY(lk_bcast(r->comm, &go, 1, LK_I32, 0, "go on"));
    }
    return LK_OK;
}

/* ---- a case ---- */

static lk_status stacks_make(struct race *r)
{
    static const int64_t least[] = {HALO_RANKS, 1}, few[] = {2, 2}, many[] = {4, 4};
    const halo_case *c = r->c;
    int rank = lk_comm_rank(r->comm);
    int64_t half[3] = {lk_range_split(c->size[0], rank, HALO_RANKS).n, c->size[1], c->size[2]};
    LK_TRY(halo_stack_start(&r->stack[HALO_FAST], c, c->size, r->comm, least));
    LK_TRY(halo_stack_start(&r->stack[HALO_CANON], c, c->size, r->comm, many));
    LK_TRY(halo_stack_start(&r->stack[HALO_APART], c, half, NULL, NULL));
    if (rank > 0)
        return LK_OK;
    LK_TRY(halo_stack_start(&r->stack[HALO_ONE], c, c->size, NULL, NULL));
    LK_TRY(halo_stack_start(&r->stack[HALO_2X2], c, c->size, NULL, few));
    return LK_TRACE(halo_stack_start(&r->stack[HALO_4X4], c, c->size, NULL, many));
}

static bench_figure ratio(const struct race *r, int a, int b)
{
    return bench_ratio(r->seconds[a], r->seconds[b], r->round);
}

static void figures_make(const struct race *r, halo_figures *f)
{
    f->rounds = r->round;
    for (int side = 0; side < HALO_SIDES; side++)
        if (takes_part(r, side))
            f->seconds[side] = bench_median(r->seconds[side], r->round);
    f->ranks = ratio(r, HALO_ONE, HALO_FAST);
    f->limit = ratio(r, HALO_APART, HALO_FAST);
    f->price = ratio(r, HALO_CANON, HALO_FAST);
    f->tiles[0] = ratio(r, HALO_2X2, HALO_ONE);
    f->tiles[1] = ratio(r, HALO_4X4, HALO_ONE);
    if (r->has_peer)
        f->ratio = ratio(r, HALO_PEER, HALO_ONE);
}

static lk_status race_run(struct race *r, halo_figures *out)
{
    int32_t has_peer;
    lk_status st = stacks_make(r);
    if (st == LK_OK && r->c->peer && lk_comm_rank(r->comm) == 0)
        st = peer_invite(r, out->peer_about, sizeof out->peer_about);
    LK_TRY(lk_agree(r->comm, st));
    has_peer = r->has_peer;
    LK_TRY(lk_bcast(r->comm, &has_peer, 1, LK_I32, 0, "peer"));
    r->has_peer = has_peer != 0;
    LK_TRY(rounds_run(r));
    figures_make(r, out);
    return LK_OK;
}

lk_status halo_measure(lk_comm *comm, const halo_case *c, halo_figures *out)
{
    struct race *r = NULL;
    *out = (halo_figures){.rounds = 0};
    lk_status st = lk_agree(comm, lk_alloc_zero(&r, 1, sizeof *r));
    if (st == LK_OK) {
        r->comm = comm;
        r->c = c;
        st = race_run(r, out);
        for (int side = 0; side < HALO_SIDES; side++)
            halo_stack_end(&r->stack[side]);
        for (int p = 0; p < LK_N_PEER_PASSES; p++)
            if (r->job[p])
                c->peer->job_free(r->job[p]);
        for (int i = 0; i < 4; i++)
            lk_free(r->operand[i]);
    }
    lk_free(r);
    return LK_TRACE(st);
}
