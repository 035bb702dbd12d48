/* Collectives of lists: a value for each rank, with any shapes.
 *
 * The ranks first tell each other what the values are; then all elements travel in one op of
 * common/parts.c, as one flat value, and are cut into the values without a copy.
 */
#include "comm/user.h"
#include "dist/common/list.h"
#include "dist/common/pending.h"
#include "dist/common/sample_lists.h"

#include <lockstep/extra/alloc.h>

/* All values that ranks give must have one dtype; each rank that sees it otherwise ends the job. */
static lk_status dtypes_check(const lk__dist *d, const char *call, const lk__like *like,
                              lk_dtype dtype)
{
    int size = lk_comm_size(d->comm);
    for (int r = 0; r < size; r++) {
        if (like[r].dtype == (int64_t)dtype)
            continue;
        lk_status st = LK_RAISE(LK_EDTYPE, "%s(\"%s\"): rank %d gives %s and rank %d gives %s",
                                call, d->name, r, lk_dtype_name((lk_dtype)like[r].dtype),
                                lk_comm_rank(d->comm), lk_dtype_name(dtype));
        lk__comm_end_job(d->comm, st, lk_error_message());
        return st;
    }
    return LK_OK;
}

/* gather and allgather: `op` with the values of all ranks; `out` is filled where they come. */
static lk_status gather(lk__dist d, const char *call, const lk_op *op, lk_var x, bool here,
                        lk_var *out)
{
    lk_status st;
    lk__like own, *like = NULL;
    lk_var flat, counts;
    int size = lk_comm_size(d.comm);
    LK_TRY(lk__dist_check(&d, call, x));
    LK_TRY(lk__like_of(x, &own));
    LK_TRY(lk_alloc(&like, size, sizeof *like));
    LK_TRY_TO(done, lk_allgather(d.comm, &own, like, LK_LIKE, LK_I64, d.name));
    LK_TRY_TO(done, dtypes_check(&d, call, like, (lk_dtype)own.dtype));
    LK_TRY_TO(done, lk__list_counts(x.tape, like, size, &counts));
    LK_TRY_TO(done, lk__list_pack(&x, 1, &flat));
    LK_TRY_TO(done, lk_apply(x.tape, op, (lk_var[]){flat, counts}, 2, &d, &flat));
    if (here)
        LK_TRY_TO(done, lk__list_unpack(flat, like, size, out));
done:
    lk_free(like);
    return st;
}

lk_status lk_dist_allgather_list(lk_comm *comm, lk_var x, const char *name, lk_var *out)
{
    LK_CHECK(comm && out, LK_EINVAL, "allgather_list: %s is NULL", comm ? "out" : "comm");
    LK_TRY_DIST(comm, gather(lk__dist_of(comm, LK_REDUCE_SUM, 0, name), "allgather_list",
                             &lk__dist_allgather, x, true, out));
    return LK_OK;
}

lk_status lk_dist_gather_list(lk_comm *comm, lk_var x, int root, const char *name, lk_var *out)
{
    LK_CHECK(comm, LK_EINVAL, "gather_list: comm is NULL");
    bool here = lk_comm_rank(comm) == root;
    LK_CHECK(out || !here, LK_EINVAL, "gather_list: out is NULL on the root");
    LK_TRY_DIST(comm, gather(lk__dist_of(comm, LK_REDUCE_SUM, root, name), "gather_list",
                             &lk__dist_gather, x, here, out));
    return LK_OK;
}

lk_status lk_dist_scatter_list(lk_tape *tape, lk_comm *comm, const lk_var *xs, int root,
                               const char *name, lk_var *out)
{
    lk_status st;
    lk__dist d = lk__dist_of(comm, LK_REDUCE_SUM, root, name);
    lk__like *like = NULL;
    lk_var flat, counts;
    LK_CHECK(tape && comm && out, LK_EINVAL, "scatter_list: %s is NULL",
             !tape  ? "tape"
             : comm ? "out"
                    : "comm");
    *out = LK_NO_VAR;
    int size = lk_comm_size(comm), rank = lk_comm_rank(comm);
    LK_CHECK(root >= 0 && root < size, LK_EINVAL, "scatter_list: root %d of %d ranks", root, size);
    if (rank == root)
        LK_TRY_DIST(comm, lk__list_check("scatter_list", xs, size, false));
    LK_TRY_DIST(comm, lk__dist_uses(tape, comm, "scatter_list"));
    LK_TRY_DIST(comm, lk_alloc_zero(&like, size, sizeof *like));
    for (int r = 0; rank == root && r < size; r++)
        LK_TRY_TO(done, lk__like_of(xs[r], &like[r]));
    LK_TRY_TO(done, lk_bcast(comm, like, size * (int64_t)LK_LIKE, LK_I64, root, d.name));
    LK_TRY_TO(done, lk__list_counts(tape, like, size, &counts));
    if (rank == root)
        LK_TRY_TO(done, lk__list_pack(xs, size, &flat));
    else
        LK_TRY_TO(done, lk_full(tape, (lk_dtype)like[rank].dtype, LK_SHAPE(0), 0, &flat));
    LK_TRY_TO(done, lk_apply(tape, &lk__dist_scatter, (lk_var[]){flat, counts}, 2, &d, &flat));
    LK_TRY_TO(done, lk__list_unpack(flat, &like[rank], 1, out));
done:
    lk_free(like);
    return lk__dist_failed(comm, st);
}

lk_status lk_dist_alltoall_list(lk_comm *comm, const lk_var *xs, const char *name, lk_var *out)
{
    lk_status st;
    lk__dist d = lk__dist_of(comm, LK_REDUCE_SUM, 0, name);
    lk__like *like = NULL;
    lk_var flat, sent, got;
    LK_CHECK(comm && out, LK_EINVAL, "alltoall_list: %s is NULL", comm ? "out" : "comm");
    int size = lk_comm_size(comm);
    LK_TRY_DIST(comm, lk__list_check("alltoall_list", xs, size, false));
    lk_tape *tape = xs[0].tape;
    LK_TRY_DIST(comm, lk__dist_uses(tape, comm, "alltoall_list"));
    LK_TRY_DIST(comm, lk_alloc(&like, 2 * (int64_t)size, sizeof *like));
    lk__like *others = like + size;
    for (int r = 0; r < size; r++)
        LK_TRY_TO(done, lk__like_of(xs[r], &like[r]));
    LK_TRY_TO(done, lk_alltoall(comm, like, others, LK_LIKE, LK_I64, d.name));
    LK_TRY_TO(done, dtypes_check(&d, "alltoall_list", others, lk_dtype_of(xs[0])));
    LK_TRY_TO(done, lk__list_counts(tape, like, size, &sent));
    LK_TRY_TO(done, lk__list_counts(tape, others, size, &got));
    LK_TRY_TO(done, lk__list_pack(xs, size, &flat));
    LK_TRY_TO(done, lk_apply(tape, &lk__dist_alltoall, (lk_var[]){flat, sent, got}, 3, &d, &flat));
    LK_TRY_TO(done, lk__list_unpack(flat, others, size, out));
done:
    lk_free(like);
    return lk__dist_failed(comm, st);
}

/* ---- samples ---- */

static lk_status gather_list_body(const lk_dist_sample *s, lk_comm *comm, lk_var x, lk_var *list,
                                  lk_var *out)
{
    int root = lk_dist_root(s, comm);
    LK_TRY(lk_dist_gather_list(comm, x, root, "check", list));
    if (lk_comm_rank(comm) == root)
        LK_TRY(list_join(list, lk_comm_size(comm), out));
    return LK_OK;
}

static lk_status gather_list_sample(const lk_dist_sample *s, lk_comm *comm, const lk_var *in,
                                    lk_var *out)
{
    return LK_TRACE(list_run(gather_list_body, s, comm, in[0], out));
}

const lk_dist_check lk__dist_check_gather_list = {
    .name = "gather_list",
    .summary = "out[r] of root = x of rank r; dx = root's dy about it",
    .samples = (const lk_dist_sample[]){
        {LINEAR_SAMPLE("uneven, to the first", shape_ragged, gather_list_sample)},
        {LINEAR_SAMPLE("uneven, to the last", shape_ragged, gather_list_sample), .root = -1},
        {0}}};

static lk_status allgather_list_body(const lk_dist_sample *s, lk_comm *comm, lk_var x, lk_var *list,
                                     lk_var *out)
{
    (void)s;
    LK_TRY(lk_dist_allgather_list(comm, x, "check", list));
    return LK_TRACE(list_join(list, lk_comm_size(comm), out));
}

static lk_status allgather_list_sample(const lk_dist_sample *s, lk_comm *comm, const lk_var *in,
                                       lk_var *out)
{
    return LK_TRACE(list_run(allgather_list_body, s, comm, in[0], out));
}

const lk_dist_check lk__dist_check_allgather_list = {
    .name = "allgather_list",
    .summary = "out[r] = x of rank r; dx = the sum of the dy that are about it",
    .samples = (const lk_dist_sample[]){
        {LINEAR_SAMPLE("uneven", shape_ragged, allgather_list_sample)}, {0}}};

static lk_status alltoall_list_body(const lk_dist_sample *s, lk_comm *comm, lk_var x, lk_var *list,
                                    lk_var *out)
{
    int size = lk_comm_size(comm);
    (void)s;
    LK_TRY(list_parts(x, size, list));
    LK_TRY(lk_dist_alltoall_list(comm, list, "check", list + size));
    return LK_TRACE(list_join(list + size, size, out));
}

static lk_status alltoall_list_sample(const lk_dist_sample *s, lk_comm *comm, const lk_var *in,
                                      lk_var *out)
{
    return LK_TRACE(list_run(alltoall_list_body, s, comm, in[0], out));
}

const lk_dist_check lk__dist_check_alltoall_list = {
    .name = "alltoall_list",
    .summary = "out[r] = xs[rank] of rank r; dxs the same of dout",
    .samples = (const lk_dist_sample[]){{LINEAR_SAMPLE("uneven", shape_same, alltoall_list_sample)},
                                        {0}}};

static lk_status scatter_list_body(const lk_dist_sample *s, lk_comm *comm, lk_var x, lk_var *list,
                                   lk_var *out)
{
    int root = lk_dist_root(s, comm);
    if (lk_comm_rank(comm) == root)
        LK_TRY(list_parts(x, lk_comm_size(comm), list));
    return LK_TRACE(lk_dist_scatter_list(x.tape, comm, list, root, "check", out));
}

static lk_status scatter_list_sample(const lk_dist_sample *s, lk_comm *comm, const lk_var *in,
                                     lk_var *out)
{
    return LK_TRACE(list_run(scatter_list_body, s, comm, in[0], out));
}

const lk_dist_check lk__dist_check_scatter_list = {
    .name = "scatter_list",
    .summary = "y = xs[rank] of root; dxs[r] = dy of rank r, on root",
    .samples = (const lk_dist_sample[]){
        {LINEAR_SAMPLE("uneven, from the first", shape_same, scatter_list_sample)},
        {LINEAR_SAMPLE("uneven, from the last", shape_same, scatter_list_sample), .root = -1},
        {0}}};
