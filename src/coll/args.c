/* lk__coll_args: the arguments of one collective call, checked, with the values derived from them: bytes,
 * counts and offsets by rank, pieces by rank, and the label that ranks compare.
 *
 * It lives on the stack of a call, on the thread that makes the call: run.c (lk_coll_run(),
 * lk_coll_start(), lk_coll_selected()) and ddl/allreduce.c (the interface of <lockstep/ddl.h>) make it;
 * algorithms read it.
 *
 * A check that fails does so on this rank alone, which has sent nothing yet.  Ranks that have begun the
 * call wait: until this rank makes it, makes another one (LK_EMISMATCH), leaves, or the deadline passes.
 * Where memory is missing, LK_TRY_COMM() ends the job on all ranks.
 */
#include "coll/coll.h"

#include <lockstep/extra/alloc.h>

bool lk__call_reduces(lk_comm_call call)
{
    return call == LK_CALL_REDUCE || call == LK_CALL_ALLREDUCE || call == LK_CALL_REDUCE_SCATTER;
}

bool lk__call_rooted(lk_comm_call call)
{
    return call == LK_CALL_REDUCE || call == LK_CALL_BCAST || call == LK_CALL_GATHER ||
           call == LK_CALL_SCATTER;
}

/* Calls whose buffer is cut into parts, one for each rank or neighbour: the ones with counts and offsets,
 * be they given or all equal. */
static bool has_parts(lk_comm_call call)
{
    return call == LK_CALL_REDUCE_SCATTER || call == LK_CALL_GATHER || call == LK_CALL_ALLGATHER ||
           call == LK_CALL_SCATTER || call == LK_CALL_ALLTOALL || call == LK_CALL_NEIGHBOUR;
}

/* Calls whose input is cut as well: it has counts and offsets of its own. */
static bool is_exchange(lk_comm_call call)
{
    return call == LK_CALL_ALLTOALL || call == LK_CALL_NEIGHBOUR;
}

/* Hash an array that all ranks must give alike, for the label that they compare; `digest` is that of the
 * arrays before it, 0 if there are none.  Never 0. */
static uint32_t array_digest(uint32_t digest, const int64_t *x, int n)
{
    const uint64_t multiplier = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t hash = digest;
    for (int i = 0; i < n; i++) {
        hash = (hash ^ (uint64_t)x[i]) * multiplier;
        hash ^= hash >> 32;
    }
    digest = (uint32_t)hash & LK_LAYOUT_MASK;
    return digest ? digest : 1;
}

/* ---- parts ---- */

/* Fill `out` with n counts and, behind them, n offsets, as they are given; counts NULL: k->c.count each,
 * offsets NULL: one part behind the other.  *extent is where the last part ends.  `side` begins the
 * arrays' names in messages: "" or "in_". */
static lk_status parts_fill(const lk__coll_args *k, int n, const char *side, const int64_t *counts,
                            const int64_t *offsets, int64_t *out, int64_t *extent)
{
    const char *what = lk_comm_call_name(k->c.call);
    int64_t sum = 0;
    *extent = 0;
    for (int r = 0; r < n; r++) {
        int64_t count = counts ? counts[r] : k->c.count, end;
        int64_t from = offsets ? offsets[r] : sum;
        LK_CHECK(count >= 0, LK_EINVAL, "%s: %scounts[%d] is %lld", what, side, r,
                 (long long)count);
        LK_CHECK(from >= 0, LK_EINVAL, "%s: %soffsets[%d] is %lld", what, side, r, (long long)from);
        LK_CHECK(!__builtin_add_overflow(from, count, &end) &&
                     !__builtin_add_overflow(sum, count, &sum),
                 LK_EOVERFLOW, "%s: the parts of %scounts and %soffsets up to [%d] are no memory",
                 what, side, side, r);
        *extent = end > *extent ? end : *extent;
        out[r] = count;
        out[n + r] = from;
    }
    int64_t bytes;
    return LK_TRACE(lk__extent(what, *extent, k->elem, &bytes));
}

/* A negative neighbour stands for none: ranks at a border of a grid have such.  A slot of a peer is compared
 * with its other slots only, so any number that is not negative will do. */
static lk_status neighbours_check(const lk__coll_args *k)
{
    const lk_collective *c = &k->c;
    LK_CHECK(c->n_neighbours >= 0 && (c->neighbours || c->n_neighbours == 0), LK_EINVAL,
             "neighbour: %d neighbours at %p", c->n_neighbours, (const void *)c->neighbours);
    for (int i = 0; i < c->n_neighbours; i++) {
        LK_CHECK(c->neighbours[i] < k->size, LK_EINVAL,
                 "neighbour: neighbours[%d] is %d of %d ranks", i, c->neighbours[i], k->size);
        LK_CHECK(!c->peer_slot || c->peer_slot[i] >= 0, LK_EINVAL, "neighbour: peer_slot[%d] is %d",
                 i, c->peer_slot[i]);
    }
    return LK_OK;
}

/* NULL is fine where nothing is read or written. */
static lk_status buffer_check(const lk__coll_args *k, const char *name, const void *data, int64_t n)
{
    LK_CHECK(data || n == 0, LK_EINVAL, "%s: %s of %lld elements is NULL",
             lk_comm_call_name(k->c.call), name, (long long)n);
    return LK_OK;
}

/* Reducing in place writes sums over this rank's part of the input, while others still read theirs: no other
 * part may have elements of it.  Without offsets none has. */
static lk_status apart_check(const lk__coll_args *k)
{
    int64_t from = k->offsets[k->rank], end = from + k->counts[k->rank];
    if (!k->c.offsets || from == end)
        return LK_OK;
    for (int r = 0; r < k->size; r++) {
        int64_t other = k->offsets[r], other_end = other + k->counts[r];
        LK_CHECK(r == k->rank || other == other_end || from >= other_end || other >= end, LK_EINVAL,
                 "%s: in place the parts of ranks %d and %d overlap", lk_comm_call_name(k->c.call),
                 k->rank, r);
    }
    return LK_OK;
}

static lk_status buffers_check(const lk__coll_args *k, int64_t in_extent)
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

/* What the label says of the parts.  Counts that are all equal are the same call as without counts. */
static void parts_label(lk__coll_args *k, int n)
{
    const lk_collective *c = &k->c;
    if (is_exchange(
            c->call)) { /* counts differ from rank to rank; messages are compared one by one */
        if (c->counts || c->in_counts || c->call == LK_CALL_NEIGHBOUR)
            k->total = -1;
        return;
    }
    bool equal = true;
    int64_t sum = 0;
    for (int r = 0; r < n; r++) {
        equal = equal && k->counts[r] == k->counts[0];
        sum += k->counts[r];
    }
    k->total = equal ? k->counts[0] : sum;
    if (!equal)
        k->layout = array_digest(k->layout, k->counts, n);
}

/* Memory: size + 1 numbers for k->first (pieces_make()), then [n] counts, offsets, and those of the input. */
static lk_status parts_make(lk__coll_args *k)
{
    const lk_collective *c = &k->c;
    int n = c->call == LK_CALL_NEIGHBOUR ? c->n_neighbours : k->size;
    int64_t in_extent = 0;
    LK_TRY(c->call == LK_CALL_NEIGHBOUR ? neighbours_check(k) : LK_OK);
    LK_TRY_COMM(k->comm->w, lk_alloc(&k->memory, k->size + 1 + 4 * (int64_t)n, sizeof *k->memory));
    int64_t *parts = k->memory + k->size + 1, *in_parts = parts + 2 * (int64_t)n;
    LK_TRY(parts_fill(k, n, "", c->counts, c->offsets, parts, &k->extent));
    k->counts = parts;
    k->offsets = parts + n;
    if (is_exchange(c->call)) {
        bool in_place = !c->in && c->call == LK_CALL_ALLTOALL;
        LK_TRY(parts_fill(k, n, in_place ? "" : "in_", in_place ? c->counts : c->in_counts,
                          in_place ? c->offsets : c->in_offsets, in_parts, &in_extent));
        k->in_counts = in_parts;
        k->in_offsets = in_parts + n;
    }
    parts_label(k, n);
    return buffers_check(k, in_extent);
}

/* ---- what is reduced ---- */

static lk_status check_op(const lk_collective *c, const char *what)
{
    LK_CHECK((unsigned)c->op < LK_N_REDUCE_OPS, LK_EINVAL, "%s: %d is no operator", what,
             (int)c->op);
    LK_CHECK(lk__reduce_op_takes(c->op, c->dtype), LK_EDTYPE, "%s: no %s of %s", what,
             lk_reduce_op_name(c->op), lk_dtype_name(c->dtype));
    return LK_OK;
}

/* Which pieces each rank has.  What is reduced is a sum over numbered pieces, joined by one fixed tree;
 * rank r has those from first[r] up to first[r + 1], and first[size] is the number of all. */
static lk_status pieces_make(lk__coll_args *k, const char *what)
{
    const lk_collective *c = &k->c;
    int size = k->size;
    LK_CHECK(c->pieces >= 0, LK_EINVAL, "%s: %lld pieces", what, (long long)c->pieces);
    k->pieces = c->pieces > 0 ? c->pieces : size;
    int64_t *first = k->memory ? k->memory : k->few;
    if (!k->memory && size > LK_FEW_RANKS) {
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
        k->c.first = NULL; /* given or not, the ranges are those of lk_range_split(): one call */
    else
        k->layout = array_digest(k->layout, first, size + 1);
    if (k->pieces >= UINT32_MAX) /* the label's own number of pieces ends there */
        k->layout = array_digest(k->layout, &k->pieces, 1);
    k->first = first;
    return LK_OK;
}

int64_t lk__coll_args_subtrees(const lk__coll_args *k, int r, lk_range *out, int64_t capacity)
{
    int64_t first = k->first[r], n = k->first[r + 1] - first;
    /* Of f16 and bf16 each piece is a vector by itself: a rank that joined some would round their sum. */
    if (n <= 1 || k->work != k->c.dtype) {
        for (int64_t i = 0; out && i < n && i < capacity; i++)
            out[i] = (lk_range){first + i, 1};
        return n;
    }
    lk_range node[LK_MAX_SUBTREES];
    int m = lk_range_subtrees(k->pieces, (lk_range){first, n}, node);
    for (int64_t i = 0; out && i < m && i < capacity; i++)
        out[i] = node[i];
    return m;
}

int lk__coll_args_holder(const lk__coll_args *k, int64_t piece)
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

int lk__coll_args_rounds(const lk__coll_args *k)
{
    int rounds = 0;
    while (rounds < 30 && 1 << rounds < k->size) /* 1 << 31 is no int */
        rounds++;
    return rounds;
}

static lk_status reduction_make(lk__coll_args *k, const char *what)
{
    const lk_collective *c = &k->c;
    bool half = c->dtype == LK_F16 || c->dtype == LK_BF16;
    LK_TRY(check_op(c, what));
    k->work = half ? LK_F32 : c->dtype;
    k->work_elem = half ? 4 : k->elem;
    return pieces_make(k, what);
}

/* The vectors of the input lie one behind the other, or with gaps, but do not overlap. */
static lk_status stride_make(lk__coll_args *k, const char *what)
{
    int64_t vector = k->counts ? k->extent : k->c.count, elements, bytes;
    int64_t stride = k->c.stride ? k->c.stride : vector;
    LK_CHECK(stride >= vector, LK_EINVAL, "%s: a stride of %lld for vectors of %lld elements", what,
             (long long)stride, (long long)vector);
    LK_CHECK(!__builtin_mul_overflow(k->n_vectors, stride, &elements), LK_EOVERFLOW,
             "%s: %lld vectors of %lld elements are no memory", what, (long long)k->n_vectors,
             (long long)stride);
    LK_TRY(lk__extent(what, elements, k->elem, &bytes));
    k->stride = stride * k->elem;
    return LK_OK;
}

lk_status lk__coll_args_make(lk_comm *comm, const lk_collective *c, lk__coll_args *k)
{
    k->memory = NULL;
    LK_CHECK(c->call >= LK_CALL_BARRIER && c->call <= LK_CALL_NEIGHBOUR, LK_EINVAL,
             "%d is no collective call", (int)c->call);
    const char *what = lk_comm_call_name(c->call);
    int size = lk_comm_size(comm);
    k->comm = comm;
    k->c = *c;
    k->c.algorithm = lk__coll_named(c->call, c->algorithm);
    k->rank = lk_comm_rank(comm);
    k->size = size;
    k->elem = k->bytes = k->work_elem = k->pieces = k->n_vectors = k->stride = k->extent =
        k->total = 0;
    k->layout = 0;
    k->work = c->dtype;
    k->shown_op = (int)c->op;
    k->first = k->counts = k->offsets = k->in_counts = k->in_offsets = NULL;
    if (c->call == LK_CALL_BARRIER)
        return LK_OK;
    LK_CHECK(lk_dtype_size(c->dtype) > 0, LK_EDTYPE, "%s: %d is no dtype", what, (int)c->dtype);
    LK_CHECK(c->count >= 0, LK_EINVAL, "%s: %lld elements", what, (long long)c->count);
    LK_CHECK(c->root >= 0 && c->root < size, LK_EINVAL, "%s: root %d of %d ranks", what, c->root,
             size);
    k->elem = (int64_t)lk_dtype_size(c->dtype);
    bool reduces = lk__call_reduces(c->call);
    if (reduces && (c->op == LK_REDUCE_MINLOC || c->op == LK_REDUCE_MAXLOC))
        k->elem = sizeof(lk_value_index);
    LK_TRY(lk__extent(what, c->count, k->elem, &k->bytes));
    k->total = c->count;
    if (has_parts(c->call))
        LK_TRY(parts_make(k));
    else if (c->call != LK_CALL_REDUCE || k->rank == c->root)
        LK_TRY(buffer_check(k, "out", c->out, c->count));
    LK_CHECK(reduces || c->stride == 0, LK_EINVAL, "%s: a stride of %lld, where nothing is reduced",
             what, (long long)c->stride);
    LK_CHECK(c->call != LK_CALL_BCAST || !c->in, LK_EINVAL,
             "bcast: in is given, but what the root sends is in out");
    if (!reduces)
        return LK_OK;
    LK_TRY(reduction_make(k, what));
    k->n_vectors = lk__coll_args_subtrees(k, k->rank, NULL, 0);
    LK_TRY(stride_make(k, what));
    LK_CHECK(c->in || k->n_vectors <= 1, LK_EINVAL,
             "%s: rank %d has %lld vectors, one for each subtree of its pieces, which cannot be in "
             "place: give in",
             what, k->rank, (long long)k->n_vectors);
    LK_CHECK(c->in || c->out || k->n_vectors == 0 || c->count == 0, LK_EINVAL,
             "%s: in of %lld elements is NULL", what, (long long)c->count);
    return LK_OK;
}

lk__call lk__coll_args_call(const lk__coll_args *k, int algorithm)
{
    const lk_collective *c = &k->c;
    const lk__coll_state *state = k->comm->coll;
    return (lk__call){.call = c->call,
                      .name = c->name,
                      .dtype = c->dtype,
                      .op = lk__call_reduces(c->call) ? k->shown_op : LK_N_REDUCE_OPS,
                      .root = lk__call_rooted(c->call) ? c->root : -1,
                      .count = k->total,
                      .pieces = k->pieces,
                      .layout = k->layout,
                      .started = !k->wait,                    /* by lk_coll_start() */
                      .unchecked = state && state->unchecked, /* lk_coll_set_checks() */
                      .finite = k->comm->finite && lk__call_reduces(c->call), /* LK_FINITE */
                      .algorithm = algorithm};
}

void lk__coll_args_free(lk__coll_args *k)
{
    lk_free(k->memory);
    k->memory = NULL;
}
