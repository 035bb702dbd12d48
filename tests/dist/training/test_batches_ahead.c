/* Which jobs prepare batches ahead: not where a set is in memory, or is kept there, and the threads of the ranks
 * leave no core for the thread that would do it. */
#include "base/memory/memory.h"
#include "data/loader/loader.h"
#include "kernel/runtime/parallel.h"
#include "rank_folders.h"
#include "trainers.h"

#include <lockstep/thread.h>

static const char network[] = "data: {type: npz, path: none, batch: 8, shards: 8}\n"
                              "model: [flatten, {type: linear, units: 10}]\n"
                              "loss: softmax_cross_entropy\n"
                              "optimizer: sgd\n";

static void set_write(lk_comm *comm, const char *path)
{
    lk_dataset *ds = NULL;
    if (lk_comm_rank(comm) == 0) {
        ASSERT_OK(lk_dataset_open("glyphs", "count=64 test_count=0 shape=8,8,1", LK_TRAIN, &ds));
        ASSERT_OK(lk_dataset_write(ds, "npz", path));
        lk_dataset_free(ds);
    }
    ASSERT_OK(lk_barrier(comm, "written"));
}

/* Batches that the job of an experiment prepares ahead. */
static int64_t ahead(lk_comm *comm, const char *path, const char *keep)
{
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    ASSERT_OK(job_of(network, comm, (const char *[MAX_SETTINGS]){path, keep}, &e, &job));
    int64_t n = lk_job_loader(job, LK_TRAIN)->options.prefetch;
    job_end(job, e);
    return n;
}

RANKS_TEST(a_set_that_ranks_keep_is_prepared_ahead_where_a_core_is_left)
{
    char folder[200], file[260], path[300];
    int share = lk__threads_share(lk__cores(), lk__cores_of_node(), lk_comm_node_size(comm));
    int before;
    if (lk__memory_is_limited())
        return; /* nothing is kept then */
    ASSERT_OK(lk_threads_now(&before));
    folder_share(comm, folder, sizeof folder);
    snprintf(file, sizeof file, "%s/it.npz", folder);
    snprintf(path, sizeof path, "data.path=%s", file);
    set_write(comm, file);
    ASSERT_OK(lk_barrier(comm, "all know how many threads there were"));
    ASSERT_OK(lk_threads_set(share));
    ASSERT_OK(lk_barrier(comm, "all threads"));
    ASSERT_EQ(ahead(comm, path, NULL), 0);
    ASSERT_EQ(ahead(comm, path, "data.keep=0"), 2);
    ASSERT_OK(lk_barrier(comm, "all have looked"));
    ASSERT_OK(lk_threads_set(1));
    ASSERT_OK(lk_barrier(comm, "one thread"));
    ASSERT_EQ(ahead(comm, path, NULL), share > 1 ? 2 : 0);
    ASSERT_OK(lk_barrier(comm, "all have looked again"));
    ASSERT_OK(lk_threads_set(before));
    folder_remove(comm, folder);
}
