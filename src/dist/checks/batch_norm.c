/* Samples of batch_norm, on which lk_gradcheck_dist() compares its backward with differences. */
#include "dist/checks/shapes.h"

enum { CHANNELS = 2 };

/* Without shards parts are uneven, and some are empty; with them a shard is a sample. */
static int64_t samples_of(const lk_dist_sample *s, int rank, int size)
{
    return s->variant == 0 ? 2 + rank % 3 : rank == size - 1 ? 0 : rank == 0 ? 4 : 1;
}

static lk_shape shape_part(const lk_dist_sample *s, int rank, int size, int i)
{
    int64_t samples = size == 1 ? 4 : samples_of(s, rank, size);
    return i == 0 ? LK_SHAPE(samples, 2, CHANNELS) : LK_SHAPE(CHANNELS);
}

/* gamma and beta are those of rank 0. */
static lk_status run(const lk_dist_sample *s, lk_comm *comm, const lk_var *in, lk_var *out)
{
    enum { MOST = 64 };
    static const lk_batch_norm_attr attr = {.eps = 0.1};
    static _Thread_local int64_t first[MOST + 1];
    static _Thread_local lk_dist_batch batch; /* lives longer than the tape */
    int size = lk_comm_size(comm);
    lk_var gamma, beta, y[3];
    LK_CHECK(size <= MOST, LK_ENOTSUP, "the check is for up to %d ranks", MOST);
    for (int r = 0; r < size; r++)
        first[r + 1] = first[r] + shape_part(s, r, size, 0).dim[0];
    batch = (lk_dist_batch){.comm = comm, .samples = first[size]};
    if (s->variant == 1) {
        batch.shards = first[size];
        batch.first = first;
        LK_TRY(lk_tape_set_shard_size(in[0].tape, 1));
    }
    LK_TRY(lk_dist_bcast(comm, in[1], 0, "gamma", &gamma));
    LK_TRY(lk_dist_bcast(comm, in[2], 0, "beta", &beta));
    LK_TRY(lk_dist_batch_norm(&batch, in[0], gamma, beta, &attr, "check", y));
    *out = y[0];
    return LK_OK;
}

const lk_dist_check lk__dist_check_batch_norm = {
    .name = "batch_norm",
    .summary = "y = x by mean and variance over all ranks; dx = that of the whole batch",
    .samples = (const lk_dist_sample[]){
        {.name = "ranks as shards", .n_in = 3, .n_out = 1, .shape = shape_part, .run = run},
        {.name = "shards", .n_in = 3, .n_out = 1, .shape = shape_part, .run = run, .variant = 1},
        {0}}};
