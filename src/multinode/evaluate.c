/* Evaluators: each rank goes through its own batches, and what it finds is joined as a sum
 * (lk_multi_node_evaluate()) or gathered batch by batch (lk_generic_multi_node_evaluate()).  A program with
 * a loop of its own calls them, on the thread of its communicator.
 */
#include "base/memory/grow.h"
#include "coll/agree.h"
#include "multinode/iterator.h"

#include <lockstep/coll.h>
#include <lockstep/extra/alloc.h>
#include <lockstep/observe.h>

static lk_status iterator_check(lk_iterator *it)
{
    LK_CHECK(!it || !lk_iterator_repeats(it), LK_EINVAL,
             "the iterator repeats, so an evaluation would not end: make it with repeat=false");
    return LK_OK;
}

/* ---- sums ---- */

/* All batches of this rank.  Of one that all ranks get together none is left out, whatever becomes of the
 * others, so that no rank waits. */
static lk_status batches_add(lk_iterator *it, lk_evaluate_fn *evaluate, void *context,
                             lk_summary *summary)
{
    bool more = it != NULL, together = it && it->kind == LK_ITERATOR_MULTI_NODE;
    lk_status st = LK_OK;
    lk_batch batch;
    if (it)
        lk_iterator_reset(it);
    while (more && (st == LK_OK || together)) {
        LK_TRY(lk_iterator_next(it, &batch, &more));
        if (more && st == LK_OK)
            st = evaluate(context, &batch, summary);
    }
    return LK_TRACE(st);
}

lk_status lk_multi_node_evaluate(lk_comm *comm, lk_iterator *it, lk_evaluate_fn *evaluate,
                                 void *context, lk_summary *summary)
{
    lk_summary_clear(summary);
    LK_TRY(lk_agree(comm, iterator_check(it)));
    LK_TRY(lk_agree(comm, batches_add(it, evaluate, context, summary)));
    return LK_TRACE(lk_summary_join(summary, comm));
}

/* ---- results that are no sum ---- */

enum { NONE, RESULT, FAILED };

/* A generic evaluation on one rank. */
struct generic {
    lk_comm *comm;
    const lk_generic_evaluator *e;
    lk_iterator *it; /* NULL: there are no batches, or no more */
    int rank, size;
    int64_t round;
    uint8_t *state; /* [size] what each rank has in this round */
    int64_t *first; /* [size + 1] where its result begins */
    /* Of the root. */
    lk_batch_result *result;
    int64_t n, room;
    void **block; /* the results of each round */
    int64_t n_blocks, block_room;
};

/* The result of this rank's next batch; `*has` is false if it has no more. */
static lk_status local_result(struct generic *g, void **bytes, int64_t *n, bool *has)
{
    lk_batch batch;
    *has = false;
    if (!g->it)
        return LK_OK;
    LK_TRY(lk_iterator_next(g->it, &batch, has));
    if (!*has) {
        g->it = NULL;
        return LK_OK;
    }
    LK_TRY(g->e->calc_local(g->e->context, &batch, bytes, n));
    LK_CHECK(*n >= 0 && (*bytes || *n == 0), LK_EINVAL, "calc_local gives %lld bytes at %p",
             (long long)*n, *bytes);
    if (g->rank == g->e->root && g->e->progress_hook)
        g->e->progress_hook(g->e->context, &batch);
    return LK_OK;
}

/* Room on the root for the results of a round. */
static lk_status results_reserve(struct generic *g)
{
    if (g->rank != g->e->root)
        return LK_OK;
    LK_TRY(lk__grow(&g->block, &g->block_room, g->n_blocks + 1, sizeof *g->block));
    return LK_TRACE(lk__grow(&g->result, &g->room, g->n + g->size, sizeof *g->result));
}

/* Keep the results of a round: `block` is freed with the others. */
static void results_keep(struct generic *g, void *block)
{
    g->block[g->n_blocks++] = block;
    for (int r = 0; r < g->size; r++)
        if (g->state[r] == RESULT)
            g->result[g->n++] = (lk_batch_result){.batch = g->round,
                                                  .rank = r,
                                                  .bytes = (char *)block + g->first[r],
                                                  .n = g->first[r + 1] - g->first[r]};
}

/* One batch of each rank that has one; `*more` is false if none has.  A rank tells what became of it in the
 * same round, so that none asks for another batch, which all may have to ask for together. */
static lk_status round_do(struct generic *g, bool *more)
{
    void *bytes = NULL, *block = NULL;
    int64_t n = 0;
    bool has = false;
    lk_status st, own = local_result(g, &bytes, &n, &has);
    if (own == LK_OK)
        own = results_reserve(g);
    uint8_t state = own != LK_OK ? FAILED : has ? RESULT : NONE;
    LK_TRY_TO(done, lk_allgather(g->comm, &state, g->state, 1, LK_U8, "evaluation"));
    *more = false;
    for (int r = 0; r < g->size; r++) {
        if (g->state[r] == FAILED)
            LK_TRY_TO(done, lk_agree(g->comm, own));
        *more = *more || g->state[r] == RESULT;
    }
    if (*more)
        LK_TRY_TO(done,
                  lk_gather_bytes(g->comm, bytes, n, g->e->root, "results", &block, g->first));
    if (block)
        results_keep(g, block);
    g->round++;
done:
    lk_free(bytes);
    return st;
}

static lk_status generic_check(const struct generic *g)
{
    LK_TRY(iterator_check(g->it));
    LK_CHECK(g->e->root >= 0 && g->e->root < g->size, LK_EINVAL, "root %d of %d ranks", g->e->root,
             g->size);
    LK_CHECK(g->e->calc_local && g->e->aggregate, LK_EINVAL, "%s is NULL",
             g->e->calc_local ? "aggregate" : "calc_local");
    return LK_OK;
}

static lk_status generic_run(struct generic *g)
{
    lk_status own = LK_OK;
    bool more = true;
    LK_TRY(lk_agree(g->comm, generic_check(g)));
    LK_TRY(lk__agree_alloc(g->comm, &g->state, (size_t)g->size));
    LK_TRY(lk__agree_alloc(g->comm, &g->first, ((size_t)g->size + 1) * sizeof *g->first));
    if (g->it)
        lk_iterator_reset(g->it);
    while (more)
        LK_TRY(round_do(g, &more));
    if (g->rank == g->e->root)
        own = g->e->aggregate(g->e->context, g->result, g->n);
    return LK_TRACE(lk_agree(g->comm, own));
}

lk_status lk_generic_multi_node_evaluate(lk_comm *comm, lk_iterator *it,
                                         const lk_generic_evaluator *evaluator)
{
    lk_comm *alone = NULL;
    if (!comm)
        LK_TRY(lk_comm_open("self", &alone));
    struct generic g = {.comm = comm ? comm : alone, .e = evaluator, .it = it};
    g.rank = lk_comm_rank(g.comm);
    g.size = lk_comm_size(g.comm);
    lk_status st = generic_run(&g);
    for (int64_t i = 0; i < g.n_blocks; i++)
        lk_free(g.block[i]);
    lk_free(g.block);
    lk_free(g.result);
    lk_free(g.state);
    lk_free(g.first);
    lk_comm_close(alone);
    return LK_TRACE(st);
}
