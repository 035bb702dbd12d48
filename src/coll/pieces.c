/* Pieces and nodes: which parts of the fixed tree lie within a run. */
#include <lockstep/coll.h>

lk_run lk_run_of(int64_t total, int rank, int size)
{
    /* rank * total / size without the product: total = q * size + rest. */
    int64_t q = total / size, rest = total % size;
    int64_t first = rank * q + rank * rest / size, next = (rank + 1) * q + (rank + 1) * rest / size;
    return (lk_run){total, first, next - first};
}

/* Where the lower half of a node of n > 1 pieces ends. */
static int64_t half_of(int64_t n)
{
    return INT64_C(1) << (63 - __builtin_clzll((unsigned long long)(n - 1)));
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
        int64_t half = half_of(at.n);
        stack[n_stack++] = (lk_node){at.first + half, at.n - half};
        at.n = half;
    }
}

/* ---- one node for each rank ---- */

/* The tree cut into nodes of at most `most` pieces, from left to right; of those that have as many, the
 * first `spare` are halved. */
typedef struct cut {
    int64_t total, most, spare;
    int64_t *first;  /* where each begins; may be NULL */
    int64_t largest; /* of the nodes */
} cut;

/* Returns how many nodes there are; stops above `limit`. */
static int64_t cut_nodes(cut *c, int64_t limit)
{
    lk_node stack[64], at = {0, c->total};
    int n_stack = 0;
    int64_t n = 0, spare = c->spare;
    c->largest = 0;
    while (n <= limit) {
        bool halve = at.n == c->most && at.n > 1 && spare > 0;
        if (at.n > c->most || halve) {
            int64_t half = half_of(at.n);
            spare -= halve;
            stack[n_stack++] = (lk_node){at.first + half, at.n - half};
            at.n = half;
            continue;
        }
        if (c->first)
            c->first[n] = at.first;
        c->largest = at.n > c->largest ? at.n : c->largest;
        n++;
        if (n_stack == 0)
            break;
        at = stack[--n_stack];
    }
    return n;
}

void lk_run_one_node(int64_t total, int size, int64_t *first)
{
    cut best = {.total = total, .most = total};
    int64_t n = 1;
    for (;;) {
        cut finer = {.total = total, .most = best.most - 1};
        int64_t nodes = finer.most > 0 ? cut_nodes(&finer, size) : INT64_MAX;
        if (nodes > size)
            break;
        best.most = finer.largest;
        n = nodes;
    }
    best.first = first;
    best.spare = size - n;
    for (n = cut_nodes(&best, size); n <= size; n++)
        first[n] = total;
}
