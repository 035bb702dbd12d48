/* lk_run_main() without a launcher: ranks are threads, and errors go where they are told to. */
#include "harness.h"

#include <lockstep/coll.h>
#include <lockstep/extra/alloc.h>

static lk_status count_ranks(lk_comm *comm, void *arg)
{
    int64_t one = 1, all = 0;
    LK_TRY(lk_allreduce(comm, &one, &all, 1, LK_I64, LK_REDUCE_SUM, "ranks"));
    if (lk_comm_rank(comm) == 0)
        *(int64_t *)arg = all;
    return LK_OK;
}

static lk_status last_rank_fails(lk_comm *comm, void *arg)
{
    (void)arg;
    LK_CHECK(lk_comm_rank(comm) + 1 < lk_comm_size(comm), LK_ESHAPE, "no room for %d", 7);
    LK_TRY(lk_comm_set_deadline(comm, 5));
    return LK_TRACE(count_ranks(comm, &(int64_t){0}));
}

/* What lk_run_main() prints. */
static char *printed_by(int n, lk_rank_fn *fn, int *status)
{
    char *text = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);
    *status = lk_run_main(n, fn, NULL, to);
    fclose(to);
    return text;
}

TEST(a_program_gets_its_ranks)
{
    int64_t ranks = 0;
    for (int n = 1; n <= 4; n += 3) {
        ASSERT_EQ(lk_run_main(n, count_ranks, &ranks, stderr), 0);
        ASSERT_EQ(ranks, n);
    }
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

TEST(a_failure_is_printed_and_returned)
{
    int status = 0;
    char *text = printed_by(3, last_rank_fails, &status);
    ASSERT_EQ(status, 1);
    ASSERT_TRUE(strstr(text, "rank 2: no room for 7") && strstr(text, "last_rank_fails"));
    free(text);
    ASSERT_EQ(lk_error_status(), LK_OK);
    ASSERT_EQ(lk_run_main(3, last_rank_fails, NULL, NULL), 1); /* nobody wants to know */
    lk_error_clear();
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

TEST(no_program_and_no_ranks_are_refused)
{
    int status = 0;
    char *text = printed_by(2, NULL, &status);
    ASSERT_TRUE(status == 1 && strstr(text, "fn is NULL"));
    free(text);
    text = printed_by(0, count_ranks, &status);
    ASSERT_TRUE(status == 1 && strstr(text, "0"));
    free(text);
}
