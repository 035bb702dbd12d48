/* Models of which each rank holds a part, in little memory: ranks that each hold some blocks of every
 * tensor, parameters and Adam's, hash and save them, and fewer ranks load them into models that hold others.
 * No rank has ever more than its share and some MiB.
 *
 * Counted is what the library allocates, on threads of all ranks together.  With TEST_STATE_MIB=512 as
 * processes of an MPI the limits are the system's: 256 MiB of data, and as much resident at most.
 */
#include "held_models.h"
#include "io/checkpoint/checkpoint.h"
#include "ranks.h"

#include <lockstep/coll.h>

#include <sys/resource.h>

enum { MIB = 1 << 20, LIMIT = 256 * MIB, PATH = 256, SEED = 7 };

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { LIMITED = 0 }; /* their shadows count as data */
#else
enum { LIMITED = 1 };
#endif

static int64_t state_mib(void)
{
    const char *text = getenv("TEST_STATE_MIB");
    return text ? strtoll(text, NULL, 10) : 12;
}

/* Parameters and two slabs of Adam are the state: half of it is one layer's. */
static held_size size_of(void)
{
    int64_t elements = state_mib() * MIB / 12, narrow = state_mib() < 256 ? 256 : 1024;
    int64_t wide = (elements - 8 * narrow * narrow) / narrow / HELD_BLOCKS + 1;
    return (held_size){narrow, wide * HELD_BLOCKS};
}

static lk_checkpoint_dir *folder_open(lk_comm *comm, const char *path)
{
    lk_checkpoint_dir *c;
    lk_checkpoint_dir_options o = {
        .identity = 1, .wait_seconds = 5, .part_bytes = state_mib() * MIB / 8};
    ASSERT_OK(lk_checkpoint_dir_open(comm, path, &o, &c));
    return c;
}

/* Save the state, with its hash. */
static uint64_t save(lk_comm *comm, const char *path)
{
    lk_checkpoint_dir *c = folder_open(comm, path);
    lk_range blocks = held_blocks(lk_comm_rank(comm), lk_comm_size(comm));
    held_model h = held_make(size_of(), SEED, blocks, true);
    lk_state state = {
        .step = 7, .hash = held_hash(comm, &h), .tensor = h.all->tensor, .n_tensors = h.all->n};
    ASSERT_OK(lk_checkpoint_dir_save(c, &state));
    lk_checkpoint_dir_close(c);
    held_free(&h);
    return state.hash;
}

/* Load it into a model that begins otherwise, and look at each element. */
static void load(lk_comm *comm, const char *path, uint64_t hash)
{
    bool found;
    lk_checkpoint_dir *c = folder_open(comm, path);
    lk_range blocks = held_blocks(lk_comm_rank(comm), lk_comm_size(comm));
    held_model h = held_make(size_of(), SEED + 1, blocks, true);
    lk_state state = {.tensor = h.all->tensor, .n_tensors = h.all->n};
    for (int64_t i = 0; i < h.all->n; i++)
        if (!held_is_drawn(&h, i))
            memset(h.all->tensor[i].data, 0, (size_t)lk_box_count(h.all->tensor[i].box) * 4);
    ASSERT_TRUE(held_hash(comm, &h) != hash);
    ASSERT_OK(lk_checkpoint_dir_load(c, &state, &found));
    ASSERT_TRUE(found && state.step == 7 && state.hash == hash);
    ASSERT_TRUE(held_hash(comm, &h) == hash);
    lk_checkpoint_dir_close(c);
    held_expect(&h, size_of(), SEED, blocks);
    held_free(&h);
}

/* Which must be that of the whole, as one process finds it. */
static void hash_check(const lk_comm *comm, uint64_t hash)
{
    if (lk_comm_rank(comm) > 0)
        return;
    ASSERT_TRUE(held_hash_by_blocks(size_of(), SEED, true) == hash);
    if (state_mib() * MIB < LIMIT && lk_comm_size(comm) == 1)
        ASSERT_TRUE(held_hash_of_whole(size_of(), SEED, true) == hash);
}

/* What a rank may take: to save, what it holds, and its share of the files and one more; to load, what it
 * holds, and the parameters again to compare them. */
static int64_t memory_of(int rank, int size, int fewer)
{
    int64_t state = state_mib() * MIB;
    int64_t saves = held_blocks(rank, size).n * state / 8 + state / size + state / 8;
    int64_t loads = rank < fewer ? held_blocks(rank, fewer).n * state / 8 * 4 / 3 : 0;
    return (saves > loads ? saves : loads) + 8 * MIB;
}

/* What was ever taken at once, by the ranks of this process. */
static void memory_check(const lk_comm *comm, int fewer, int64_t before)
{
    bool threads = strcmp(lk_comm_transport(comm), "local") == 0;
    int size = lk_comm_size(comm);
    int64_t state = state_mib() * MIB, most = 0;
    for (int r = 0; r < size; r++)
        if (threads || r == lk_comm_rank(comm))
            most += memory_of(r, size, fewer);
    struct rusage used;
    ASSERT_TRUE(lk_alloc_stats_now().peak_bytes - before <= most);
    if (!threads && LIMITED && state >= LIMIT) {
        ASSERT_EQ(getrusage(RUSAGE_SELF, &used), 0);
        printf("rank %d: %lld MiB resident at most, %lld MiB by the library\n", lk_comm_rank(comm),
               (long long)used.ru_maxrss / 1024, (long long)lk_alloc_stats_now().peak_bytes / MIB);
        ASSERT_TRUE((int64_t)used.ru_maxrss * 1024 <= LIMIT);
    }
}

RANKS_TEST(no_rank_needs_more_than_its_share)
{
    char path[PATH], command[PATH + 16];
    lk_comm *some;
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm), fewer = (size * 5 + 7) / 8;
    int64_t before = lk_alloc_stats_now().live_bytes;
    ASSERT_OK(lk_barrier(comm, "begin"));
    if (rank == 0) {
        snprintf(path, sizeof path, "%s/lockstep-test-XXXXXX",
                 access("/dev/shm", W_OK) == 0 && state_mib() < 64 ? "/dev/shm" : "/tmp");
        ASSERT_TRUE(mkdtemp(path));
    }
    ASSERT_OK(lk_bcast(comm, path, sizeof path, LK_U8, 0, "path"));
    lk__storage_sync_skip(true);
    uint64_t hash = save(comm, path);
    ASSERT_OK(lk_comm_split(comm, rank < fewer ? 0 : -1, 0, &some));
    if (some)
        load(some, path, hash);
    lk_comm_close(some);
    hash_check(comm, hash);
    ASSERT_OK(lk_barrier(comm, "end"));
    if (size > 1)
        memory_check(comm, fewer, before);
    snprintf(command, sizeof command, "rm -rf '%s'", path);
    if (rank == 0)
        ASSERT_EQ(system(command), 0);
}

/* What is left when a save has begun: the images of the ranks of this process. */
RANKS_TEST(a_save_takes_what_is_planned)
{
    char path[PATH], command[PATH + 16];
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    bool threads = strcmp(lk_comm_transport(comm), "local") == 0;
    if (rank == 0) {
        snprintf(path, sizeof path, "%s/lockstep-test-XXXXXX",
                 access("/dev/shm", W_OK) == 0 && state_mib() < 64 ? "/dev/shm" : "/tmp");
        ASSERT_TRUE(mkdtemp(path));
    }
    ASSERT_OK(lk_bcast(comm, path, sizeof path, LK_U8, 0, "path"));
    for (int parts = state_mib() < 64 ? 0 : 1; parts < 2;
         parts++) { /* all hold all, or some each */
        lk_checkpoint_dir *c = folder_open(comm, path);
        lk_range all = {0, HELD_BLOCKS};
        held_model h = held_make(size_of(), SEED, parts ? held_blocks(rank, size) : all, true);
        lk_state state = {.step = 7 + parts,
                          .hash = parts ? held_hash(comm, &h) : 1,
                          .tensor = h.all->tensor,
                          .n_tensors = h.all->n};
        int64_t image, bands;
        ASSERT_OK(
            lk__save_bytes(&state, state_mib() * MIB / 8, size, rank, parts == 0, &image, &bands));
        ASSERT_TRUE(bands == (int64_t)2 * MIB || (parts && bands == (int64_t)4 * MIB));
        if (threads)
            ASSERT_OK(lk_allreduce(comm, NULL, &image, 1, LK_I64, LK_REDUCE_SUM, "images"));
        ASSERT_OK(lk_barrier(comm, "begin"));
        int64_t before = lk_alloc_stats_now().live_bytes;
        ASSERT_OK(lk_barrier(comm, "known"));
        ASSERT_OK(lk_checkpoint_dir_begin(c, &state));
        ASSERT_OK(lk_barrier(comm, "begun"));
        int64_t more = lk_alloc_stats_now().live_bytes - before - image;
        ASSERT_OK(lk_barrier(comm, "counted"));
        if (more < 0 || more > (threads ? size : 1) * MIB / 4) /* names, and what threads need */
            TEST_FAIL("%lld bytes besides the images of %lld", (long long)more, (long long)image);
        ASSERT_OK(lk_checkpoint_dir_commit(c));
        lk_checkpoint_dir_close(c);
        held_free(&h);
    }
    snprintf(command, sizeof command, "rm -rf '%s'", path);
    ASSERT_OK(lk_barrier(comm, "end"));
    if (rank == 0)
        ASSERT_EQ(system(command), 0);
}

int main(void)
{
    struct rlimit limit = {LIMIT, LIMIT};
    if (getenv("TEST_TRANSPORT") && LIMITED)
        ASSERT_EQ(setrlimit(RLIMIT_DATA, &limit), 0);
    return test_main();
}
