/* Comparing numbers that must be equal on all ranks: each rank with rank 0, and the first
 * difference is reported on all in the same words.  See traits.h. */
#include "coll/traits.h"

#include <lockstep/coll.h>

#include <string.h>

enum { MAX_TRAITS = 32 };

lk_status lk__first_other(lk_comm *comm, bool differs, int *out)
{
    int32_t rank = differs ? lk_comm_rank(comm) : lk_comm_size(comm);
    LK_TRY(lk_allreduce(comm, NULL, &rank, 1, LK_I32, LK_REDUCE_MIN, "who differs"));
    *out = rank;
    return LK_OK;
}

lk_status lk__traits_compare(lk_comm *comm, const lk__trait *trait, int n, lk_status status,
                             const char *rule)
{
    int64_t first[MAX_TRAITS], other[MAX_TRAITS];
    int rank;
    if (!comm || lk_comm_size(comm) == 1)
        return LK_OK;
    LK_CHECK(n <= MAX_TRAITS, LK_EINVAL, "%d traits, at most %d", n, MAX_TRAITS);
    for (int i = 0; i < n; i++)
        first[i] = other[i] = trait[i].value;
    LK_TRY(lk_bcast(comm, first, n, LK_I64, 0, "what ranks have"));
    LK_TRY(lk__first_other(comm, memcmp(first, other, (size_t)n * sizeof *first) != 0, &rank));
    if (rank == lk_comm_size(comm))
        return LK_OK;
    LK_TRY(lk_bcast(comm, other, n, LK_I64, rank, "what another has"));
    for (int i = 0; i < n; i++) {
        LK_CHECK(first[i] == other[i] || trait[i].is_hash, status,
                 "%s is %lld on rank 0 and %lld on rank %d: all ranks must %s", trait[i].name,
                 (long long)first[i], (long long)other[i], rank, rule);
        LK_CHECK(first[i] == other[i], status, "rank %d has %s than rank 0: all ranks must %s",
                 rank, trait[i].name, rule);
    }
    return LK_OK;
}
