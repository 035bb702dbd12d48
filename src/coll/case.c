/* The arguments of a collective call, checked, and what follows from them. */
#include "coll/coll.h"

#include <lockstep/alloc.h>
#include <lockstep/checked.h>

bool lk__call_reduces(lk_comm_call call)
{
    return call == LK_CALL_REDUCE || call == LK_CALL_ALLREDUCE || call == LK_CALL_REDUCE_SCATTER;
}

bool lk__call_rooted(lk_comm_call call)
{
    return call == LK_CALL_REDUCE || call == LK_CALL_BCAST || call == LK_CALL_GATHER ||
           call == LK_CALL_SCATTER;
}

static bool is_ragged(lk_comm_call call)
{
    return call >= LK_CALL_REDUCE_SCATTER && call <= LK_CALL_NEIGHBOUR;
}

/* alltoall and neighbour have counts of their own for what they send. */
static bool is_exchange(lk_comm_call call)
{
    return call == LK_CALL_ALLTOALL || call == LK_CALL_NEIGHBOUR;
}

/* What all ranks must give alike: a digest of an array, on top of another one.  0 stands for none. */
static uint32_t array_digest(uint32_t digest, const int64_t *x, int n)
{
    const uint64_t base = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t sum = digest;
    for (int i = 0; i < n; i++) {
        sum = (sum ^ (uint64_t)x[i]) * base;
        sum ^= sum >> 32;
    }
    digest = (uint32_t)sum & LK_LAYOUT_MASK;
    return digest ? digest : 1;
}

/* ---- counts ---- */

/* One side's counts and offsets, from what is given (NULL: `count` each, one behind the other). */
static lk_status side_make(const lk__case *k, int n, const int64_t *counts, const int64_t *offsets,
                           int64_t *room, int64_t *extent)
{
    const char *what = lk_comm_call_name(k->c.call);
    int64_t at = 0;
    *extent = 0;
    for (int r = 0; r < n; r++) {
        int64_t count = counts ? counts[r] : k->c.count, end;
        int64_t from = offsets ? offsets[r] : at;
        LK_CHECK(count >= 0, LK_EINVAL, "%s: counts[%d] is %lld", what, r, (long long)count);
        LK_CHECK(from >= 0, LK_EINVAL, "%s: offsets[%d] is %lld", what, r, (long long)from);
        LK_TRY(lk_add_i64(from, count, &end));
        LK_TRY(lk_add_i64(at, count, &at));
        *extent = end > *extent ? end : *extent;
        room[r] = count;
        room[n + r] = from;
    }
    int64_t bytes;
    LK_TRY(lk__extent(what, *extent, k->elem, &bytes));
    return LK_OK;
}

static lk_status neighbours_check(const lk__case *k)
{
    const lk_collective *c = &k->c;
    LK_CHECK(c->n_neighbours >= 0 && (c->neighbours || c->n_neighbours == 0), LK_EINVAL,
             "neighbour: %d neighbours at %p", c->n_neighbours, (const void *)c->neighbours);
    for (int i = 0; i < c->n_neighbours; i++) {
        LK_CHECK(c->neighbours[i] < k->size, LK_EINVAL,
                 "neighbour: neighbours[%d] is %d of %d ranks", i, c->neighbours[i], k->size);
        LK_CHECK(!c->opposite || (c->opposite[i] >= 0), LK_EINVAL, "neighbour: opposite[%d] is %d",
                 i, c->opposite[i]);
    }
    return LK_OK;
}

/* NULL is fine where nothing is read or written. */
static lk_status buffer_check(const lk__case *k, const char *name, const void *data, int64_t n)
{
    LK_CHECK(data || n == 0, LK_EINVAL, "%s: %s of %lld elements is NULL",
             lk_comm_call_name(k->c.call), name, (long long)n);
    return LK_OK;
}

/* In place a rank's part is overwritten, which others must not need. */
static lk_status apart_check(const lk__case *k)
{
    int64_t from = k->offsets[k->rank], end = from + k->counts[k->rank];
    for (int r = 0; r < k->size && k->c.offsets; r++)
        LK_CHECK(r == k->rank || from >= k->offsets[r] + k->counts[r] || k->offsets[r] >= end,
                 LK_EINVAL, "%s: in place the parts of ranks %d and %d overlap",
                 lk_comm_call_name(k->c.call), k->rank, r);
    return LK_OK;
}

static lk_status buffers_check(const lk__case *k, int64_t in_extent)
{
    const lk_collective *c = &k->c;
    bool root = k->rank == c->root;
    int64_t mine = is_exchange(c->call) ? 0 : k->counts[k->rank];
    switch (c->call) {
    case LK_CALL_GATHER:
        LK_TRY(root ? LK_OK : buffer_check(k, "in", c->in, mine));
        return root ? buffer_check(k, "out", c->out, k->extent) : LK_OK;
    case LK_CALL_SCATTER:
        LK_TRY(root && !c->in ? buffer_check(k, "out", c->out, k->extent) : LK_OK);
        return buffer_check(k, "out", c->out, mine);
    case LK_CALL_NEIGHBOUR: LK_TRY(buffer_check(k, "in", c->in, in_extent)); break;
    case LK_CALL_ALLTOALL:
        LK_CHECK(c->in || (!c->in_counts && !c->in_offsets), LK_EINVAL,
                 "alltoall: in place the counts of the input are those of the output");
        LK_CHECK(k->in_counts[k->rank] == k->counts[k->rank], LK_EINVAL,
                 "alltoall: rank %d sends itself %lld elements and receives %lld", k->rank,
                 (long long)k->in_counts[k->rank], (long long)k->counts[k->rank]);
        LK_TRY(c->in ? buffer_check(k, "in", c->in, in_extent) : LK_OK);
        break;
    case LK_CALL_REDUCE_SCATTER:
        LK_TRY(c->in ? LK_OK : apart_check(k));
        return buffer_check(k, "out", c->out, c->in ? mine : k->extent);
    default: break;
    }
    return buffer_check(k, "out", c->out, k->extent);
}

static lk_status ragged_make(lk__case *k)
{
    const lk_collective *c = &k->c;
    int n = c->call == LK_CALL_NEIGHBOUR ? c->n_neighbours : k->size;
    bool exchange = is_exchange(c->call);
    int64_t in_extent = 0;
    LK_TRY(c->call == LK_CALL_NEIGHBOUR ? neighbours_check(k) : LK_OK);
    LK_TRY_COMM(k->comm->w, lk_alloc(&k->memory, 4 * (int64_t)n + k->size + 1, sizeof *k->memory));
    int64_t *room = k->memory + k->size + 1;
    LK_TRY(side_make(k, n, c->counts, c->offsets, room, &k->extent));
    k->counts = room;
    k->offsets = room + n;
    if (exchange) {
        bool in_place = !c->in && c->call == LK_CALL_ALLTOALL;
        LK_TRY(side_make(k, n, in_place ? c->counts : c->in_counts,
                         in_place ? c->offsets : c->in_offsets, room + 2 * (int64_t)n, &in_extent));
        k->in_counts = room + 2 * (int64_t)n;
        k->in_offsets = room + 3 * (int64_t)n;
    }
    k->total = c->count;
    if (c->counts && !exchange) {
        k->total = 0;
        for (int r = 0; r < n; r++)
            k->total += k->counts[r];
        k->layout = array_digest(k->layout, k->counts, n);
    }
    if (exchange && (c->counts || c->in_counts || c->call == LK_CALL_NEIGHBOUR))
        k->total = -1; /* each pair has its own */
    return buffers_check(k, in_extent);
}

/* ---- what is folded ---- */

static lk_status check_fold(const lk_collective *c, const char *what)
{
    LK_CHECK((unsigned)c->fold < LK_N_REDUCE_OPS, LK_EINVAL, "%s: %d is no operator", what,
             (int)c->fold);
    LK_CHECK(lk__reduce_op_takes(c->fold, c->dtype), LK_EDTYPE, "%s: no %s of %s", what,
             lk_reduce_op_name(c->fold), lk_dtype_name(c->dtype));
    return LK_OK;
}

static lk_status runs_make(lk__case *k, const char *what)
{
    const lk_collective *c = &k->c;
    int size = k->size;
    LK_CHECK(c->pieces >= 0, LK_EINVAL, "%s: %lld pieces", what, (long long)c->pieces);
    k->pieces = c->pieces > 0 ? c->pieces : size;
    int64_t *first = k->memory ? k->memory : k->few;
    if (!k->memory && size > LK_CASE_RANKS) {
        LK_TRY_COMM(k->comm->w, lk_alloc(&k->memory, size + 1, sizeof *first));
        first = k->memory;
    }
    first[0] = 0;
    bool even = true;
    for (int r = 0; r < size; r++) {
        first[r + 1] = r + 1;
        if (c->first || k->pieces != size) {
            lk_range range = lk_range_split(k->pieces, r, size);
            first[r + 1] = c->first ? c->first[r + 1] : range.first + range.n;
            even = even && first[r + 1] == range.first + range.n;
        }
        LK_CHECK(first[r] <= first[r + 1], LK_EINVAL,
                 "%s: the pieces of rank %d begin behind those of rank %d", what, r, r + 1);
    }
    LK_CHECK((!c->first || c->first[0] == 0) && first[size] == k->pieces, LK_EINVAL,
             "%s: the ranks have %lld of %lld pieces", what, (long long)first[size],
             (long long)k->pieces);
    if (even)
        k->c.first = NULL; /* the same call as without it */
    else
        k->layout = array_digest(k->layout, first, size + 1);
    if (k->pieces >= UINT32_MAX) /* which a header has no room for */
        k->layout = array_digest(k->layout, &k->pieces, 1);
    k->first = first;
    return LK_OK;
}

int64_t lk__case_subtrees(const lk__case *k, int r, lk_range *out, int64_t room)
{
    int64_t first = k->first[r], n = k->first[r + 1] - first;
    if (k->work != k->c.dtype) { /* pieces, not subtrees: those would have been rounded */
        for (int64_t i = 0; out && i < n && i < room; i++)
            out[i] = (lk_range){first + i, 1};
        return n;
    }
    if (n <= 1) {
        if (out && n <= room)
            *out = (lk_range){first, n};
        return n;
    }
    lk_range node[LK_MAX_SUBTREES];
    int m = lk_range_subtrees(k->pieces, (lk_range){first, n}, node);
    for (int64_t i = 0; out && i < m && i < room; i++)
        out[i] = node[i];
    return m;
}

int lk__case_holder(const lk__case *k, int64_t piece)
{
    int low = 0, high = k->size - 1;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (k->first[middle + 1] > piece)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

bool lk__case_aligned(const lk__case *k)
{
    if (k->size & (k->size - 1) || k->work != k->c.dtype)
        return false;
    if (k->pieces == k->size && !k->c.first)
        return true;
    for (int step = 2; step <= k->size; step *= 2)
        for (int r = 0; r < k->size; r += step) {
            int64_t n = k->first[r + step] - k->first[r],
                    lower = k->first[r + step / 2] - k->first[r];
            if (lower == 0 || lower == n || lower != lk_tree_half(n))
                return false;
        }
    return true;
}

int lk__case_rounds(const lk__case *k)
{
    int rounds = 0;
    while (rounds < 30 && 1 << rounds < k->size)
        rounds++;
    return rounds;
}

static lk_status fold_make(lk__case *k, const char *what)
{
    const lk_collective *c = &k->c;
    bool half = c->dtype == LK_F16 || c->dtype == LK_BF16;
    LK_TRY(check_fold(c, what));
    if (c->fold == LK_REDUCE_MINLOC || c->fold == LK_REDUCE_MAXLOC)
        k->elem = sizeof(lk_value_index);
    k->work = half ? LK_F32 : c->dtype;
    k->work_elem = half ? 4 : k->elem;
    return runs_make(k, what);
}

/* Vectors of the input may lie apart, but not overlap. */
static lk_status stride_make(lk__case *k, const char *what)
{
    int64_t vector = k->counts ? k->extent : k->c.count, stride = k->c.stride, elements, bytes;
    k->stride = vector * k->elem;
    if (stride == 0)
        return LK_OK;
    LK_CHECK(stride >= vector, LK_EINVAL, "%s: a stride of %lld for vectors of %lld elements", what,
             (long long)stride, (long long)vector);
    LK_TRY(lk_mul_i64(k->n_nodes, stride, &elements));
    LK_TRY(lk__extent(what, elements, k->elem, &bytes));
    k->stride = stride * k->elem;
    return LK_OK;
}

lk_status lk__case_make(lk_comm *comm, const lk_collective *c, lk__case *k)
{
    LK_CHECK(c->call >= LK_CALL_BARRIER && c->call <= LK_CALL_NEIGHBOUR, LK_EINVAL,
             "%d is no collective call", (int)c->call);
    const char *what = lk_comm_call_name(c->call);
    int size = lk_comm_size(comm);
    k->comm = comm;
    k->c = *c;
    k->rank = lk_comm_rank(comm);
    k->size = size;
    k->elem = k->bytes = k->work_elem = k->pieces = k->n_nodes = k->stride = k->extent = k->total =
        0;
    k->layout = 0;
    k->work = c->dtype;
    k->shown_fold = (int)c->fold;
    k->first = k->counts = k->offsets = k->in_counts = k->in_offsets = NULL;
    k->memory = NULL;
    if (c->call == LK_CALL_BARRIER)
        return LK_OK;
    LK_CHECK(lk_dtype_size(c->dtype) > 0, LK_EDTYPE, "%s: %d is no dtype", what, (int)c->dtype);
    LK_CHECK(c->count >= 0, LK_EINVAL, "%s: %lld elements", what, (long long)c->count);
    LK_CHECK(c->root >= 0 && c->root < size, LK_EINVAL, "%s: root %d of %d ranks", what, c->root,
             size);
    k->elem = (int64_t)lk_dtype_size(c->dtype);
    bool folds = lk__call_reduces(c->call);
    if (folds && (c->fold == LK_REDUCE_MINLOC || c->fold == LK_REDUCE_MAXLOC))
        k->elem = sizeof(lk_value_index);
    LK_TRY(lk__extent(what, c->count, k->elem, &k->bytes));
    k->total = c->count;
    if (is_ragged(c->call))
        LK_TRY(ragged_make(k));
    else if (c->call != LK_CALL_REDUCE || k->rank == c->root)
        LK_TRY(buffer_check(k, "out", c->out, c->count));
    LK_CHECK(folds || c->stride == 0, LK_EINVAL, "%s: a stride of %lld, where nothing is folded",
             what, (long long)c->stride);
    LK_CHECK(c->call != LK_CALL_BCAST || !c->in, LK_EINVAL,
             "bcast: in is given, but what the root sends is in out");
    if (!folds)
        return LK_OK;
    LK_TRY(fold_make(k, what));
    k->n_nodes = lk__case_subtrees(k, k->rank, NULL, 0);
    LK_TRY(stride_make(k, what));
    LK_CHECK(c->in || k->n_nodes <= 1, LK_EINVAL,
             "%s: rank %d has %lld subtrees, which cannot be in place", what, k->rank,
             (long long)k->n_nodes);
    LK_CHECK(c->in || c->out || k->n_nodes == 0 || c->count == 0, LK_EINVAL,
             "%s: in of %lld elements is NULL", what, (long long)c->count);
    return LK_OK;
}

lk__call lk__case_call(const lk__case *k, int algorithm)
{
    const lk_collective *c = &k->c;
    const lk__coll_state *state = k->comm->coll;
    return (lk__call){.call = c->call,
                      .name = c->name,
                      .dtype = c->dtype,
                      .fold = lk__call_reduces(c->call) ? k->shown_fold : LK_N_REDUCE_OPS,
                      .root = lk__call_rooted(c->call) ? c->root : -1,
                      .count = k->total,
                      .pieces = k->pieces,
                      .layout = k->layout,
                      .started = !k->wait,
                      .unchecked = state && state->unchecked,
                      .finite = k->comm->finite && lk__call_reduces(c->call),
                      .algorithm = algorithm};
}

void lk__case_free(lk__case *k)
{
    lk_free(k->memory);
    k->memory = NULL;
}
