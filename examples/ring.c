/* A ring: every rank gives its number to the right and adds what comes from the left.
 *
 *     a = 1 + rank,   b = the left rank's a,   res = a + b
 *
 * It is the isend-recv-wait of every MPI course, written as there.  Each a goes into two results, that
 * of its own rank and that of the right one, so the gradient of the sum of all results is 2 on every
 * rank.  A tape that followed a only to its own rank's result would say 1.
 *
 * Started by mpirun it is one of its ranks, otherwise it runs on 4 threads.
 */
#include <lockstep/lockstep.h>

#include <string.h>

/* Records the program and adds to `grad`. */
static lk_status ring(lk_comm *comm, lk_tape *tape, lk_tensor *value, lk_tensor *grad)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    lk_var a, b, res, handle;
    LK_TRY(lk_leaf(tape, value, grad, &a));
    if (size > 1) {
        LK_TRY(lk_dist_isend(comm, a, right, 0, "a", &handle));
        LK_TRY(lk_dist_recv(tape, comm, left, 0, LK_F64, LK_SHAPE(1), "a", &b));
        LK_TRY(lk_dist_wait(handle, NULL));
    } else {
        b = a; /* alone, a rank is its own neighbour; blocking messages to oneself are refused */
    }
    LK_TRY(lk_add(a, b, &res));
    LK_TRY(lk_backward(tape, &(lk_seed){.of = res}, 1, 0));
    return LK_OK;
}

static lk_status program(lk_comm *comm, void *arg)
{
    lk_status st;
    lk_tape *tape = NULL;
    lk_tensor *value = NULL, *grad = NULL;
    double a = 1 + lk_comm_rank(comm), da = 0, least, most;
    (void)arg;
    LK_TRY_TO(done, lk_tape_new(&tape));
    LK_TRY_TO(done, lk_tensor_wrap(LK_F64, LK_SHAPE(1), &a, NULL, NULL, &value));
    LK_TRY_TO(done, lk_tensor_wrap(LK_F64, LK_SHAPE(1), &da, NULL, NULL, &grad));
    LK_TRY_TO(done, ring(comm, tape, value, grad));
    LK_TRY_TO(done, lk_allreduce(comm, &da, &least, 1, LK_F64, LK_FOLD_MIN, "least"));
    LK_TRY_TO(done, lk_allreduce(comm, &da, &most, 1, LK_F64, LK_FOLD_MAX, "most"));
    if (lk_comm_rank(comm) == 0)
        printf("the gradient of a is at least %g and at most %g\n", least, most);
done:
    lk_tape_free(tape);
    lk_tensor_free(value);
    lk_tensor_free(grad);
    return st;
}

int main(void)
{
    lk_status st;
    lk_comm *comm = NULL;
    LK_TRY_TO(done, lk_comm_open(NULL, &comm));
    if (strcmp(lk_comm_transport(comm), "mpi") == 0)
        LK_TRY_TO(done, program(comm, NULL));
    else
        LK_TRY_TO(done, lk_run_local(4, program, NULL));
done:
    if (st != LK_OK)
        lk_error_print(stderr);
    lk_comm_free(comm);
    return st != LK_OK;
}
