/* The rows micro-kernel: every tile of every instruction set against the chain written out. */
#include "guard.h"
#include "kernel/micro.h"
#include "real.h"

enum { MAX_N = 64, A_LEN = 64, W_ROWS = 17, W_LEN = W_ROWS * MAX_N, MAX_SEG = 3 };

/* Rows of A anywhere, and equally far apart. */
static const int64_t a_off[2][LK_MICRO_MR] = {{0, 7, 3, 30, 12, 1, 20, 9, 28, 15, 5, 2},
                                              {5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27}};
static const int64_t c_off[LK_MICRO_MR] = {128, 0, 64, 192, 704, 256, 320, 640, 384, 576, 448, 512};
enum { C_LEN = 704 + MAX_N };

/* Segments that step forth and back, with rows of W in any order. */
static const struct {
    int n;
    lk__segment seg[MAX_SEG];
} lists[] = {{0, {{0}}}, {1, {{2, 1, 0}}}, {3, {{20, 7, 9}, {9, 1, 16}, {-29, 9, 0}}}};

enum { N_LISTS = sizeof lists / sizeof lists[0] };

/* The tiles of an instruction set, which is set from then on. */
static const lk__rows_type *tiles_of(lk_isa isa, lk_dtype dtype)
{
    const lk__rows_table *table = NULL;
    ASSERT_OK(lk_isa_set(isa));
    ASSERT_OK(lk__rows_get(&table));
    return &table->of[dtype];
}

/* Operands, each at the end of guarded memory, and the chains of one list and one start. */
struct operands {
    lk_dtype dtype;
    size_t size;
    struct guard a, w, bias, c;           /* W is [W_ROWS][MAX_N] */
    struct guard w_used, c_used;          /* with fewer columns: what the tile gets */
    double expect[2][LK_MICRO_MR][MAX_N]; /* by a_off */
};

static void operands_new(struct operands *o, lk_dtype dtype, bool odd)
{
    *o = (struct operands){.dtype = dtype,
                           .size = lk_dtype_size(dtype),
                           .a = guard_real(dtype, A_LEN, 1, odd),
                           .w = guard_real(dtype, W_LEN, 2, odd),
                           .bias = guard_real(dtype, MAX_N, 3, odd),
                           .c = guard_real(dtype, C_LEN, 4, odd),
                           .w_used = guard_real(dtype, W_LEN, 0, false),
                           .c_used = guard_real(dtype, C_LEN, 0, false)};
}

static void operands_free(struct operands *o)
{
    struct guard *all[] = {&o->a, &o->w, &o->bias, &o->c, &o->w_used, &o->c_used};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        guard_free(all[i]);
}

static void expect_chains(struct operands *o, int list, lk__start start, int spaced)
{
    for (int m = 0; m < LK_MICRO_MR; m++)
        for (int j = 0; j < MAX_N; j++) {
            double acc = start == LK_START_ZERO   ? 0
                         : start == LK_START_BIAS ? real_get(o->dtype, o->bias.data, j)
                                                  : real_get(o->dtype, o->c.data, c_off[m] + j);
            int64_t at = a_off[spaced][m];
            for (int s = 0; s < lists[list].n; s++) {
                const lk__segment *seg = &lists[list].seg[s];
                at += seg->step;
                for (int64_t k = 0; k < seg->len; k++)
                    acc = real_fma(o->dtype, real_get(o->dtype, o->a.data, at + k),
                                   real_get(o->dtype, o->w.data, (seg->w_row + k) * MAX_N + j),
                                   acc);
            }
            o->expect[spaced][m][j] = acc;
        }
}

/* The first n columns of W, rows `ld` apart, at the very end of their memory, NaN beside them. */
static const void *w_columns(struct operands *o, int n, int ld, bool packed)
{
    const int64_t count = packed ? W_ROWS * ld : (W_ROWS - 1) * ld + n;
    char *w = (char *)o->w_used.data + (size_t)(W_LEN - count) * o->size;
    for (int64_t i = 0; i < count; i++)
        real_set(o->dtype, w, i,
                 i % ld < n ? real_get(o->dtype, o->w.data, i / ld * MAX_N + i % ld) : (double)NAN);
    return w;
}

/* Runs a tile on a copy of C whose last row ends with the memory. */
static void check_tile(const lk__rows_type *t, int width, int mr, struct operands *o,
                       lk__rows_args args)
{
    const size_t shift = (size_t)(MAX_N - args.n_valid) * o->size, bytes = C_LEN * o->size - shift;
    const bool spaced = args.a_off == a_off[1];
    void *c = (char *)o->c_used.data + shift;
    memcpy(c, o->c.data, bytes);
    args.c = c;
    t->tile[width][mr](&args);
    for (int m = 0; m < mr; m++)
        for (int j = 0; j < args.n_valid; j++) {
            const double got = real_get(o->dtype, c, c_off[m] + j);
            if (!real_same(got, o->expect[spaced][m][j]))
                TEST_FAIL("%s width %d mr %d n_valid %d start %d row %d column %d: %a, not %a",
                          lk_dtype_name(o->dtype), t->width[width], mr, args.n_valid,
                          (int)args.start, m, j, got, o->expect[spaced][m][j]);
            real_set(o->dtype, c, c_off[m] + j, real_get(o->dtype, o->c.data, c_off[m] + j));
        }
    if (memcmp(c, o->c.data, bytes) != 0)
        TEST_FAIL("%s width %d mr %d n_valid %d writes beside its tile", lk_dtype_name(o->dtype),
                  t->width[width], mr, args.n_valid);
}

static void check_width(const lk__rows_type *t, int width, struct operands *o, lk__rows_args args)
{
    const int nr = t->width[width];
    const bool any = width < LK_MICRO_WIDTHS; /* n_valid and W, not all of a panel, packed */
    for (args.n_valid = any ? 1 : nr; args.n_valid <= nr; args.n_valid++)
        for (int packed = !any; packed <= 1; packed++) {
            args.w_packed = packed;
            args.a_off = a_off[any && (!packed || lk__rows_pick(t, args.n_valid) != width)];
            args.ldw = packed ? nr : args.n_valid + 3 <= MAX_N ? args.n_valid + 3 : args.n_valid;
            args.w = w_columns(o, args.n_valid, (int)args.ldw, packed);
            args.bias = o->bias.data;
            for (int mr = 1; mr <= t->mr[width]; mr++)
                check_tile(t, width, mr, o, args);
        }
}

static void check_type(lk_isa isa, lk_dtype dtype, bool odd)
{
    const lk__rows_type *t = tiles_of(isa, dtype);
    struct operands o;
    operands_new(&o, dtype, odd);
    for (int list = 0; list < N_LISTS; list++)
        for (int start = LK_START_ZERO; start <= LK_START_C; start++) {
            const lk__rows_args args = {.seg = lists[list].seg,
                                        .n_seg = lists[list].n,
                                        .a = o.a.data,
                                        .c_off = c_off,
                                        .start = (lk__start)start};
            expect_chains(&o, list, args.start, 0);
            expect_chains(&o, list, args.start, 1);
            for (int width = 0; width < LK_MICRO_TILES && t->width[width] > 0; width++)
                check_width(t, width, &o, args);
        }
    operands_free(&o);
}

TEST(the_widths_on_offer_are_in_order)
{
    for (int isa = 0; isa < LK_N_ISAS; isa++)
        for (int dtype = LK_F32; lk_isa_is_available((lk_isa)isa) && dtype <= LK_F64; dtype++) {
            const lk__rows_type *t = tiles_of((lk_isa)isa, (lk_dtype)dtype);
            for (int i = 0; i < LK_MICRO_WIDTHS && t->width[i] > 0; i++) {
                ASSERT_TRUE(i == 0 || t->width[i] < t->width[i - 1]);
                ASSERT_EQ(lk__rows_pick(t, t->width[i]), i);
                ASSERT_TRUE(t->width[i] <= MAX_N && t->mr[i] <= LK_MICRO_MR);
            }
            ASSERT_EQ(lk__rows_pick(t, t->width[0] + 1), t->usual);
            ASSERT_TRUE(t->width[t->close] <= MAX_N && t->mr[t->close] <= LK_MICRO_MR);
            ASSERT_TRUE(t->width[t->close] <= 2 * t->width[t->usual]);
        }
}

TEST(every_tile_is_the_chain)
{
    for (int isa = 0; isa < LK_N_ISAS; isa++)
        for (int odd = 0; lk_isa_is_available((lk_isa)isa) && odd <= 1; odd++) {
            check_type((lk_isa)isa, LK_F32, odd);
            check_type((lk_isa)isa, LK_F64, odd);
        }
}

/* A panel of columns [0, n_valid) of the transpose of src [n_valid][n_k]. */
static void check_transpose(lk__transpose_fn *transpose, lk_dtype dtype, int64_t n_k, int n_valid,
                            int width)
{
    const int64_t ld = n_k + 2, n_src = (n_valid - 1) * ld + n_k, n_dst = n_k * width;
    struct guard src = guard_real(dtype, n_src, 5, true), dst = guard_real(dtype, n_dst, 6, false);
    transpose(dst.data, src.data, ld, n_k, n_valid, width);
    for (int64_t k = 0; k < n_k; k++)
        for (int j = 0; j < width; j++) {
            const double expect = j < n_valid ? real_get(dtype, src.data, j * ld + k) : 0;
            const double got = real_get(dtype, dst.data, k * width + j);
            if (!real_same(got, expect))
                TEST_FAIL("%s n_k %d n_valid %d width %d: [%d][%d] is %a, not %a",
                          lk_dtype_name(dtype), (int)n_k, n_valid, width, (int)k, j, got, expect);
        }
    guard_free(&src);
    guard_free(&dst);
}

TEST(every_panel_is_the_transpose)
{
    for (int isa = 0; isa < LK_N_ISAS; isa++)
        for (int dtype = LK_F32; lk_isa_is_available((lk_isa)isa) && dtype <= LK_F64; dtype++) {
            const lk__rows_type *t = tiles_of((lk_isa)isa, (lk_dtype)dtype);
            for (int i = 0; i < LK_MICRO_TILES && t->width[i] > 0; i++)
                for (int n_valid = 1; n_valid <= t->width[i]; n_valid++)
                    for (int64_t n_k = 1; n_k <= 19; n_k += n_k == 1 ? 6 : 1)
                        check_transpose(t->transpose, (lk_dtype)dtype, n_k, n_valid, t->width[i]);
        }
}
