/* tile_sample_norm: layer norm over all positions and channels of a sample that is cut over ranks, its n
 * elements x:
 *
 *   mean = sum x / n,  c = x - mean,  inv = 1 / sqrt(sum (c c) / n + eps)
 *   y    = c inv gamma + beta
 *
 *   dx     = inv ((g - sum g / n) - c inv (sum (g c inv) / n))         g = dy gamma
 *   dgamma = dy c inv, dbeta = dy, summed over the samples by lk_sum_to()
 *
 * gamma and beta are of the tile's positions alone, and nothing of their gradients is joined.  A sum over
 * a sample is a lane sum of each leaf, row-major with the channels innermost, joined by the tree over
 * tiles.  All samples travel together: two vectors in forward, one of twice the length in backward.
 * Margins are not read, and are 0 in what comes out.  The maps are those of the op (kernel/sums.h), line
 * by line of the tile.
 *
 * lk_dist_tile_layer_norm() applies it; it runs on the thread of the tiling's communicator.
 */
#include "base/fpenv.h"
#include "dist/common/leaf_sums.h"
#include "dist/common/pending.h"
#include "kernel/runtime/parallel.h"
#include "kernel/sums.h"
#include "ops/common/norm/layer_norm.h"
#include "ops/common/ops.h"
#include "tensor/tensor.h"

#include <string.h>

typedef struct norm_attr {
    lk_layer_norm_attr norm;
    lk__dist d;
    const lk_tile *tile;
} norm_attr;

/* What a row has for each sample, [OF_SAMPLE][samples]; mean and inv come from forward. */
enum { MEAN, INV, MEAN_G, MEAN_G_NORMAL, OF_SAMPLE };

/* ---- maps over the tile ---- */

/* An array: of the box, [samples][box...][channels]; of the tile, [samples][tile...][channels]; or of the
 * tile for all samples, [tile...][channels]. */
typedef enum where { OF_BOX, OF_TILE, OF_PARAM } where;

typedef struct array {
    const lk_tensor *of;
    where where;
} array;

/* A map of some arrays to one, a line of the tile's last axis at a time. */
typedef struct lines {
    lk__sum_term map;
    const lk__map_sums_type *type;
    lk_dtype dtype;
    lk_box tile;
    lk__tile_part part; /* the tile in the box */
    int64_t samples, n, per_sample;
    array x[3], y;
    const char *numbers; /* [OF_SAMPLE][samples], as far as the map looks */
    int n_numbers;
} lines;

static char *line_at(const lines *l, const array *a, int64_t sample, int64_t line)
{
    int64_t at = (a->where == OF_TILE ? sample * l->per_sample + line : line) * l->n;
    int64_t columns = l->tile.ndim == 3 ? l->tile.n[1] : 1;
    if (a->where == OF_BOX)
        at = sample * l->part.sample + l->part.offset +
             (l->tile.ndim > 1 ? line / columns * l->part.step[0] : 0) +
             (l->tile.ndim > 2 ? line % columns * l->part.step[1] : 0);
    return lk__tensor_start(a->of) + at * (int64_t)lk_dtype_size(l->dtype);
}

static void lines_task(void *arg, int64_t first, int64_t last)
{
    const lines *l = arg;
    lk__sheet t = {.dtype = l->dtype, .rows = 1, .n = l->n, .last = 1, .type = l->type};
    for (int64_t i = first; i < last; i++) {
        int64_t sample = i / l->per_sample, line = i % l->per_sample;
        t.row = sample;
        for (int k = 0; k < l->n_numbers; k++)
            lk__sheet_take(&t, k, l->numbers + k * l->samples * (int64_t)lk_dtype_size(l->dtype));
        for (int k = 0; k < LK_SUMS_MAX_IN; k++)
            t.x[k] = line_at(l, &l->x[k < 3 ? k : 0], sample, line);
        t.y = line_at(l, &l->y, sample, line);
        lk__sheet_map(&t, l->map);
    }
}

static lk_status lines_run(lines *l, lk__sum_term map, const lk_tensor *y, where of)
{
    const lk__map_sums_table *table = NULL;
    LK_TRY(lk__fp_check());
    LK_TRY(lk__map_sums_get(&table));
    l->type = &table->of[l->dtype];
    l->map = map;
    l->y = (array){y, of};
    if (l->n > 0 && l->per_sample > 0)
        LK_TRY(lk__parallel(
            lk__tasks_bytes(l->samples * l->per_sample, l->n * (int64_t)lk_dtype_size(l->dtype)),
            lines_task, l));
    return LK_OK;
}

/* Lines of x, gamma and a third, which is beta, of the tile, or dy, of the box. */
static lines lines_of(lk_call *c, where third)
{
    const lk_tile *t = ((const norm_attr *)c->attr)->tile;
    const lk_tensor *x = c->x[0];
    int last = t->x.tile.ndim - 1;
    int64_t channels = x->shape.dim[last + 2], line = t->x.tile.n[last];
    lines l = {.dtype = x->dtype,
               .tile = t->x.tile,
               .part = lk__tile_part_of(&t->x.box, &t->x.tile, channels),
               .samples = x->shape.dim[0],
               .n = line * channels,
               .per_sample = line > 0 ? lk_box_count(&t->x.tile) / line : 0,
               .x = {{x, OF_BOX}, {c->x[1], OF_PARAM}, {c->x[2], third}}};
    return l;
}

/* ---- sums over a sample ---- */

/* A call under way: what its leaves have said, until it is joined. */
typedef struct norm_sums {
    lk_call *c;
    const norm_attr *a;
    lk__leaf_sums of;
    int64_t sample; /* elements of a whole one */
    lk__leaf_part part[2];
    int n;
} norm_sums;

static norm_sums sums_of(lk_call *c)
{
    norm_sums s = {.c = c, .a = c->attr};
    const lk_tensor *x = c->x[0];
    s.of = lk__leaf_sums_of(s.a->tile, x->dtype, x->shape, 1);
    s.of.over_channels = true;
    s.sample = s.of.channels;
    for (int d = 0; d < s.a->tile->x.box.ndim; d++)
        s.sample *= s.a->tile->in[d];
    return s;
}

static bool is_empty(const norm_sums *s)
{
    return s->of.samples == 0 || s->sample == 0; /* on all ranks alike */
}

static lk_status leaves_sum(norm_sums *s, const lk_tensor *x)
{
    lk__leaf_part *p = &s->part[s->n++];
    int64_t elem = (int64_t)lk_dtype_size(s->of.dtype);
    p->n = s->of.samples;
    LK_TRY(lk_call_scratch(s->c, s->of.leaves * p->n * elem, &p->leaves));
    return LK_TRACE(lk__leaf_sum(&s->of, lk__tensor_start(x), p->leaves));
}

/* out [sums][samples] = the means over all of each sample. */
static lk_status means_join(norm_sums *s, void *out)
{
    const lk_tiling *t = s->a->tile->tiling;
    int64_t count = s->n * s->of.samples, elem = (int64_t)lk_dtype_size(s->of.dtype);
    void *room;
    LK_TRY(lk_call_scratch(s->c, lk__tiles_join_room(t, count) * elem, &room));
    LK_TRY(lk__tiles_join(t, s->of.dtype, s->part, s->n, room, out, s->a->d.name));
    s->n = 0;
    const double n[] = {(double)s->sample, 0};
    return LK_TRACE(
        lk__vector_map(s->of.dtype, count, (const void *[]){out}, 1, n, LK__TERM_OVER, out));
}

/* Clear what the tile does not have of a value of the box. */
static void margin_clear(const lk_call *c, const lk_tensor *y)
{
    const lk_tile *t = ((const norm_attr *)c->attr)->tile;
    lk__tile_clear_around(lk__tensor_start(y), &t->x.box, &t->x.tile, y->shape.dim[0],
                          y->shape.dim[y->shape.ndim - 1] * (int64_t)lk_dtype_size(y->dtype));
}

/* ---- forward: of x, gamma, beta ---- */

/* What gamma and beta must be. */
static lk_shape param_shape(const lk_tile *t, int64_t channels)
{
    lk_shape s = {.ndim = t->x.tile.ndim + 1};
    memcpy(s.dim, t->x.tile.n, (size_t)t->x.tile.ndim * sizeof s.dim[0]);
    s.dim[s.ndim - 1] = channels;
    return s;
}

static lk_status norm_infer(lk_call *c, lk_output_spec *out)
{
    const norm_attr *a = c->attr;
    const lk_tensor *x = c->x[0];
    LK_TRY(lk__same_infer(c, &out[0]));
    LK_TRY(lk__tile_check(c->op->name, "x", x->shape, &a->tile->x.box));
    LK_TRY(lk__layer_norm_check(c, &a->norm));
    lk_shape want = param_shape(a->tile, x->shape.dim[x->shape.ndim - 1]);
    for (int i = 1; i < 3; i++) {
        const lk_tensor *v = c->x[i];
        const char *name = i == 1 ? "gamma" : "beta";
        LK_CHECK(v->dtype == x->dtype, LK_EDTYPE, "%s of %s with %s %s: one dtype for all",
                 c->op->name, lk_tensor_text(x).s, name, lk_tensor_text(v).s);
        LK_CHECK(lk_shape_is_equal(v->shape, want), LK_ESHAPE,
                 "%s of %s with %s %s: of the positions of this rank's tile it must be %s",
                 c->op->name, lk_tensor_text(x).s, name, lk_tensor_text(v).s,
                 lk_shape_text(want).s);
    }
    out[1].dtype = x->dtype;
    out[1].shape = LK_SHAPE(2, x->shape.dim[0]);
    return LK_OK;
}

static lk_status norm_forward(lk_call *c)
{
    norm_sums s = sums_of(c);
    lines l = lines_of(c, OF_PARAM);
    const lk_tensor *y = c->y[0];
    char *mean = lk__tensor_start(c->y[1]);
    char *inv = mean + l.samples * (int64_t)lk_dtype_size(l.dtype);
    const double eps[] = {0, lk__layer_norm_eps(&s.a->norm)};
    if (is_empty(&s))
        return LK_OK;
    margin_clear(c, y);
    LK_TRY(leaves_sum(&s, c->x[0]));
    LK_TRY(means_join(&s, mean));
    l.numbers = mean;
    l.n_numbers = MEAN + 1;
    LK_TRY(lines_run(&l, LK__TERM_SQUARE, y, OF_BOX)); /* y is room for them */
    LK_TRY(leaves_sum(&s, y));
    LK_TRY(means_join(&s, inv));
    LK_TRY(
        lk__vector_map(l.dtype, l.samples, (const void *[]){inv}, 1, eps, LK__TERM_INVERSE, inv));
    l.n_numbers = INV + 1;
    return LK_TRACE(lines_run(&l, LK__TERM_NORMALISE, y, OF_BOX));
}

/* ---- backward: of x, gamma, dy, and mean and inv ---- */

/* dx, and what dgamma is the sum of, which is of the tile. */
static lk_status grad_infer(lk_call *c, lk_output_spec *out)
{
    const norm_attr *a = c->attr;
    lk_shape x = c->x[0]->shape;
    LK_TRY(lk__tile_check(c->op->name, "dy", c->x[2]->shape, &a->tile->x.box));
    out[0].dtype = out[1].dtype = c->x[0]->dtype;
    out[0].shape = x;
    out[1].shape = lk__tile_shape(&a->tile->x.tile, x.dim[0], x.dim[x.ndim - 1]);
    return LK_OK;
}

static lk_status grad_forward(lk_call *c)
{
    norm_sums s = sums_of(c);
    lines l = lines_of(c, OF_BOX);
    const lk_tensor *dx = c->y[0];
    int64_t bytes = l.samples * (int64_t)lk_dtype_size(l.dtype);
    char *numbers;
    if (is_empty(&s))
        return LK_OK;
    LK_TRY(lk_call_scratch(c, OF_SAMPLE * bytes, &numbers));
    memcpy(numbers, lk__tensor_start(c->x[3]), (size_t)(2 * bytes));
    l.numbers = numbers;
    l.n_numbers = INV + 1;
    margin_clear(c, dx);
    LK_TRY(lines_run(&l, LK__TERM_WEIGH, dx, OF_BOX)); /* dx is room for them */
    LK_TRY(leaves_sum(&s, dx));
    LK_TRY(lines_run(&l, LK__TERM_WEIGH_NORMAL, dx, OF_BOX));
    LK_TRY(leaves_sum(&s, dx));
    LK_TRY(means_join(&s, numbers + MEAN_G * bytes));
    l.n_numbers = OF_SAMPLE;
    LK_TRY(lines_run(&l, LK__TERM_NORM_GRADIENT, dx, OF_BOX));
    return LK_TRACE(lines_run(&l, LK__TERM_TIMES_NORMAL, c->y[1], OF_TILE));
}

static const lk_op grad = {.name = "tile_sample_norm.grad",
                           .summary = "the gradient of x, and dy times the normalised x",
                           LK_ARITY(4, 2),
                           .flags = LK_OP_COLLECTIVE | LK_OP_FIRST_ORDER,
                           .attr_size = sizeof(norm_attr),
                           .infer = grad_infer,
                           .forward = grad_forward};

/* A view of the tile in a value of the box. */
static lk_status tile_view(const lk_tile *t, lk_var x, lk_var *out)
{
    const lk_held *held = &t->x;
    *out = x;
    for (int d = 0; d < held->box.ndim; d++) {
        int64_t n = held->tile.n[d], first = held->tile.first[d] - held->box.first[d];
        first = n > 0 ? first : 0;
        LK_TRY(lk_slice(*out, d + 1, first, first + n, 1, out));
    }
    return LK_OK;
}

static lk_status norm_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    norm_attr a = *(const norm_attr *)c->attr;
    lk_var in[] = {c->in[0], c->in[1], dout[0], c->out[1]}, both[2], dy;
    if (a.d.comm)
        LK_TRY(lk__dist_adjoint(&a.d, c->op->name, LK_REDUCE_SUM, &a.d));
    LK_TRY(lk_apply(c->tape, &grad, in, 4, &a, both));
    din[0] = both[0];
    if (lk_call_needs_grad(c, 1))
        LK_TRY(lk_sum_to(both[1], lk_shape_of(c->in[1]), &din[1]));
    if (lk_call_needs_grad(c, 2)) {
        LK_TRY(tile_view(a.tile, dout[0], &dy));
        LK_TRY(lk_sum_to(dy, lk_shape_of(c->in[2]), &din[2]));
    }
    return LK_OK;
}

/* ---- the op ---- */

static const lk_op norm = {.name = "tile_sample_norm",
                           .summary = "samples that are cut into tiles, normalised",
                           LK_ARITY(3, 2),
                           .flags = LK_OP_COLLECTIVE | LK_OP_FIRST_ORDER,
                           .attr_size = sizeof(norm_attr),
                           .saves_in = 3,
                           .infer = norm_infer,
                           .forward = norm_forward,
                           .backward = norm_backward};

lk_status lk__tile_sample_norm(const lk_tile *tile, const lk_var in[3], double eps,
                               const char *name, lk_var *out)
{
    norm_attr a;
    lk_comm *comm = tile->tiling->comm;
    lk_var made[2];
    memset(&a, 0, sizeof a); /* attributes are compared as bytes */
    a.norm.axes = tile->x.box.ndim + 1;
    a.norm.eps = eps;
    a.d = lk__dist_of(comm, LK_REDUCE_SUM, 0, name);
    a.tile = tile;
    if (comm)
        LK_TRY_DIST(comm, lk__dist_uses(in[0].tape, comm, norm.name));
    LK_TRY_DIST(comm, lk_apply(in[0].tape, &norm, in, 3, &a, made));
    *out = made[0];
    return LK_OK;
}
