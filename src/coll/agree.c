/* lk_agree(): the failure of one rank becomes that of all.  Called by jobs, trainers and checkpoints
 * before they do what all must do or none.
 */
#include "coll/agree.h"

#include "coll/coll.h"

#include <lockstep/extra/alloc.h>

#include <string.h>

enum { MESSAGE = 512 };

/* What the rank that failed broadcasts. */
typedef struct failure_message {
    int32_t status;
    char message[MESSAGE];
} failure_message;

/* `algorithm` is that of the allreduce; NULL: any.  `same`: all get the words of the lowest rank that
 * failed, as they are. */
static lk_status agree(lk_comm *comm, lk_status st, const char *algorithm, bool same)
{
    if (!comm || lk_comm_size(comm) == 1 || lk__is_end(st))
        return st;
    int32_t rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    int32_t first = st == LK_OK ? size : rank;
    failure_message failure = {.status = (int32_t)st};
    strncpy(failure.message, st == LK_OK ? "" : lk_error_message(), MESSAGE - 1);
    LK_TRY(lk_coll_run(comm, &(lk_collective){.call = LK_CALL_ALLREDUCE,
                                              .name = "agreement",
                                              .algorithm = algorithm,
                                              .out = &first,
                                              .count = 1,
                                              .dtype = LK_I32,
                                              .op = LK_REDUCE_MIN}));
    if (first == size)
        return LK_OK;
    LK_TRY(lk_bcast(comm, &failure, sizeof failure, LK_U8, first, "failure"));
    if (same ? first == rank : st != LK_OK)
        return st;
    failure.message[MESSAGE - 1] = '\0';
    LK_CHECK(!same, (lk_status)failure.status, "%s", failure.message);
    return LK_RAISE((lk_status)failure.status, "rank %d: %s", first, failure.message);
}

lk_status lk_agree(lk_comm *comm, lk_status st)
{
    return agree(comm, st, NULL, false);
}

lk_status lk__agree_words(lk_comm *comm, lk_status st)
{
    return agree(comm, st, NULL, true);
}

lk_status lk__agree_first(lk_comm *comm, lk_status st)
{
    return agree(comm, st, "tree", true);
}

/* What the environment names may differ between ranks, and may not even talk to them. */
lk_status lk__agree_bits(lk_comm *comm)
{
    if (!comm || lk_comm_size(comm) == 1)
        return LK_OK;
    return agree(comm, lk__coll_check_named(), "tree", false);
}

lk_status lk__agree_alloc(lk_comm *comm, void *out, size_t size)
{
    void *memory = NULL;
    lk_status st = lk_agree(comm, lk_alloc_zero(&memory, 1, size));
    if (st != LK_OK) {
        lk_free(memory);
        memory = NULL;
    }
    memcpy(out, &memory, sizeof memory);
    return LK_TRACE(st);
}
