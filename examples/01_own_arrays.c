/* A network that learns from arrays of the program which points lie in a circle; the README shows it.
 *
 * Started by mpirun it is one of its ranks, otherwise it runs on 4 threads: the state is the same.
 */
#include <lockstep/lockstep.h>

static float x[1000][2]; /* your samples */
static int64_t y[1000];  /* and their classes */
static char experiment[] =
    "data: {type: given, batch: 100, shards: 4}\n"
    "model: [{type: linear, units: 32}, tanh, {type: linear, units: 2}]\n"
    "loss: softmax_cross_entropy\noptimizer: {type: adam, rate: 0.02}\ntrain: {epochs: 20}\n";

static lk_status train(lk_comm *comm, void *text)
{
    lk_job_spec spec = {.text = (const char *)text, .comm = comm};
    lk_job *job;
    lk_run_result end;
    LK_TRY(lk_dataset_from_arrays(1000, LK_SHAPE(2), x[0], y, 2, &spec.set[LK_TRAIN]));
    LK_TRY(lk_job_new_spec(&spec, &job));
    LK_TRY(lk_job_run(job, NULL, &end));
    if (lk_comm_rank(comm) == 0)
        printf("loss %.4f, state %016llx\n", end.last.train.loss, (unsigned long long)end.state);
    lk_job_free(job);
    lk_dataset_free(spec.set[LK_TRAIN]);
    return LK_OK;
}

int main(void)
{
    for (int i = 0; i < 1000; i++) {
        x[i][0] = (float)(i % 40) / 20 - 1;
        x[i][1] = (float)(i / 40) / 12 - 1;
        y[i] = x[i][0] * x[i][0] + x[i][1] * x[i][1] < 0.5F;
    }
    return lk_run_main(4, train, experiment, stderr);
}
