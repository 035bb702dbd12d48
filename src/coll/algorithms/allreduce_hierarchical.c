/* allreduce, hierarchical: to the first rank of each node, from there to the first of all, and back.
 *
 *     nodes   [0 1 2] [3 4 5]        1, 2 ─► 0 and 4, 5 ─► 3: each merges what it has;
 *                                    3 ─► 0 merges all, ─► 3; 0 ─► 1, 2 and 3 ─► 4, 5
 *
 * A leader merges the subtrees of its ranks' pieces as far as they go and sends on what remains, one
 * vector at powers of two of neighbouring ranks.  So one message a node crosses between nodes each way.
 * Inside the nodes it is done in shared memory (within.h), else by messages.  Any ranks on any nodes,
 * any pieces; not f16 and bf16.
 *
 * Cost: 2 Y alpha_far + 2 Y n beta_far + Y n gamma + 0.8 X alpha_near + n (0.9 beta_near + gamma), X
 * ranks on each of Y nodes; by messages 2 X alpha_near + X n beta_near + X n gamma inside: for short
 * vectors on few nodes.
 */
#include "coll/shm/within.h"

#include <lockstep/extra/alloc.h>

#include <stdlib.h>

static double hierarchical_cost(const lk__coll_args *k, const lk__rates *r)
{
    double n = (double)k->bytes, nodes = lk_comm_nodes(k->comm);
    double near = k->size / nodes;
    if (lk__within_can(k))
        return 2 * nodes * (r->alpha + n * r->beta) + nodes * n * r->gamma + lk__within_cost(k);
    return (near * 0.2 + 2 * nodes) * r->alpha + (near * 0.2 + 2 * nodes) * n * r->beta +
           k->size * n * r->gamma;
}

static int node_of(const lk__coll_args *k, int rank)
{
    return k->comm->w->node[k->comm->member[rank]];
}

/* The first rank on the node of `rank`. */
static int leader_of(const lk__coll_args *k, int rank)
{
    int leader = 0;
    while (node_of(k, leader) != node_of(k, rank))
        leader++;
    return leader;
}

static int leaf_order(const void *a, const void *b)
{
    const lk__leaf *x = a, *y = b;
    return x->at.first < y->at.first ? -1 : x->at.first > y->at.first;
}

/* Leaves of one rank behind `leaf`, to be received from it; its own are copied. */
static lk_status leaves_of_rank(const lk__coll_args *k, lk__schedule *s, int r, lk__leaf *leaf,
                                int64_t *n)
{
    lk_range node[LK_MAX_SUBTREES];
    int64_t m = lk__coll_args_subtrees(k, r, node, LK_MAX_SUBTREES);
    for (int64_t i = 0; i < m; i++) {
        lk__leaf *l = &leaf[(*n)++];
        l->at = node[i];
        if (!s)
            continue;
        LK_TRY(lk__schedule_room(s, k->bytes, &l->data));
        if (r == k->rank)
            LK_TRY(lk__schedule_copy(s, l->data, lk__coll_args_in(k) + i * k->stride, k->bytes));
        else
            LK_TRY(lk__schedule_recv(s, r, l->data, k->bytes));
    }
    return LK_OK;
}

/* What the leader of a node has once it has merged; with a schedule it is this rank. */
static lk_status leaves_of_node(const lk__coll_args *k, lk__schedule *s, int leader, lk__leaf *leaf,
                                int64_t *n)
{
    *n = 0;
    for (int r = 0; r < k->size; r++)
        if (node_of(k, r) == node_of(k, leader))
            LK_TRY(leaves_of_rank(k, s, r, leaf, n));
    if (s)
        LK_TRY(lk__schedule_wait(s));
    return lk__schedule_merge(s, k, k->c.count, leaf, n);
}

/* Rank 0, which leads its node: the others' leaves join its own. */
static lk_status top(const lk__coll_args *k, lk__schedule *s, lk__leaf *leaf, int64_t n)
{
    for (int r = 1; r < k->size; r++) {
        if (leader_of(k, r) != r)
            continue;
        int64_t m;
        LK_TRY(leaves_of_node(k, NULL, r, leaf + n, &m));
        for (int64_t i = 0; i < m; i++, n++) {
            LK_TRY(lk__schedule_room(s, k->bytes, &leaf[n].data));
            LK_TRY(lk__schedule_recv(s, r, leaf[n].data, k->bytes));
        }
    }
    LK_TRY(lk__schedule_wait(s));
    qsort(leaf, (size_t)n, sizeof *leaf, leaf_order);
    LK_TRY(lk__schedule_merge(s, k, k->c.count, leaf, &n));
    LK_TRY(lk__schedule_copy(s, k->c.out, leaf[0].data, k->bytes));
    return lk__schedule_finish(s, k->c.out, k->c.count);
}

/* In shared memory the leader joins all of its node's vectors, and in the end all copy its result. */
static lk__cuts cuts_of(const lk__coll_args *k)
{
    lk__cuts cuts = {.n = {k->c.count}};
    return cuts;
}

static lk_status room(void *context, int64_t bytes, void *out)
{
    return lk__schedule_room(context, bytes, out);
}

/* The leader's leaves, once they are joined in shared memory. */
static lk_status leaves_within(const lk__coll_args *k, lk__schedule *s, lk__leaf *leaf, int64_t *n)
{
    lk__cuts cuts = cuts_of(k);
    lk__held held;
    LK_TRY(lk__within_reduce(k, s, &cuts, &(lk__rooms){room, s}, &held));
    for (*n = 0; *n < held.n_vectors; ++*n)
        leaf[*n] = (lk__leaf){held.node[*n], held.vector[*n]};
    return LK_OK;
}

static lk_status up(const lk__coll_args *k, lk__schedule *s, lk__leaf *leaf)
{
    int leader = leader_of(k, k->rank);
    bool within = lk__within_can(k);
    int64_t n = 0;
    if (within)
        LK_TRY(leaves_within(k, s, leaf, &n));
    if (within && k->rank != leader)
        return LK_OK;
    if (k->rank != leader) {
        for (int64_t i = 0; i < k->n_vectors; i++)
            LK_TRY(lk__schedule_send(s, leader, lk__coll_args_in(k) + i * k->stride, k->bytes));
        return lk__schedule_wait(s);
    }
    if (!within)
        LK_TRY(leaves_of_node(k, s, leader, leaf, &n));
    if (k->rank == 0)
        return top(k, s, leaf, n);
    for (int64_t i = 0; i < n; i++)
        LK_TRY(lk__schedule_send(s, 0, leaf[i].data, k->bytes));
    return lk__schedule_wait(s);
}

static lk_status down(const lk__coll_args *k, lk__schedule *s)
{
    int leader = leader_of(k, k->rank), from = k->rank == leader ? 0 : leader;
    bool within = lk__within_can(k);
    if (k->rank > 0 && (!within || k->rank == leader)) {
        LK_TRY(lk__schedule_recv(s, from, k->c.out, k->bytes));
        LK_TRY(lk__schedule_wait(s));
    }
    for (int r = 1; r < k->size && k->rank == leader; r++) {
        int above = leader_of(k, r);
        bool mine = r == above ? k->rank == 0 : above == k->rank && !within;
        if (mine && r != k->rank)
            LK_TRY(lk__schedule_send(s, r, k->c.out, k->bytes));
    }
    lk__cuts cuts = cuts_of(k);
    if (within)
        LK_TRY(lk__within_gather(k, s, &cuts));
    return LK_OK;
}

static lk_status hierarchical_schedule(const lk__coll_args *k, lk__schedule *s)
{
    lk_status st;
    lk__leaf *leaf = NULL;
    int64_t n = 0;
    for (int r = 0; r < k->size; r++)
        n += lk__coll_args_subtrees(k, r, NULL, 0);
    LK_TRY(lk_alloc_zero(&leaf, n, sizeof *leaf));
    LK_TRY_TO(done, up(k, s, leaf));
    LK_TRY_TO(done, down(k, s));
done:
    lk_free(leaf);
    return st;
}

const lk__coll lk__coll_allreduce_hierarchical = {
    .call = LK_CALL_ALLREDUCE,
    .name = "hierarchical",
    .summary = "to the first rank of each node, then between these, and back",
    .uses = LK__COLL_WITHIN,
    .needs = "any dtype but f16 and bf16",
    .eligible = lk__tree_eligible,
    .cost = hierarchical_cost,
    .schedule = hierarchical_schedule};
