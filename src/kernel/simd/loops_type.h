/* The loops of loops.c for the element type T; included there once per type. */

/* x^y log x, 0 where x^y is 0 and where x = y = 0. */
LK_MATH T MATH(pow_log)(T x, T y)
{
    T power = MATH(pow)(x, y), log_x = power == 0 ? 0 : MATH(log)(x);
    T at_zero = x == 0 ? power : 0;
    return power * (at_zero == 1 ? 0 : log_x);
}

/* The elements of as many inputs as an expression has. */
#define LOAD_0
#define LOAD_1 const T a = x0[i];
#define LOAD_2 LOAD_1 LOAD_OTHERS_2
#define LOAD_3 LOAD_1 LOAD_OTHERS_3
#define LOAD_OTHERS_1
#define LOAD_OTHERS_2 const T b = x1[i];
#define LOAD_OTHERS_3 LOAD_OTHERS_2 const T c = x2[i];

#define LOOP(kind, code, first_type, load, expr)                              \
    static void NAME(code)(const lk__operands *o)                             \
    {                                                                         \
        const first_type *x0 = o->x[0];                                       \
        const T *x1 = o->x[1], *x2 = o->x[2], p = (T)o->p[0], q = (T)o->p[1]; \
        const int64_t n = o->n;                                               \
        (void)x0, (void)x1, (void)x2, (void)p, (void)q;                       \
        kind(T, 0, n, load, expr)                                             \
    }

#define X(code, n_in, expr) LOOP(LK_TWO_LOOPS, code, T, LOAD_##n_in, expr)
LK__LOOP_MOVE_MAP(X)
#undef X
#define X(code, n_in, expr) LOOP(LK_LOOP, code, T, LOAD_##n_in, expr)
LK__LOOP_MAP(X)
#undef X

/* Powers a block at a time: where all bases are positive and finite, without the special cases.
 * Otherwise the exponent is written out as if it were one more input: of what does not change in a loop
 * the compiler makes branches. */
#define BASES_a x0
#define BASES_b x1
#define POWER_LOOP(code, load, base, expr)                                                       \
    static void NAME(code)(const lk__operands *o)                                                \
    {                                                                                            \
        T spread[SPREAD];                                                                        \
        const T *x0 = o->x[0], *x1 = o->x[1], p = (T)o->p[0], q = (T)o->p[1];                    \
        (void)x1, (void)p;                                                                       \
        for (int i = 0; i < SPREAD; i++)                                                         \
            spread[i] = q;                                                                       \
        for (int64_t first = 0; first < o->n; first += SPREAD) {                                 \
            const int64_t last = o->n - first < SPREAD ? o->n : first + SPREAD;                  \
            int usual = q - q == 0;                                                              \
            for (int64_t i = first; i < last; i++)                                               \
                usual &= (BASES_##base[i] > 0) & (BASES_##base[i] < (T)INFINITY);                \
            if (usual)                                                                           \
                LK_LOOP(T, first, last, load const T power = MATH(pow_usual)(base, q);, expr)    \
            else                                                                                 \
                LK_LOOP(T, first, last, load const T power = MATH(pow)(base, spread[i - first]); \
                        , expr)                                                                  \
        }                                                                                        \
    }

#define X(code, n_in, base, expr) POWER_LOOP(code, LOAD_##n_in, base, expr)
LK__LOOP_POWER_MAP(X)
#undef X

/* Both outputs, of which the expression writes the second to `second`. */
#define X(code, n_in, expr)                       \
    static void NAME(code)(const lk__operands *o) \
    {                                             \
        const T *x0 = o->x[0];                    \
        T *y = o->y, *z = o->z;                   \
        const int64_t n = o->n;                   \
        LK_INDEPENDENT                            \
        for (int64_t i = 0; i < n; i++) {         \
            T second;                             \
            LOAD_##n_in y[i] = (expr);            \
            z[i] = second;                        \
        }                                         \
    }
LK__LOOP_PAIR_MAP(X)
#undef X

#define X(code, type, n_in, expr) \
    LOOP(LK_TWO_LOOPS, code, type, const type m = x0[i]; LOAD_OTHERS_##n_in, expr)
LK__LOOP_TYPED_MAP(X)
#undef X

/* Maps that have loops already. */
#define X(code, name, formula)                           \
    static void NAME(code)(const lk__operands *o)        \
    {                                                    \
        LK_ISA(lk__maps1).map[DTYPE][LK_MAP1_##code](o); \
    }
LK_MAP1_MAP(X)
#undef X

#define X(code, name, formula)                           \
    static void NAME(code)(const lk__operands *o)        \
    {                                                    \
        LK_ISA(lk__maps2).map[DTYPE][LK_MAP2_##code](o); \
    }
LK_MAP2_MAP(X)
#undef X

#undef POWER_LOOP
#undef BASES_b
#undef BASES_a
#undef LOOP
#undef LOAD_OTHERS_3
#undef LOAD_OTHERS_2
#undef LOAD_OTHERS_1
#undef LOAD_3
#undef LOAD_2
#undef LOAD_1
#undef LOAD_0
