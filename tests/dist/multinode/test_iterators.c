/* Iterators on several ranks: what ChainerMN's tests expect of its multi-node and synchronized ones, with
 * every dtype, exact numbers, failures and a saved state. */
#include "base/storage/fault.h"
#include "known_sets.h"
#include "rank_folders.h"

#include <lockstep/iterator.h>
#include <lockstep/rng.h>

enum { COUNT = 100, SEED = 5, PATH = 256 };

static const int64_t sizes[] = {4, 7}; /* of batches, as the original's tests have them */

/* A loader of a known set; `seed` is that of its order. */
static lk_loader *loader_new(known_set *k, int64_t count, int64_t batch, int64_t seed)
{
    char options[64];
    lk_dataset *ds = known_new(k, count, 10);
    lk_loader *loader;
    snprintf(options, sizeof options, "batch=%lld prefetch=0", (long long)batch);
    ASSERT_OK(lk_loader_new(ds, options, seed, &loader));
    lk_dataset_free(ds);
    return loader;
}

static lk_iterator *iterator_new(lk_comm *comm, lk_loader *loader, int kind, int master,
                                 bool repeat)
{
    lk_iterator *it;
    lk_iterator_options o = {.kind = kind, .master = master, .repeat = repeat};
    ASSERT_OK(lk_iterator_new_options(comm, loader, &o, &it));
    return it;
}

/* A batch is that of the step: the samples of the permutation of SEED, with all fields. */
static void expect_batch(const lk_batch *b, int64_t step, int64_t count, int64_t batch)
{
    int64_t batches = (count + batch - 1) / batch, at = step % batches * batch;
    int64_t n = count - at < batch ? count - at : batch, index[16];
    ASSERT_TRUE(n <= 16);
    ASSERT_OK(
        lk_rng_permute(lk_rng_start(SEED, "data", "shuffle"), step / batches, count, at, n, index));
    ASSERT_EQ(b->n, n);
    ASSERT_EQ(b->size, n);
    ASSERT_EQ(b->first, 0);
    ASSERT_EQ(b->epoch, step / batches);
    ASSERT_EQ(b->number, step % batches);
    ASSERT_SAME_BITS(b->index, index, n * 8);
    ASSERT_EQ(b->n_fields, KNOWN_FIELDS);
    ASSERT_TRUE(b->x == b->field[0] && b->y == b->field[1]);
    for (int f = 0; f < KNOWN_FIELDS; f++) {
        ASSERT_EQ(lk_tensor_shape(b->field[f]).dim[0], n);
        for (int64_t i = 0; i < n; i++)
            known_expect_row(b->field[f], i, index[i], f);
    }
}

/* The next batch is that of the step, and the position behind it says so. */
static void expect_next(lk_iterator *it, int64_t step, int64_t count, int64_t batch)
{
    lk_batch b;
    bool more;
    ASSERT_EQ(lk_iterator_position(it).step, step);
    ASSERT_OK(lk_iterator_next(it, &b, &more));
    ASSERT_TRUE(more);
    expect_batch(&b, step, count, batch);
    int64_t batches = (count + batch - 1) / batch;
    lk_position at = lk_iterator_position(it);
    ASSERT_EQ(at.step, step + 1);
    ASSERT_EQ(at.epoch, (step + 1) / batches);
    ASSERT_EQ(at.batch, (step + 1) % batches);
    ASSERT_EQ(at.batches, batches);
}

static void expect_end(lk_iterator *it)
{
    lk_batch b;
    bool more = true;
    ASSERT_OK(lk_iterator_next(it, &b, &more));
    ASSERT_TRUE(!more);
}

/* The masters that tests of the original have, 0 and 1, and the last rank. */
static int masters(const lk_comm *comm, int *out)
{
    int size = lk_comm_size(comm), n = 0;
    for (int r = 0; r < size; r++)
        if (r < 2 || r == size - 1)
            out[n++] = r;
    return n;
}

/* ---- batches ---- */

RANKS_TEST(a_serial_iterator_has_the_batches_of_its_loader)
{
    (void)comm;
    for (int i = 0; i < 2; i++) {
        known_set k = {.fails_at = -1};
        lk_loader *loader = loader_new(&k, COUNT, sizes[i], SEED);
        int64_t batches = lk_loader_batches(loader);
        lk_iterator *it = iterator_new(NULL, loader, LK_ITERATOR_SERIAL, 0, true);
        ASSERT_TRUE(lk_iterator_repeats(it));
        for (int64_t step = 0; step < 2 * batches + 1; step++)
            expect_next(it, step, COUNT, sizes[i]);
        lk_iterator_free(it);
        it = iterator_new(NULL, loader, LK_ITERATOR_SERIAL, 0, false);
        for (int twice = 0; twice < 2; twice++, lk_iterator_reset(it)) {
            for (int64_t step = 0; step < batches; step++)
                expect_next(it, step, COUNT, sizes[i]);
            expect_end(it);
            expect_end(it);
        }
        lk_iterator_free(it);
        lk_loader_free(loader);
    }
}

RANKS_TEST(a_master_feeds_all_ranks)
{
    int who[3], n = masters(comm, who), rank = lk_comm_rank(comm);
    for (int m = 0; m < n; m++)
        for (int i = 0; i < 2; i++) {
            known_set k = {.fails_at = -1};
            lk_loader *loader = rank == who[m] ? loader_new(&k, COUNT, sizes[i], SEED) : NULL;
            lk_iterator *it = iterator_new(comm, loader, LK_ITERATOR_MULTI_NODE, who[m], true);
            int64_t batches = lk_iterator_position(it).batches;
            ASSERT_EQ(batches, i == 0 ? 25 : 15);
            for (int64_t step = 0; step < 2 * batches + 1; step++)
                expect_next(it, step, COUNT, sizes[i]);
            for (int f = 0; f <= KNOWN_FIELDS; f++) {
                lk_field field = lk_iterator_field(it, f);
                const char *want = f < KNOWN_FIELDS ? known_field[f].name : "";
                ASSERT_TRUE(strcmp(field.name, want) == 0);
            }
            lk_iterator_free(it);
            lk_loader_free(loader);
        }
}

/* The master's options count: the others ask for another epoch. */
RANKS_TEST(the_end_reaches_all_ranks)
{
    int who[3], n = masters(comm, who), rank = lk_comm_rank(comm);
    for (int m = 0; m < n; m++) {
        known_set k = {.fails_at = -1};
        bool master = rank == who[m];
        lk_loader *loader = master ? loader_new(&k, COUNT, 7, SEED) : NULL;
        lk_iterator *it = iterator_new(comm, loader, LK_ITERATOR_MULTI_NODE, who[m], !master);
        ASSERT_TRUE(!lk_iterator_repeats(it));
        for (int64_t step = 0; step < 15; step++)
            expect_next(it, step, COUNT, 7);
        expect_end(it);
        expect_end(it);
        lk_iterator_reset(it);
        expect_next(it, 0, COUNT, 7);
        lk_iterator_free(it);
        lk_loader_free(loader);
    }
}

/* There are more samples than floats, and 32 bits, can count. */
RANKS_TEST(numbers_of_samples_are_exact)
{
    const int64_t count = (INT64_C(1) << 40) + 3;
    const int64_t steps[] = {0, (INT64_C(1) << 24) + 1, (INT64_C(1) << 33) + 1, (INT64_C(1) << 38),
                             (INT64_C(1) << 38) + 1};
    int rank = lk_comm_rank(comm), master = lk_comm_size(comm) - 1;
    known_set k = {.fails_at = -1};
    lk_loader *loader = rank == master ? loader_new(&k, count, 4, SEED) : NULL;
    lk_iterator *it = iterator_new(comm, loader, LK_ITERATOR_MULTI_NODE, master, true);
    for (int i = 0; i < 5; i++) {
        lk_state_number number[LK_ITERATOR_NUMBERS];
        ASSERT_OK(lk_iterator_numbers(it, "it", number));
        number[0].i64 = steps[i];
        ASSERT_OK(lk_iterator_restore(it, number));
        expect_next(it, steps[i], count, 4);
    }
    lk_iterator_free(it);
    lk_loader_free(loader);
}

RANKS_TEST(synchronized_loaders_have_the_order_of_rank_0)
{
    int rank = lk_comm_rank(comm);
    for (int i = 0; i < 2; i++) {
        known_set k = {.fails_at = -1};
        lk_loader *loader = loader_new(&k, COUNT, sizes[i], SEED + rank);
        lk_iterator *it = iterator_new(comm, loader, LK_ITERATOR_SYNCHRONIZED, 0, true);
        ASSERT_EQ(lk_loader_seed(loader), SEED);
        for (int64_t step = 0; step < 30; step++)
            expect_next(it, step, COUNT, sizes[i]);
        lk_iterator_free(it);
        lk_loader_free(loader);
    }
}

/* A rank without values is at the same samples, as the second half of a network has to be. */
RANKS_TEST(an_empty_set_is_at_the_same_samples)
{
    int rank = lk_comm_rank(comm);
    known_set k = {.fails_at = -1};
    lk_dataset *empty;
    lk_loader *loader;
    ASSERT_OK(lk_dataset_open("empty", "samples=100", LK_TRAIN, &empty));
    if (rank == 0)
        loader = loader_new(&k, COUNT, 7, SEED);
    else
        ASSERT_OK(lk_loader_new(empty, "batch=7", 99, &loader));
    for (int kind = LK_ITERATOR_MULTI_NODE; kind <= LK_ITERATOR_SYNCHRONIZED; kind++) {
        int master = lk_comm_size(comm) - 1;
        lk_iterator *it = iterator_new(comm, loader, kind, master, true);
        int64_t first, same;
        for (int64_t step = 0; step < 20; step++) {
            lk_batch b;
            bool more;
            ASSERT_OK(lk_iterator_next(it, &b, &more));
            bool has = kind == LK_ITERATOR_SYNCHRONIZED ? rank == 0 : master == 0;
            ASSERT_EQ(b.x != NULL, has);
            ASSERT_EQ(b.n_fields, has ? KNOWN_FIELDS : 0);
            first = same = b.index[b.n - 1];
            ASSERT_OK(lk_bcast(comm, &first, 1, LK_I64, 0, "first"));
            ASSERT_EQ(same, first);
        }
        lk_iterator_free(it);
    }
    lk_loader_free(loader);
    lk_dataset_free(empty);
}

/* ---- the state ---- */

/* What comes behind a restored state is what came behind the saved one: of another loader with another
 * seed, and whatever ranks that are no master say. */
RANKS_TEST(a_restored_iterator_goes_on)
{
    int rank = lk_comm_rank(comm), master = lk_comm_size(comm) - 1;
    for (int kind = LK_ITERATOR_SERIAL; kind <= LK_ITERATOR_SYNCHRONIZED; kind++) {
        known_set k = {.fails_at = -1};
        lk_state_number number[LK_ITERATOR_NUMBERS];
        lk_loader *loader = loader_new(&k, COUNT, 7, SEED);
        lk_iterator *it = iterator_new(comm, loader, kind, master, true);
        for (int64_t step = 0; step < 20; step++)
            expect_next(it, step, COUNT, 7);
        ASSERT_OK(lk_iterator_numbers(it, "train", number));
        ASSERT_TRUE(strcmp(number[0].name, "train.step") == 0 && number[0].i64 == 20);
        lk_iterator_free(it);
        lk_loader_free(loader);

        int counts = kind == LK_ITERATOR_MULTI_NODE ? master : 0;
        if (kind != LK_ITERATOR_SERIAL && rank != counts)
            number[0].i64 = -7, number[1].i64 = 99, number[2].i64 = 1;
        loader = loader_new(&k, COUNT, 7, SEED + 1);
        it = iterator_new(comm, loader, kind, master, true);
        ASSERT_OK(lk_iterator_restore(it, number));
        for (int64_t step = 20; step < 35; step++)
            expect_next(it, step, COUNT, 7);
        lk_iterator_free(it);
        lk_loader_free(loader);
    }
}

RANKS_TEST(a_state_goes_through_a_checkpoint)
{
    int rank = lk_comm_rank(comm);
    char folder[PATH];
    lk_checkpoint_dir *dir;
    lk_state_number number[LK_ITERATOR_NUMBERS];
    lk_state state = {.step = 20, .number = number, .n_numbers = LK_ITERATOR_NUMBERS};
    known_set k = {.fails_at = -1};
    lk_loader *loader = rank == 0 ? loader_new(&k, COUNT, 4, SEED) : NULL;
    lk_iterator *it = iterator_new(comm, loader, LK_ITERATOR_MULTI_NODE, 0, true);
    lk__storage_sync_skip(true);
    folder_share(comm, folder, sizeof folder);
    ASSERT_OK(lk_checkpoint_dir_open(comm, folder, &(lk_checkpoint_dir_options){.keep = 2}, &dir));
    for (int64_t step = 0; step < 30; step++) {
        expect_next(it, step, COUNT, 4);
        ASSERT_OK(lk_iterator_numbers(it, "train", number));
        if (step == 19)
            ASSERT_OK(lk_checkpoint_dir_save(dir, &state));
    }
    bool found;
    ASSERT_OK(lk_checkpoint_dir_load(dir, &state, &found));
    ASSERT_TRUE(found);
    ASSERT_OK(lk_iterator_restore(it, number));
    expect_next(it, 20, COUNT, 4);
    lk_checkpoint_dir_close(dir);
    folder_remove(comm, folder);
    lk_iterator_free(it);
    lk_loader_free(loader);
}

RANKS_TEST(a_state_of_other_batches_is_refused_on_all)
{
    int rank = lk_comm_rank(comm), master = lk_comm_size(comm) - 1;
    known_set k = {.fails_at = -1};
    lk_state_number number[LK_ITERATOR_NUMBERS];
    lk_loader *loader = rank == master ? loader_new(&k, COUNT, 7, SEED) : NULL;
    lk_iterator *it = iterator_new(comm, loader, LK_ITERATOR_MULTI_NODE, master, true);
    ASSERT_OK(lk_iterator_numbers(it, "train", number));
    number[3].i64 = rank == master ? 4 : 7;
    ASSERT_FAILS(lk_iterator_restore(it, number), LK_EINVAL,
                 "the state is of batches of 4 of 100 samples, the iterator's are of 7 of 100");
    number[3].i64 = 7;
    number[0].i64 = rank == master ? -1 : 0;
    ASSERT_FAILS(lk_iterator_restore(it, number), LK_EINVAL, "the state is of step -1");
    number[0].i64 = rank == master ? INT64_MAX : 0;
    ASSERT_FAILS(lk_iterator_restore(it, number), LK_EINVAL,
                 "the state is of step 9223372036854775807: it is from 0 to 4611686018427387903");
    ASSERT_FAILS(
        lk_iterator_numbers(it, "0123456789012345678901234567890123456789012345678", number),
        LK_EINVAL, "at most 47");
    expect_next(it, 0, COUNT, 7);
    lk_iterator_free(it);
    lk_loader_free(loader);
}

/* ---- failures ---- */

/* A sample that the master cannot read: all ranks fail in the same call, stay where they are, and go on
 * when it can. */
RANKS_TEST(a_read_error_of_the_master_reaches_all)
{
    int who[3], n = masters(comm, who), rank = lk_comm_rank(comm);
    for (int m = 0; m < n; m++) {
        int64_t index;
        known_set k = {.fails_at = -1};
        ASSERT_OK(lk_rng_permute(lk_rng_start(SEED, "data", "shuffle"), 0, COUNT, 30, 1, &index));
        lk_loader *loader = rank == who[m] ? loader_new(&k, COUNT, 7, SEED) : NULL;
        lk_iterator *it = iterator_new(comm, loader, LK_ITERATOR_MULTI_NODE, who[m], true);
        k.fails_at = index;
        for (int64_t step = 0; step < 4; step++)
            expect_next(it, step, COUNT, 7);
        for (int twice = 0; twice < 2; twice++) {
            lk_batch b;
            bool more = true;
            ASSERT_FAILS(lk_iterator_next(it, &b, &more), LK_EIO, "planted at sample");
            ASSERT_TRUE(!more);
        }
        k.fails_at = -1;
        for (int64_t step = 4; step < 20; step++)
            expect_next(it, step, COUNT, 7);
        lk_iterator_free(it);
        lk_loader_free(loader);
    }
}

RANKS_TEST(other_boxes_than_before_are_refused_on_all)
{
    int rank = lk_comm_rank(comm);
    known_set k = {.fails_at = -1};
    lk_batch b;
    bool more;
    lk_loader *loader = rank == 0 ? loader_new(&k, COUNT, 7, SEED) : NULL;
    lk_iterator *it = iterator_new(comm, loader, LK_ITERATOR_MULTI_NODE, 0, true);
    expect_next(it, 0, COUNT, 7);
    if (rank == 0)
        ASSERT_OK(lk_loader_set_box(loader, 0, &(lk_box){1, {1}, {2}}));
    ASSERT_FAILS(lk_iterator_next(it, &b, &more), LK_ESTATE, "field \"x\", not rows of [3]");
    if (rank == 0)
        ASSERT_OK(lk_loader_set_box(loader, 0, NULL));
    expect_next(it, 1, COUNT, 7);
    lk_iterator_free(it);
    lk_loader_free(loader);
}

RANKS_TEST(what_is_wrong_on_one_rank_fails_on_all)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm), last = size - 1;
    known_set k = {.fails_at = -1};
    lk_loader *loader = loader_new(&k, COUNT, 7, SEED);
    lk_iterator *it;
    ASSERT_FAILS(lk_iterator_new(comm, loader, rank == last ? "kind=multinode" : NULL, &it),
                 LK_EINVAL, "multi_node");
    ASSERT_FAILS(lk_iterator_new(comm, rank == last ? NULL : loader, NULL, &it), LK_EINVAL,
                 "loader is NULL");
    ASSERT_FAILS(lk_iterator_new(comm, rank == last ? NULL : loader, "kind=synchronized", &it),
                 LK_EINVAL, "loader is NULL");
    ASSERT_FAILS(lk_iterator_new(comm, NULL, "kind=multi_node", &it), LK_EINVAL, "loader is NULL");
    lk_iterator_options o = {.kind = LK_ITERATOR_MULTI_NODE, .master = size};
    ASSERT_FAILS(lk_iterator_new_options(comm, loader, &o, &it), LK_EINVAL, "master");
    ASSERT_FAILS(lk_iterator_new(NULL, loader, "kind=synchronized", &it), LK_EINVAL,
                 "comm is NULL");
    ASSERT_TRUE(!it);
    lk_loader_free(loader);
}

RANKS_TEST(loaders_that_differ_cannot_be_synchronized)
{
    static const char *const other[] = {"batch=8", "batch=7 shuffle=false"};
    static const char *const words[] = {"batches of 8 of 100 samples, on rank 0 of 7 of 100",
                                        "does not shuffle, that of rank 0 does"};
    int rank = lk_comm_rank(comm), last = lk_comm_size(comm) - 1;
    known_set k = {.fails_at = -1};
    lk_dataset *ds = known_new(&k, COUNT, 10);
    for (int i = 0; i < 2 && last > 0; i++) {
        lk_loader *loader;
        lk_iterator *it;
        ASSERT_OK(lk_loader_new(ds, rank == last ? other[i] : "batch=7", SEED, &loader));
        ASSERT_FAILS(lk_iterator_new(comm, loader, "kind=synchronized", &it), LK_ESHAPE, words[i]);
        lk_loader_free(loader);
    }
    lk_dataset_free(ds);
}
