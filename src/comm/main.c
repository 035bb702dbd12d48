/* lk_run_main(): run a program's function on all ranks, however they were started: as processes of
 * MPI, or as threads of this one. */
#include <lockstep/comm.h>

#include <string.h>

int lk_run_main(int n, lk_rank_fn *fn, void *arg, FILE *errors)
{
    lk_status st;
    lk_comm *comm = NULL;
    LK_TRY_TO(done, fn ? LK_OK : LK_RAISE(LK_EINVAL, "fn is NULL"));
    LK_TRY_TO(done, lk_comm_open(NULL, &comm));
    if (strcmp(lk_comm_transport(comm), "mpi") == 0)
        LK_TRY_TO(done, fn(comm, arg));
    else
        LK_TRY_TO(done, lk_run_local(n, fn, arg));
done:
    if (st != LK_OK)
        (void)lk_comm_fail(comm, errors); /* before MPI ends, which may end this process */
    lk_comm_close(comm);
    return st == LK_OK ? 0 : 1;
}
