/* lk_scatter_dataset(): every rank gets its samples, each of them once, and nothing else travels. */
#include "known_sets.h"
#include "ranks.h"
#include "sent_bytes.h"

#include <lockstep/coll.h>
#include <lockstep/iterator.h>
#include <lockstep/rng.h>

enum { MOST_SAMPLES = 100 };

static lk_dataset *scatter(lk_comm *comm, lk_dataset *ds, const lk_scatter_options *o)
{
    lk_dataset *mine;
    bool root = lk_comm_rank(comm) == o->root;
    ASSERT_OK(lk_scatter_dataset_options(comm, root ? ds : NULL, o, &mine));
    return mine;
}

/* The samples of this rank are those of its range, in order; those of all ranks are all samples. */
static void expect_part(lk_comm *comm, const lk_dataset *mine, int64_t n,
                        const lk_scatter_options *o)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    const lk_dataset_info *info = lk_dataset_info_of(mine);
    lk_range want = lk_scatter_range(n, rank, size, o->equal_length);
    int32_t times[MOST_SAMPLES] = {0};
    ASSERT_EQ(info->count, want.n);
    ASSERT_TRUE(info->in_memory && info->classes == 10 && info->n_fields == KNOWN_FIELDS);
    for (int64_t i = 0; i < want.n; i++) {
        int64_t sample = want.first + i;
        if (o->shuffle)
            ASSERT_OK(
                lk_rng_permute(lk_rng_start(o->seed, "data", "scatter"), 0, n, sample, 1, &sample));
        known_expect_sample(mine, i, sample);
        times[sample]++;
    }
    ASSERT_OK(lk_allreduce(comm, NULL, times, MOST_SAMPLES, LK_I32, LK_REDUCE_SUM, "times"));
    for (int64_t i = 0; i < n; i++)
        ASSERT_TRUE(times[i] == 1 || (times[i] > 1 && o->equal_length));
    int64_t longest = want.n;
    ASSERT_OK(lk_allreduce(comm, NULL, &longest, 1, LK_I64, LK_REDUCE_MAX, "longest"));
    ASSERT_TRUE(longest == want.n || (!o->equal_length && longest == want.n + 1));
}

RANKS_TEST(each_rank_has_its_samples)
{
    int size = lk_comm_size(comm);
    const int64_t counts[] = {0, 1, size, 5 * size - 1, 23};
    for (int i = 0; i < 5; i++)
        for (int root = 0; root < size; root++)
            for (int flags = 0; flags < 4; flags++) {
                lk_scatter_options o = {
                    .root = root, .shuffle = flags & 1, .seed = 11, .equal_length = flags & 2};
                known_set k = {.fails_at = -1};
                lk_dataset *ds = known_new(&k, counts[i], 10), *mine = scatter(comm, ds, &o);
                expect_part(comm, mine, counts[i], &o);
                lk_dataset_free(mine);
                lk_dataset_free(ds);
            }
}

/* The root sends each rank its samples, once, and reads no other; nobody else sends a message. */
RANKS_TEST(only_what_a_rank_needs_travels)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm), root = size / 2;
    for (int equal = 0; equal < 2; equal++) {
        const int64_t n = 5 * size - 1;
        lk_scatter_options o = {.root = root, .equal_length = equal};
        known_set k = {.fails_at = -1};
        lk_dataset *ds = known_new(&k, n, 10);
        bytes_begin(comm);
        lk_dataset *mine = scatter(comm, ds, &o);
        int64_t sent = bytes_end(comm).messages, others = 0, all = 0;
        for (int r = 0; r < size; r++) {
            all += lk_scatter_range(n, r, size, equal).n;
            others += r == root ? 0 : lk_scatter_range(n, r, size, equal).n;
        }
        ASSERT_EQ(all, equal && size > 1 ? n + 1 : n);
        ASSERT_EQ(sent, rank == root ? others * KNOWN_BYTES : 0);
        ASSERT_EQ(k.rows, rank == root ? all : 0);
        lk_dataset_free(mine);
        lk_dataset_free(ds);
    }
}

/* Samples larger than what is sent at once, and more of them than that. */
RANKS_TEST(large_sets_travel_in_pieces)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    const int64_t lengths[] = {300001, 100000}, samples[] = {3, 11};
    for (int i = 0; i < 2; i++) {
        lk_dataset_info info = {.name = "large", .n_fields = 1, .field = {{.name = "x"}}};
        int64_t n = size * samples[i], length = lengths[i];
        lk_dataset *ds = NULL, *mine;
        lk_tensor *x = NULL, *own = NULL;
        if (rank == 0) {
            void *data;
            ASSERT_OK(lk_tensor_new(LK_F32, LK_SHAPE(n, length), &x));
            ASSERT_OK(lk_tensor_writable_data(x, &data));
            for (int64_t e = 0; e < n * length; e++)
                ((float *)data)[e] = (float)e;
            ASSERT_OK(lk_dataset_from_tensors(&info, &x, &ds));
        }
        ASSERT_OK(lk_scatter_dataset(comm, ds, NULL, &mine));
        ASSERT_OK(lk_tensor_new(LK_F32, LK_SHAPE(1, length), &own));
        for (int64_t s = 0; s < samples[i]; s++) {
            ASSERT_OK(lk_dataset_read(mine, &s, 1, &own));
            const float *got = lk_tensor_data(own);
            for (int64_t e = 0; e < length; e++)
                ASSERT_EQ(got[e], (float)((rank * samples[i] + s) * length + e));
        }
        lk_tensor_free(own);
        lk_tensor_free(x);
        lk_dataset_free(mine);
        lk_dataset_free(ds);
    }
}

RANKS_TEST(sets_without_fields_are_parted_too)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    lk_dataset *ds = NULL, *mine;
    if (rank == size - 1)
        ASSERT_OK(lk_dataset_open("empty", "samples=10", LK_TRAIN, &ds));
    lk_scatter_options o = {.root = size - 1};
    ASSERT_OK(lk_scatter_dataset_options(comm, ds, &o, &mine));
    ASSERT_EQ(lk_dataset_info_of(mine)->n_fields, 0);
    ASSERT_EQ(lk_dataset_info_of(mine)->count, lk_scatter_range(10, rank, size, false).n);
    lk_dataset_free(mine);
    lk_dataset_free(ds);
}

RANKS_TEST(the_text_has_the_defaults_of_the_original)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    known_set k = {.fails_at = -1};
    lk_dataset *ds = known_new(&k, 10, 10), *mine;
    ASSERT_OK(lk_scatter_dataset(comm, rank == 0 ? ds : NULL, NULL, &mine));
    expect_part(comm, mine, 10, &(lk_scatter_options){.equal_length = true});
    lk_dataset_free(mine);
    ASSERT_OK(lk_scatter_dataset(comm, ds, "shuffle=true seed=-4 equal_length=false", &mine));
    expect_part(comm, mine, 10, &(lk_scatter_options){.shuffle = true, .seed = -4});
    lk_dataset_free(mine);
    lk_dataset_free(ds);
    (void)size;
}

/* ---- failures ---- */

/* Whichever sample cannot be read, all ranks fail with the root's words, and go on. */
RANKS_TEST(a_sample_that_cannot_be_read_fails_on_all)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm), root = size - 1;
    for (int64_t sample = 0; sample < 2 * size; sample++) {
        lk_scatter_options o = {.root = root};
        known_set k = {.fails_at = sample};
        lk_dataset *ds = known_new(&k, 2 * size, 10), *mine;
        char words[64];
        snprintf(words, sizeof words, "planted at sample %lld", (long long)sample);
        ASSERT_FAILS(lk_scatter_dataset_options(comm, rank == root ? ds : NULL, &o, &mine), LK_EIO,
                     words);
        ASSERT_TRUE(!mine);
        lk_dataset_free(ds);
    }
    ASSERT_OK(lk_barrier(comm, "and the ranks go on"));
}

/* The same where each rank gets several pieces: those before have arrived. */
RANKS_TEST(a_failure_between_pieces_ends_the_wait)
{
    enum { PER_RANK = 45000 }; /* of 53 bytes: three pieces */
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    int64_t n = (int64_t)PER_RANK * size, fails[] = {20000, PER_RANK + 30000, n - 1};
    for (int i = 0; i < 3; i++) {
        known_set k = {.fails_at = fails[i] % n};
        lk_dataset *ds = known_new(&k, n, 10), *mine;
        ASSERT_FAILS(lk_scatter_dataset(comm, rank == 0 ? ds : NULL, NULL, &mine), LK_EIO,
                     "planted");
        lk_dataset_free(ds);
    }
}

RANKS_TEST(labels_that_are_no_classes_fail_on_all)
{
    known_set k = {.fails_at = -1};
    lk_dataset *ds = known_new(&k, 20, 9), *mine; /* labels go to 9 */
    ASSERT_FAILS(lk_scatter_dataset(comm, ds, NULL, &mine), LK_EINVAL, "has the label 9");
    ASSERT_TRUE(!mine);
    lk_dataset_free(ds);
}

RANKS_TEST(arguments_that_are_wrong_on_one_rank_fail_on_all)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    known_set k = {.fails_at = -1};
    lk_dataset *ds = known_new(&k, 20, 10), *mine;
    lk_scatter_options o = {.root = size};
    ASSERT_FAILS(lk_scatter_dataset_options(comm, ds, &o, &mine), LK_EINVAL, "root");
    ASSERT_FAILS(lk_scatter_dataset(comm, NULL, NULL, &mine), LK_EINVAL,
                 "rank 0 is to scatter a set, but has none");
    ASSERT_FAILS(lk_scatter_dataset(comm, ds, rank == size - 1 ? "shufle=true" : NULL, &mine),
                 LK_EINVAL, "shuffle");
    ASSERT_FAILS(lk_scatter_dataset(NULL, ds, NULL, &mine), LK_EINVAL, "comm is NULL");
    lk_dataset_free(ds);
}
