/* Segments of lk_recompute() that communicate with each other: the generator, and one rank's part.
 *
 * They stand at one place of the list, as a collective does: nothing leads out of one of them and back
 * into another.
 */
#include "segments.h"

#include <lockstep/ops.h>

void program_segments(struct program *p, uint64_t *random)
{
    int in[MAX_RANKS], length = -1, root = (int)program_random(random, (uint64_t)p->size);
    enum way way = (enum way)program_random(random, N_WAYS);
    for (int r = 0; r < p->size; r++) {
        in[r] = -1;
        if (way != WAY_ALLREDUCE && r != root && program_random(random, 3) == 0)
            continue;
        in[r] = program_pick(p, random, r, length, false);
        length = p->value[in[r]].length;
    }
    struct instruction *n = program_add(p, SEGMENTS, -1, 0);
    n->root = root;
    n->way = way;
    n->depth = 1 + (int)program_random(random, 2);
    for (int r = 0; r < p->size; r++) {
        n->in[r] = in[r];
        if (in[r] >= 0)
            n->out[r] = program_value(p, r, length, COMPUTED,
                                      way == WAY_ALLREDUCE || r == root ? p->size : 1);
    }
}

/* Those who send to the root. */
static int senders(const struct program *p, const struct instruction *n, int *rank)
{
    int count = 0;
    for (int r = 0; r < p->size; r++)
        if (r != n->root && n->in[r] >= 0)
            rank[count++] = r;
    return count;
}

/* The root's values, each from any rank unless waitany is to choose, are added to its own. */
static lk_status receive(const struct program_segment *g, lk_var *sum)
{
    const struct instruction *n = g->n;
    int from[MAX_RANKS], which = 0, count = senders(g->p, n, from);
    lk_shape shape = lk_shape_of(*sum);
    lk_var handle[MAX_RANKS], got;
    for (int i = 0; n->way != WAY_RECV && i < count; i++)
        LK_TRY(lk_dist_irecv(g->tape, g->comm, n->way == WAY_WAITANY ? from[i] : LK_ANY_RANK,
                             g->tag, LK_F64, shape, "s", &handle[i]));
    for (int i = 0; i < count; i++) {
        if (n->way == WAY_RECV)
            LK_TRY(lk_dist_recv(g->tape, g->comm, LK_ANY_RANK, g->tag, LK_F64, shape, "s", &got));
        else if (n->way == WAY_IRECV)
            LK_TRY(lk_dist_wait(handle[count - 1 - i], &got));
        else
            LK_TRY(lk_dist_waitany(handle, count, &which, &got));
        if (n->way == WAY_WAITANY)
            handle[which] = LK_NO_VAR;
        LK_TRY(lk_add(*sum, got, sum));
    }
    return LK_OK;
}

static lk_status innermost(const struct program_segment *g, lk_var *out)
{
    int rank = lk_comm_rank(g->comm);
    LK_TRY(program_in_segment(g->x, out));
    if (g->n->way == WAY_ALLREDUCE)
        LK_TRY(lk_dist_allreduce(g->comm, *out, LK_REDUCE_SUM, "s", out));
    else if (rank == g->n->root)
        LK_TRY(receive(g, out));
    else
        LK_TRY(lk_dist_send(g->comm, *out, g->n->root, g->tag, "s", NULL));
    return LK_OK;
}

/* One segment for each entry, up to the one that communicates. */
static lk_status segment(lk_tape *tape, void *arg, lk_var *out)
{
    const struct program_segment *g = arg;
    if (g->last)
        LK_TRY(innermost(g, out));
    else
        LK_TRY(lk_recompute(tape, segment, (void *)(uintptr_t)(g + 1), 1, out));
    return LK_OK;
}

lk_status program_segment_run(struct program_segment *g, lk_var *out)
{
    g[1] = g[0];
    g[0].last = g->n->depth == 1;
    g[1].last = true;
    return LK_TRACE(lk_recompute(g->tape, segment, g, 1, out));
}
