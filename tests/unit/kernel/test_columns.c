/* The columns micro-kernel against its definition, bit for bit, for every tile of every instruction
 * set.  All operands end at a page that must not be touched. */
#include "guard.h"
#include "kernel/micro.h"
#include "real.h"

enum { IMAGES = 2, ROWS = 3, COLS = 9, ADDS = 3, GAP = 5 };

struct world {
    lk_dtype dtype;
    size_t elem;
    int width, mr;
    bool own;
    struct guard x, y, partial, add[ADDS], out;
    void *want; /* what `out` must hold afterwards, gaps included */
    size_t out_bytes;
    int64_t ld; /* of partial, add and out */
};

static uint64_t draw(void)
{
    static uint64_t state = 1;
    state = state * 6364136223846793005U + 1442695040888963407U;
    return state >> 33;
}

/* Mostly numbers around one; some zeros of both signs, denormals and large ones. */
static double number(void)
{
    double v = (double)draw() / (1U << 30) - 1;
    switch (draw() % 16) {
    case 0: return 0;
    case 1: return -0.0;
    case 2: return v * 1e-42;
    case 3: return v * 1e15;
    default: return v;
    }
}

static struct guard filled(const struct world *w, int64_t count)
{
    struct guard g = guard_new((size_t)count * w->elem);
    for (int64_t i = 0; i < count; i++)
        real_set(w->dtype, g.data, i, number());
    return g;
}

/* One element by the definition in micro.h. */
static double element(const struct world *w, const lk__columns_args *t, int m, int j)
{
    double acc = t->partial ? real_get(w->dtype, t->partial, m * t->ld_partial + j) : 0;
    for (int64_t i = 0; i < t->n_images; i++)
        for (int64_t r = 0; r < t->n_rows; r++)
            for (int64_t p = 0; p < t->n_phase; p++)
                for (int64_t c = t->phase[p].first; c < t->phase[p].first + t->phase[p].n; c++) {
                    int64_t x = i * t->x_image + r * t->x_row + c * t->x_col;
                    int64_t y = i * t->y_image + r * t->y_row + c * t->y_col;
                    if (t->phase[p].mask >> m & 1)
                        acc = real_fma(w->dtype,
                                       real_get(w->dtype, t->x, x + (w->own ? m * t->x_m + j : m)),
                                       real_get(w->dtype, t->y, y + j), acc);
                }
    for (int q = 0; q < t->n_add; q++)
        acc = real_add(w->dtype, real_get(w->dtype, t->add[q], m * t->ld_add + j), acc);
    return t->accumulate ? real_add(w->dtype, real_get(w->dtype, t->out, m * t->ld_out + j), acc)
                         : acc;
}

static void check(struct world *w, lk__columns_fn *tile, const lk__columns_args *t)
{
    for (int64_t i = 0; i < (int64_t)(w->out_bytes / w->elem); i++)
        real_set(w->dtype, w->out.data, i, number());
    memcpy(w->want, w->out.data, w->out_bytes);
    for (int m = 0; m < w->mr; m++)
        for (int j = 0; j < t->n_valid; j++)
            real_set(w->dtype, w->want, m * t->ld_out + j, element(w, t, m, j));
    tile(t);
    if (memcmp(w->want, w->out.data, w->out_bytes) != 0)
        TEST_FAIL("%s: %d x %d%s, n_valid %d, y_packed %d, partial %d, adds %d, accumulate %d, "
                  "%d images, %d rows, %d phases, first mask %x",
                  lk_dtype_name(w->dtype), w->mr, w->width, w->own ? " own" : "", t->n_valid,
                  t->y_packed, t->partial != NULL, t->n_add, t->accumulate, (int)t->n_images,
                  (int)t->n_rows, (int)t->n_phase, t->n_phase ? t->phase[0].mask : 0);
}

/* No pixel; one; full masks; holes between phases; masks of any kind. */
static int64_t phases(int kind, int mr, lk__phase *ph)
{
    uint32_t all = (1U << mr) - 1;
    switch (kind) {
    case 0: return 0;
    case 1: ph[0] = (lk__phase){COLS - 1, 1, all}; return 1;
    case 2: ph[0] = (lk__phase){0, COLS, all}; return 1;
    case 3:
        ph[0] = (lk__phase){1, 2, all};
        ph[1] = (lk__phase){4, 0, all};
        ph[2] = (lk__phase){5, 3, all};
        return 3;
    default:
        ph[0] = (lk__phase){0, 2, (uint32_t)draw() & all};
        ph[1] = (lk__phase){2, 4, all};
        ph[2] = (lk__phase){6, 3, (uint32_t)draw() & all};
        return 3;
    }
}

static void check_n_valid(struct world *w, lk__columns_fn *tile, int n_valid, bool packed)
{
    const void *add[ADDS];
    lk__phase ph[3];
    int y_used = packed ? w->width : n_valid;
    lk__columns_args t = {.phase = ph, .x_col = w->mr + 1, .y_col = y_used + 2, .n_valid = n_valid};
    int64_t x_used = w->mr;
    t.y_packed = packed;
    if (w->own) {
        t.x_m = n_valid + 1;
        t.x_col = n_valid + 2; /* the m overlap, as kernel columns do */
        x_used = (w->mr - 1) * t.x_m + n_valid;
    }
    t.x_row = COLS * t.x_col + 1;
    t.y_row = COLS * t.y_col;
    t.x_image = ROWS * t.x_row + 3;
    t.y_image = ROWS * t.y_row + 1;
    t.add = add;
    w->ld = t.ld_partial = t.ld_add = t.ld_out = n_valid + GAP;
    int64_t n_out = (w->mr - 1) * w->ld + n_valid;
    w->x = filled(w,
                  (IMAGES - 1) * t.x_image + (ROWS - 1) * t.x_row + (COLS - 1) * t.x_col + x_used);
    w->y = filled(w,
                  (IMAGES - 1) * t.y_image + (ROWS - 1) * t.y_row + (COLS - 1) * t.y_col + y_used);
    w->partial = filled(w, n_out);
    w->out = filled(w, n_out);
    w->out_bytes = (size_t)n_out * w->elem;
    w->want = malloc(w->out_bytes);
    ASSERT_TRUE(w->want);
    for (int q = 0; q < ADDS; q++) {
        w->add[q] = filled(w, n_out);
        add[q] = w->add[q].data;
    }
    t.x = w->x.data;
    t.y = w->y.data;
    t.out = w->out.data;
    for (int kind = 0; kind < 5; kind++)
        for (int rows = 0; rows <= ROWS; rows++)
            for (int end = 0; end < 6; end++) {
                t.n_images = 1 + (kind + rows + end) % IMAGES;
                t.n_rows = rows;
                t.n_phase = phases(kind, w->mr, ph);
                t.partial = end & 1 ? w->partial.data : NULL;
                t.n_add = end / 2 == 1 ? 1 : end / 2 == 2 ? ADDS : 0;
                t.accumulate = end > 2;
                check(w, tile, &t);
            }
    guard_free(&w->x);
    guard_free(&w->y);
    guard_free(&w->partial);
    guard_free(&w->out);
    for (int q = 0; q < ADDS; q++)
        guard_free(&w->add[q]);
    free(w->want);
}

static void check_isa(lk_isa isa, lk_dtype dtype)
{
    const lk__columns_table *table = NULL;
    ASSERT_OK(lk_isa_set(isa));
    ASSERT_OK(lk__columns_get(&table));
    const lk__columns_type *type = &table->of[dtype];
    ASSERT_TRUE(type->width[0] > 0);
    for (int i = 0; i < LK_MICRO_WIDTHS && type->width[i]; i++) {
        ASSERT_TRUE(i == 0 || type->width[i] < type->width[i - 1]);
        ASSERT_TRUE(type->mr[i] >= 1 && type->mr[i] <= LK_COLUMNS_MR);
        for (int mr = 1; mr <= type->mr[i]; mr++) {
            struct world w = {.dtype = dtype, .width = type->width[i], .mr = mr};
            w.elem = lk_dtype_size(dtype);
            for (int n = 1; n <= w.width; n += n < 3 || n >= w.width - 2 ? 1 : w.width / 4) {
                w.own = false;
                check_n_valid(&w, type->tile[i][mr], n, false);
                check_n_valid(&w, type->tile[i][mr], n, true);
                w.own = true;
                if (mr <= LK_MICRO_OWN)
                    check_n_valid(&w, type->own[i][mr], n, false);
            }
        }
    }
}

static void check_all(lk_dtype dtype)
{
    for (int isa = 0; isa < LK_N_ISAS; isa++)
        if (lk_isa_is_available((lk_isa)isa))
            check_isa((lk_isa)isa, dtype);
}

TEST(every_f32_tile_is_its_definition)
{
    check_all(LK_F32);
}

TEST(every_f64_tile_is_its_definition)
{
    check_all(LK_F64);
}
