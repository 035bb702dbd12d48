/* What a rank can do otherwise in a call on the tape that the plain call below it does not see: another
 * root of a fold that all ranks do, another axis of values whose sizes are the same along both. */
#ifndef LK_TESTS_TAPE_MISTAKES_H
#define LK_TESTS_TAPE_MISTAKES_H

#include <lockstep/dist.h>

#include <stdbool.h>

static inline bool tape_has_root(lk_comm_call call)
{
    return call == LK_CALL_REDUCE;
}

static inline bool tape_has_axis(lk_comm_call call)
{
    return call == LK_CALL_REDUCE_SCATTER || call == LK_CALL_SCATTER || call == LK_CALL_ALLTOALL;
}

/* The call of a rank; the one that errs gives another root, or another axis. */
static inline lk_status tape_call(lk_comm *comm, lk_comm_call call, lk_reduce_op fold, bool errs,
                                  const char *name)
{
    lk_status st;
    lk_tape *tape = NULL;
    lk_var x, y, at;
    int64_t n = lk_comm_size(comm);
    LK_TRY(lk_tape_new(&tape));
    LK_TRY_TO(done, lk_full(tape, LK_F32, LK_SHAPE(n, n), 1, &x));
    if (call == LK_CALL_SCATTER)
        LK_TRY_TO(done, lk_dist_scatter(comm, x, errs, 1, 0, name, &y));
    else if (call == LK_CALL_REDUCE_SCATTER)
        LK_TRY_TO(done, lk_dist_reduce_scatter(comm, x, errs, 1, name, &y));
    else if (call == LK_CALL_ALLTOALL)
        LK_TRY_TO(done, lk_dist_alltoall(comm, x, !errs, errs, 1, name, &y));
    else if (fold == LK_REDUCE_MINLOC)
        LK_TRY_TO(done, lk_dist_reduce_loc(comm, x, LK_NO_VAR, fold, errs, name, &y, &at));
    else
        LK_TRY_TO(done, lk_dist_reduce(comm, x, fold, errs, name, &y));
done:
    lk_tape_free(tape);
    return st;
}

#endif /* LK_TESTS_TAPE_MISTAKES_H */
