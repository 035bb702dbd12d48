/* lk__program: write the tree as a reduction program, and run it on stretches that stay in the first
 * cache. Algorithms in shared memory and the trainer's groups run them, each rank on its own part.
 */
#include "coll/program.h"

#include "base/fpenv.h"

#include <string.h>

enum { PUSH, WITH, JOIN };

struct writer {
    lk__program *p;
    lk_range leaf[LK_PROGRAM_LEAVES], stack[LK_PROGRAM_LEAVES];
    int at, depth, deepest;
};

static void emit(lk__program *p, int op, int leaf)
{
    p->op[p->n_ops] = (uint8_t)op;
    p->leaf[p->n_ops++] = (uint8_t)leaf;
}

static bool is_leaf(const struct writer *w, lk_range at)
{
    const lk_range *next = &w->leaf[w->at];
    return w->at < w->p->n_leaves && next->first == at.first && next->n == at.n;
}

/* The leaves within a subtree; whether they are all of it, and its value is on top. */
static bool write_node(struct writer *w, lk_range at)
{
    if (w->at == w->p->n_leaves || w->leaf[w->at].first >= at.first + at.n)
        return false;
    if (is_leaf(w, at)) {
        emit(w->p, PUSH, w->at++);
        w->stack[w->depth] = at;
        w->deepest = ++w->depth > w->deepest ? w->depth : w->deepest;
        return true;
    }
    int64_t half = lk_tree_half(at.n);
    lk_range upper = {at.first + half, at.n - half};
    bool lower = write_node(w, (lk_range){at.first, half});
    if (lower && is_leaf(w, upper)) {
        emit(w->p, WITH, w->at++);
    } else {
        if (!write_node(w, upper) || !lower)
            return false;
        emit(w->p, JOIN, 0);
        w->depth--;
    }
    w->stack[w->depth - 1] = at;
    return true;
}

static void begin(struct writer *w, lk__program *p)
{
    *w = (struct writer){.p = p};
    p->n_ops = p->n_leaves = 0;
    p->pieces = 0;
}

/* The next n leaves are those of rank r. */
static void leaves_add(lk__program *p, int r, int64_t n)
{
    for (int i = 0; i < n; i++, p->n_leaves++) {
        p->rank[p->n_leaves] = (uint8_t)r;
        p->index[p->n_leaves] = (uint8_t)i;
    }
}

static bool end(struct writer *w, int64_t pieces)
{
    write_node(w, (lk_range){0, pieces});
    w->p->pieces = pieces;
    w->p->n_sums = w->depth;
    return w->deepest <= LK_PROGRAM_DEPTH;
}

bool lk__program_make(const lk__coll_args *k, lk__program *p)
{
    struct writer w;
    begin(&w, p);
    for (int r = 0; r < k->size; r++) {
        int room = LK_PROGRAM_LEAVES - p->n_leaves;
        int64_t n = lk__coll_args_subtrees(k, r, w.leaf + p->n_leaves, room);
        if (n > room)
            return false;
        leaves_add(p, r, n);
    }
    return end(&w, k->pieces);
}

bool lk__program_runs(int64_t pieces, const int64_t *first, int size, lk__program *p)
{
    struct writer w;
    lk_range node[LK_MAX_SUBTREES];
    begin(&w, p);
    for (int r = 0; r < size; r++) {
        lk_range range = lk_range_split(pieces, r, size);
        if (first)
            range = (lk_range){first[r], first[r + 1] - first[r]};
        int n = lk_range_subtrees(pieces, range, node);
        if (n > LK_PROGRAM_LEAVES - p->n_leaves)
            return false;
        memcpy(w.leaf + p->n_leaves, node, (size_t)n * sizeof *node);
        leaves_add(p, r, n);
    }
    return end(&w, pieces);
}

bool lk__program_node(const lk__coll_args *k, int node, lk__program *p, lk_range *sums)
{
    struct writer w;
    int member = 0;
    begin(&w, p);
    for (int r = 0; r < k->size; r++) {
        if (k->comm->w->node[k->comm->member[r]] != node)
            continue;
        int room = LK_PROGRAM_LEAVES - p->n_leaves;
        int64_t n = lk__coll_args_subtrees(k, r, w.leaf + p->n_leaves, room);
        if (n > room)
            return false;
        leaves_add(p, member++, n);
    }
    if (!end(&w, k->pieces))
        return false;
    memcpy(sums, w.stack, (size_t)p->n_sums * sizeof *sums);
    return true;
}

/* One block: where the sums are, [p->n_sums] of `stack`; what is pushed is copied to `room`. */
static lk_status run_block(const lk__eval *e, int64_t from, int64_t n, unsigned char *const *room,
                           unsigned char **stack)
{
    const lk__program *p = e->program;
    int top = -1;
    int64_t at = from * e->elem, bytes = n * e->elem;
    for (int i = 0; i < p->n_ops; i++) {
        unsigned char *leaf = e->leaf[p->leaf[i]] + at;
        switch (p->op[i]) {
        case PUSH:
            top++;
            stack[top] = e->over ? leaf : room[top];
            if (stack[top] != leaf)
                memcpy(stack[top], leaf, (size_t)bytes);
            break;
        case WITH: LK_TRY(lk__reduce_op_join_part(e->op, e->work, n, stack[top], leaf)); break;
        default:
            LK_TRY(lk__reduce_op_join_part(e->op, e->work, n, stack[top - 1], stack[top]));
            top--;
            break;
        }
    }
    return p->n_sums == 1 ? lk__reduce_op_finish(e->op, e->work, n, e->pieces, stack[0]) : LK_OK;
}

lk_status lk__program_run(const lk__eval *e, int64_t from, int64_t count)
{
    LK_FP_GUARD();
    _Alignas(64) unsigned char own[LK_PROGRAM_DEPTH][LK_PROGRAM_BLOCK];
    int64_t block = LK_PROGRAM_BLOCK / e->elem, end = from + count;
    bool one = e->program->n_sums == 1;
    if (lk__reduce_op_rounds(e->op, e->work))
        LK_TRY(LK_FP_CHECK());
    unsigned char *room[LK_PROGRAM_DEPTH], *stack[LK_PROGRAM_DEPTH];
    for (int i = 0; i < LK_PROGRAM_DEPTH; i++)
        stack[i] = room[i] = own[i];
    for (int64_t n; from < end; from += n) {
        n = end - from < block ? end - from : block;
        if (e->apart)
            room[0] = e->out[0] + from * e->elem;
        LK_TRY(run_block(e, from, n, room, stack));
        for (int i = 0; i < e->n_out; i++) {
            unsigned char *out = e->out[i] + from * e->elem, *sum = stack[one ? 0 : i];
            if (out != sum)
                memcpy(out, sum, (size_t)(n * e->elem));
        }
    }
    return LK_OK;
}
