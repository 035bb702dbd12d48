/* The micro-kernels of cross.h on vectors of one type: included once for each, with VEC defined. */

/* The sums of a tile; entries beyond mr and nv are never used. */
typedef struct V(cross_sums) {
    VEC of[LK_MICRO_MR][2];
} V(cross_sums);

/* Where a tile is: its operands, and the memory that it asks for, a line with every step. */
typedef struct V(cross_place) {
    const V(elem) * x, *y;
    const char *next;
    int64_t next_step;
} V(cross_place);

/* One step of k; `fetch`: it asks for a line. */
LK_INLINE void V(cross_step)(V(cross_sums) * acc, const V(elem) * x, const V(elem) * y,
                             V(cross_place) * at, const int mr, const int nv, const bool fetch)
{
    VEC y_row[2];
    LK_IN_ORDER(); /* loads for later steps would take the registers of the sums */
    if (fetch) {
        __builtin_prefetch(at->next, 0, 2);
        at->next += at->next_step;
    }
    LK_UNROLL
    for (int j = 0; j < nv; j++)
        y_row[j] = V(load)(y + j * V(lanes));
    LK_UNROLL
    for (int m = 0; m < mr; m++) {
        const VEC xv = V(splat)(x + m);
        LK_UNROLL
        for (int j = 0; j < nv; j++)
            V(fma_to)(&acc->of[m][j], xv, y_row[j]);
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

/* acc = acc + second. */
LK_INLINE void V(cross_join)(V(cross_sums) * acc, const V(cross_sums) * second, const int mr,
                             const int nv)
{
    LK_UNROLL
    for (int m = 0; m < mr; m++) {
        LK_UNROLL
        for (int j = 0; j < nv; j++)
            acc->of[m][j] = V(add)(acc->of[m][j], second->of[m][j]);
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
            acc->of[m][j] = V(fresh)();
    }
}

/* Asks for the rows of C that will be written. */
LK_INLINE void V(cross_ahead)(const V(elem) * c, int64_t ldc, const int mr, const int nv)
{
    LK_UNROLL
    for (int m = 0; m < mr; m++)
        __builtin_prefetch(c + m * ldc + nv * V(lanes) - 1, 1, 3);
}

/* A tile that is one chain. */
LK_INLINE void V(cross_chain)(V(cross_sums) * acc, const lk__cross_args *t, V(cross_place) * at,
                              const int mr, const int nv, const bool fetch)
{
    const int64_t x_step = t->x_step, y_step = t->y_step;
    const V(elem) *x = at->x, *y = at->y;
    for (int64_t left = t->k; left > 0; left--, x += x_step, y += y_step)
        V(cross_step)(acc, x, y, at, mr, nv, fetch);
}

/* acc = the sum of two pieces, of n0 > 0 and n1 <= n0 steps: their chains run side by side, so that
 * only their sum needs a place in the tree. */
LK_INLINE void V(cross_two)(V(cross_sums) * acc, const lk__cross_args *t, V(cross_place) * at,
                            int64_t n0, int64_t n1, const int mr, const int nv, const bool fetch)
{
    const int64_t x_step = t->x_step, y_step = t->y_step;
    const V(elem) *x = at->x, *y = at->y;
    const V(elem) *x1 = x + n0 * x_step, *y1 = y + n0 * y_step;
    V(cross_sums) second;
    V(cross_zero)(acc, mr, nv);
    V(cross_zero)(&second, mr, nv);
    for (int64_t k = 0; k < n1; k++) {
        LK_OPAQUE(x1); /* or the compiler would keep its distance from x, for each address */
        LK_OPAQUE(y1);
        V(cross_step)(acc, x, y, at, mr, nv, fetch);
        V(cross_step)(&second, x1, y1, at, mr, nv, fetch);
        x += x_step;
        y += y_step;
        x1 += x_step;
        y1 += y_step;
    }
    for (int64_t k = n1; k < n0; k++, x += x_step, y += y_step)
        V(cross_step)(acc, x, y, at, mr, nv, fetch);
    if (n1 > 0)
        V(cross_join)(acc, &second, mr, nv);
}

/* The same for two pieces of the usual length, of packed operands: nearly all of the work.  With
 * fewer steps at once, its speed depends on where in a line of code the loop begins, by a twentieth.
 */
LK_INLINE void V(cross_usual)(V(cross_sums) * acc, V(cross_place) * at, const int mr, const int nv,
                              const bool fetch)
{
    enum { AT_ONCE = USUAL_PIECE, X = LK_CROSS_GROUP(sizeof(V(elem))) * CROSS_MR / 2 };
    const int Y = nv * V(lanes);
    const V(elem) *x = at->x, *y = at->y;
    V(cross_sums) second;
    V(cross_zero)(acc, mr, nv);
    V(cross_zero)(&second, mr, nv);
    for (int k = 0; k < USUAL_PIECE; k += AT_ONCE) {
        LK_UNROLL
        for (int q = 0; q < AT_ONCE; q++, x += X, y += Y) {
            V(cross_step)(acc, x, y, at, mr, nv, fetch);
            V(cross_step)(&second, x + USUAL_PIECE * X, y + USUAL_PIECE * Y, at, mr, nv, fetch);
        }
    }
    V(cross_join)(acc, &second, mr, nv);
}

/* acc = the node that the pair p of the pieces, which is acc, closes: as many levels up as p has
 * trailing ones.  `store`: to its slot. */
LK_INLINE void V(cross_carry)(V(cross_sums) * acc, V(elem) * slot, int64_t p, bool store,
                              const int mr, const int nv)
{
    const int ld = nv * V(lanes), size = mr * ld;
    for (; p & 1; p >>= 1, slot += size)
        V(cross_add)(acc, slot, ld, mr, nv);
    LK_OPAQUE(slot);
    if (store)
        V(cross_store)(acc, slot, ld, mr, nv);
}

/* acc = the nodes in the slots of the one bits of p, which are `size` apart, joined with acc from the
 * lowest level up. */
LK_INLINE void V(cross_fold)(V(cross_sums) * acc, const V(elem) * slot, int64_t size, int64_t ld,
                             int64_t p, const int mr, const int nv)
{
    for (; p > 0; p >>= 1, slot += size)
        if (p & 1)
            V(cross_add)(acc, slot, ld, mr, nv);
}

/* The pieces of one tile, two at a time, joined by the tree.  The last pair, or a piece after it,
 * finds the node that it joins still in registers.  `usual`: see cross_usual. */
LK_INLINE void V(cross_tree)(V(cross_sums) * acc, const lk__cross_args *t, V(cross_place) * at,
                             const int mr, const int nv, const bool usual, const bool fetch)
{
    const int64_t piece = usual ? USUAL_PIECE : t->piece, two = 2 * piece;
    const int64_t x_two = two * t->x_step;
    const int64_t y_two = two * (usual ? nv * V(lanes) : t->y_step);
    const int ld = nv * V(lanes), size = mr * ld;
    int64_t left = t->k, p = 0;
    bool alone = false;
    for (; left >= two && !alone; at->x += x_two, at->y += y_two) {
        if (usual)
            V(cross_usual)(acc, at, mr, nv, fetch);
        else
            V(cross_two)(acc, t, at, piece, piece, mr, nv, fetch);
        left -= two;
        alone = left <= piece;
        V(cross_carry)(acc, t->level, p++, !alone, mr, nv);
    }
    if (!alone) {
        const int64_t n0 = left < piece ? left : piece;
        V(cross_two)(acc, t, at, n0, left - n0, mr, nv, fetch);
        V(cross_fold)(acc, t->level, size, ld, p, mr, nv);
        return;
    }
    if (left > 0) {
        V(cross_sums) last;
        V(cross_two)(&last, t, at, left, 0, mr, nv, fetch);
        V(cross_join)(acc, &last, mr, nv);
    }
    V(cross_fold)(acc, t->level, size, ld, p & (p - 1), mr, nv);
}

/* The chain of a tile begins with acc, `slot` elements from the first tile's slot. */
LK_INLINE void V(cross_begin)(V(cross_sums) * acc, const lk__cross_args *t, const V(elem) * c,
                              int64_t slot, const int mr, const int nv, const bool part)
{
    const V(elem) *start = t->start == LK_START_BIAS ? t->bias : c;
    const V(elem) *partial = part ? t->part->partial : NULL;
    const int64_t ld = t->start == LK_START_BIAS ? 0 : t->ldc;
    V(cross_zero)(acc, mr, nv);
    if (partial)
        V(cross_load)(acc, partial + slot, t->part->ld_slot, nv * V(lanes), mr, nv);
    else if (t->start != LK_START_ZERO && t->piece == 0)
        V(cross_load)(acc, start, ld, t->n_valid, mr, nv);
}

/* The sum of a tile, of one chain that goes on from acc or of pieces. */
LK_INLINE void V(cross_sum)(V(cross_sums) * acc, const lk__cross_args *t, V(cross_place) * at,
                            const int mr, const int nv, const bool pieces, const bool fetch)
{
    enum { group = LK_CROSS_GROUP(sizeof(V(elem))) };
    if (!pieces)
        V(cross_chain)(acc, t, at, mr, nv, fetch);
    else if (t->piece == USUAL_PIECE && t->x_step == group * CROSS_MR / 2 &&
             t->y_step == nv * V(lanes))
        V(cross_tree)(acc, t, at, mr, nv, true, fetch);
    else
        V(cross_tree)(acc, t, at, mr, nv, false, fetch);
}

/* C = the start, if it is added last, and acc. */
LK_INLINE void V(cross_write)(V(cross_sums) * acc, const lk__cross_args *t, V(elem) * c,
                              const int mr, const int nv)
{
    const int lanes = V(lanes);
    const V(elem) *start = t->start == LK_START_BIAS ? t->bias : c;
    const int64_t ld = t->start == LK_START_BIAS ? 0 : t->ldc;
    if (t->start != LK_START_ZERO && t->piece > 0) {
        V(cross_sums) first;
        V(cross_load)(&first, start, ld, t->n_valid, mr, nv);
        V(cross_join)(&first, acc, mr, nv);
        *acc = first;
    }
    if (t->n_valid == nv * lanes) {
        V(cross_store)(acc, c, t->ldc, mr, nv);
        return;
    }
    int64_t ldc = t->ldc; /* else both would be read again after each store */
    int n_valid = t->n_valid;
    LK_OPAQUE(ldc); /* or full tiles would pay for what is computed of them */
    LK_OPAQUE(n_valid);
    LK_UNROLL
    for (int m = 0; m < mr; m++) {
        LK_UNROLL
        for (int j = 0; j < nv; j++)
            V(store_first)(c + m * ldc + j * lanes, acc->of[m][j], n_valid - j * lanes);
    }
}

/* See lk__cross_args; `pieces`: joined by the tree, else k is one chain; `part`: LK_CROSS_PART. */
LK_INLINE void V(cross)(const lk__cross_args *t, const int mr, const int nv, const bool pieces,
                        const bool part)
{
    enum { group = LK_CROSS_GROUP(sizeof(V(elem))) };
    const lk__cross_part *p = t->part;
    const V(elem) *slots = part ? p->slots : NULL;
    for (int64_t i = 0; i < t->n_tiles; i++) {
        const V(elem) *x = (const V(elem) *)t->x + i / group * t->x_group + i % group * t->x_tile;
        V(cross_place) at = {.x = x, .y = t->y};
        V(elem) *c = (V(elem) *)t->c + i * mr * t->ldc;
        const int64_t slot = part ? i * mr * p->ld_slot : 0;
        V(cross_sums) acc;
        V(cross_ahead)(c + t->ahead, t->ldc, mr, nv);
        if (!pieces)
            V(cross_begin)(&acc, t, c, slot, mr, nv, part);
        if (part) {
            const bool fetch = i < p->n_next; /* or ask for what is there */
            at.next = fetch ? p->next + i * LK_CROSS_LINE : t->y;
            at.next_step = fetch ? p->next_step : 0;
        }
        V(cross_sum)(&acc, t, &at, mr, nv, pieces, part);
        if (part && p->joins > 0)
            V(cross_fold)(&acc, slots + slot, p->slot_size, p->ld_slot, p->joins, mr, nv);
        V(cross_write)(&acc, t, c, mr, nv);
    }
}

/* Rows of `width` elements, packed. */
LK_INLINE void V(cross_copy)(V(elem) * d, const V(elem) * s, int64_t ld, int64_t n_k,
                             const int width)
{
    for (int64_t k = 0; k < n_k; k++)
        memcpy(d + k * width, s + k * ld, (size_t)width * sizeof *d);
}

/* See lk__cross_pack_fn; groups and widths of tiles are fast. */
static void V(cross_pack)(void *dst, const void *src, int64_t ld, int64_t n_k, int n, int width)
{
    enum { group = LK_CROSS_GROUP(sizeof(V(elem))) };
    const V(elem) *s = src;
    V(elem) *d = dst;
    if (n == width && n == 2 * V(lanes))
        V(cross_copy)(d, s, ld, n_k, 2 * V(lanes));
    else if (n == width && n == V(lanes))
        V(cross_copy)(d, s, ld, n_k, V(lanes));
    else if (n == width && n == group * CROSS_MR)
        V(cross_copy)(d, s, ld, n_k, group * CROSS_MR);
    else if (n == width && n == group * CROSS_MR / 2)
        V(cross_copy)(d, s, ld, n_k, group * CROSS_MR / 2);
    else
        for (int64_t k = 0; k < n_k; k++)
            for (int j = 0; j < width; j++)
                d[k * width + j] = j < n ? s[k * ld + j] : 0;
}

/* `rows` rows of W, n columns: see lk__gemv_fn. */
LK_INLINE void V(gemv_rows)(V(elem) * c, const V(elem) * a, int64_t a_step, const V(elem) * w,
                            int64_t ldw, int64_t n, const int rows, const bool zero)
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
            acc[i] = zero ? V(zero)() : V(load)(c + j + i * lanes);
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
        VEC acc = zero ? V(zero)() : V(load_mask)(c + j, valid);
        LK_UNROLL
        for (int k = 0; k < rows; k++)
            acc = V(fma)(av[k], V(load_mask)(w + k * ldw + j, valid), acc);
        V(store_first)(c + j, acc, left);
    }
}

static void V(gemv)(void *c, const void *a, int64_t a_step, const void *w, int64_t ldw, int64_t k,
                    int64_t n, bool zero)
{
    const V(elem) *av = a, *wv = w;
    if (zero && k >= 4) {
        V(gemv_rows)(c, av, a_step, wv, ldw, n, 4, true);
        k -= 4;
        av += 4 * a_step;
        wv += 4 * ldw;
    } else if (zero && k > 0) {
        V(gemv_rows)(c, av, a_step, wv, ldw, n, 1, true);
        k--;
        av += a_step;
        wv += ldw;
    }
    for (; k >= 4; k -= 4, av += 4 * a_step, wv += 4 * ldw)
        V(gemv_rows)(c, av, a_step, wv, ldw, n, 4, false);
    for (; k > 0; k--, av += a_step, wv += ldw)
        V(gemv_rows)(c, av, a_step, wv, ldw, n, 1, false);
}
