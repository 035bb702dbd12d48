/* A tile of the columns micro-kernel for one vector type; include with VEC defined, see vec.h.
 *
 * MR x NV vectors of sums stay in registers.  Each pixel loads NV vectors of Y and, for each m,
 * broadcasts one element of X (or loads its own vectors) and takes NV fused multiply-adds.  MR, NV
 * and `how` are constants wherever these functions are inlined, so that every loop over them and
 * every question about them disappears.
 */

#include "kernel/simd/spaced.h"

/* The sums of a tile, of which entries beyond MR and NV are never used, and what to fetch next. */
typedef struct V(columns_sums) {
    VEC of[LK_COLUMNS_MR][2];
    const char *next;
} V(columns_sums);

/* A tile whose n_valid is below its width passes through memory on its way in and out of the
 * registers: it is rare, and the masks would otherwise be in every tile's code. */
typedef struct V(columns_buffer) {
    V(elem) of[LK_COLUMNS_MR][2 * V(lanes)];
} V(columns_buffer);

/* b = the first `n` columns of `mr` rows, the others up to `width` +0. */
static void V(columns_read)(V(columns_buffer) * b, int mr, int width, const V(elem) * from,
                            int64_t ld, int n)
{
    for (int m = 0; m < mr; m++)
        for (int j = 0; j < width; j += V(lanes))
            V(store)(b->of[m] + j, V(load_mask)(from + m * ld + j, V(mask_first)(n - j)));
}

/* The first n_valid columns of b + the tree's nodes, to `out`. */
static void V(columns_write)(const V(columns_buffer) * b, int mr, const lk__columns_args *t)
{
    for (int m = 0; m < mr; m++)
        for (int j = 0; j < t->n_valid; j += V(lanes)) {
            V(mask) valid = V(mask_first)(t->n_valid - j);
            V(elem) *out = (V(elem) *)t->out + m * t->ld_out + j;
            VEC acc = V(load)(b->of[m] + j);
            for (int q = 0; q < t->n_add; q++) {
                const V(elem) *add = (const V(elem) *)t->add[q] + m * t->ld_add + j;
                acc = V(add)(V(load_mask)(add, valid), acc);
            }
            if (t->accumulate)
                acc = V(add)(V(load_mask)(out, valid), acc);
            V(store_first)(out, acc, t->n_valid - j);
        }
}

/* Vector v of a row: whole, or as far as it is valid. */
LK_INLINE VEC V(columns_vector)(const int how, const V(elem) * row, int v, int n_valid)
{
    row += v * V(lanes);
    return how & COLUMNS_PART ? V(load_mask)(row, V(mask_first)(n_valid - v * V(lanes)))
                              : V(load)(row);
}

LK_INLINE void V(columns_load)(const int MR, const int NV, V(columns_sums) * acc,
                               const V(elem) * from, int64_t ld)
{
    LK_UNROLL
    for (int m = 0; m < MR; m++) {
        LK_UNROLL
        for (int v = 0; v < NV; v++)
            acc->of[m][v] = V(load)(from + m * ld + v * V(lanes));
    }
}

LK_INLINE void V(columns_add)(const int MR, const int NV, V(columns_sums) * acc,
                              const V(elem) * from, int64_t ld)
{
    LK_UNROLL
    for (int m = 0; m < MR; m++) {
        LK_UNROLL
        for (int v = 0; v < NV; v++)
            acc->of[m][v] = V(add)(V(load)(from + m * ld + v * V(lanes)), acc->of[m][v]);
    }
}

LK_INLINE void V(columns_store)(const int MR, const int NV, const V(columns_sums) * acc,
                                V(elem) * to, int64_t ld)
{
    LK_UNROLL
    for (int m = 0; m < MR; m++) {
        LK_UNROLL
        for (int v = 0; v < NV; v++)
            V(store)(to + m * ld + v * V(lanes), acc->of[m][v]);
    }
}

/* One pixel: acc += X[m] Y for the m of `mask`.  X has a row for each m, or one for all. */
LK_INLINE void V(columns_pixel)(const int MR, const int NV, const int how, V(columns_sums) * acc,
                                uint32_t mask, const V(spaced) * x, const VEC *y, int n_valid)
{
    LK_UNROLL
    for (int m = 0; m < MR; m++) {
        if (!(mask >> m & 1))
            continue;
        VEC a = how & COLUMNS_OWN ? V(zero)() : V(splat)(V(spaced_at)(x, 0, m));
        LK_UNROLL
        for (int v = 0; v < NV; v++) {
            if (how & COLUMNS_OWN)
                a = V(columns_vector)(how, V(spaced_at)(x, m, 0), v, n_valid);
            acc->of[m][v] = V(fma)(a, y[v], acc->of[m][v]);
        }
    }
}

/* `n` pixels.  With all MR taking part and whole vectors, this is the loop that does nearly all the
 * work: it reads nothing but X and Y (tools/check-loops looks). */
LK_INLINE void V(columns_run)(const int MR, const int NV, const int how, V(columns_sums) * acc,
                              const lk__columns_args *t, const lk__phase *ph, const V(elem) * from,
                              const V(elem) * y)
{
    enum { AHEAD = 12 };
    const int rows = how & COLUMNS_OWN ? MR : 1, n_valid = t->n_valid;
    const uint32_t mask = how & COLUMNS_PART ? ph->mask : ~0U;
    int64_t x_col = t->x_col, y_col = t->y_col, next_step = t->next_step;
    const char *next = acc->next;
    V(spaced) x = V(spaced_rows)(from, t->x_m, rows);
    LK_RENEW(x_col);
    LK_RENEW(y_col);
    LK_RENEW(next_step);
    for (int64_t n = ph->n; n > 0; n--, y += y_col) {
        VEC b[2];
        LK_IN_ORDER(); /* loads for later pixels would take the registers of the sums */
        LK_UNROLL
        for (int v = 0; v < NV; v++)
            b[v] = V(columns_vector)(how, y, v, n_valid);
        if (how & COLUMNS_AHEAD)
            __builtin_prefetch(y + AHEAD * y_col);
        if (how & COLUMNS_AHEAD && how & COLUMNS_OWN)
            __builtin_prefetch(V(spaced_at)(&x, 0, 0) + AHEAD * x_col);
        if (!(how & COLUMNS_PART)) {
            __builtin_prefetch(next, 0, 2);
            next += next_step;
        }
        V(columns_pixel)(MR, NV, how, acc, mask, &x, b, n_valid);
        V(spaced_move)(&x, x_col, rows);
    }
    acc->next = next;
}

/* All rows, with one phase as in most tiles, or with several.  What is needed but once a row is read
 * again there, and leaves its register to the pixels. */
LK_INLINE void V(columns_pixels)(const int MR, const int NV, const int own, V(columns_sums) * acc,
                                 const lk__columns_args *t)
{
    const uint32_t all = (1U << MR) - 1;
    const bool whole = t->y_packed || t->n_valid == NV * V(lanes);
    const V(elem) *x = t->x, *y = t->y;
    if (!own && t->y_packed && t->n_phase == 1 && (t->phase->mask & all) == all) {
        x += t->phase->first * t->x_col;
        y += t->phase->first * t->y_col;
        for (int64_t i = t->n_images; i > 0; i--) {
            for (int64_t r = t->n_rows; r > 0; r--, x += t->x_row, y += t->y_row)
                V(columns_run)(MR, NV, 0, acc, t, t->phase, x, y);
            x += t->x_image - t->n_rows * t->x_row;
            y += t->y_image - t->n_rows * t->y_row;
        }
        return;
    }
    for (int64_t i = t->n_images; i > 0; i--) {
        for (int64_t r = t->n_rows; r > 0; r--, x += t->x_row, y += t->y_row)
            for (int64_t p = 0; p < t->n_phase; p++) {
                const lk__phase *ph = &t->phase[p];
                const V(elem) *xp = x + ph->first * t->x_col, *yp = y + ph->first * t->y_col;
                if (!whole || (ph->mask & all) != all)
                    V(columns_run)(MR, NV, own | COLUMNS_PART, acc, t, ph, xp, yp);
                else
                    V(columns_run)(MR, NV, own | COLUMNS_AHEAD, acc, t, ph, xp, yp);
            }
        x += t->x_image - t->n_rows * t->x_row;
        y += t->y_image - t->n_rows * t->y_row;
    }
}

/* Ask early for what is needed last. */
LK_INLINE void V(columns_fetch)(const int MR, const lk__columns_args *t)
{
    LK_UNROLL
    for (int m = 0; m < MR; m++)
        __builtin_prefetch((V(elem) *)t->out + m * t->ld_out, 1);
    for (int q = 0; q < t->n_add; q++) {
        LK_UNROLL
        for (int m = 0; m < MR; m++)
            __builtin_prefetch((const V(elem) *)t->add[q] + m * t->ld_add);
    }
}

LK_INLINE void V(columns)(const int MR, const int NV, const int own, const lk__columns_args *t)
{
    V(columns_fetch)(MR, t);
    const bool narrow = t->n_valid < NV * V(lanes);
    V(columns_sums) acc;
    V(columns_buffer) buffer;
    acc.next = t->next ? t->next : (const char *)t->out;
    if (!t->partial) {
        LK_UNROLL
        for (int m = 0; m < MR; m++) {
            LK_UNROLL
            for (int v = 0; v < NV; v++)
                acc.of[m][v] = V(zero)();
        }
    } else if (narrow) {
        V(columns_read)(&buffer, MR, NV * V(lanes), t->partial, t->ld_partial, t->n_valid);
        V(columns_load)(MR, NV, &acc, buffer.of[0], 2 * V(lanes));
    } else {
        V(columns_load)(MR, NV, &acc, t->partial, t->ld_partial);
    }
    V(columns_pixels)(MR, NV, own, &acc, t);
    if (narrow) {
        V(columns_store)(MR, NV, &acc, buffer.of[0], 2 * V(lanes));
        V(columns_write)(&buffer, MR, t);
        return;
    }
    for (int q = 0; q < t->n_add; q++)
        V(columns_add)(MR, NV, &acc, t->add[q], t->ld_add);
    if (t->accumulate)
        V(columns_add)(MR, NV, &acc, t->out, t->ld_out);
    V(columns_store)(MR, NV, &acc, t->out, t->ld_out);
}
