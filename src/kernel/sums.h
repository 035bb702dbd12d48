/* Sums of maps: arrays [rows][n] of which terms are added up, along rows or down columns, without being
 * written, and mapped to an array of the same shape.
 *
 * lk__map_sums_run() goes through the rows a sheet at a time, few enough to stay in cache, and calls a
 * function of the caller's on each: an op is a list of sums and maps of a sheet, all of which are
 * compiled for every instruction set (simd/sums.c).  Sums are the lane sums of lk_reduce_axis():
 *
 *     along a row        element i is in lane i mod 16
 *     down a column      row r of a piece is in lane r mod 16; each piece has sums of its own
 *
 * Every operation is rounded on its own, in the order in which the terms read.  How rows are cut into
 * sheets and spread over threads changes no bit.
 *
 * A vector, such as the statistics of channels, is a row of its own: lk__vector_map().
 */
#ifndef LK_KERNEL_SUMS_H
#define LK_KERNEL_SUMS_H

#include "kernel/loops.h"
#include "kernel/maps.h"

#include <lockstep/act.h>

/* Enumerator, term: of a, b, c, d, e, f and g, elements of the inputs, and p, q, u and v, numbers of the
 * row.  ROOT is the square root, RELU(x) is x < 0 ? 0 : x; ABOVE(y, x) is x where y > 0, elsewhere 0: its
 * gradient. */
#define LK__TERMS(X)                                                          \
    X(FIRST, a)                                                               \
    X(SECOND, b)                                                              \
    X(THIRD, c)                                                               \
    X(SQUARE, (a - p) * (a - p))                                              \
    X(NORMALISE, (a - p) * q * b + c)                                         \
    X(WEIGH, b *c)                                                            \
    X(WEIGH_NORMAL, b *c *((a - p) * q))                                      \
    X(TIMES_NORMAL, c *((a - p) * q))                                         \
    X(NORM_GRADIENT, q *((b * c - u) - (a - p) * q * v))                      \
    X(PRODUCT, a *b)                                                          \
    X(TIMES_DIFFERENCE, a *(b - p))                                           \
    X(CENTRED_SQUARE, (a - b) * (a - b))                                      \
    X(WEIGHED_SQUARE, p *((a - b) * (a - b)))                                 \
    X(TIMES_CENTRED, b *(a - c))                                              \
    X(SCALE, b *d)                                                            \
    X(CHANNELS, (a - b) * c + d)                                              \
    X(RELU_CHANNELS, RELU((a - b) * c + d))                                   \
    X(CHANNELS_GRADIENT, d *b + (a - c) * e + f)                              \
    X(RELU_SECOND, ABOVE((a - c) * d + e, b))                                 \
    X(RELU_TIMES_CENTRED, ABOVE((a - c) * d + e, b) * (a - c))                \
    X(RELU_CHANNELS_GRADIENT, d *ABOVE((a - c) * d + g, b) + (a - c) * e + f) \
    X(OVER, a / p)                                                            \
    X(INVERSE, 1 / ROOT(a + q))                                               \
    X(SLOPE, 2 * d / p - a * b * b * (c / p))                                 \
    X(OFFSET, c / p - a * (b / p))                                            \
    X(SHARE, a / p * q)                                                       \
    X(SHARE_LESS, (a / p * u - b) * q)

typedef enum lk__sum_term {
    LK__TERM_NONE,
#define X(code, term) LK__TERM_##code,
    LK__TERMS(X)
#undef X
        LK__N_TERMS
} lk__sum_term;

/* Enumerator, one or two terms: what is added up along rows, and down columns. */
#define LK__SUMS_ALONG(X)           \
    X(VALUES, FIRST, NONE)          \
    X(SECONDS, SECOND, NONE)        \
    X(SQUARES, SQUARE, NONE)        \
    X(PRODUCTS, PRODUCT, NONE)      \
    X(ERRORS, WEIGHED_SQUARE, NONE) \
    X(WEIGHTS, WEIGH, WEIGH_NORMAL)
#define LK__SUMS_DOWN(X)                             \
    X(VALUES, FIRST, NONE)                           \
    X(SQUARES, CENTRED_SQUARE, NONE)                 \
    X(CENTRED, SECOND, TIMES_CENTRED)                \
    X(RELU_CENTRED, RELU_SECOND, RELU_TIMES_CENTRED) \
    X(NORMALS, TIMES_NORMAL, THIRD)

typedef enum lk__sum_along {
#define X(code, first, second) LK__ALONG_##code,
    LK__SUMS_ALONG(X)
#undef X
        LK__N_SUMS_ALONG
} lk__sum_along;

typedef enum lk__sum_down {
#define X(code, first, second) LK__DOWN_##code,
    LK__SUMS_DOWN(X)
#undef X
        LK__N_SUMS_DOWN
} lk__sum_down;

/* The terms of a sum down columns; LK__TERM_NONE is the second where there is one. */
extern const lk__sum_term lk__down_terms[LK__N_SUMS_DOWN][2];

enum {
    LK_SUMS_MAX_IN = 7,
    LK_SUMS_MAX_P = 4,
    LK_SUMS_MOST = 2, /* terms of a sum */
    LK_SHEET_ROWS = 64
};

/* One number for each row of a sheet. */
typedef union lk__sheet_numbers {
    _Alignas(64) float f32[LK_SHEET_ROWS];
    double f64[LK_SHEET_ROWS];
} lk__sheet_numbers;

typedef struct lk__map_sums_type lk__map_sums_type;

/* Some neighbouring rows, at most LK_SHEET_ROWS. */
typedef struct lk__sheet {
    lk_dtype dtype;
    int64_t rows, n;
    int64_t row;         /* where the first of them is in the array */
    int64_t first, last; /* those that sums along rows and maps are of now */
    /* Row r of an input is at r * step elements; x[0] is there where there are fewer. */
    const void *x[LK_SUMS_MAX_IN];
    int64_t step[LK_SUMS_MAX_IN];
    void *y;
    int64_t step_y;
    bool overwrite; /* y = 0 + what a map gives */
    bool past;      /* write whole lines of y around the cache */
    lk__sheet_numbers p[LK_SUMS_MAX_P];
    void *lane[LK_SUMS_MOST];      /* of sums down columns: [lanes][n]; lane l has the rows */
    int64_t lanes;                 /* l, l + lanes, ... */
    int64_t lane_first, lane_last; /* those that are added to now */
    const lk__map_sums_type *type;
    const lk__softmax_table *softmax;
    lk__loop_fn *const *loops; /* of the dtype */
    const void *arg;           /* of lk__map_sums */
} lk__sheet;

typedef void lk__sheet_fn(lk__sheet *t);

/* ---- of a sheet ---- */

/** p[k], and p[k + 1] of a sum of two terms, = the sums along each row. */
void lk__sheet_sum(lk__sheet *t, lk__sum_along sum, int k);

/** p[k] = p[k] / n. */
void lk__sheet_mean(lk__sheet *t, int k);

/** p[k] = 1 / sqrt(p[k] / n + eps). */
void lk__sheet_inverse(lk__sheet *t, int k, double eps);

/** y = the term of each element. */
void lk__sheet_map(lk__sheet *t, lk__sum_term term);

/** The same with y, as it is, in place of the first input. */
void lk__sheet_sum_y(lk__sheet *t, lk__sum_along sum, int k);
void lk__sheet_map_y(lk__sheet *t, lk__sum_term term);

/** y = the loop of the first inputs; its numbers are p[0] and p[1].  It does not look at `overwrite`. */
void lk__sheet_loop(lk__sheet *t, lk__loop loop);

/** y = exp(x - max x) of the first input, p[k] = its sum along each row. */
void lk__sheet_exps(lk__sheet *t, int k);

/** p[k] = max x of the first input along each row, p[k + 1] = log sum exp(x - max x). */
void lk__sheet_log_sum(lk__sheet *t, int k);

/** p[k] = what a map adds to its term: 0 where it overwrites, else -0, which changes no number. */
void lk__sheet_start(lk__sheet *t, int k);

/** p[k] = numbers of an array that has one for each row of all; or these = p[k]. */
void lk__sheet_take(lk__sheet *t, int k, const void *from);
void lk__sheet_keep(lk__sheet *t, int k, void *to);

/** p[k] of row r; and p[k] of row r = value. */
double lk__sheet_get(const lk__sheet *t, int k, int64_t r);
void lk__sheet_set(lk__sheet *t, int k, int64_t r, double value);

/* ---- of one row ---- */

/** y [n] = the term of x, which are n_x inputs, and of the numbers p and q; on this thread.  y may be
 * one of them.  Errors: LK_EFPENV, and those of lk_isa_now(). */
lk_status lk__vector_map(lk_dtype dtype, int64_t n, const void *const *x, int n_x,
                         const double pq[2], lk__sum_term term, void *y) LK_NODISCARD;

/* ---- of all rows ---- */

/* Which row of an input belongs to a row. */
typedef enum lk__map_sums_in {
    LK_SUMS_ROWS,   /* its own: [rows][n] */
    LK_SUMS_SHARED, /* one for all: [n] */
    LK_SUMS_PIECES, /* that of its piece: [pieces][n] */
} lk__map_sums_in;

typedef struct lk__map_sums {
    lk_dtype dtype;
    int64_t rows, n;
    int64_t piece;                 /* rows of a piece, but perhaps of the last; 0: all */
    const void *x[LK_SUMS_MAX_IN]; /* NULL ends the list */
    lk__map_sums_in of[LK_SUMS_MAX_IN];
    void *y;
    bool overwrite;    /* y = 0 + what a map gives */
    lk__sheet_fn *fn;  /* what is done with rows; NULL: nothing */
    bool folds;        /* it needs no number of a row, and no sum along one */
    const void *arg;   /* for it */
    lk_act act;        /* of y, behind it */
    lk__sum_down down; /* behind it, added up into sums, if there are any: [terms][pieces][n] */
    void *sums;
    int threads; /* lk__map_sums_room() fills it in */
} lk__map_sums;

/** Pieces that the rows are cut into; 0 if there are no rows. */
int64_t lk__map_sums_pieces(const lk__map_sums *s);

/** Bytes that lk__map_sums_run() needs on the way.  Errors: those of lk_threads_now(). */
lk_status lk__map_sums_room(lk__map_sums *s, int64_t *bytes) LK_NODISCARD;

/** Go through all rows; `room` is aligned for numbers.  Errors: LK_EFPENV, and those of lk_threads_now()
 * and lk_isa_now(). */
lk_status lk__map_sums_run(const lk__map_sums *s, void *room) LK_NODISCARD;

/* ---- by instruction set ---- */

/* p0[r] and p1[r] = the sums of both terms along row r. */
typedef void lk__sums_along_fn(const lk__sheet *t, void *p0, void *p1);

/* Sums down columns, or a map. */
typedef void lk__sums_sheet_fn(const lk__sheet *t);

/* p[r] = p[r] / n, or 1 / sqrt(p[r] / n + eps). */
typedef void lk__sums_number_fn(const lk__sheet *t, double eps, void *p);

/* a[i] = a[i] + b[i] for i < n. */
typedef void lk__sums_join_fn(int64_t n, void *a, const void *b);

struct lk__map_sums_type {
    lk__sums_along_fn *along[LK__N_SUMS_ALONG];
    lk__sums_sheet_fn *down[LK__N_SUMS_DOWN], *map[LK__N_TERMS];
    lk__sums_number_fn *mean, *inverse;
    lk__sums_join_fn *join;
};

/* By lk_dtype, f32 and f64. */
typedef struct lk__map_sums_table {
    lk__map_sums_type of[2];
} lk__map_sums_table;

LK_ISA_TABLE(lk__map_sums_table, lk__map_sums)

#endif /* LK_KERNEL_SUMS_H */
