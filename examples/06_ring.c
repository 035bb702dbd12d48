/* A ring: every rank gives its number to the right and adds what comes from the left.
 *
 *     a = 1 + rank,   b = the left rank's a,   res = a + b
 *
 * It is the exchange of every MPI course, written as there.  Each a goes into two results, that of its
 * own rank and that of the right one, so the gradient of the sum of all results is 2 on every rank.  A
 * tape that followed a only to its own rank's result would say 1.
 *
 * Started by mpirun it is one of its ranks, otherwise it runs on 4 threads.
 */
#include <lockstep/lockstep.h>

static lk_status ring(lk_comm *comm, void *arg)
{
    lk_status st;
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    double value = 1 + rank, grad = 0, least, most;
    lk_tape *tape = NULL;
    lk_var a, b, res, sent;
    (void)arg;
    LK_TRY_TO(done, lk_tape_new(&tape));
    LK_TRY_TO(done, lk_leaf_data(tape, LK_F64, LK_SHAPE(1), &value, &grad, &a));
    LK_TRY_TO(done, lk_dist_isend(comm, a, right, 0, "a", &sent));
    LK_TRY_TO(done, lk_dist_recv(tape, comm, left, 0, LK_ANY_DTYPE, LK_ANY_SHAPE, "a", &b));
    LK_TRY_TO(done, lk_dist_wait(sent, NULL));
    LK_TRY_TO(done, lk_add(a, b, &res));
    LK_TRY_TO(done, lk_backward(tape, &(lk_seed){.of = res}, 1, 0));
    LK_TRY_TO(done, lk_allreduce(comm, &grad, &least, 1, LK_F64, LK_REDUCE_MIN, "least"));
    LK_TRY_TO(done, lk_allreduce(comm, &grad, &most, 1, LK_F64, LK_REDUCE_MAX, "most"));
    if (rank == 0)
        printf("the gradient of a is at least %g and at most %g\n", least, most);
done:
    lk_tape_free(tape);
    return st;
}

int main(void)
{
    return lk_run_main(4, ring, NULL, stderr);
}
