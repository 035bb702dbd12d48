/* lk__wire: gradients as f16 or bf16 on their way between ranks, scaled so that they fit:
 * conversions and scales. wire.h has the formula. */
#include "parallel/wire.h"

#include "base/bits.h"
#include "base/fpenv.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/half.h>

enum {
    BLOCK = 1024,          /* elements that are scaled at a time */
    TOP = 15,              /* sums are below 2^TOP */
    ALL_ZERO = INT32_MIN,  /* of a tensor, in place of an exponent */
    NOT_FINITE = INT32_MAX /* of one that is so on some rank */
};

struct lk__wire {
    const lk_slab_layout *layout;
    lk_comm *comm;
    lk_dtype dtype;
    int64_t slices, elements;
    int ranks_exponent; /* 2^this is the least power of two of at least as many as there are ranks */
    uint16_t *y;        /* [elements] */
    int32_t *exponent;  /* f16: [slices] magnitudes are below 2^this */
};

const char *lk_wire_name(lk_wire wire)
{
    static const char *const names[] = {
        [LK_WIRE_DTYPE] = "dtype", [LK_WIRE_F16] = "f16", [LK_WIRE_BF16] = "bf16"};
    return wire >= LK_WIRE_DTYPE && wire <= LK_WIRE_BF16 ? names[wire] : "?";
}

/* Elements up to the end of a slice, with the gap behind it. */
static int64_t end_of(const lk_slab_slice *slice)
{
    int64_t bytes = (slice->bytes + LK_ALIGN - 1) / LK_ALIGN * LK_ALIGN;
    return (slice->offset + bytes) / (int64_t)sizeof(float);
}

int64_t lk__wire_elements_of(const lk_slab_layout *layout, int64_t slices)
{
    lk_slab_slice last;
    if (slices == 0 || lk_slab_layout_slice(layout, slices - 1, &last) != LK_OK)
        return 0;
    return end_of(&last);
}

static lk_status wire_make(lk__wire *w)
{
    for (int64_t i = 0; i < w->slices; i++) {
        lk_slab_slice slice;
        LK_TRY(lk_slab_layout_slice(w->layout, i, &slice));
        LK_CHECK(slice.dtype == LK_F32, LK_EDTYPE, "%s is %s: only f32 can travel as %s",
                 slice.name, lk_dtype_name(slice.dtype), lk_dtype_name(w->dtype));
    }
    LK_TRY(lk_alloc_zero(&w->y, w->elements, sizeof *w->y));
    return LK_TRACE(lk_alloc_zero(&w->exponent, w->slices, sizeof *w->exponent));
}

lk_status lk__wire_new(const lk_slab_layout *layout, int64_t slices, lk_wire choice, lk_comm *comm,
                       lk__wire **out)
{
    lk__wire *w = NULL;
    *out = NULL;
    LK_TRY(lk_alloc_zero(&w, 1, sizeof *w));
    w->layout = layout;
    w->comm = comm;
    w->dtype = choice == LK_WIRE_F16 ? LK_F16 : LK_BF16;
    w->slices = slices;
    w->elements = lk__wire_elements_of(layout, slices);
    while (w->ranks_exponent < 30 && 1 << w->ranks_exponent < lk_comm_size(comm))
        w->ranks_exponent++;
    lk_status st = wire_make(w);
    if (st != LK_OK) {
        lk__wire_free(w);
        LK_TRY(st);
    }
    *out = w;
    return LK_OK;
}

void lk__wire_free(lk__wire *w)
{
    if (!w)
        return;
    lk_free(w->y);
    lk_free(w->exponent);
    lk_free(w);
}

int64_t lk__wire_elements(const lk__wire *w)
{
    return w->elements;
}

lk_dtype lk__wire_dtype(const lk__wire *w)
{
    return w->dtype;
}

/* ---- scales ---- */

/* The least e for which the magnitudes of x [n] are below 2^e. */
static int32_t exponent_of(const float *x, int64_t n)
{
    uint32_t most = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits = lk__f32_bits(x[i]) & 0x7fffffff;
        most = bits > most ? bits : most;
    }
    if (most == 0)
        return ALL_ZERO;
    if (most >= 0x7f800000)
        return NOT_FINITE;
    if (most < 0x00800000) /* denormal: a multiple of 2^-149 */
        return 32 - __builtin_clz(most) - 149;
    return (int32_t)(most >> 23) - 126;
}

/* The slice number i; it is there, since its dtype was looked at. */
static lk_slab_slice slice_of(const lk__wire *w, int64_t i)
{
    lk_slab_slice slice = {0};
    (void)!lk_slab_layout_slice(w->layout, i, &slice);
    return slice;
}

lk_status lk__wire_scale(lk__wire *w, const float *x)
{
    if (w->dtype != LK_F16)
        return LK_OK;
    for (int64_t i = 0; i < w->slices; i++) {
        lk_slab_slice slice = slice_of(w, i);
        w->exponent[i] = exponent_of(x + slice.offset / (int64_t)sizeof *x, slice.count);
    }
    return LK_TRACE(lk_allreduce(w->comm, NULL, w->exponent, w->slices, LK_I32, LK_REDUCE_MAX,
                                 "scales of gradients"));
}

/* 2^s, by which tensor i is multiplied; 1: not at all. */
static int scale_of(const lk__wire *w, int64_t i)
{
    int32_t e = w->exponent[i];
    if (w->dtype != LK_F16 || e == ALL_ZERO || e == NOT_FINITE)
        return 0;
    return TOP - w->ranks_exponent - e;
}

/* 2^s, |s| < 1023. */
static double power_of_two(int s)
{
    return lk__f64_from_bits((uint64_t)(1023 + s) << 52);
}

/* ---- conversions ---- */

/* What elements [first, first + n) have of slice i with the gap behind it. */
static lk_range part_of(const lk_slab_slice *slice, int64_t first, int64_t n)
{
    int64_t from = slice->offset / (int64_t)sizeof(float), end = end_of(slice);
    from = from > first ? from : first;
    end = end < first + n ? end : first + n;
    return (lk_range){from, end > from ? end - from : 0};
}

static void part_narrow(lk__wire *w, const float *x, lk_range part, int s)
{
    double scale = power_of_two(s);
    float scaled[BLOCK];
    for (int64_t at = part.first, end = part.first + part.n, n; at < end; at += n) {
        n = end - at < BLOCK ? end - at : BLOCK;
        for (int64_t i = 0; i < n; i++)
            scaled[i] = (float)((double)x[at + i] * scale);
        lk_f16_encode_array(n, scaled, w->y + at);
    }
}

static void part_widen(const lk__wire *w, float *x, lk_range part, int s)
{
    double scale = power_of_two(-s);
    lk_f16_decode_array(part.n, w->y + part.first, x + part.first);
    for (int64_t i = part.first; i < part.first + part.n; i++)
        x[i] = (float)((double)x[i] * scale);
}

void *lk__wire_narrow(lk__wire *w, const float *x, int64_t first, int64_t n)
{
    LK_FP_GUARD();
    if (w->dtype == LK_BF16)
        lk_bf16_encode_array(n, x + first, w->y + first);
    for (int64_t i = 0; w->dtype == LK_F16 && i < w->slices; i++) {
        lk_slab_slice slice = slice_of(w, i);
        part_narrow(w, x, part_of(&slice, first, n), scale_of(w, i));
    }
    return w->y + first;
}

void lk__wire_widen(const lk__wire *w, float *x, int64_t first, int64_t n)
{
    LK_FP_GUARD();
    if (w->dtype == LK_BF16)
        lk_bf16_decode_array(n, w->y + first, x + first);
    for (int64_t i = 0; w->dtype == LK_F16 && i < w->slices; i++) {
        lk_slab_slice slice = slice_of(w, i);
        part_widen(w, x, part_of(&slice, first, n), scale_of(w, i));
    }
}
