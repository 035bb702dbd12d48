/* Plain C objects from and to all ranks: lk_bcast_bytes(), lk_gather_bytes(), lk_allgather_bytes() and
 * lk_allreduce_bytes().
 *
 * Lengths go ahead of bytes; -1 stands for no object, of a rank whose arguments or join failed.  Who gets
 * bytes takes memory first, and all agree on that before a byte is sent.
 */
#include "coll/objects.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/checked.h>

#include <string.h>

static lk_status object_check(const void *bytes, int64_t n)
{
    LK_CHECK(n >= 0 && (bytes || n == 0), LK_EINVAL, "an object of %lld bytes at %p", (long long)n,
             bytes);
    return LK_OK;
}

lk_status lk__bcast_pieces(lk_comm *comm, void *data, int64_t n, int64_t most, int root,
                           const char *name)
{
    for (int64_t at = 0; at < n; at += most)
        LK_TRY(lk_bcast(comm, (char *)data + at, n - at < most ? n - at : most, LK_U8, root, name));
    return LK_OK;
}

lk_status lk_bcast_bytes(lk_comm *comm, const void *bytes, int64_t n, int root, const char *name,
                         void **out, int64_t *n_out)
{
    LK_CHECK(out && n_out, LK_EINVAL, "%s is NULL", out ? "n_out" : "out");
    bool mine = lk_comm_rank(comm) == root;
    lk_status st = mine ? object_check(bytes, n) : LK_OK;
    int64_t length = mine && st == LK_OK ? n : -1;
    char *block = NULL;
    *out = NULL;
    *n_out = 0;
    LK_TRY(lk_bcast(comm, &length, 1, LK_I64, root, name));
    if (length >= 0)
        st = lk_alloc(&block, length, 1);
    LK_TRY_TO(fail, lk_agree(comm, st));
    if (mine && bytes && block)
        memcpy(block, bytes, (size_t)length);
    LK_TRY_TO(fail, lk__bcast_pieces(comm, block, length, LK_BCAST_PIECE, root, name));
    *out = block;
    *n_out = length;
    return LK_OK;
fail:
    lk_free(block);
    return st;
}

/* The bytes of all objects; -1 if a rank has none. */
static lk_status lengths_add(const int64_t *length, int size, int64_t *total)
{
    *total = 0;
    for (int r = 0; r < size; r++) {
        if (length[r] < 0) {
            *total = -1;
            return LK_OK;
        }
        LK_TRY(lk_add_i64(*total, length[r], total));
    }
    return LK_OK;
}

/* Gather, on `root` or, if that is -1, everywhere. */
static lk_status gather(lk_comm *comm, const void *bytes, int64_t n, int root, const char *name,
                        void **out, int64_t *first)
{
    LK_CHECK(out && first, LK_EINVAL, "%s is NULL", out ? "first" : "out");
    int size = lk_comm_size(comm);
    bool gets = root < 0 || lk_comm_rank(comm) == root;
    lk_status own = object_check(bytes, n), st = LK_OK;
    int64_t length = own == LK_OK ? n : -1, total = 0, *counts = first + 1;
    char *block = NULL;
    *out = NULL;
    LK_TRY(lk_allgather(comm, &length, counts, 1, LK_I64, name));
    if (own == LK_OK)
        own = lengths_add(counts, size, &total);
    if (own == LK_OK && total >= 0 && gets)
        own = lk_alloc(&block, total, 1);
    LK_TRY_TO(fail, lk_agree(comm, own));
    lk_collective c = {.call = root < 0 ? LK_CALL_ALLGATHER : LK_CALL_GATHER,
                       .name = name,
                       .in = bytes ? bytes : "", /* NULL would be in place */
                       .out = block,
                       .counts = counts,
                       .dtype = LK_U8,
                       .root = root < 0 ? 0 : root};
    LK_TRY_TO(fail, lk_coll_run(comm, &c));
    first[0] = 0;
    for (int r = 0; r < size; r++)
        first[r + 1] += first[r];
    *out = block;
    return LK_OK;
fail:
    lk_free(block);
    return st;
}

lk_status lk_gather_bytes(lk_comm *comm, const void *bytes, int64_t n, int root, const char *name,
                          void **out, int64_t *first)
{
    LK_CHECK(root >= 0 && root < lk_comm_size(comm), LK_EINVAL, "root %d of %d ranks", root,
             lk_comm_size(comm));
    return LK_TRACE(gather(comm, bytes, n, root, name, out, first));
}

lk_status lk_allgather_bytes(lk_comm *comm, const void *bytes, int64_t n, const char *name,
                             void **out, int64_t *first)
{
    return LK_TRACE(gather(comm, bytes, n, -1, name, out, first));
}

/* ---- joined ---- */

/* What lk_allreduce_bytes() has on this rank: its object, then those of the ranks behind it as well. */
struct joined {
    lk_comm *comm;
    const char *name;
    lk_join_bytes_fn *join;
    void *context, *block;
    int64_t n;
};

/* `count` elements from rank `from` to rank `to`, if this is one of them and both are there. */
static lk_status pass(const struct joined *o, int from, int to, const void *in, void *out,
                      int64_t count, lk_dtype dtype)
{
    int rank = lk_comm_rank(o->comm);
    bool sends = rank == from, gets = rank == to && from < lk_comm_size(o->comm);
    int peer = sends ? to : gets ? from : -1;
    char none;
    lk_collective c = {.call = LK_CALL_NEIGHBOUR,
                       .name = o->name,
                       .in = in,
                       .out = out ? out : &none,
                       .in_counts = (int64_t[]){sends ? count : 0},
                       .counts = (int64_t[]){gets ? count : 0},
                       .dtype = dtype,
                       .neighbours = &peer,
                       .n_neighbours = 1};
    return LK_TRACE(lk_coll_run(o->comm, &c));
}

static lk_status join(struct joined *o, const void *other, int64_t n_other)
{
    void *both = NULL;
    int64_t n = 0;
    LK_TRY(o->join(o->context, o->block, o->n, other, n_other, &both, &n));
    LK_CHECK(both && n >= 0, LK_EINVAL, "%s: joined are %lld bytes at %p", o->name ? o->name : "",
             (long long)n, both);
    lk_free(o->block);
    o->block = both;
    o->n = n;
    return LK_OK;
}

/* Ranks `apart` from each other join what they have, the lower of a pair what the upper sends:
 *
 *     apart 1     0 <- 1   2 <- 3   4 <- 5   6
 *           2     0 <----- 2        4 <----- 6
 *           4     0 <-------------- 4
 *
 * `*own` is what became of this rank's part so far, which the others hear of in the next agreement. */
static lk_status level(struct joined *o, int apart, lk_status *own)
{
    int rank = lk_comm_rank(o->comm), size = lk_comm_size(o->comm);
    int to = rank - rank % (2 * apart), from = to + apart;
    bool gets = rank == to && from < size;
    int64_t n = 0;
    void *other = NULL;
    lk_status st;
    LK_TRY(pass(o, from, to, &o->n, &n, 1, LK_I64));
    if (gets && *own == LK_OK)
        *own = lk_alloc(&other, n, 1);
    LK_TRY_TO(done, lk_agree(o->comm, *own));
    LK_TRY_TO(done, pass(o, from, to, o->block, other, gets ? n : o->n, LK_U8));
    if (gets)
        *own = join(o, other, n);
done:
    lk_free(other);
    return st;
}

lk_status lk_allreduce_bytes(lk_comm *comm, const void *bytes, int64_t n, lk_join_bytes_fn *join_fn,
                             void *context, const char *name, void **out, int64_t *n_out)
{
    LK_CHECK(join_fn && out && n_out, LK_EINVAL, "%s is NULL",
             join_fn ? out ? "n_out" : "out" : "join");
    struct joined o = {.comm = comm, .name = name, .join = join_fn, .context = context};
    lk_status own = object_check(bytes, n), st = LK_OK;
    *out = NULL;
    *n_out = 0;
    if (own == LK_OK)
        own = lk_alloc(&o.block, n, 1);
    if (own == LK_OK)
        o.n = n;
    if (o.n > 0)
        memcpy(o.block, bytes, (size_t)n);
    for (int64_t apart = 1; apart < lk_comm_size(comm); apart *= 2)
        LK_TRY_TO(done, level(&o, (int)apart, &own));
    LK_TRY_TO(done, lk_agree(comm, own));
    LK_TRY_TO(done, lk_bcast_bytes(comm, o.block, o.n, 0, name, out, n_out));
done:
    lk_free(o.block);
    return st;
}
