/* Sums of maps: along rows and down columns the lane sums of terms that are computed one by one, whatever
 * the lengths, the pieces, the instruction set and the threads. */
#include "all_threads.h"
#include "guard.h"
#include "harness.h"
#include "kernel/reference/reference.h"
#include "kernel/sums.h"
#include "real.h"

#include <lockstep/extra/isa.h>
#include <lockstep/thread.h>

#include <fenv.h>
#include <stdlib.h>
#include <string.h>

/* ---- the definition, in the type ---- */

#define TERM_DEFINE(type, name)                                                                    \
    static double name(lk__sum_term term, const double *x, const double *number)                   \
    {                                                                                              \
        const type a = (type)x[0], b = (type)x[1], c = (type)x[2], d = (type)x[3], e = (type)x[4], \
                   f = (type)x[5], g = (type)x[6], p = (type)number[0], q = (type)number[1],       \
                   u = (type)number[2], v = (type)number[3];                                       \
        (void)g;                                                                                   \
        (void)a, (void)b, (void)c, (void)d, (void)e, (void)f, (void)p, (void)q, (void)u, (void)v;  \
        switch (term) {                                                                            \
            LK__TERMS(TERM_CASE)                                                                   \
        default: return 0;                                                                         \
        }                                                                                          \
    }
#define ROOT(x) _Generic((x), float : sqrtf, double : sqrt)(x)
#define RELU(x) ((x) < 0 ? 0 : (x))
#define ABOVE(y, x) ((y) > 0 ? (x) : 0)
/* In the type first: clang 14 makes +0 of (double)(x < 0 ? 0 : x) for -0. */
#define TERM_CASE(code, expression)              \
    case LK__TERM_##code: {                      \
        volatile __typeof__(a) y = (expression); \
        return (double)y;                        \
    }

TERM_DEFINE(float, term_f32)
TERM_DEFINE(double, term_f64)

static const lk__sum_term along_terms[][2] = {
#define X(code, first, second) {LK__TERM_##first, LK__TERM_##second},
    LK__SUMS_ALONG(X)};
static const lk__sum_term down_terms[][2] = {LK__SUMS_DOWN(X)};
#undef X

/* ---- a case ---- */

struct sums_case {
    lk__map_sums s;
    struct guard x[LK_SUMS_MAX_IN], y, sums;
    struct guard number[LK_SUMS_MAX_P]; /* [rows]: what the function reads, or keeps */
    int sum, n_numbers;                 /* the sum along rows, or the map */
};

static int64_t pieces_of(const lk__map_sums *s)
{
    return lk__map_sums_pieces(s);
}

static struct sums_case case_new(lk_dtype t, int64_t rows, int64_t n, int64_t piece, bool odd)
{
    struct sums_case c = {.s = {.dtype = t, .rows = rows, .n = n, .piece = piece}};
    const lk__map_sums_in of[] = {LK_SUMS_ROWS,   LK_SUMS_SHARED, LK_SUMS_ROWS,  LK_SUMS_PIECES,
                                  LK_SUMS_SHARED, LK_SUMS_PIECES, LK_SUMS_SHARED};
    const size_t elem = lk_dtype_size(t);
    for (int k = 0; k < LK_SUMS_MAX_IN; k++) {
        const int64_t count = n * (of[k] == LK_SUMS_ROWS     ? rows
                                   : of[k] == LK_SUMS_PIECES ? pieces_of(&c.s)
                                                             : 1);
        c.s.of[k] = of[k];
        c.x[k] = guard_real(t, count, (uint64_t)(rows + n) + 7 * (uint64_t)k, odd);
        c.s.x[k] = c.x[k].data;
    }
    for (int k = 0; k < LK_SUMS_MAX_P; k++)
        c.number[k] = guard_real(t, rows, (uint64_t)(99 + k + rows), false);
    c.y = guard_new((size_t)(rows * n) * elem);
    c.sums = guard_new((size_t)(2 * pieces_of(&c.s) * n) * elem);
    return c;
}

static void case_free(struct sums_case *c)
{
    for (int k = 0; k < LK_SUMS_MAX_IN; k++)
        guard_free(&c->x[k]);
    for (int k = 0; k < LK_SUMS_MAX_P; k++)
        guard_free(&c->number[k]);
    guard_free(&c->y);
    guard_free(&c->sums);
}

static void case_run(struct sums_case *c)
{
    int64_t bytes;
    c->s.arg = c;
    ASSERT_OK(lk__map_sums_room(&c->s, &bytes));
    struct guard room = guard_new((size_t)bytes); /* it is not written behind its end */
    ASSERT_OK(lk__map_sums_run(&c->s, room.data));
    guard_free(&room);
}

/* The term of element i of row r. */
static double term_at(const struct sums_case *c, lk__sum_term term, int64_t r, int64_t i)
{
    const lk__map_sums *s = &c->s;
    double x[LK_SUMS_MAX_IN], number[LK_SUMS_MAX_P] = {0};
    for (int k = 0; k < LK_SUMS_MAX_IN; k++) {
        const int64_t row = s->of[k] == LK_SUMS_ROWS     ? r
                            : s->of[k] == LK_SUMS_SHARED ? 0
                            : s->piece > 0               ? r / s->piece
                                                         : 0;
        x[k] = real_get(s->dtype, s->x[k], row * s->n + i);
    }
    for (int k = 0; k < c->n_numbers; k++)
        number[k] = real_get(s->dtype, c->number[k].data, r);
    return (s->dtype == LK_F32 ? term_f32 : term_f64)(term, x, number);
}

/* Run `check` for every instruction set and some numbers of threads. */
static void check_everywhere(struct sums_case *c, void (*check)(const struct sums_case *c))
{
    lk_isa best = LK_ISA_SCALAR;
    ASSERT_OK(lk_isa_now(&best));
    for (int isa = 0; isa < LK_N_ISAS; isa++)
        for (int threads = 1; threads <= 3 && lk_isa_is_available((lk_isa)isa); threads++) {
            ASSERT_OK(lk_isa_set((lk_isa)isa));
            all_threads_set(threads);
            case_run(c);
            check(c);
        }
    ASSERT_OK(lk_isa_set(best));
    ASSERT_OK(lk_threads_set(0));
}

static void check_same(double got, double want, const struct sums_case *c, int64_t r, int64_t i)
{
    if (!real_same(got, want))
        TEST_FAIL("%lld x %lld of %s in pieces of %lld, number %d, at %lld, %lld: %a, not %a",
                  (long long)c->s.rows, (long long)c->s.n, lk_dtype_name(c->s.dtype),
                  (long long)c->s.piece, c->sum, (long long)r, (long long)i, got, want);
}

/* ---- along rows ---- */

static void numbers_read(lk__sheet *t)
{
    const struct sums_case *c = t->arg;
    for (int k = 0; k < c->n_numbers; k++)
        lk__sheet_take(t, k, c->number[k].data);
}

/* Sums of numbers 0 and 1 go to 2 and 3. */
static void sum_sheet(lk__sheet *t)
{
    const struct sums_case *c = t->arg;
    numbers_read(t);
    lk__sheet_sum(t, (lk__sum_along)c->sum, 2);
    for (int k = 2; k < 4; k++)
        for (int64_t r = t->first; r < t->last; r++)
            real_set(c->s.dtype, c->number[k].data, t->row + r, real_get(c->s.dtype, &t->p[k], r));
}

static void check_along(const struct sums_case *c)
{
    for (int64_t r = 0; r < c->s.rows; r++)
        for (int k = 0; k < 2 && along_terms[c->sum][k] != LK__TERM_NONE; k++) {
            double lane[16] = {0};
            for (int64_t i = 0; i < c->s.n; i++)
                lane[i % 16] = real_add(c->s.dtype, lane[i % 16],
                                        term_at(c, along_terms[c->sum][k], r, i));
            check_same(real_get(c->s.dtype, c->number[2 + k].data, r),
                       lk__ref_tree(c->s.dtype, lane, 16), c, r, k);
        }
}

static const int64_t some_n[] = {1, 2, 7, 15, 16, 17, 33, 100, 255, 256, 259};
static const int64_t some_rows[] = {1, 2, 3, 5, 16, 17, 67, 150};

TEST(sums_along_rows_are_lane_sums_of_terms)
{
    for (int sum = 0; sum < LK__N_SUMS_ALONG; sum++)
        for (int odd = 0; odd < 2; odd++)
            for (int i = 0; i < (int)(sizeof some_n / sizeof some_n[0]); i++) {
                const lk_dtype t = i % 2 ? LK_F64 : LK_F32;
                struct sums_case c = case_new(t, some_rows[(i + sum) % 8], some_n[i], 0, odd);
                c.sum = sum;
                c.n_numbers = 2;
                c.s.fn = sum_sheet;
                check_everywhere(&c, check_along);
                case_free(&c);
            }
}

/* 3 and 0.5 by hand. */
static void statistics_sheet(lk__sheet *t)
{
    lk__sheet_sum(t, LK__ALONG_VALUES, 0);
    lk__sheet_mean(t, 0);
    lk__sheet_sum(t, LK__ALONG_SQUARES, 1);
    lk__sheet_inverse(t, 1, 2);
    *(float *)t->arg = t->p[0].f32[0];
    ((float *)t->arg)[1] = t->p[1].f32[0];
}

TEST(a_row_has_a_mean_and_an_inverse_deviation)
{
    const float x[] = {1, 5, 3, 1, 5};
    float out[2];
    int64_t bytes;
    lk__map_sums s = {
        .dtype = LK_F32, .rows = 1, .n = 4, .x = {x}, .fn = statistics_sheet, .arg = out};
    ASSERT_OK(lk__map_sums_room(&s, &bytes));
    ASSERT_EQ(bytes, 0);
    ASSERT_OK(lk__map_sums_run(&s, NULL));
    ASSERT_TRUE(out[0] == 2.5F); /* 10 / 4; (2.25 + 6.25 + .25 + 2.25) / 4 + 2 = 4.75 */
    ASSERT_TRUE(out[1] == 1 / sqrtf(4.75F));
}

/* ---- maps ---- */

static void map_sheet(lk__sheet *t)
{
    const struct sums_case *c = t->arg;
    numbers_read(t);
    lk__sheet_map(t, (lk__sum_term)c->sum);
}

static void check_map(const struct sums_case *c)
{
    for (int64_t r = 0; r < c->s.rows; r++)
        for (int64_t i = 0; i < c->s.n; i++) {
            double want = term_at(c, (lk__sum_term)c->sum, r, i);
            if (c->s.overwrite)
                want = real_add(c->s.dtype, 0, want);
            check_same(real_get(c->s.dtype, c->y.data, r * c->s.n + i), want, c, r, i);
        }
}

TEST(maps_write_terms)
{
    for (int term = LK__TERM_NONE + 1; term < LK__N_TERMS; term++)
        for (int i = 0; i < 8; i++) {
            struct sums_case c = case_new(i % 2 ? LK_F64 : LK_F32, some_rows[i],
                                          some_n[(i + term) % 11], some_rows[i % 3 + 1], true);
            c.sum = term;
            c.n_numbers = 4;
            c.s.fn = map_sheet;
            c.s.y = c.y.data;
            c.s.overwrite = i % 4 > 1;
            check_everywhere(&c, check_map);
            c.n_numbers = 0;
            c.s.folds = true;
            check_everywhere(&c, check_map);
            case_free(&c);
        }
}

/* Where rows begin at whole lines, and where they do not. */
TEST(an_output_larger_than_caches_is_as_any_other)
{
    lk_isa best = LK_ISA_SCALAR;
    ASSERT_OK(lk_isa_now(&best));
    for (int i = 0; i < 2; i++) {
        struct sums_case c = case_new(LK_F32, 2200, i ? 2048 : 1909, 0, true);
        const size_t bytes = (size_t)c.s.n * sizeof(float);
        struct guard row = guard_new(bytes);
        c.sum = LK__TERM_WEIGH;
        c.s.fn = map_sheet;
        c.s.y = c.y.data;
        for (int isa = 0; isa < LK_N_ISAS; isa++) {
            if (!lk_isa_is_available((lk_isa)isa))
                continue;
            ASSERT_OK(lk_isa_set((lk_isa)isa));
            memset(c.y.data, 0, (size_t)c.s.rows * bytes);
            case_run(&c);
            for (int64_t r = 0; r < c.s.rows; r++) {
                const void *x[3];
                for (int k = 0; k < 3; k++)
                    x[k] = (const char *)c.s.x[k] + (k == 1 ? 0 : (size_t)r * bytes);
                ASSERT_OK(
                    lk__vector_map(LK_F32, c.s.n, x, 3, (double[2]){0}, LK__TERM_WEIGH, row.data));
                ASSERT_EQ(memcmp((char *)c.y.data + (size_t)r * bytes, row.data, bytes), 0);
            }
        }
        guard_free(&row);
        case_free(&c);
    }
    ASSERT_OK(lk_isa_set(best));
}

/* In place: x / 2, and 1 / sqrt(16 + 9). */
TEST(a_vector_is_a_row_by_itself)
{
    double x[] = {4, -6, 9, 1}, y[] = {16, 91, 0};
    ASSERT_OK(
        lk__vector_map(LK_F64, 3, (const void *[]){x}, 1, (double[]){2, 9}, LK__TERM_OVER, x));
    ASSERT_TRUE(x[0] == 2 && x[1] == -3 && x[2] == 4.5 && x[3] == 1);
    ASSERT_OK(
        lk__vector_map(LK_F64, 2, (const void *[]){y}, 1, (double[]){2, 9}, LK__TERM_INVERSE, y));
    ASSERT_TRUE(y[0] == 0.2 && y[1] == 0.1 && y[2] == 0);
}

/* ---- down columns ---- */

static void check_down(const struct sums_case *c)
{
    const lk__map_sums *s = &c->s;
    const int64_t pieces = pieces_of(s), piece = s->piece > 0 ? s->piece : s->rows;
    for (int64_t p = 0; p < pieces; p++)
        for (int k = 0; k < 2 && down_terms[s->down][k] != LK__TERM_NONE; k++)
            for (int64_t i = 0; i < s->n; i++) {
                double lane[16] = {0};
                for (int64_t r = p * piece; r < (p + 1) * piece && r < s->rows; r++)
                    lane[(r - p * piece) % 16] = real_add(s->dtype, lane[(r - p * piece) % 16],
                                                          term_at(c, down_terms[s->down][k], r, i));
                check_same(real_get(s->dtype, s->sums, (k * pieces + p) * s->n + i),
                           lk__ref_tree(s->dtype, lane, 16), c, p, i);
            }
}

TEST(sums_down_columns_are_lane_sums_of_each_piece)
{
    static const int64_t some_pieces[] = {0, 1, 4, 16, 23, 64, 70};
    for (int down = 0; down < LK__N_SUMS_DOWN; down++)
        for (int i = 0; i < 21; i++) {
            struct sums_case c = case_new(i % 2 ? LK_F64 : LK_F32, some_rows[i % 8], some_n[i % 11],
                                          some_pieces[i % 7], i % 3 == 0);
            c.s.down = (lk__sum_down)down;
            c.s.sums = c.sums.data;
            c.n_numbers = 2;
            c.s.fn = numbers_read;
            check_everywhere(&c, check_down);
            c.n_numbers = 0;
            c.s.fn = NULL;
            c.s.folds = true;
            check_everywhere(&c, check_down);
            case_free(&c);
        }
}

/* Large enough for several sheets and for threads to share pieces. */
TEST(large_sums_down_columns_are_the_same)
{
    static const int64_t rows[] = {2000, 700, 70}, n[] = {20, 130, 1030}, piece[] = {300, 0, 0};
    for (int i = 0; i < 3; i++) {
        struct sums_case c = case_new(LK_F32, rows[i], n[i], piece[i], false);
        c.s.sums = c.sums.data;
        c.n_numbers = 2;
        c.s.fn = numbers_read;
        check_everywhere(&c, check_down);
        case_free(&c);
    }
}

/* ---- nothing, and refusals ---- */

TEST(no_rows_and_no_columns_are_nothing)
{
    float sums[4] = {1, 2, 3, 4};
    int64_t bytes = 1;
    lk__map_sums s = {
        .dtype = LK_F32, .rows = 0, .n = 2, .x = {sums}, .fn = map_sheet, .sums = sums};
    ASSERT_EQ(lk__map_sums_pieces(&s), 0);
    ASSERT_OK(lk__map_sums_room(&s, &bytes));
    ASSERT_EQ(bytes, 0);
    ASSERT_OK(lk__map_sums_run(&s, NULL));
    s.rows = 3;
    s.n = 0;
    ASSERT_OK(lk__map_sums_room(&s, &bytes));
    ASSERT_OK(lk__map_sums_run(&s, NULL));
    ASSERT_TRUE(sums[0] == 1 && sums[3] == 4);
}

TEST(a_thread_that_rounds_otherwise_is_refused)
{
    float x[1] = {1}, y[1] = {0};
    lk__map_sums s = {.dtype = LK_F32, .rows = 1, .n = 1, .x = {x}, .y = y};
    fesetround(FE_UPWARD);
    lk_status st = lk__map_sums_run(&s, NULL);
    fesetround(FE_TONEAREST);
    ASSERT_EQ(st, LK_EFPENV);
}
