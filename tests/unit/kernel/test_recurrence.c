/* Recurrent cells over all times, and their gradients: everywhere the bits of the definition, and nothing
 * outside the operands. */
#include "all_threads.h"
#include "guard.h"
#include "kernel/reference/reference.h"
#include "real.h"

#include <lockstep/extra/isa.h>
#include <lockstep/thread.h>

enum { X, U, BIAS, H0, C0, DY, DH, DC, INPUTS };
enum { Y = INPUTS, H, C, KEPT, DX, DS, BEFORE, DH0, DC0, ARRAYS };

/* A case, its operands each at the end of a page. */
struct operands {
    lk_recurrence r;
    struct guard at[ARRAYS], room;
    size_t bytes[ARRAYS];
};

static struct operands operands_new(lk_recurrence r)
{
    struct operands o = {.r = r};
    const int64_t state = r.samples * r.units, y = state * r.times,
                  x = y * lk_recurrence_gates(r.cell);
    const int64_t n[ARRAYS] = {
        [X] = x,          [U] = r.units * r.units * lk_recurrence_gates(r.cell),
        [BIAS] = r.units, [H0] = state,
        [C0] = state,     [DY] = y,
        [DH] = state,     [DC] = state,
        [Y] = y,          [H] = state,
        [C] = state,      [KEPT] = r.samples * r.times * lk_recurrence_kept(r.cell, r.units),
        [DX] = x,         [DS] = x,
        [BEFORE] = y,     [DH0] = state,
        [DC0] = state};
    int64_t room;
    ASSERT_OK(lk_recurrence_room(&r, &room));
    o.room = guard_new((size_t)room);
    memset(o.room.data, 0xff, (size_t)room); /* NaN: nothing of it may come out */
    for (int i = 0; i < ARRAYS; i++) {
        o.bytes[i] = (size_t)n[i] * lk_dtype_size(r.dtype);
        o.at[i] = guard_new(o.bytes[i]);
        if (i < INPUTS)
            real_fill(r.dtype, o.at[i].data, n[i], 3 + (uint64_t)i, false);
    }
    return o;
}

static void operands_free(struct operands *o)
{
    for (int i = 0; i < ARRAYS; i++)
        guard_free(&o->at[i]);
    guard_free(&o->room);
}

enum way { BOTH, FORWARD, BY_DEFINITION };

static void passes(struct operands *o, enum way way)
{
    const bool gru = o->r.cell == LK_CELL_GRU, lstm = o->r.cell == LK_CELL_LSTM;
    lk_recurrence_values v = {.x = o->at[X].data,
                              .u = o->at[U].data,
                              .bias = gru ? o->at[BIAS].data : NULL,
                              .h0 = o->at[H0].data,
                              .c0 = lstm ? o->at[C0].data : NULL,
                              .y = o->at[Y].data,
                              .h = o->at[H].data,
                              .c = lstm ? o->at[C].data : NULL,
                              .kept = way == FORWARD ? NULL : o->at[KEPT].data};
    lk_recurrence_grads g = {.dy = o->at[DY].data,
                             .dh = o->at[DH].data,
                             .dc = lstm ? o->at[DC].data : NULL,
                             .dx = o->at[DX].data,
                             .ds = gru ? o->at[DS].data : NULL,
                             .before = o->at[BEFORE].data,
                             .dh0 = o->at[DH0].data,
                             .dc0 = lstm ? o->at[DC0].data : NULL};
    if (way == BY_DEFINITION) {
        lk__ref_recurrence_forward(&o->r, &v);
        lk__ref_recurrence_backward(&o->r, &v, &g);
        return;
    }
    ASSERT_OK(lk_recurrence_forward(&o->r, &v, o->room.data));
    if (way == BOTH)
        ASSERT_OK(lk_recurrence_backward(&o->r, &v, &g, o->room.data));
}

static void check_everywhere(lk_recurrence r)
{
    struct operands want = operands_new(r);
    passes(&want, BY_DEFINITION);
    for (int isa = 0; isa < LK_N_ISAS; isa++)
        for (int threads = 1; threads <= 4 && lk_isa_is_available((lk_isa)isa); threads++) {
            ASSERT_OK(lk_isa_set((lk_isa)isa));
            all_threads_set(threads);
            struct operands got = operands_new(r);
            passes(&got, BOTH);
            for (int i = INPUTS; i < ARRAYS; i++)
                ASSERT_SAME_BITS(got.at[i].data, want.at[i].data, got.bytes[i]);
            passes(&got, FORWARD);
            for (int i = Y; i <= C; i++)
                ASSERT_SAME_BITS(got.at[i].data, want.at[i].data, got.bytes[i]);
            operands_free(&got);
        }
    operands_free(&want);
}

TEST(every_way_gives_the_same_bits)
{
    static const int64_t sizes[][3] = {{1, 1, 1},  {2, 3, 4},   {5, 2, 8},   {13, 3, 31},
                                       {7, 2, 33}, {49, 2, 16}, {100, 2, 5}, {6, 30, 64}};
    lk_isa best;
    ASSERT_OK(lk_isa_now(&best));
    for (int cell = 0; cell < LK_N_CELLS; cell++)
        for (int dtype = LK_F32; dtype <= LK_F64; dtype++)
            for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
                for (int64_t piece = 0; piece <= 3; piece += 3)
                    check_everywhere((lk_recurrence){.dtype = (lk_dtype)dtype,
                                                     .cell = (lk_cell)cell,
                                                     .reverse = s % 2 == 1,
                                                     .forget = 1,
                                                     .samples = sizes[s][0],
                                                     .times = sizes[s][1],
                                                     .units = sizes[s][2],
                                                     .piece = piece});
    ASSERT_OK(lk_isa_set(best));
    ASSERT_OK(lk_threads_set(0));
}

/* ds u' of 5 units by pieces: what is lost beside a large number shows the order of the sum. */
TEST(pieces_are_chains_joined_by_the_tree)
{
    enum { UNITS = 5 };
    const float big = 0x1p24F, ds[UNITS] = {big, 1, 1, 1, -big};
    float u[UNITS * UNITS], zeros[UNITS] = {0}, y[UNITS], h[UNITS], dx[UNITS], before[UNITS],
                            dh0[UNITS];
    lk_recurrence r = {.dtype = LK_F32, .samples = 1, .times = 1, .units = UNITS};
    lk_recurrence_values v = {.x = zeros, .u = u, .h0 = zeros, .y = y, .h = h};
    lk_recurrence_grads g = {.dy = ds, .dx = dx, .before = before, .dh0 = dh0};
    for (int i = 0; i < UNITS * UNITS; i++)
        u[i] = 1;
    for (r.piece = 0; r.piece <= UNITS; r.piece++) {
        int64_t bytes;
        ASSERT_OK(lk_recurrence_room(&r, &bytes));
        struct guard room = guard_new((size_t)bytes);
        ASSERT_OK(lk_recurrence_forward(&r, &v, room.data));
        ASSERT_OK(lk_recurrence_backward(&r, &v, &g, room.data));
        /* 2: ((big + 1) + (1 + 1)) - big; 3: ((big + 1) + 1) + (1 - big); 4: (((big + 1) + 1) + 1) - big */
        const float want[UNITS + 1] = {0, 2, 2, 1, 0, 0};
        for (int i = 0; i < UNITS; i++)
            ASSERT_EQ(dh0[i], want[r.piece]);
        guard_free(&room);
    }
}

/* Large arguments of the gates: slopes are 0, and no sum makes a NaN of them. */
TEST(gates_that_are_shut_or_open_stay_finite)
{
    for (int cell = 0; cell < LK_N_CELLS; cell++) {
        lk_recurrence r = {
            .dtype = LK_F32, .cell = (lk_cell)cell, .samples = 3, .times = 4, .units = 5};
        struct operands o = operands_new(r);
        for (size_t i = 0; i < o.bytes[X] / sizeof(float); i++)
            ((float *)o.at[X].data)[i] *= 1e30F;
        passes(&o, BOTH);
        for (int i = Y; i < ARRAYS; i++) {
            const bool there = i == DS              ? cell == LK_CELL_GRU
                               : i == C || i == DC0 ? cell == LK_CELL_LSTM
                                                    : true;
            for (size_t k = 0; there && k < o.bytes[i] / sizeof(float); k++)
                ASSERT_TRUE(isfinite(((float *)o.at[i].data)[k]));
        }
        operands_free(&o);
    }
}

TEST(what_is_not_there_is_named)
{
    lk_recurrence r = {.dtype = LK_F32, .cell = LK_CELL_LSTM, .samples = 2, .times = 3, .units = 4};
    lk_recurrence_values v = {0};
    lk_recurrence_grads g = {0};
    int64_t bytes;
    ASSERT_FAILS(lk_recurrence_forward(NULL, &v, NULL), LK_EINVAL, "r is NULL");
    ASSERT_FAILS(lk_recurrence_forward(&r, &v, NULL), LK_EINVAL, "u is NULL");
    v.u = v.h0 = v.x = v.y = v.h = &bytes;
    ASSERT_FAILS(lk_recurrence_forward(&r, &v, NULL), LK_EINVAL, "c0 of an lstm is NULL");
    v.c0 = v.c = &bytes;
    ASSERT_FAILS(lk_recurrence_forward(&r, &v, NULL), LK_EINVAL, "room is NULL");
    ASSERT_FAILS(lk_recurrence_backward(&r, &v, &g, NULL), LK_EINVAL, "kept is NULL");
    v.kept = &bytes;
    ASSERT_FAILS(lk_recurrence_backward(&r, &v, NULL, NULL), LK_EINVAL, "g is NULL");
    ASSERT_FAILS(lk_recurrence_backward(&r, &v, &g, NULL), LK_EINVAL, "dh0, dx or before");
    r.dtype = LK_I64;
    ASSERT_FAILS(lk_recurrence_room(&r, &bytes), LK_EDTYPE, "needs f32 or f64");
    r.dtype = LK_F32;
    r.units = INT64_C(1) << 31;
    ASSERT_FAILS(lk_recurrence_room(&r, &bytes), LK_EOVERFLOW, "");
    r.units = -1;
    ASSERT_FAILS(lk_recurrence_room(&r, &bytes), LK_EINVAL, "must not be negative");
    r.units = 4;
    r.piece = -1;
    ASSERT_FAILS(lk_recurrence_room(&r, &bytes), LK_EINVAL, "4 units, by -1");
}

TEST(any_axis_may_be_empty)
{
    for (int cell = 0; cell < LK_N_CELLS; cell++)
        for (int zero = 0; zero < 3; zero++) {
            lk_recurrence r = {.dtype = LK_F64,
                               .cell = (lk_cell)cell,
                               .samples = zero == 0 ? 0 : 3,
                               .times = zero == 1 ? 0 : 3,
                               .units = zero == 2 ? 0 : 3};
            struct operands o = operands_new(r);
            passes(&o, BOTH);
            if (zero == 1) {
                ASSERT_SAME_BITS(o.at[H].data, o.at[H0].data, o.bytes[H]);
                ASSERT_SAME_BITS(o.at[DH0].data, o.at[DH].data, o.bytes[DH0]);
            }
            operands_free(&o);
        }
}
