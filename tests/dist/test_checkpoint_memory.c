/* Checkpoints in little memory: ranks that each hold their share of every tensor save a state, and fewer
 * ranks load it, of which none has ever more than its share and some MiB.
 *
 * Counted is what the library allocates, on threads of all ranks together.  With TEST_STATE_MIB=512 as
 * processes of an MPI the limits are the system's: 256 MiB of data, and as much resident at most.
 */
#include "io/checkpoint.h"
#include "ranks.h"

#include <lockstep/coll.h>

#include <sys/resource.h>

enum { TENSORS = 6, MIB = 1 << 20, LIMIT = 256 * MIB, PATH = 256 };

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { LIMITED = 0 }; /* their shadows count as data */
#else
enum { LIMITED = 1 };
#endif

static int64_t state_mib(void)
{
    const char *text = getenv("TEST_STATE_MIB");
    return text ? strtoll(text, NULL, 10) : 32;
}

typedef struct share {
    lk_box box[TENSORS];
    char name[TENSORS][16];
    lk_state_tensor tensor[TENSORS];
    lk_state state;
} share;

/* Half of the state is one tensor; of the others three are an eighth each, and two a sixteenth. */
static lk_shape shape_of(int i)
{
    int64_t rows = (i == 0 ? 8 : i < 4 ? 2 : 1) * 16 * state_mib();
    return LK_SHAPE(rows, 4, 256);
}

static float value_of(int64_t tensor, int64_t place)
{
    return (float)((place * 40503 + tensor * 977) % 8388608);
}

/* Rank `rank` of `size` holds its rows, or columns, of each. */
static void share_make(share *s, int rank, int size)
{
    memset(s, 0, sizeof *s);
    for (int i = 0; i < TENSORS; i++) {
        lk_shape shape = shape_of(i);
        int axis = i % 3 == 0 ? 2 : 0;
        lk_box *box = &s->box[i];
        *box = lk_box_whole(3, shape.dim);
        box->first[axis] = rank * shape.dim[axis] / size;
        box->n[axis] = (rank + 1) * shape.dim[axis] / size - box->first[axis];
        snprintf(s->name[i], sizeof s->name[i], "t%d", i);
        s->tensor[i] = (lk_state_tensor){s->name[i], LK_F32, shape, NULL, box};
        s->tensor[i].data = calloc((size_t)lk_box_count(box) + 1, sizeof(float));
        ASSERT_TRUE(s->tensor[i].data);
    }
    s->state = (lk_state){.tensor = s->tensor, .n_tensors = TENSORS};
}

static void share_end(share *s)
{
    for (int i = 0; i < TENSORS; i++)
        free(s->tensor[i].data);
}

/* Give all elements their values, or look whether they have them. */
static void share_values(const share *s, bool set)
{
    for (int i = 0; i < TENSORS; i++) {
        float *data = s->tensor[i].data;
        lk_box_walk walk = lk_box_start(&s->box[i], s->tensor[i].shape.dim);
        while (lk_box_next(&walk))
            for (int64_t k = 0; k < walk.n; k++) {
                float want = value_of(i, walk.place + k);
                if (set)
                    data[walk.at + k] = want;
                else
                    ASSERT_SAME_BITS(&data[walk.at + k], &want, sizeof want);
            }
    }
}

static lk_checkpoint_dir *folder_open(lk_comm *comm, const char *path)
{
    lk_checkpoint_dir *c;
    lk_checkpoint_dir_options o = {.identity = 1, .wait = 5, .part_bytes = state_mib() * MIB / 8};
    ASSERT_OK(lk_checkpoint_dir_open(comm, path, &o, &c));
    return c;
}

static void save(lk_comm *comm, const char *path)
{
    share s;
    lk_checkpoint_dir *c = folder_open(comm, path);
    share_make(&s, lk_comm_rank(comm), lk_comm_size(comm));
    share_values(&s, true);
    s.state.step = 7;
    s.state.hash = 77;
    ASSERT_OK(lk_checkpoint_dir_save(c, &s.state));
    lk_checkpoint_dir_close(c);
    share_end(&s);
}

static void load(lk_comm *comm, const char *path)
{
    share s;
    bool found;
    lk_checkpoint_dir *c = folder_open(comm, path);
    share_make(&s, lk_comm_rank(comm), lk_comm_size(comm));
    ASSERT_OK(lk_checkpoint_dir_load(c, &s.state, &found));
    ASSERT_TRUE(found && s.state.step == 7 && s.state.hash == 77);
    share_values(&s, false);
    lk_checkpoint_dir_close(c);
    share_end(&s);
}

/* What was ever taken at once, by the ranks of this process. */
static void memory_check(const lk_comm *comm, int64_t before)
{
    bool threads = strcmp(lk_comm_transport(comm), "local") == 0;
    int64_t size = lk_comm_size(comm), state = state_mib() * MIB;
    int64_t most = threads ? state + size * 8 * MIB : state / size + state / 8 + 8 * MIB;
    struct rusage used;
    ASSERT_TRUE(lk_alloc_stats_now().peak_bytes - before <= most);
    if (!threads && LIMITED && state >= LIMIT) {
        ASSERT_EQ(getrusage(RUSAGE_SELF, &used), 0);
        printf("rank %d: %lld MiB resident at most, %lld MiB by the library\n", lk_comm_rank(comm),
               (long long)used.ru_maxrss / 1024, (long long)lk_alloc_stats_now().peak_bytes / MIB);
        ASSERT_TRUE((int64_t)used.ru_maxrss * 1024 <= LIMIT);
    }
}

static void no_rank_needs_more_than_its_share(lk_comm *comm)
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
    save(comm, path);
    ASSERT_OK(lk_comm_split(comm, rank < fewer ? 0 : -1, 0, &some));
    if (some)
        load(some, path);
    lk_comm_close(some);
    ASSERT_OK(lk_barrier(comm, "end"));
    if (size > 1)
        memory_check(comm, before);
    snprintf(command, sizeof command, "rm -rf '%s'", path);
    if (rank == 0)
        ASSERT_EQ(system(command), 0);
}

int main(void)
{
    static const struct ranks_test tests[] = {TEST(no_rank_needs_more_than_its_share)};
    struct rlimit limit = {LIMIT, LIMIT};
    if (getenv("TEST_TRANSPORT") && LIMITED)
        ASSERT_EQ(setrlimit(RLIMIT_DATA, &limit), 0);
    return ranks_main(tests, 1);
}
