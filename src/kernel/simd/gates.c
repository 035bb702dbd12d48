/* The gates of recurrent cells in one pass each, which the compiler turns into vectors: every operation is
 * written and rounded on its own, so the bits do not depend on how. */
#include "kernel/gates.h"

#include "kernel/simd/math/f32.h"
#include "kernel/simd/math/f64.h"
#include "kernel/simd/vec.h"

#define T float
#define NAME(name) LK_CAT(name, _f32)
#define MATH(name) LK_CAT(f32_, name)
#include "kernel/simd/gates_type.h"
#undef MATH
#undef NAME
#undef T

#define T double
#define NAME(name) LK_CAT(name, _f64)
#define MATH(name) LK_CAT(f64_, name)
#include "kernel/simd/gates_type.h"
#undef MATH
#undef NAME
#undef T

#define CELLS(pass, type)                                                         \
    {                                                                             \
        [LK_CELL_RNN] = rnn_##pass##_##type, [LK_CELL_GRU] = gru_##pass##_##type, \
        [LK_CELL_LSTM] = lstm_##pass##_##type                                     \
    }

const lk__gates_table LK_ISA(lk__gates) = {
    .forward = {[LK_F32] = CELLS(forward, f32), [LK_F64] = CELLS(forward, f64)},
    .backward = {[LK_F32] = CELLS(backward, f32), [LK_F64] = CELLS(backward, f64)},
    .add = {[LK_F32] = add_f32, [LK_F64] = add_f64},
};
