/* Rows of A that are equally far apart: included once for each type of vectors, with VEC defined.
 *
 * Every third row has a pointer; an address is a pointer, and once or twice the distance.  Twelve rows
 * then take five registers, where a pointer for each would leave none for anything else.
 */
typedef struct V(spaced) {
    const char *third[(LK_MICRO_MR + 2) / 3];
    int64_t apart; /* bytes from one row to the next */
} V(spaced);

/* Moves all rows by n elements, which may be none: before every step of k, or the compiler would keep
 * what it computes for an address, for those of later steps. */
LK_INLINE void V(spaced_move)(V(spaced) * a, int64_t n, const int mr)
{
    LK_UNROLL
    for (int i = 0; 3 * i < mr; i++) {
        a->third[i] += n * (int64_t)sizeof(V(elem));
        LK_OPAQUE(a->third[i]);
    }
    LK_OPAQUE(a->apart);
}

/* mr rows from `rows` on, `ld` elements apart. */
LK_INLINE V(spaced) V(spaced_rows)(const V(elem) * rows, int64_t ld, const int mr)
{
    V(spaced) a = {.apart = ld * (int64_t)sizeof *rows};
    LK_UNROLL
    for (int i = 0; 3 * i < mr; i++)
        a.third[i] = (const char *)(rows + 3 * i * ld);
    return a;
}

/* Element k of row m; both are constants. */
LK_INLINE const V(elem) * V(spaced_at)(const V(spaced) * a, const int m, const int k)
{
    return (const V(elem) *)(a->third[m / 3] + m % 3 * a->apart) + k;
}
