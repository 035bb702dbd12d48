/* The loops of limits.c for one instruction set, by inclusion: LOOP_ISA and the macros behind it say
 * which, and are gone afterwards.  There is no guard. */

LOOP_TARGET static float NAMED(read, LOOP_ISA)(const float *x, int64_t n)
{
    enum { SUMS = 8, STEP = SUMS * LOOP_LANES };
    LOOP_VECTOR sum[SUMS];
    float lane[LOOP_LANES], total = 0;
#pragma GCC unroll 8
    for (int k = 0; k < SUMS; k++)
        sum[k] = LOOP_LOAD(x);
    for (int64_t i = 0; i + STEP <= n; i += STEP) {
#pragma GCC unroll 8
        for (int64_t k = 0; k < SUMS; k++)
            sum[k] = LOOP_ADD(sum[k], LOOP_LOAD(x + i + k * LOOP_LANES));
    }
#pragma GCC unroll 8
    for (int k = 0; k < SUMS; k++) {
        LOOP_STORE(lane, sum[k]);
        total += lane[0];
    }
    return total;
}

LOOP_TARGET static void NAMED(add, LOOP_ISA)(float *y, const float *x, int64_t n)
{
    enum { VECTORS = 4, STEP = VECTORS * LOOP_LANES };
    for (int64_t i = 0; i + STEP <= n; i += STEP) {
#pragma GCC unroll 4
        for (int64_t k = 0; k < VECTORS; k++) {
            float *at = y + i + k * LOOP_LANES;
            LOOP_STORE(at, LOOP_ADD(LOOP_LOAD(at), LOOP_LOAD(x + i + k * LOOP_LANES)));
        }
    }
}

LOOP_TARGET static float NAMED(multiply_add, LOOP_ISA)(const float *x)
{
    LOOP_VECTOR sum[CHAINS], factor = LOOP_LOAD(x);
    float lane[LOOP_LANES], total = 0;
#pragma GCC unroll 12
    for (int64_t k = 0; k < CHAINS; k++)
        sum[k] = LOOP_LOAD(x + k * LOOP_LANES); /* equal ones, but the compiler must not know */
    for (int i = 0; i < CHAIN_STEPS; i++) {
#pragma GCC unroll 12
        for (int k = 0; k < CHAINS; k++)
            sum[k] = LOOP_FMA(sum[k], factor, factor);
    }
#pragma GCC unroll 12
    for (int k = 0; k < CHAINS; k++) {
        LOOP_STORE(lane, sum[k]);
        total += lane[0];
    }
    return total;
}

static const loops NAMED(loops, LOOP_ISA) = {NAMED(read, LOOP_ISA), NAMED(add, LOOP_ISA),
                                             NAMED(multiply_add, LOOP_ISA), LOOP_LANES};

#undef LOOP_ISA
#undef LOOP_TARGET
#undef LOOP_LANES
#undef LOOP_VECTOR
#undef LOOP_LOAD
#undef LOOP_STORE
#undef LOOP_ADD
#undef LOOP_FMA
