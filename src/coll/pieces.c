/* Pieces and nodes: which parts of the fixed tree lie within a run. */
#include <lockstep/coll.h>

lk_run lk_run_of(int64_t total, int rank, int size)
{
    /* rank * total / size without the product: total = q * size + rest. */
    int64_t q = total / size, rest = total % size;
    int64_t first = rank * q + rank * rest / size, next = (rank + 1) * q + (rank + 1) * rest / size;
    return (lk_run){total, first, next - first};
}

int lk_run_nodes(lk_run run, lk_node *out)
{
    /* Depth first, the lower half first; the stack holds upper halves still to be looked at. */
    lk_node stack[64];
    int n_stack = 0, n = 0;
    int64_t last = run.first + run.n;
    if (run.n <= 0)
        return 0;
    lk_node at = {0, run.total};
    for (;;) {
        bool inside = run.first <= at.first && at.first + at.n <= last;
        bool outside = at.first >= last || at.first + at.n <= run.first;
        if (inside || outside) {
            if (inside && out)
                out[n] = at;
            n += inside;
            if (n_stack == 0)
                return n;
            at = stack[--n_stack];
            continue;
        }
        int64_t half = INT64_C(1) << (63 - __builtin_clzll((unsigned long long)(at.n - 1)));
        stack[n_stack++] = (lk_node){at.first + half, at.n - half};
        at.n = half;
    }
}
