/* alltoall: x cut along one axis, a part for each rank; what comes is put together along another.
 *
 *   distinct axes   part r of x_s along `scatter` goes to rank r, which joins the parts of all s along
 *                   `gather`
 *   equal axes      the whole, x_0 x_1 ... along the axis, is cut anew
 *
 * Both are a permutation of elements among the ranks, so dx is the inverse one of dy: the op sends
 * what it got back.  Cutting and joining are ops, which have their own derivatives.
 */
#include "dist/common/dist.h"
#include "dist/common/sample_shapes.h"
#include "tensor/tensor.h"

#include <lockstep/extra/alloc.h>

static const int64_t *numbers(lk_var counts)
{
    const lk_tensor *t = NULL;
    return lk_value(counts, &t) == LK_OK ? lk_tensor_data(t) : NULL;
}

/* A value [P] to be written: the counts of an op. */
static lk_status counts_new(const lk__dist *d, lk_tape *tape, lk_var *out, int64_t **at)
{
    const lk_tensor *t = NULL;
    LK_TRY(lk_full(tape, LK_I64, LK_SHAPE(lk_comm_size(d->comm)), 0, out));
    LK_TRY(lk_value(*out, &t));
    *at = (int64_t *)(void *)lk__tensor_start(t);
    return LK_OK;
}

/* Elements that [a, a + n) and [b, b + m) share. */
static int64_t overlap(int64_t a, int64_t n, int64_t b, int64_t m)
{
    int64_t lo = a > b ? a : b, hi = a + n < b + m ? a + n : b + m;
    return hi > lo ? hi - lo : 0;
}

/* Equal axes: what rank r has and what it shall have are two cuts of the same line. */
static lk_status cut_anew(const lk__dist *d, lk_var x, int64_t count, lk_var *out)
{
    lk_tape *t = x.tape;
    lk_var had, shall, sent, got;
    int64_t *send, *get, all_had, all_shall, had_at = 0, shall_at = 0, own_had = 0, own_shall = 0;
    int rank = lk_comm_rank(d->comm), size = lk_comm_size(d->comm);
    LK_TRY(lk__dist_counts(d, t, lk_shape_of(x).dim[0], &all_had, &had));
    LK_TRY(lk__dist_counts(d, t, count, &all_shall, &shall));
    LK_CHECK(all_had == all_shall, LK_ESHAPE,
             "alltoall(\"%s\"): the ranks have %lld along the axis and ask for %lld", d->name,
             (long long)all_had, (long long)all_shall);
    LK_TRY(counts_new(d, t, &sent, &send));
    LK_TRY(counts_new(d, t, &got, &get));
    const int64_t *h = numbers(had), *s = numbers(shall);
    for (int r = 0; r < rank; r++) {
        own_had += h[r];
        own_shall += s[r];
    }
    for (int r = 0; r < size; r++) {
        send[r] = overlap(own_had, h[rank], shall_at, s[r]);
        get[r] = overlap(had_at, h[r], own_shall, s[rank]);
        had_at += h[r];
        shall_at += s[r];
    }
    return LK_TRACE(lk_apply(t, &lk__dist_alltoall, (lk_var[]){x, sent, got}, 3, d, out));
}

/* Parts of the flat values that came, each as the box it was, joined along `axis`. */
static lk_status join(const lk__dist *d, lk_var flat, lk_shape box, int axis, const int64_t *sizes,
                      lk_var *out)
{
    lk_status st;
    lk_var *part = NULL;
    int size = lk_comm_size(d->comm);
    int64_t at = 0;
    LK_TRY(lk_alloc(&part, size, sizeof *part));
    for (int r = 0; r < size; r++) {
        int64_t n;
        box.dim[axis] = sizes[r];
        LK_TRY_TO(done, lk_shape_count(box, &n));
        LK_TRY_TO(done, lk_slice(flat, 0, at, at + n, 1, &part[r]));
        LK_TRY_TO(done, lk_reshape(part[r], box, &part[r]));
        at += n;
    }
    LK_TRY_TO(done, lk_concat(part, size, axis, out));
done:
    lk_free(part);
    return st;
}

/* Distinct axes; `x` has the axis to scatter in front, and `axis` is where the other one is now. */
static lk_status exchange(const lk__dist *d, lk_var x, int axis, int64_t count, lk_var *out)
{
    lk_tape *t = x.tape;
    lk_shape shape = lk_shape_of(x);
    lk_var cuts, sizes, sent, got, flat;
    int64_t *send, *get, all, n;
    LK_TRY(lk__dist_counts(d, t, count, &all, &cuts));
    LK_TRY(lk__dist_counts(d, t, shape.dim[axis], NULL, &sizes));
    LK_CHECK(all == shape.dim[0], LK_ESHAPE,
             "alltoall(\"%s\"): the counts of all ranks add up to %lld, the axis has %lld", d->name,
             (long long)all, (long long)shape.dim[0]);
    LK_TRY(counts_new(d, t, &sent, &send));
    LK_TRY(counts_new(d, t, &got, &get));
    for (int r = 0; r < lk_comm_size(d->comm); r++) {
        lk_shape box = shape;
        box.dim[0] = numbers(cuts)[r];
        LK_TRY(lk_shape_count(box, &send[r]));
        box.dim[0] = count;
        box.dim[axis] = numbers(sizes)[r];
        LK_TRY(lk_shape_count(box, &get[r]));
    }
    LK_TRY(lk_shape_count(shape, &n));
    LK_TRY(lk_reshape(x, LK_SHAPE(n), &flat));
    LK_TRY(lk_apply(t, &lk__dist_alltoall, (lk_var[]){flat, sent, got}, 3, d, &flat));
    shape.dim[0] = count;
    return LK_TRACE(join(d, flat, shape, axis, numbers(sizes), out));
}

lk_status lk_dist_alltoall(lk_comm *comm, lk_var x, int gather, int scatter, int64_t count,
                           const char *name, lk_var *out)
{
    lk__dist d = lk__dist_of(comm, LK_REDUCE_SUM, 0, name);
    lk_var front;
    LK_CHECK(out, LK_EINVAL, "alltoall: out is NULL");
    *out = LK_NO_VAR;
    LK_TRY_DIST(comm, lk__dist_check(&d, "alltoall", x));
    LK_CHECK(count >= 0, LK_EINVAL, "alltoall: count is %lld", (long long)count);
    LK_CHECK(gather >= 0 && gather < lk_shape_of(x).ndim, LK_EINVAL,
             "alltoall: axis %d of a value %s", gather, lk_shape_text(lk_shape_of(x)).s);
    lk__dist_noted(&d, "axis", scatter);
    lk__dist_noted(&d, "to", gather);
    LK_TRY_DIST(comm, lk__dist_front("alltoall", x, scatter, &front));
    if (gather == scatter)
        LK_TRY_DIST(comm, cut_anew(&d, front, count, &front));
    else
        LK_TRY_DIST(comm,
                    exchange(&d, front, gather < scatter ? gather + 1 : gather, count, &front));
    LK_TRY_DIST(comm, lk__dist_back(front, scatter, out));
    return LK_OK;
}

/* ---- samples ---- */

/* Uneven along the axis to gather, `other`; as many along `axis` as all ranks ask for. */
static lk_shape shape_table(const lk_dist_sample *s, int rank, int size, int i)
{
    lk_shape shape = shape_whole(s, rank, size, i);
    shape.dim[s->other] = rank % 3;
    return shape;
}

static lk_status exchange_sample(const lk_dist_sample *s, lk_comm *comm, const lk_var *in,
                                 lk_var *out)
{
    return LK_TRACE(
        lk_dist_alltoall(comm, in[0], s->other, s->axis, asked(lk_comm_rank(comm)), "check", out));
}

/* A part of the whole along `axis`; ranks ask for the part of their mirror image. */
static lk_shape shape_part(const lk_dist_sample *s, int rank, int size, int i)
{
    lk_shape shape = LK_SHAPE(2, 1, 2);
    (void)size;
    (void)i;
    shape.dim[s->axis] = asked(rank);
    return shape;
}

static lk_status cut_anew_sample(const lk_dist_sample *s, lk_comm *comm, const lk_var *in,
                                 lk_var *out)
{
    int64_t count = asked(lk_comm_size(comm) - 1 - lk_comm_rank(comm));
    return LK_TRACE(lk_dist_alltoall(comm, in[0], s->axis, s->axis, count, "check", out));
}

const lk_dist_check lk__dist_check_alltoall = {
    .name = "alltoall",
    .summary = "y = own part of each x; dx = the same of dy, axes exchanged",
    .samples = (const lk_dist_sample[]){
        {LINEAR_SAMPLE("cut axis 1, join axis 0, uneven", shape_table, exchange_sample), .axis = 1},
        {LINEAR_SAMPLE("cut axis 0, join axis 2, uneven", shape_table, exchange_sample),
         .other = 2},
        {LINEAR_SAMPLE("cut axis 2, join axis 1, uneven", shape_table, exchange_sample), .other = 1,
         .axis = 2},
        {LINEAR_SAMPLE("cut axis 0 anew", shape_part, cut_anew_sample)},
        {LINEAR_SAMPLE("cut axis 1 anew", shape_part, cut_anew_sample), .axis = 1},
        {LINEAR_SAMPLE("cut axis 2 anew", shape_part, cut_anew_sample), .axis = 2},
        {0}}};
