/* Several values in one, and back.
 *
 * Packing is a concatenation, whose backward takes views.  Unpacking is a tree of nodes that cut a
 * flat value into up to four views: with one node for each value, backward would add as many values
 * of full length as there are parts; so it joins each element once for each level of the tree.
 */
#include "dist/common/list.h"

#include "tensor/tensor.h"

#include <lockstep/extra/alloc.h>

#include <string.h>

lk_status lk__like_of(lk_var x, lk__like *out)
{
    const lk_tensor *t = NULL;
    LK_TRY(lk_value(x, &t));
    *out = (lk__like){.dtype = t->dtype, .ndim = t->shape.ndim, .count = t->count};
    memcpy(out->dim, t->shape.dim, (size_t)t->shape.ndim * sizeof *out->dim);
    return LK_OK;
}

lk_output_spec lk__like_spec(const lk__like *like)
{
    lk_output_spec s = {.dtype = (lk_dtype)like->dtype, .shape = {.ndim = (int)like->ndim}};
    memcpy(s.shape.dim, like->dim, (size_t)like->ndim * sizeof *like->dim);
    return s;
}

lk_status lk__list_check(const char *call, const lk_var *xs, int64_t n, bool mixed)
{
    LK_CHECK(n >= 0 && (xs || n == 0), LK_EINVAL, "%s of %lld values at %p", call, (long long)n,
             (const void *)xs);
    for (int64_t i = 0; i < n; i++) {
        LK_CHECK(lk_is_var(xs[i]), LK_EINVAL, "%s: value %lld is LK_NO_VAR, which is no value",
                 call, (long long)i);
        LK_CHECK(xs[i].tape == xs[0].tape, LK_EINVAL, "%s: value %lld is of another tape", call,
                 (long long)i);
        LK_TRY(lk__dist_valid(call, xs[i]));
        LK_CHECK(mixed || lk_dtype_of(xs[i]) == lk_dtype_of(xs[0]), LK_EDTYPE,
                 "%s: value 0 is %s and value %lld is %s; all must have one dtype", call,
                 lk_dtype_name(lk_dtype_of(xs[0])), (long long)i,
                 lk_dtype_name(lk_dtype_of(xs[i])));
    }
    return LK_OK;
}

lk_status lk__list_pack(const lk_var *xs, int64_t n, lk_var *flat)
{
    lk_status st = LK_OK;
    lk_var *part = NULL;
    LK_TRY(lk_alloc(&part, n, sizeof *part));
    for (int64_t i = 0; i < n; i++) {
        const lk_tensor *t = NULL;
        LK_TRY_TO(done, lk_value(xs[i], &t));
        LK_TRY_TO(done, lk_reshape(xs[i], LK_SHAPE(t->count), &part[i]));
    }
    *flat = part[0];
    if (n > 1)
        LK_TRY_TO(done, lk_concat(part, (int)n, 0, flat));
done:
    lk_free(part);
    return st;
}

/* ---- cut: x [all] into up to four parts; dx = the parts' gradients one behind the other ---- */

typedef struct cuts {
    int64_t count[LK_MAX_OUT];
} cuts;

static lk_status cut_infer(lk_call *c, lk_output_spec *out)
{
    int64_t at = 0, step = c->x[0]->stride[0];
    for (int j = 0; j < c->n_out; j++) {
        int64_t n = ((const cuts *)c->attr)->count[j];
        out[j] = (lk_output_spec){.dtype = c->x[0]->dtype,
                                  .shape = LK_SHAPE(n),
                                  .is_view = true,
                                  .stride = {step},
                                  .offset = n > 0 ? at * step : 0};
        at += n;
    }
    return LK_OK;
}

static lk_status cut_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_var part[LK_MAX_OUT];
    for (int j = 0; j < c->n_out; j++) {
        part[j] = dout[j];
        if (!lk_is_var(dout[j]))
            LK_TRY(lk_zeros_like(c->out[j], &part[j]));
    }
    return LK_TRACE(lk_concat(part, c->n_out, 0, &din[0]));
}

#define CUT(n)                                                                                     \
    {                                                                                              \
        .name = "cut", .summary = "parts of a flat value", .min_in = 1, .max_in = 1, .n_out = (n), \
        .flags = LK_OP_LINEAR | LK_OP_STRIDED, .attr_size = sizeof(cuts), .infer = cut_infer,      \
        .backward = cut_backward                                                                   \
    }
static const lk_op cut_ops[LK_MAX_OUT] = {CUT(1), CUT(2), CUT(3), CUT(4)};

/* The most values of a part when `n` are cut into up to four. */
static int64_t share(int64_t n)
{
    int64_t most = 1;
    while (most * LK_MAX_OUT < n)
        most *= LK_MAX_OUT;
    return most;
}

lk_status lk__list_unpack(lk_var flat, const lk__like *like, int64_t n, lk_var *out)
{
    if (n == 1) {
        return LK_TRACE(lk_reshape(flat, lk__like_spec(like).shape, out));
    }
    int64_t most = share(n);
    int parts = (int)((n + most - 1) / most);
    cuts cut = {{0}};
    lk_var part[LK_MAX_OUT];
    for (int64_t i = 0; i < n; i++)
        cut.count[i / most] += like[i].count;
    if (n == 0)
        return LK_OK;
    LK_TRY(lk_apply(flat.tape, &cut_ops[parts - 1], &flat, 1, &cut, part));
    for (int j = 0; j < parts; j++) {
        int64_t first = j * most, some = n - first < most ? n - first : most;
        LK_TRY(lk__list_unpack(part[j], like + first, some, out + first)); /* log4 n deep */
    }
    return LK_OK;
}

lk_status lk__list_counts(lk_tape *tape, const lk__like *like, int64_t n, lk_var *out)
{
    const lk_tensor *t = NULL;
    LK_TRY(lk_full(tape, LK_I64, LK_SHAPE(n), 0, out));
    LK_TRY(lk_value(*out, &t));
    int64_t *count = (int64_t *)(void *)lk__tensor_start(t);
    for (int64_t i = 0; i < n; i++)
        count[i] = like[i].count;
    return LK_OK;
}
