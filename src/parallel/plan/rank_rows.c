/* Gathering rows of numbers from all ranks onto all: how many each has, then the rows.  See
 * rank_rows.h. */
#include "parallel/plan/rank_rows.h"

#include <lockstep/comm.h>
#include <lockstep/extra/alloc.h>

#include <limits.h>

/* Where the rows of each rank begin, and how many numbers it gives; the same on all ranks. */
static lk_status counts_place(lk_comm *comm, int64_t words, int64_t *count, int64_t *first)
{
    first[0] = 0;
    for (int r = 0; r < lk_comm_size(comm); r++) {
        LK_CHECK(count[r] >= 0 && count[r] <= INT_MAX, LK_ECOMM,
                 "rank %d says that it has %lld rows", r, (long long)count[r]);
        first[r + 1] = first[r] + count[r];
        count[r] *= words;
    }
    return LK_OK;
}

lk_status lk__rank_rows_gather(lk_comm *comm, const void *own, int64_t n, int64_t words,
                               const char *name, lk__rank_rows *out)
{
    lk_status st;
    int64_t *count = NULL;
    int size = lk_comm_size(comm);
    st = lk_alloc(&count, size, sizeof *count);
    if (st == LK_OK)
        st = lk_alloc(&out->first, (int64_t)size + 1, sizeof *out->first);
    LK_TRY_TO(done, lk_agree(comm, st));
    LK_TRY_TO(done, lk_allgather(comm, &n, count, 1, LK_I64, name));
    LK_TRY_TO(done, counts_place(comm, words, count, out->first));
    LK_TRY_TO(done, lk_agree(comm, lk_alloc(&out->row, out->first[size] * words, sizeof(int64_t))));
    LK_TRY_TO(done, lk_allgatherv(comm, own, out->row, count, LK_I64, name));
done:
    lk_free(count);
    return st;
}

void lk__rank_rows_free(lk__rank_rows *rows)
{
    lk_free(rows->first);
    lk_free(rows->row);
    *rows = (lk__rank_rows){.first = NULL};
}
