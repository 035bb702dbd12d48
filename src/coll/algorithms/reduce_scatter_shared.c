/* reduce_scatter, shared: each rank joins its part of all vectors, in memory that all of the node see.
 *
 *     arrive      say where the vectors are; wait for all
 *     zero copy   if all lie in the same lk_shm, with equal offsets: join the own part of all
 *                 inputs into the output; say so, and wait for all
 *     stage       otherwise through the shared area: at time t a rank puts segment t + 1 of the parts of all
 *                 others into its stage, and joins segment t of its own part from all stages
 *
 * Up to 16 ranks on one node, any counts, up to 64 subtrees; not f16 and bf16.
 *
 * Cost: 2 alpha + m n beta + m n gamma, m the vectors of a rank, with an alpha of some 300 ns and
 * nothing copied; stages copy m n more.
 */
#include "coll/parts.h"

#include <string.h>

enum { ARRIVE, ALL_ARRIVED, STAGE, LAST, PART };
enum { NO_VECTOR = 2 }; /* lk__where.shared of a rank that gives none */
enum { DEPTH = 2 };     /* stages of a rank area */

static double shared_cost(const lk__coll_args *k, const lk__rates *r)
{
    double m = (double)k->pieces < k->size ? 1 : (double)lk__coll_args_subtrees(k, 0, NULL, 0);
    double n = m * (double)(k->extent * k->elem);
    return 0.4 * r->alpha * k->size + n * (0.3 * r->beta + r->gamma);
}

/* ---- zero copy ---- */

static void arrive(lk__shm_call *c)
{
    lk__shm_area *a = c->area;
    lk__arrival *own = &a->rank[a->me]->arrival[c->call_number % 2];
    int64_t extent = 0;
    own->layout = 0;
    for (int r = 0; r < a->n; r++) {
        int64_t end = c->offsets[r] + c->counts[r];
        extent = end > extent ? end : extent;
        own->layout = (own->layout ^ (uint64_t)c->offsets[r]) * UINT64_C(0x9e3779b97f4a7c15);
    }
    own->digest = c->digest;
    own->stride = c->stride;
    own->in = (lk__where){.shared = NO_VECTOR};
    if (c->n_vectors > 0)
        own->in = lk__where_is(a->shared->w, c->in,
                               (c->n_vectors - 1) * c->stride + extent * c->elem);
    lk__shm_area_publish_last(c, LK_ARRIVED, &own->call_number);
}

/* Whether every rank sees all vectors, and knows where in them its part is. */
static bool is_seen(const lk__shm_call *c)
{
    const lk__shm_area *a = c->area;
    const lk__where *first = NULL;
    for (int i = 0; i < a->n; i++) {
        const lk__arrival *at = &a->rank[i]->arrival[c->call_number % 2];
        if (at->layout != a->rank[0]->arrival[c->call_number % 2].layout)
            return false;
        if (at->in.shared == NO_VECTOR)
            continue;
        first = first ? first : &at->in;
        if (!at->in.shared || at->in.context != first->context || at->in.number != first->number)
            return false;
    }
    return true;
}

/* The sums of the own part, from element `from` of it on. */
static void sums_to(const lk__shm_call *c, int64_t from, lk__eval *e)
{
    lk__shm_area_eval(c, c->program->n_sums, false, e);
    for (int i = 0; i < e->n_out; i++)
        e->out[i] = c->sum[i] + from * c->elem;
}

static lk_status zero_copy(const lk__shm_call *c)
{
    const lk__shm_area *a = c->area;
    const lk__program *p = c->program;
    int64_t from = c->offsets[a->me] * c->elem;
    lk__eval e;
    sums_to(c, 0, &e);
    for (int i = 0; i < p->n_leaves; i++) {
        const lk__arrival *at = &a->rank[p->rank[i]]->arrival[c->call_number % 2];
        e.leaf[i] = p->index[i] == 0 ? lk__where_see(c, p->rank[i], &at->in) + from
                                     : e.leaf[i - 1] + at->stride;
    }
    return lk__program_run(&e, 0, c->counts[a->me]);
}

/* ---- stages ----
 *
 *     stage t % 2 of a rank area    [cell for rank 0: vector 0, vector 1, ...] [cell for rank 1: ...] ...
 */

/* Elements of one vector in a cell: as many as there is room for if all ranks had the most vectors. */
static int64_t in_cell(const lk__shm_call *c, int64_t *vectors)
{
    *vectors = 1;
    for (int i = 0; i < c->program->n_leaves; i++)
        if (c->program->index[i] >= *vectors)
            *vectors = c->program->index[i] + 1;
    return (int64_t)LK_STAGE_BYTES / c->area->n / *vectors / 64 * 64 / c->elem;
}

static int64_t segments_of(const lk__shm_call *c)
{
    int64_t vectors, each = in_cell(c, &vectors), most = 0;
    for (int r = 0; r < c->area->n; r++)
        most = c->counts[r] > most ? c->counts[r] : most;
    return (most + each - 1) / each;
}

/* Segment s of the part of rank j, within that part. */
static lk_range part_of(const lk__shm_call *c, int64_t s, int j)
{
    int64_t vectors, each = in_cell(c, &vectors), from = s * each, rest = c->counts[j] - from;
    return (lk_range){from, rest < 0 ? 0 : rest < each ? rest : each};
}

/* Vector v of the cell for rank j on the area of rank i. */
static unsigned char *cell(const lk__shm_call *c, int64_t s, int i, int j, int64_t v)
{
    int64_t vectors, bytes = in_cell(c, &vectors) * c->elem;
    int64_t stage = (int64_t)((c->area->stages + (uint64_t)s) % DEPTH);
    return c->area->rank[i]->stage + stage * LK_STAGE_BYTES + (j * vectors + v) * bytes;
}

/* Once all have joined what was in the stage before; c->next is from 0 to n. */
static lk_status put(lk__shm_call *c, int64_t s, bool *done)
{
    lk__shm_area *a = c->area;
    for (; c->next < a->n; c->next++) {
        int j = c->next;
        bool reached = true;
        if (j == a->me)
            continue;
        if (s >= DEPTH)
            LK_TRY(lk__shm_area_reached(c, j, &a->rank[j]->got.value,
                                        a->stages + (uint64_t)(s - DEPTH) + 1, &reached));
        if (!reached)
            return LK_OK;
        lk_range part = part_of(c, s, j);
        for (int64_t v = 0; v < c->n_vectors && part.n > 0; v++)
            memcpy(cell(c, s, a->me, j, v),
                   c->in + v * c->stride + (c->offsets[j] + part.first) * c->elem,
                   (size_t)(part.n * c->elem));
    }
    lk__shm_area_publish(c, &a->rank[a->me]->put.value, a->stages + (uint64_t)s + 1);
    *done = true;
    return LK_OK;
}

/* Once all have put it; c->next is from n to 2 n. */
static lk_status join(lk__shm_call *c, int64_t s, bool *done)
{
    lk__shm_area *a = c->area;
    const lk__program *p = c->program;
    for (; c->next < 2 * a->n; c->next++) {
        int j = c->next - a->n;
        bool reached = true;
        if (j != a->me)
            LK_TRY(lk__shm_area_reached(c, j, &a->rank[j]->put.value, a->stages + (uint64_t)s + 1,
                                        &reached));
        if (!reached)
            return LK_OK;
    }
    lk_range part = part_of(c, s, a->me);
    int64_t from = (c->offsets[a->me] + part.first) * c->elem;
    lk__eval e;
    sums_to(c, part.first, &e);
    for (int i = 0; i < p->n_leaves; i++)
        e.leaf[i] = p->rank[i] != a->me
                        ? cell(c, s, p->rank[i], a->me, p->index[i])
                        : (unsigned char *)(uintptr_t)c->in + p->index[i] * c->stride + from;
    LK_TRY(lk__program_run(&e, 0, part.n));
    lk__shm_area_publish(c, &a->rank[a->me]->got.value, a->stages + (uint64_t)s + 1);
    *done = true;
    return LK_OK;
}

/* The last one waits until all have joined what is in its area. */
static lk_status stage_end(lk__shm_call *c, bool *end)
{
    lk__shm_area *a = c->area;
    uint64_t all = a->stages + (uint64_t)segments_of(c);
    for (; c->next < a->n; c->next++) {
        bool reached = true;
        if (c->next != a->me)
            LK_TRY(lk__shm_area_reached(c, c->next, &a->rank[c->next]->got.value, all, &reached));
        if (!reached)
            return LK_OK;
    }
    a->stages = all;
    *end = true;
    return LK_OK;
}

/* ---- the call ---- */

/* All have arrived: which way it goes. */
static lk_status all_arrived(lk__shm_call *c)
{
    lk__shm_area *a = c->area;
    if (!is_seen(c)) {
        c->step = STAGE;
        c->segment = -1;
        return LK_OK;
    }
    lk__shm_area_wake_early(c);
    LK_TRY(zero_copy(c));
    lk__shm_area_publish_last(c, LK_DONE, &a->rank[a->me]->done.value);
    c->step = PART;
    return LK_OK;
}

lk_status lk__parts_advance(lk__shm_call *c, bool *end)
{
    bool all = false;
    *end = false;
    if (c->step == ARRIVE) {
        arrive(c);
        lk__shm_area_show(c);
        c->step = ALL_ARRIVED;
    }
    if (c->step == ALL_ARRIVED) {
        LK_TRY(lk__shm_area_all(c, LK_ARRIVED, &all));
        LK_TRY(all ? all_arrived(c) : LK_OK);
    }
    if (c->step == STAGE) {
        LK_TRY(lk__shm_area_stages(c, segments_of(c), put, join, &all));
        c->step = all ? LAST : STAGE;
    }
    if (c->step == LAST)
        return stage_end(c, end);
    return c->step == PART ? lk__shm_area_all(c, LK_DONE, end) : LK_OK;
}

/* In place the sum goes to this rank's part of its vector, which no other rank reads, and in the end
 * from there to the beginning. */
static lk_status shared_advance(lk_request *r)
{
    lk__shm_call *c = (lk__shm_call *)r;
    const lk__shm_area *a = c->area;
    bool in_place = c->in == c->out && c->n_vectors > 0, end;
    if (!lk__shm_area_turn(c))
        return LK_OK;
    c->sum[0] = c->out + (in_place ? c->offsets[a->me] * c->elem : 0);
    LK_TRY(lk__parts_advance(c, &end));
    if (!end)
        return LK_OK;
    if (in_place)
        memmove(c->out, c->sum[0], (size_t)(c->counts[a->me] * c->elem));
    lk__shm_area_end(c);
    return LK_OK;
}

const lk__coll lk__coll_reduce_scatter_shared = {
    .call = LK_CALL_REDUCE_SCATTER,
    .name = "shared",
    .summary = "in shared memory, a part for each rank",
    .needs = "2 to 16 ranks of one node, not f16 and bf16",
    .eligible = lk__shm_area_eligible,
    .cost = shared_cost,
    .advance = shared_advance};
