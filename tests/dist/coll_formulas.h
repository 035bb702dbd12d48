/* What a collective call sends from one rank to another, by the formula of its algorithm, where each rank is
 * on a node of its own or all are on one; written from what an algorithm says it does, without the code that
 * makes schedules.
 *
 * n are the bytes of a vector, P the ranks, V the vectors that a rank gives: one for each subtree of its
 * pieces.  With powers of two and even shares, what one rank sends in all is
 *
 *     allreduce   doubling   log2 P n            allgather   of all parts: (P-1)/P n
 *                 halving    2 (P-1)/P n         alltoall    (P-1)/P n
 *                 direct     2 (P-1)/P n         barrier     nothing
 *                 tiers      2 (P-1)/P n
 *                 tree       n up but from its top, and n for each that a rank is above in a binomial tree
 *                 ring       n for each subtree of the pieces so far, and n round again
 *                 hierarchical   n to rank 0, which sends n to each
 *     reduce_scatter   direct   each rank's part of each vector, to it
 *                 halving    (P-1)/P n
 *                 tree       n up but from its top, which sends each its part
 *
 * On one node the last and tiers use shared memory, as other algorithms do that have no messages at all.
 */
#ifndef LK_TEST_COLL_FORMULAS_H
#define LK_TEST_COLL_FORMULAS_H

#include "harness.h"

#include <lockstep/coll.h>
#include <lockstep/pieces.h>

enum { FORMULA_RANKS = 16 };

/* A call as the program made it, on one of its ranks. */
typedef struct formula_call {
    lk_comm_call call;
    const char *algorithm; /* NULL: one without messages */
    bool one_node;
    int rank, size;
    int64_t elem, count;
    int64_t pieces, first[FORMULA_RANKS + 1];          /* of calls that reduce */
    int64_t gives[FORMULA_RANKS], gets[FORMULA_RANKS]; /* of alltoall; of others the counts */
} formula_call;

static inline int64_t formula_vectors(const formula_call *c, int r)
{
    lk_range own = {c->first[r], c->first[r + 1] - c->first[r]};
    return own.n == 0 ? 0 : lk_range_subtrees(c->pieces, own, NULL);
}

static inline int formula_holder(const formula_call *c, int64_t piece)
{
    int r = 0;
    while (c->first[r + 1] <= piece)
        r++;
    return r;
}

/* The joins of two halves of a subtree whose upper one is made by `from`, the lower by `to`. */
static inline int64_t formula_joins(const formula_call *c, lk_range at, int from, int to)
{
    if (at.n <= 1)
        return 0;
    int64_t half = lk_tree_half(at.n);
    lk_range lower = {at.first, half}, upper = {at.first + half, at.n - half};
    int64_t joins = formula_joins(c, lower, from, to) + formula_joins(c, upper, from, to);
    return joins + (formula_holder(c, upper.first) == from && formula_holder(c, lower.first) == to);
}

/* Whether `from` is above `to` in the binomial tree below `root`: it has its place without the last bit. */
static inline bool formula_above(const formula_call *c, int root, int from, int to)
{
    int place = (to - root + c->size) % c->size, above = (from - root + c->size) % c->size;
    return place > 0 && (place & (place - 1)) == above;
}

/* The elements of part i of n; those of tiers are whole lines of 16. */
static inline int64_t formula_part(int64_t count, int i, int n, bool lines)
{
    if (!lines)
        return lk_range_split(count, i, n).n;
    lk_range run = lk_range_split((count + 15) / 16, i, n);
    int64_t from = 16 * run.first, end = 16 * (run.first + run.n);
    return end <= count ? 16 * run.n : from < count ? count - from : 0;
}

/* What a rank still has after `steps` times giving half of it to its partner 1, 2, 4, ... ranks apart. */
static inline int64_t formula_half(const formula_call *c, int r, int steps, bool lines)
{
    int64_t first = 0, n = c->size, elements = c->count;
    for (int i = 0; i < steps; i++) {
        int upper = r >> i & 1;
        n /= 2;
        first += upper ? n : 0;
        elements = lines ? formula_part(elements, upper, 2, true)
                         : lk_range_split(c->count, first + n - 1, c->size).first +
                               lk_range_split(c->count, first + n - 1, c->size).n -
                               lk_range_split(c->count, first, c->size).first;
    }
    return elements;
}

/* The vectors that 2^steps ranks, of which r is one, have when they have joined what they can. */
static inline int64_t formula_joined(const formula_call *c, int r, int steps)
{
    int base = r >> steps << steps;
    lk_range own = {c->first[base], c->first[base + (1 << steps)] - c->first[base]};
    return own.n == 0 ? 0 : lk_range_subtrees(c->pieces, own, NULL);
}

/* Halves there and back.  In tiers the last two partners exchange all they have. */
static inline int64_t formula_halving(const formula_call *c, int from, int to, bool lines)
{
    for (int i = 0; 1 << i < c->size; i++) {
        if ((from ^ to) != 1 << i)
            continue;
        int64_t vectors = formula_joined(c, from, i);
        if (lines && 2 << i == c->size)
            return vectors * formula_half(c, from, i, true);
        return vectors * formula_half(c, to, i + 1, lines) + formula_half(c, from, i + 1, lines);
    }
    return 0;
}

static inline int64_t formula_direct(const formula_call *c, int from, int to, bool lines)
{
    if (lines && c->size == 2)
        return formula_vectors(c, from) * c->count;
    return formula_vectors(c, from) * formula_part(c->count, to, c->size, lines) +
           formula_part(c->count, from, c->size, lines);
}

static inline int64_t formula_ring(const formula_call *c, int from, int to)
{
    int64_t so_far = c->first[from + 1];
    if (to != (from + 1) % c->size)
        return 0;
    if (from == c->size - 1)
        return c->count;
    return c->count *
           (lk_range_subtrees(c->pieces, (lk_range){0, so_far}, NULL) + (from < c->size - 2));
}

static inline int64_t formula_allreduce(const formula_call *c, int from, int to)
{
    int apart = from ^ to, root = formula_holder(c, 0);
    if (strcmp(c->algorithm, "tree") == 0)
        return c->count * (formula_joins(c, (lk_range){0, c->pieces}, from, to) +
                           formula_above(c, root, from, to));
    if (strcmp(c->algorithm, "doubling") == 0)
        return (apart & (apart - 1)) == 0 ? c->count : 0;
    if (strcmp(c->algorithm, "halving") == 0)
        return formula_halving(c, from, to, false);
    if (strcmp(c->algorithm, "direct") == 0)
        return formula_direct(c, from, to, false);
    if (strcmp(c->algorithm, "ring") == 0)
        return formula_ring(c, from, to);
    if (strcmp(c->algorithm, "hierarchical") == 0)
        return c->count * (to == 0 ? formula_vectors(c, from) : from == 0);
    TEST_FAIL("no formula of allreduce %s", c->algorithm);
    return 0;
}

static inline int64_t formula_allgather(const formula_call *c, int from, int to)
{
    int64_t sum = 0;
    if (strcmp(c->algorithm, "direct") == 0)
        return c->gets[from];
    if (strcmp(c->algorithm, "ring") == 0) { /* all parts but those that the next one has */
        for (int r = 0; r < c->size; r++)
            sum += r == to ? 0 : c->gets[r];
        return to == (from + 1) % c->size ? sum : 0;
    }
    if (strcmp(c->algorithm, "doubling") == 0) {
        int apart = from ^ to;
        for (int r = from & -apart; r < (from & -apart) + apart; r++)
            sum += c->gets[r];
        return (apart & (apart - 1)) == 0 ? sum : 0;
    }
    TEST_FAIL("no formula of allgather %s", c->algorithm);
    return 0;
}

static inline int64_t formula_reduce_scatter(const formula_call *c, int from, int to)
{
    int apart = from ^ to, root = formula_holder(c, 0);
    int64_t sum = 0;
    if (strcmp(c->algorithm, "direct") == 0)
        return formula_vectors(c, from) * c->gets[to];
    if (strcmp(c->algorithm, "halving") == 0) { /* what ranks get that end up where `to` goes on */
        for (int r = 0; r < c->size; r++)
            sum += (r ^ to) % (2 * apart) == 0 ? c->gets[r] : 0;
        return (apart & (apart - 1)) == 0 ? sum : 0;
    }
    if (strcmp(c->algorithm, "tree") == 0) {
        for (int r = 0; r < c->size; r++)
            sum += c->gets[r];
        return sum * formula_joins(c, (lk_range){0, c->pieces}, from, to) +
               (from == root ? c->gets[to] : 0);
    }
    TEST_FAIL("no formula of reduce_scatter %s", c->algorithm);
    return 0;
}

/* Whether it is an allreduce of this name. */
static inline bool formula_is(const formula_call *c, const char *name)
{
    return c->call == LK_CALL_ALLREDUCE && c->algorithm && strcmp(c->algorithm, name) == 0;
}

/* Bytes from one rank to another; of alltoall one of them is this rank. */
static inline int64_t formula_between(const formula_call *c, int from, int to)
{
    int64_t elements = 0;
    if (from == to || !c->algorithm)
        return 0;
    switch (c->call) {
    case LK_CALL_ALLREDUCE: elements = formula_allreduce(c, from, to); break;
    case LK_CALL_ALLGATHER: elements = formula_allgather(c, from, to); break;
    case LK_CALL_REDUCE_SCATTER: elements = formula_reduce_scatter(c, from, to); break;
    case LK_CALL_ALLTOALL: elements = from == c->rank ? c->gives[to] : c->gets[from]; break;
    case LK_CALL_BARRIER: break;
    default: TEST_FAIL("no formula of %s", lk_comm_call_name(c->call));
    }
    return elements * c->elem;
}

/* What this rank sends and gets in the call.  Tiers go one of two ways, as links were measured: `halves`
 * says which, and is not asked for other algorithms. */
static inline int64_t formula_bytes(const formula_call *c, bool sent, bool halves)
{
    bool tiers = formula_is(c, "tiers");
    int64_t sum = 0;
    if (c->one_node && (tiers || formula_is(c, "hierarchical")))
        return 0;
    for (int r = 0; r < c->size; r++) {
        int from = sent ? c->rank : r, to = sent ? r : c->rank;
        if (r == c->rank)
            continue;
        if (tiers)
            sum += c->elem * (halves ? formula_halving(c, from, to, true)
                                     : formula_direct(c, from, to, true));
        else
            sum += formula_between(c, from, to);
    }
    return sum;
}

#endif /* LK_TEST_COLL_FORMULAS_H */
