/* A folder that the ranks of a test share. */
#ifndef LK_TEST_RANK_FOLDERS_H
#define LK_TEST_RANK_FOLDERS_H

#include "ranks.h"

#include <lockstep/coll.h>

/* Rank 0 makes it, and all know its name. */
static inline void folder_share(lk_comm *comm, char *folder, size_t size)
{
    const char *tmp = getenv("TMPDIR");
    memset(folder, 0, size);
    if (lk_comm_rank(comm) == 0) {
        snprintf(folder, size, "%s/lk_ranks_XXXXXX", tmp ? tmp : "/tmp");
        ASSERT_TRUE(mkdtemp(folder));
    }
    ASSERT_OK(lk_bcast(comm, folder, (int64_t)size, LK_U8, 0, "folder"));
}

static inline void folder_remove(lk_comm *comm, const char *folder)
{
    char command[300];
    ASSERT_OK(lk_barrier(comm, "done"));
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    if (lk_comm_rank(comm) == 0)
        ASSERT_EQ(system(command), 0);
    ASSERT_OK(lk_barrier(comm, "removed"));
}

#endif /* LK_TEST_RANK_FOLDERS_H */
