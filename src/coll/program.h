/* A reduction program: the fixed tree over the subtrees that ranks give, as a program for a stack:
 *
 *     push leaf      its value becomes the top
 *     with leaf      top = top op leaf
 *     join           the second = second op top, which is gone
 *
 * For 4 ranks with a piece each: push 0, with 1, push 2, with 3, join.  If some of the ranks give their
 * subtrees only, what cannot be joined stays on the stack: several sums.
 */
#ifndef LK_COLL_PROGRAM_H
#define LK_COLL_PROGRAM_H

#include "coll/coll.h"

enum { LK_PROGRAM_LEAVES = 64, LK_PROGRAM_DEPTH = 10, LK_PROGRAM_BLOCK = 2048 };

typedef struct lk__program {
    int64_t pieces; /* that it is for; 0: none yet */
    int n_leaves, n_ops;
    int n_sums; /* that are on the stack in the end: 1 if all pieces are there */
    uint8_t op[2 * LK_PROGRAM_LEAVES];   /* lk__op */
    uint8_t leaf[2 * LK_PROGRAM_LEAVES]; /* of push and with */
    uint8_t rank[LK_PROGRAM_LEAVES];     /* who gives a leaf */
    uint8_t index[LK_PROGRAM_LEAVES];    /* its number among those of that rank */
} lk__program;

/** Write the program of a case; false if it has too many leaves, or needs too deep a stack. */
bool lk__program_make(const lk__coll_args *k, lk__program *p);

/** The same for `size` ranks whose ranges begin at first [size + 1]; NULL: lk_range_split(). */
bool lk__program_runs(int64_t pieces, const int64_t *first, int size, lk__program *p);

/** The same for the ranks of one node of the communicator only, `node` as lk__world.node has it;
 * p->rank counts them.  `sums` [LK_PROGRAM_DEPTH]: the subtrees that come out, in order. */
bool lk__program_node(const lk__coll_args *k, int node, lk__program *p, lk_range *sums);

/** What is joined, and into what. */
typedef struct lk__eval {
    const lk__program *program;
    lk_reduce_op op;
    lk_dtype work;
    int64_t elem, pieces;
    unsigned char *leaf[LK_PROGRAM_LEAVES]; /* values of the leaves */
    bool over;                              /* leaves may be overwritten: the sum is in leaf[0] */
    bool apart;                             /* out[0] is none of them: the sum is made there */
    unsigned char
        *out[16]; /* where the sum is wanted, which may be leaf[0]; of several sums each */
    int n_out;
} lk__eval;

/** Elements [from, from + count), block by block. */
lk_status lk__program_run(const lk__eval *e, int64_t from, int64_t count) LK_NODISCARD;

#endif /* LK_COLL_PROGRAM_H */
