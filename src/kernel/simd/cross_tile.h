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

/* The start of every chain: the first n_valid columns of the bias or of C. */
LK_INLINE void V(cross_start)(V(cross_sums) * acc, const lk__cross_args *t, const V(elem) * c,
                              const int mr, const int nv)
{
    const V(elem) *from = t->start == LK_START_BIAS ? t->bias : c;
    const int64_t ld = t->start == LK_START_BIAS ? 0 : t->ldc;
    LK_UNROLL
    for (int m = 0; m < mr; m++) {
        LK_UNROLL
        for (int j = 0; j < nv; j++) {
            const V(mask) valid = V(mask_first)(t->n_valid - j * V(lanes));
            acc->of[m][j] = V(load_mask)(from + m * ld + j * V(lanes), valid);
        }
    }
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
    V(elem) *level = t->level;
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
        int64_t l = 0;
        for (; p >> l & 1; l++)
            V(cross_add)(acc, level + l * size, ld, mr, nv);
        V(cross_store)(acc, level + l * size, ld, mr, nv);
        LK_UNROLL
        for (int m = 0; m < mr; m++) {
            LK_UNROLL
            for (int j = 0; j < nv; j++)
                acc->of[m][j] = V(zero)();
        }
    }
    for (int64_t l = 0; p >> l; l++)
        if (p >> l & 1)
            V(cross_add)(acc, level + l * size, ld, mr, nv);
}

LK_INLINE void V(cross)(const lk__cross_args *t, const int mr, const int nv)
{
    const int lanes = V(lanes);
    for (int64_t i = 0; i < t->n_tiles; i++) {
        V(elem) *c = (V(elem) *)t->c + i * mr * t->ldc;
        V(cross_sums) acc, start;
        LK_UNROLL
        for (int m = 0; m < mr; m++) {
            __builtin_prefetch(c + m * t->ldc + nv * lanes - 1, 1, 3);
            LK_UNROLL
            for (int j = 0; j < nv; j++)
                acc.of[m][j] = V(zero)();
        }
        if (t->start != LK_START_ZERO && t->piece == 0)
            V(cross_start)(&acc, t, c, mr, nv);
        V(cross_tree)(&acc, t, (const V(elem) *)t->x + i * t->x_tile, mr, nv);
        if (t->start != LK_START_ZERO && t->piece > 0) {
            V(cross_start)(&start, t, c, mr, nv);
            LK_UNROLL
            for (int m = 0; m < mr; m++) {
                LK_UNROLL
                for (int j = 0; j < nv; j++)
                    acc.of[m][j] = V(add)(start.of[m][j], acc.of[m][j]);
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

/* See lk__cross_pack_fn. */
static void V(cross_pack)(void *dst, const void *src, int64_t ld, int64_t n_k, int n, int width)
{
    const int lanes = V(lanes);
    const V(elem) *s = src;
    V(elem) *d = dst;
    for (int64_t k = 0; k < n_k; k++, s += ld, d += width)
        for (int j = 0; j < width; j += lanes) {
            const VEC v = j + lanes <= n ? V(load)(s + j)
                                         : V(load_mask)(s + j, V(mask_first)(n - j));
            V(store_first)(d + j, v, width - j);
        }
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
