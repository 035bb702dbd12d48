/* One failure becomes the failure of all: the lowest rank that has one tells it to the others. */
#include "io/agree.h"

#include <lockstep/coll.h>

#include <stdio.h>

enum { MESSAGE = 480 /* with "rank R: " it still fits a message */ };

typedef struct failure {
    int32_t st;
    char message[MESSAGE];
} failure;

lk_status lk__agree(lk_comm *comm, lk_status st, const char *name)
{
    if (!comm || lk_comm_size(comm) == 1)
        return st;
    int rank = lk_comm_rank(comm);
    failure told = {.st = st};
    if (st != LK_OK)
        snprintf(told.message, sizeof told.message, "%s", lk_error_message());
    lk_loc first = {.value.i32 = st == LK_OK, .index = rank};
    LK_TRY(lk_allreduce(comm, NULL, &first, 1, LK_I32, LK_FOLD_MINLOC, name));
    if (first.value.i32 != 0)
        return LK_OK;
    LK_TRY(lk_bcast(comm, &told, sizeof told, LK_U8, (int)first.index, name));
    return LK_RAISE((lk_status)told.st, "rank %lld: %s", (long long)first.index, told.message);
}
