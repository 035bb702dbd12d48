/* A folder of checkpoints that all ranks of a test see, and the boxes that they save and load. */
#ifndef LK_TEST_BOX_FOLDERS_H
#define LK_TEST_BOX_FOLDERS_H

#include "boxes.h"
#include "io/checkpoint/checkpoint.h"
#include "rank_folders.h"

#include <lockstep/coll.h>

enum { PATH = 256, NAME = PATH + 32 };

/* Files need not be on disk; folder_remove() ends it. */
static inline void folder_new(lk_comm *comm, char path[PATH])
{
    lk__storage_sync_skip(true);
    folder_share(comm, path, PATH);
}

/* With bands so small that a tensor has many, and no two of them are alike. */
static inline lk_checkpoint_dir *folder_open(lk_comm *comm, const char *path, int64_t part_bytes,
                                             int64_t band)
{
    lk_checkpoint_dir *c;
    lk_checkpoint_dir_options o = test_options(3);
    o.wait_seconds = 5;
    o.part_bytes = part_bytes;
    ASSERT_OK(lk_checkpoint_dir_open(comm, path, &o, &c));
    c->band = band;
    return c;
}

static inline void expect_newest(lk_checkpoint_dir *c, int64_t step, box_cut how)
{
    boxed_state b;
    bool found;
    boxed_at(&b, 999, how, c->rank, c->size);
    ASSERT_OK(lk_checkpoint_dir_load(c, &b.all.state, &found));
    ASSERT_TRUE(found);
    boxed_expect(&b, step, how, c->rank, c->size);
}

#endif /* LK_TEST_BOX_FOLDERS_H */
