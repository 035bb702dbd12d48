/* lk__sums: which rank hashes which elements of tensors held as boxes, and the hash of a state: see
 * sums.h. */
#include "io/sums.h"

#include "base/memory/grow.h"
#include "io/checkpoint/checkpoint.h"

#include <lockstep/coll.h>
#include <lockstep/extra/alloc.h>

/* Boxes of all ranks, of some tensors at a time. */
enum { AT_ONCE = 64, BOX = 2 * LK_MAX_NDIM };

typedef struct table {
    lk_comm *comm; /* NULL: one rank */
    int rank, size;
    int64_t *own, *all; /* BOX numbers for each of AT_ONCE tensors; of all ranks */
    lk_box *box;        /* [size] of one tensor */
    lk__flow *flow;     /* [size] what each gives of it */
} table;

static lk_status table_make(table *t)
{
    LK_TRY(lk_alloc(&t->own, AT_ONCE, BOX * sizeof *t->own));
    LK_TRY(lk_alloc(&t->all, (int64_t)t->size * AT_ONCE, BOX * sizeof *t->all));
    LK_TRY(lk_alloc(&t->box, t->size, sizeof *t->box));
    return LK_TRACE(lk_alloc_zero(&t->flow, t->size, sizeof *t->flow));
}

static void table_free(table *t)
{
    for (int r = 0; t->flow && r < t->size; r++)
        lk_free(t->flow[r].piece);
    lk_free(t->own);
    lk_free(t->all);
    lk_free(t->box);
    lk_free(t->flow);
}

/* The boxes of tensors [first, first + n), from all ranks. */
static lk_status table_fill(table *t, const lk__sums *s, int64_t first, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < LK_MAX_NDIM; k++) {
            const lk_box *box = &s->held[first + i].box;
            t->own[BOX * i + 2 * k] = k < box->ndim ? box->first[k] : 0;
            t->own[BOX * i + 2 * k + 1] = k < box->ndim ? box->n[k] : 0;
        }
    if (t->comm)
        LK_TRY(lk_allgather(t->comm, t->own, t->all, BOX * n, LK_I64, "state"));
    else
        for (int64_t i = 0; i < BOX * n; i++)
            t->all[i] = t->own[i];
    return LK_OK;
}

/* This rank's share of what the lowest of those with its box gives of tensor `i`. */
static lk_status shares_add(const table *t, lk__sums *s, int64_t i)
{
    int lowest = t->rank, mine = 0, holders = 0;
    for (int r = 0; r < t->size; r++) {
        if (!lk_box_is_equal(&t->box[r], &t->box[t->rank]))
            continue;
        lowest = r < lowest ? r : lowest;
        mine += r < t->rank;
        holders++;
    }
    for (int64_t k = 0; k < t->flow[lowest].n; k++) {
        const lk_box *box = &t->flow[lowest].piece[k].box;
        lk_range elements = lk_range_split(lk_box_count(box), mine, holders);
        if (elements.n == 0)
            continue;
        LK_TRY(lk__grow(&s->counted, &s->room, s->n_counted + 1, sizeof *s->counted));
        s->counted[s->n_counted++] = (lk__counted){i, *box, elements};
    }
    return LK_OK;
}

/* What of tensor `i`, number `at` in the table, is counted here. */
static lk_status tensor_share(table *t, lk__sums *s, int64_t i, int64_t at, int64_t n)
{
    lk_checkpoint one = {.tensor = &s->tensor[i], .n_tensors = 1};
    const lk_shape *shape = &one.tensor->shape;
    for (int r = 0; r < t->size; r++) {
        const int64_t *from = t->all + BOX * (r * n + at);
        t->box[r] = (lk_box){.ndim = shape->ndim};
        for (int64_t k = 0; k < shape->ndim; k++) {
            t->box[r].first[k] = from[2 * k];
            t->box[r].n[k] = from[2 * k + 1];
        }
        LK_CHECK(lk_box_is_within(&t->box[r], shape->dim), LK_EMISMATCH,
                 "rank %d tells a box that is not within \"%.128s\"", r, one.tensor->name);
        t->flow[r].n = 0;
    }
    LK_TRY(lk__givers_find(&one, 0, t->box, t->size, LK__LOWEST, t->flow));
    return LK_TRACE(shares_add(t, s, i));
}

static lk_status shares_find(table *t, lk__sums *s)
{
    lk_status st = LK_OK;
    LK_TRY(lk_agree(t->comm, table_make(t)));
    for (int64_t first = 0; first < s->n; first += AT_ONCE) {
        int64_t n = s->n - first < AT_ONCE ? s->n - first : AT_ONCE;
        LK_TRY(table_fill(t, s, first, n));
        for (int64_t i = 0; st == LK_OK && i < n; i++)
            st = tensor_share(t, s, first + i, i, n);
    }
    return LK_TRACE(lk_agree(t->comm, st));
}

/* Check what this rank has; whether it describes the tensors of rank 0 is then compared. */
static lk_status tensors_take(lk__sums *s, const lk_state_tensor *tensor, int64_t n,
                              uint64_t *digest)
{
    lk_checkpoint *plan;
    lk_state state = {.tensor = (lk_state_tensor *)tensor, .n_tensors = n};
    LK_CHECK(n >= 0 && (tensor || n == 0), LK_EINVAL,
             "tensors are NULL, or their number is negative");
    LK_TRY(lk__plan_make(&state, 0, INT64_MAX, &plan));
    *digest = lk__plan_digest(plan, false);
    lk_checkpoint_free(plan);
    LK_TRY(lk_alloc(&s->tensor, n, sizeof *s->tensor));
    LK_TRY(lk_alloc(&s->held, n, sizeof *s->held));
    for (int64_t i = 0; i < n; i++) {
        int64_t size = (int64_t)lk_dtype_size(tensor[i].dtype);
        lk_box whole = lk_box_whole(tensor[i].shape.ndim, tensor[i].shape.dim);
        s->tensor[i] = (lk_checkpoint_tensor){.name = tensor[i].name,
                                              .dtype = tensor[i].dtype,
                                              .shape = tensor[i].shape,
                                              .bytes = lk_box_count(&whole) * size};
        s->held[i] = lk__state_held(&tensor[i]);
    }
    s->n = n;
    return LK_OK;
}

lk_status lk__sums_open(lk__sums *s, lk_comm *comm, const lk_state_tensor *tensor, int64_t n)
{
    bool several = comm && lk_comm_size(comm) > 1;
    table t = {.comm = several ? comm : NULL,
               .rank = several ? lk_comm_rank(comm) : 0,
               .size = several ? lk_comm_size(comm) : 1};
    uint64_t digest = 0;
    LK_TRY(lk_agree(t.comm, tensors_take(s, tensor, n, &digest)));
    LK_TRY(lk__plan_agree(t.comm, digest));
    LK_TRY(lk__axes_agree(t.comm, s->tensor, s->held, n));
    lk_status st = shares_find(&t, s);
    table_free(&t);
    return LK_TRACE(st);
}

lk_status lk__sums_open_own(lk__sums *s, const lk_state_tensor *tensor, int64_t n)
{
    uint64_t digest = 0;
    LK_TRY(tensors_take(s, tensor, n, &digest));
    LK_TRY(lk__axes_agree(NULL, s->tensor, s->held, n));
    LK_TRY(lk__grow(&s->counted, &s->room, n, sizeof *s->counted));
    for (int64_t i = 0; i < n; i++) {
        const lk_box *box = &s->held[i].box;
        if (lk_box_count(box) > 0)
            s->counted[s->n_counted++] = (lk__counted){i, *box, {0, lk_box_count(box)}};
    }
    return LK_OK;
}

void lk__sums_close(lk__sums *s)
{
    lk_free(s->tensor);
    lk_free(s->held);
    lk_free(s->counted);
    *s = (lk__sums){.n = 0};
}

/* Two walks over a box side by side, one by where it lies in the tensor and one by where in what is held;
 * of the elements in their order those that count. */
static uint64_t counted_sum(const lk__sums *s, const lk__counted *c)
{
    const lk_checkpoint_tensor *t = &s->tensor[c->tensor];
    const lk__box_held *held = &s->held[c->tensor];
    int64_t size = (int64_t)lk_dtype_size(t->dtype), end = c->elements.first + c->elements.n;
    lk_box own = c->box;
    uint64_t sum = 0;
    for (int i = 0; i < own.ndim; i++)
        own.first[i] -= held->box.first[i];
    lk_box_walk to = lk_box_start(&c->box, t->shape.dim), from = lk_box_start(&own, held->box.n);
    (void)lk_box_next(&to);
    (void)lk_box_next(&from);
    for (int64_t at = 0, n; at < end; at += n) {
        if (at == to.at + to.n)
            (void)lk_box_next(&to);
        if (at == from.at + from.n)
            (void)lk_box_next(&from);
        int64_t left = to.at + to.n - at, other = from.at + from.n - at;
        int64_t skip = c->elements.first > at ? c->elements.first - at : 0;
        n = left < other ? left : other;
        n = n < end - at ? n : end - at;
        if (skip < n)
            sum += lk_hash_sum(t->dtype, n - skip,
                               held->data + (from.place + at - from.at + skip) * size,
                               to.place + at - to.at + skip);
    }
    return sum;
}

void lk__sums_count(const lk__sums *s, uint64_t *sum)
{
    for (int64_t i = 0; i < s->n; i++)
        sum[i] = 0;
    for (int64_t i = 0; i < s->n_counted; i++)
        sum[s->counted[i].tensor] += counted_sum(s, &s->counted[i]);
}

static lk_status hash_add(const lk__sums *s, lk_comm *comm, const lk_state_tensor *tensor,
                          uint64_t *sum, lk_hash *h)
{
    lk__sums_count(s, sum);
    if (comm && s->n > 0)
        LK_TRY(lk_allreduce(comm, NULL, sum, s->n, LK_I64, LK_REDUCE_SUM, "state"));
    for (int64_t i = 0; i < s->n; i++)
        lk_hash_add_tensor(h, tensor[i].name, tensor[i].dtype, tensor[i].shape.ndim,
                           tensor[i].shape.dim, sum[i]);
    return LK_OK;
}

lk_status lk_state_hash(lk_comm *comm, const lk_state_tensor *tensor, int64_t n, lk_hash *h)
{
    lk__sums s = {0};
    uint64_t *sum = NULL;
    lk_status st = h ? LK_OK : LK_RAISE(LK_EINVAL, "hash is NULL");
    LK_TRY(lk_agree(comm, st));
    st = lk__sums_open(&s, comm, tensor, n);
    if (st == LK_OK)
        st = lk_agree(comm, lk_alloc(&sum, n, sizeof *sum));
    if (st == LK_OK)
        st = hash_add(&s, comm, tensor, sum, h);
    lk_free(sum);
    lk__sums_close(&s);
    return LK_TRACE(st);
}
