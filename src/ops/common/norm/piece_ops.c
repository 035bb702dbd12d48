/* Sums over pieces and their repetition as ops, each the adjoint of the other.
 *
 *   piece_sum      v[p][c] = sum of x[r][c] over the rows r of piece p, / rows of p if `mean`
 *   piece_spread   y[r][c] = v[p][c] for the piece p of row r, / rows of p if `mean`
 */
#include "ops/common/norm/pieces.h"
#include "ops/common/ops.h"
#include "tensor/tensor.h"

typedef struct piece_attr {
    bool mean, whole;
    lk_shape shape; /* of the rows */
} piece_attr;

extern const lk_op lk__op_piece_sum, lk__op_piece_spread;

static lk__pieces pieces_of(const lk_call *c)
{
    const piece_attr *a = c->attr;
    return lk__pieces_of(c->tape, c->x[0]->dtype, a->shape, a->whole);
}

static lk_status sum_infer(lk_call *c, lk_output_spec *out)
{
    lk__pieces s = pieces_of(c);
    out->dtype = s.dtype;
    out->shape = LK_SHAPE(s.n, s.channels);
    return LK_OK;
}

static lk_status sum_forward(lk_call *c)
{
    lk__pieces s = pieces_of(c);
    lk__pieces_in in = {.x = {lk__tensor_start(c->x[0])}};
    void *y = lk__tensor_start(c->y[0]);
    bool mean = ((const piece_attr *)c->attr)->mean;
    return LK_TRACE((mean ? lk__pieces_mean : lk__pieces_sum)(c, &s, &in, LK__DOWN_VALUES, y));
}

static lk_status sum_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    return LK_TRACE(lk_apply(c->tape, &lk__op_piece_spread, dout, 1, c->attr, &din[0]));
}

const lk_op lk__op_piece_sum = {
    .name = "piece_sum",
    .summary = "sums or means over pieces of the batch, by channel",
    LK_ARITY(1, 1),
    .attr_size = sizeof(piece_attr),
    .infer = sum_infer,
    .forward = sum_forward,
    .backward = sum_backward,
};

static lk_status spread_infer(lk_call *c, lk_output_spec *out)
{
    out->dtype = c->x[0]->dtype;
    out->shape = ((const piece_attr *)c->attr)->shape;
    return LK_OK;
}

static lk_status spread_forward(lk_call *c)
{
    lk__pieces s = pieces_of(c);
    lk__pieces_in in = {.v = {lk__tensor_start(c->x[0])}, .y = lk__tensor_start(c->y[0])};
    if (((const piece_attr *)c->attr)->mean) {
        lk__pieces_in shares = {.v = {in.v[0]}};
        LK_TRY(lk_call_scratch(c, c->x[0]->count * (int64_t)lk_dtype_size(s.dtype), &shares.y));
        LK_TRY(lk__pieces_vector(&s, &shares, 0, LK__TERM_OVER));
        in.v[0] = shares.y;
    }
    return LK_TRACE(lk__pieces_map(c, &s, &in, LK__TERM_FIRST));
}

static lk_status spread_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    return LK_TRACE(lk_apply(c->tape, &lk__op_piece_sum, dout, 1, c->attr, &din[0]));
}

const lk_op lk__op_piece_spread = {
    .name = "piece_spread",
    .summary = "numbers of pieces of the batch, by channel, repeated for each row",
    LK_ARITY(1, 1),
    .attr_size = sizeof(piece_attr),
    .infer = spread_infer,
    .forward = spread_forward,
    .backward = spread_backward,
};

lk_status lk__piece_sum(lk_var x, bool mean, bool whole, lk_var *out)
{
    piece_attr a = {mean, whole, lk_shape_of(x)};
    return LK_TRACE(lk_apply(x.tape, &lk__op_piece_sum, &x, 1, &a, out));
}

lk_status lk__piece_spread(lk_var v, lk_shape shape, bool mean, bool whole, lk_var *out)
{
    piece_attr a = {mean, whole, shape};
    return LK_TRACE(lk_apply(v.tape, &lk__op_piece_spread, &v, 1, &a, out));
}
