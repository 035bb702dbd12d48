/* Where the operands of a convolution lie, and whether the output is apart from the inputs.
 *
 * Extents alone would refuse what is common with windows: reading some channels of a tensor and
 * writing others.  So an operand is a set of runs at multiples of a unit; two operands whose runs
 * never meet modulo the common unit are apart even if their extents cross.
 */
#include "kernel/conv/shape.h"

static lk__conv_operand grid_operand(const lk__conv_shape *s, const int64_t *size,
                                     const int64_t *step, int64_t sample, int64_t channels)
{
    int64_t unit = s->batch > 1 ? sample : 0;
    for (int d = 0; d < LK_CONV_AXES; d++)
        if (size[d] > 1)
            unit = lk__conv_gcd(unit, step[d]);
    return (lk__conv_operand){.run = channels * s->elem, .unit = unit * s->elem};
}

lk__conv_operand lk__conv_operand_x(const lk__conv_shape *s, const char *name, const void *data)
{
    lk__conv_operand op = grid_operand(s, s->in, s->x_step, s->x_sample, s->in_channels);
    op.name = name;
    op.data = data;
    op.extent = s->x_extent * s->elem;
    return op;
}

lk__conv_operand lk__conv_operand_y(const lk__conv_shape *s, const char *name, const void *data)
{
    lk__conv_operand op = grid_operand(s, s->out, s->y_step, s->y_sample, s->out_channels);
    op.name = name;
    op.data = data;
    op.extent = s->y_extent * s->elem;
    return op;
}

lk__conv_operand lk__conv_operand_vector(const lk__conv_shape *s, const char *name,
                                         const void *data, int64_t n)
{
    int64_t bytes = n * s->elem;
    return (lk__conv_operand){.name = name, .data = data, .extent = bytes, .run = bytes};
}

lk__conv_operand lk__conv_operand_w(const lk__conv_shape *s, const char *name, const void *data)
{
    return lk__conv_operand_vector(s, name, data, s->w_extent);
}

static bool overlaps(const lk__conv_operand *a, const lk__conv_operand *b)
{
    uintptr_t pa = (uintptr_t)a->data, pb = (uintptr_t)b->data;
    if (pb < pa)
        return overlaps(b, a);
    if (a->extent == 0 || b->extent == 0 || pb - pa >= (uintptr_t)a->extent)
        return false;
    int64_t unit = lk__conv_gcd(a->unit, b->unit);
    if (unit == 0)
        return true;
    int64_t shift = (int64_t)(pb - pa) % unit;
    return shift < a->run || shift + b->run > unit;
}

lk_status lk__conv_operands_check(const lk__conv_operand *op, int n)
{
    for (int i = 0; i < n; i++)
        LK_CHECK(op[i].data || op[i].extent == 0, LK_EINVAL, "%s is NULL; it has %lld bytes",
                 op[i].name, (long long)op[i].extent);
    for (int i = 1; i < n; i++)
        LK_CHECK(!overlaps(&op[0], &op[i]), LK_EOVERLAP,
                 "%s (%lld bytes at %p) overlaps %s (%lld bytes at %p)", op[0].name,
                 (long long)op[0].extent, op[0].data, op[i].name, (long long)op[i].extent,
                 op[i].data);
    return LK_OK;
}
