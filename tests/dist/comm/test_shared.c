/* Memory that the ranks of a node share: seen by all of them, aligned, given back. */
#include "comm/segment.h"
#include "ranks.h"

#include <lockstep/coll.h>

#include <sys/stat.h>

static int64_t bytes_of(int intra_rank)
{
    return 1000 * (int64_t)intra_rank;
}

/* Every rank writes its part, and reads those of the others. */
RANKS_TEST(parts_are_seen_by_all_ranks_of_the_node)
{
    int me = lk_comm_node_rank(comm), n = lk_comm_node_size(comm);
    lk_shm *s;
    ASSERT_OK(lk_shm_open(comm, bytes_of(me), "parts", &s));
    unsigned char *mine = lk_shm_data(s, me);
    for (int64_t i = 0; i < bytes_of(me); i++)
        ASSERT_EQ(mine[i], 0);
    memset(mine, me + 1, (size_t)bytes_of(me));
    ASSERT_OK(lk_barrier(comm, "written"));
    for (int r = 0; r < n; r++) {
        const unsigned char *part = lk_shm_data(s, r);
        ASSERT_EQ(lk_shm_bytes(s, r), bytes_of(r));
        ASSERT_EQ((uintptr_t)part % LK_PAGE, 0);
        for (int64_t i = 0; i < bytes_of(r); i++)
            ASSERT_EQ(part[i], r + 1);
    }
    ASSERT_TRUE(!lk_shm_data(s, n) && !lk_shm_data(s, -1));
    ASSERT_EQ(lk_shm_bytes(s, n), 0);
    ASSERT_OK(lk_barrier(comm, "read"));
    lk_shm_close(s);
}

/* Parts of equal size do not begin a power of two apart. */
RANKS_TEST(parts_are_staggered)
{
    int64_t bytes = 1 << 20;
    lk_shm *s;
    ASSERT_OK(lk_shm_open(comm, bytes, "stagger", &s));
    for (int r = 1; r < lk_comm_node_size(comm); r++)
        ASSERT_EQ((char *)lk_shm_data(s, r) - (char *)lk_shm_data(s, r - 1), bytes + LK_STAGGER);
    lk_shm_close(s);
}

RANKS_TEST(an_address_finds_its_memory)
{
    int me = lk_comm_node_rank(comm);
    lk_shm *a, *b;
    ASSERT_OK(lk_shm_open(comm, 100, "a", &a));
    ASSERT_OK(lk_shm_open(comm, 100, "b", &b));
    char *p = lk_shm_data(b, me);
    ASSERT_TRUE(lk__shared_find(comm->w, p, 100) == b);
    ASSERT_TRUE(lk__shared_find(comm->w, p + 90, 10) == b);
    ASSERT_TRUE(!lk__shared_find(comm->w, p + 90, 11));
    ASSERT_TRUE(!lk__shared_find(comm->w, p - 1, 1));
    ASSERT_TRUE(!lk__shared_find(comm->w, &p, 1));
    ASSERT_TRUE(lk__shared_get(comm->w, a->context, a->number) == a);
    lk_shm_close(a);
    ASSERT_TRUE(!lk__shared_get(comm->w, b->context, b->number - 1));
    ASSERT_TRUE(lk__shared_find(comm->w, p, 100) == b);
    lk_shm_close(b);
}

/* Rank after rank adds to a number that the next one waits for, without a message. */
RANKS_TEST(flags_pass_data_on)
{
    enum { ROUNDS = 200 };
    int me = lk_comm_node_rank(comm), n = lk_comm_node_size(comm);
    lk_shm *s;
    ASSERT_OK(lk_shm_open(comm, 2 * sizeof(lk__flag), "flags", &s));
    lk__flag *turn = lk_shm_data(s, 0);
    int64_t *sum = (int64_t *)(turn + 1);
    for (uint64_t k = 0; k < ROUNDS; k++) {
        uint32_t heard = 0;
        while (!lk__flag_reached(turn, k * (uint64_t)n + (uint64_t)me)) {
            lk__wakeup *own = comm->w->wakeup[comm->w->rank];
            heard = lk__wakeup_prepare(own);
            if (!lk__flag_reached(turn, k * (uint64_t)n + (uint64_t)me))
                lk__wakeup_wait(own, heard, INT64_C(10000000000));
            lk__wakeup_cancel(own);
        }
        *sum += me;
        lk__flag_post_to(s, (me + 1) % n, turn, k * (uint64_t)n + (uint64_t)me + 1);
    }
    ASSERT_OK(lk_barrier(comm, "done"));
    ASSERT_EQ(*sum, ROUNDS * (int64_t)n * (n - 1) / 2);
    ASSERT_OK(lk_barrier(comm, "read"));
    lk_shm_close(s);
}

/* Mappings of this process that are shared between processes. */
static int shared_maps(void)
{
    char line[512];
    int n = 0;
    FILE *f = fopen("/proc/self/maps", "r");
    ASSERT_TRUE(f);
    while (fgets(line, sizeof line, f))
        n += strstr(line, "/memfd:lockstep") != NULL;
    fclose(f);
    return n;
}

/* Between processes the memory is nobody else's, has no file open, and goes when it is freed. */
RANKS_TEST(nothing_is_left_of_it)
{
    lk_shm *s;
    struct stat info;
    int before = shared_maps();
    bool processes = strcmp(lk_comm_transport(comm), "mpi") == 0;
    ASSERT_OK(lk_shm_open(comm, 100, "s", &s));
    ASSERT_EQ(shared_maps() - before, processes);
    ASSERT_EQ(s->block.fd, -1);
    lk_shm_close(s);
    ASSERT_EQ(shared_maps(), before);
    if (processes) {
        ASSERT_EQ(fstat(comm->w->life->fd, &info), 0);
        ASSERT_EQ(info.st_mode & 0777, 0600);
        ASSERT_EQ(info.st_nlink, 0);
        ASSERT_EQ(info.st_uid, geteuid());
    }
}

RANKS_TEST(bad_arguments_are_refused)
{
    lk_shm *s;
    ASSERT_FAILS(lk_shm_open(comm, -1, "s", &s), LK_EINVAL, "share(\"s\"): -1 bytes");
    ASSERT_FAILS(lk_shm_open(comm, INT64_MAX, "s", &s), LK_EOVERFLOW, "are no memory");
    ASSERT_OK(lk_barrier(comm, "the communicator can be used on"));
    ASSERT_FAILS(lk_shm_open(NULL, 1, "s", &s), LK_EINVAL, "comm is NULL");
    lk_shm_close(NULL);
}

/* No rank is left with memory that another could not get, and the communicator can be used on. */
RANKS_TEST(memory_that_is_not_there_is_refused_to_all)
{
    if (TEST_SLOWNESS > 1)
        return; /* sanitizers do not let such a request through */
    lk_shm *s = NULL;
    int64_t much = lk_comm_rank(comm) == 0 ? INT64_C(1) << 46 : 1;
    ASSERT_EQ(lk_shm_open(comm, much, "much", &s), LK_ENOMEM);
    ASSERT_TRUE(!s);
    ASSERT_OK(lk_barrier(comm, "after"));
}
