/* The cross micro-kernel on vectors of one type: included once for each, with VEC defined. */

/* The sums of a tile; entries beyond mr and nv are never used. */
typedef struct V(cross_sums) {
    VEC of[LK_MICRO_MR][2];
} V(cross_sums);

/* `n` steps of k. */
LK_INLINE void V(cross_chain)(V(cross_sums) * acc, const lk__cross_args *t, const V(elem) * x,
                              const V(elem) * y, const int mr, const int nv, const int n)
{
    const int lanes = V(lanes);
    LK_UNROLL
    for (int k = 0; k < n; k++, x += t->x_step, y += t->y_step) {
        VEC y_row[2];
        LK_OPAQUE(x); /* loads for later steps would take the registers of the sums */
        LK_OPAQUE(y);
        LK_UNROLL
        for (int j = 0; j < nv; j++)
            y_row[j] = V(load)(y + j * lanes);
        LK_UNROLL
        for (int m = 0; m < mr; m++) {
            const VEC xv = V(splat)(x + m);
            LK_UNROLL
            for (int j = 0; j < nv; j++)
                acc->of[m][j] = V(fma)(xv, y_row[j], acc->of[m][j]);
        }
    }
}

/* acc = from + acc, where row m of `from` is at m * ld. */
LK_INLINE void V(cross_add)(V(cross_sums) * acc, const V(elem) * from, int64_t ld, const int mr,
                            const int nv)
{
    LK_UNROLL
    for (int m = 0; m < mr; m++) {
        LK_UNROLL
        for (int j = 0; j < nv; j++)
            acc->of[m][j] = V(add)(V(load)(from + m * ld + j * V(lanes)), acc->of[m][j]);
    }
}

LK_INLINE void V(cross_store)(const V(cross_sums) * acc, V(elem) * to, int64_t ld, const int mr,
                              const int nv)
{
    LK_UNROLL
    for (int m = 0; m < mr; m++) {
        LK_UNROLL
        for (int j = 0; j < nv; j++)
            V(store)(to + m * ld + j * V(lanes), acc->of[m][j]);
    }
}

/* acc = the first n_valid columns of `from`, whose row m is at m * ld. */
LK_INLINE void V(cross_load)(V(cross_sums) * acc, const V(elem) * from, int64_t ld, int n_valid,
                             const int mr, const int nv)
{
    LK_UNROLL
    for (int m = 0; m < mr; m++) {
        LK_UNROLL
        for (int j = 0; j < nv; j++) {
            const V(mask) valid = V(mask_first)(n_valid - j * V(lanes));
            acc->of[m][j] = V(load_mask)(from + m * ld + j * V(lanes), valid);
        }
    }
}

LK_INLINE void V(cross_zero)(V(cross_sums) * acc, const int mr, const int nv)
{
    LK_UNROLL
    for (int m = 0; m < mr; m++) {
        LK_UNROLL
        for (int j = 0; j < nv; j++)
            acc->of[m][j] = V(zero)();
    }
}

/* Asks for the rows of C that will be written. */
LK_INLINE void V(cross_ahead)(const V(elem) * c, int64_t ldc, const int mr, const int nv)
{
    LK_UNROLL
    for (int m = 0; m < mr; m++)
        __builtin_prefetch(c + m * ldc + nv * V(lanes) - 1, 1, 3);
}

/* The pieces of one tile, joined by the tree: piece p closes as many nodes as it has trailing ones,
 * and what is left in the end is folded from the lowest level up. */
LK_INLINE void V(cross_tree)(V(cross_sums) * acc, const lk__cross_args *t, const V(elem) * x,
                             const int mr, const int nv)
{
    enum { AT_ONCE = 4 };
    const int ld = nv * V(lanes), size = LK_MICRO_MR * ld;
    const int64_t piece = t->piece > 0 ? t->piece : t->k;
    const V(elem) *y = t->y;
    int64_t left = t->k, p = 0;
    for (;; p++) {
        int64_t n = left < piece ? left : piece;
        left -= n;
        for (; n >= AT_ONCE; n -= AT_ONCE, x += AT_ONCE * t->x_step, y += AT_ONCE * t->y_step)
            V(cross_chain)(acc, t, x, y, mr, nv, AT_ONCE);
        for (; n > 0; n--, x += t->x_step, y += t->y_step)
            V(cross_chain)(acc, t, x, y, mr, nv, 1);
        if (left == 0)
            break;
        V(elem) *slot = t->level;
        for (int64_t ones = p; ones & 1; ones >>= 1, slot += size)
            V(cross_add)(acc, slot, ld, mr, nv);
        LK_OPAQUE(slot);
        V(cross_store)(acc, slot, ld, mr, nv);
        V(cross_zero)(acc, mr, nv);
    }
    V(elem) *slot = t->level;
    for (; p > 0; p >>= 1, slot += size)
        if (p & 1)
            V(cross_add)(acc, slot, ld, mr, nv);
}

LK_INLINE void V(cross)(const lk__cross_args *t, const int mr, const int nv)
{
    const int lanes = V(lanes);
    for (int64_t i = 0; i < t->n_tiles; i++) {
        V(elem) *c = (V(elem) *)t->c + i * mr * t->ldc;
        const V(elem) *start = t->start == LK_START_BIAS ? t->bias : c;
        const int64_t ld_start = t->start == LK_START_BIAS ? 0 : t->ldc;
        V(cross_sums) acc, first;
        V(cross_ahead)(c, t->ldc, mr, nv);
        V(cross_zero)(&acc, mr, nv);
        if (t->start != LK_START_ZERO && t->piece == 0)
            V(cross_load)(&acc, start, ld_start, t->n_valid, mr, nv);
        V(cross_tree)(&acc, t, (const V(elem) *)t->x + i * t->x_tile, mr, nv);
        if (t->start != LK_START_ZERO && t->piece > 0) {
            V(cross_load)(&first, start, ld_start, t->n_valid, mr, nv);
            LK_UNROLL
            for (int m = 0; m < mr; m++) {
                LK_UNROLL
                for (int j = 0; j < nv; j++)
                    acc.of[m][j] = V(add)(first.of[m][j], acc.of[m][j]);
            }
        }
        if (t->n_valid == nv * lanes) {
            V(cross_store)(&acc, c, t->ldc, mr, nv);
            continue;
        }
        LK_UNROLL
        for (int m = 0; m < mr; m++) {
            LK_UNROLL
            for (int j = 0; j < nv; j++)
                V(store_first)(c + m * t->ldc + j * lanes, acc.of[m][j], t->n_valid - j * lanes);
        }
    }
}

/* See lk__strip_args; mr rows, nv vectors. */
LK_INLINE void V(strip)(const lk__strip_args *t, const int mr, const int nv)
{
    const int lanes = V(lanes);
    for (int64_t i = 0; i < t->n_tiles; i++) {
        const V(elem) * a[LK_MICRO_MR], *w = t->w;
        V(elem) *c = (V(elem) *)t->c + i * mr * t->ldc;
        V(cross_sums) acc;
        V(cross_ahead)(c, t->ldc, mr, nv);
        LK_UNROLL
        for (int m = 0; m < mr; m++) {
            a[m] = (const V(elem) *)t->a + (i * mr + m) * t->lda + t->k;
            LK_OPAQUE(a[m]);
        }
        V(cross_zero)(&acc, mr, nv);
        if (t->start != LK_START_ZERO)
            V(cross_load)
        (&acc, t->start == LK_START_BIAS ? t->bias : c, t->start == LK_START_BIAS ? 0 : t->ldc,
         nv * lanes, mr, nv);
        for (int64_t k = -t->k * (int64_t)sizeof *w; k < 0; k += (int64_t)sizeof *w) {
            VEC w_row[2];
            LK_OPAQUE(k);
            LK_UNROLL
            for (int j = 0; j < nv; j++)
                w_row[j] = V(load)(w + j * lanes);
            LK_UNROLL
            for (int m = 0; m < mr; m++) {
                const VEC av = V(splat)((const V(elem) *)((const char *)a[m] + k));
                LK_UNROLL
                for (int j = 0; j < nv; j++)
                    acc.of[m][j] = V(fma)(av, w_row[j], acc.of[m][j]);
            }
            w += nv * lanes;
        }
        V(cross_store)(&acc, c, t->ldc, mr, nv);
    }
}

/* Rows of `width` elements, packed. */
LK_INLINE void V(cross_copy)(V(elem) * d, const V(elem) * s, int64_t ld, int64_t n_k,
                             const int width)
{
    for (int64_t k = 0; k < n_k; k++)
        memcpy(d + k * width, s + k * ld, (size_t)width * sizeof *d);
}

/* See lk__cross_pack_fn; MR and the widths of tiles are fast. */
static void V(cross_pack)(void *dst, const void *src, int64_t ld, int64_t n_k, int n, int width)
{
    const V(elem) *s = src;
    V(elem) *d = dst;
    if (n == width && n == 2 * V(lanes))
        V(cross_copy)(d, s, ld, n_k, 2 * V(lanes));
    else if (n == width && n == V(lanes))
        V(cross_copy)(d, s, ld, n_k, V(lanes));
    else if (n == width && n == CROSS_MR)
        V(cross_copy)(d, s, ld, n_k, CROSS_MR);
    else
        for (int64_t k = 0; k < n_k; k++)
            for (int j = 0; j < width; j++)
                d[k * width + j] = j < n ? s[k * ld + j] : 0;
}

/* `rows` rows of W, n columns: see lk__gemv_fn. */
LK_INLINE void V(gemv_rows)(V(elem) * c, const V(elem) * a, int64_t a_step, const V(elem) * w,
                            int64_t ldw, int64_t n, const int rows)
{
    enum { AT_ONCE = 4 };
    const int lanes = V(lanes);
    VEC av[4];
    int64_t j = 0;
    LK_UNROLL
    for (int k = 0; k < rows; k++)
        av[k] = V(splat)(a + k * a_step);
    for (; j + AT_ONCE * lanes <= n; j += AT_ONCE * lanes) {
        VEC acc[AT_ONCE];
        LK_UNROLL
        for (int i = 0; i < AT_ONCE; i++)
            acc[i] = V(load)(c + j + i * lanes);
        LK_UNROLL
        for (int k = 0; k < rows; k++) {
            LK_UNROLL
            for (int i = 0; i < AT_ONCE; i++)
                acc[i] = V(fma)(av[k], V(load)(w + k * ldw + j + i * lanes), acc[i]);
        }
        LK_UNROLL
        for (int i = 0; i < AT_ONCE; i++)
            V(store)(c + j + i * lanes, acc[i]);
    }
    for (; j < n; j += lanes) {
        const int left = n - j < lanes ? (int)(n - j) : lanes;
        const V(mask) valid = V(mask_first)(left);
        VEC acc = V(load_mask)(c + j, valid);
        LK_UNROLL
        for (int k = 0; k < rows; k++)
            acc = V(fma)(av[k], V(load_mask)(w + k * ldw + j, valid), acc);
        V(store_first)(c + j, acc, left);
    }
}

static void V(gemv)(void *c, const void *a, int64_t a_step, const void *w, int64_t ldw, int64_t k,
                    int64_t n)
{
    const V(elem) *av = a, *wv = w;
    for (; k >= 4; k -= 4, av += 4 * a_step, wv += 4 * ldw)
        V(gemv_rows)(c, av, a_step, wv, ldw, n, 4);
    for (; k > 0; k--, av += a_step, wv += ldw)
        V(gemv_rows)(c, av, a_step, wv, ldw, n, 1);
}
