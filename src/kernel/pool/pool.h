/* Pooling inside the kernel room: the checked shape, and the inner loops by instruction set.
 *
 * Forward, an output takes from the box of input positions in its window; backward, an input takes
 * from the box of output positions whose windows cover it.  Both are this one step:
 *
 *     from [...][channels]  ── a box of positions ──►  one position of `to`
 */
#ifndef LK_KERNEL_POOL_H
#define LK_KERNEL_POOL_H

#include "kernel/runtime/isa.h"

#include <lockstep/extra/pool.h>

/* A shape with three axes, the unused ones first and of size 1, and no defaults. */
typedef struct lk__pool_shape {
    lk_dtype dtype;
    int64_t elem;
    int64_t batch, channels;
    int64_t in[3], out[3];
    lk_window window;    /* its ndim as the caller counts */
    int64_t divisor;     /* of avg if it is fixed, or 0: the number of valid taps */
    int64_t n_in, n_out; /* positions of a sample */
    int64_t x_sample, x_step[3], x_extent; /* elements; the extent to behind the last one */
    int64_t y_sample, y_step[3], y_extent;
} lk__pool_shape;

/* One position of `to`, some of its channels. */
typedef struct lk__pool_args {
    const lk__pool_shape *s;
    int64_t channels;
    int64_t first[3], n[3]; /* the box; may be empty */
    int64_t step[3];        /* between its positions, in elements of `from` */
    int64_t place_step[3];  /* the same in positions of a sample, counted in raster order */
    int64_t place;          /* forward: of the box's first position; backward: of this position */
    const void *from;       /* x; backward dy: the box's first position */
    const void *y;          /* backward of l2: beside `from` */
    const int64_t *take;    /* backward of max: the index, beside `from` */
    const void *x;          /* backward of l2: beside `to` */
    void *to;               /* y; backward dx */
    int64_t *index;         /* max, beside `to`, or NULL */
    const int64_t *chosen;  /* spread of max: the index, beside `x`, which is dy */
    void *box;              /* spread of max: dx, the box's first position */
} lk__pool_args;

typedef void lk__pool_fn(const lk__pool_args *t);

typedef struct lk__pool_type {
    lk__pool_fn *max, *max_relu, *avg, *l2, *max_backward, *max_spread, *avg_backward, *l2_backward;
} lk__pool_type;

/* By lk_dtype, f32 and f64. */
typedef struct lk__pool_table {
    lk__pool_type of[2];
} lk__pool_table;

LK_ISA_TABLE(lk__pool_table, lk__pool)

/* The input positions [*first, *first + count) of axis d that window o covers. */
static inline int64_t lk__pool_taps(const lk__pool_shape *s, int d, int64_t o, int64_t *first)
{
    int64_t lo = o * s->window.stride[d] - s->window.pad_lo[d], hi = lo + s->window.kernel[d];
    *first = lo > 0 ? lo : 0;
    hi = hi < s->in[d] ? hi : s->in[d];
    return hi > *first ? hi - *first : 0;
}

/** Check `p` and complete it.  Errors: LK_EDTYPE, LK_EINVAL, LK_ESHAPE, LK_EOVERFLOW. */
lk_status lk__pool_check(const lk_pool_shape *p, lk__pool_shape *s) LK_NODISCARD;

/* An operand of a public function: [batch][out... or in...][channels], with the steps of its side. */
typedef struct lk__pool_operand {
    const char *name;
    const void *p;
    bool is_out;     /* it has a value for each output, not for each input */
    bool is_index;   /* of 64-bit integers */
    bool is_written; /* must not overlap any other */
    bool may_be_null;
} lk__pool_operand;

/** Errors: LK_EINVAL for a NULL operand that is not empty, LK_EOVERLAP; with names and shapes. */
lk_status lk__pool_operands_check(const lk__pool_shape *s, int n,
                                  const lk__pool_operand *operand) LK_NODISCARD;

#endif /* LK_KERNEL_POOL_H */
