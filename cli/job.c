/* Making an lk_job from operands of the command line: see job.h. */
#include "job.h"

#include "experiment.h"
#include "layout.h"
#include "ranks.h"
#include "verb.h"

int job_read(const lk_comm *comm, const job_call *call, lk_experiment **out)
{
    lk_status st = LK_OK;
    *out = NULL;
    if (call->experiment) {
        st = experiment_copy(call->experiment, out);
    } else {
        int status = experiment_open(call->n, call->operand, out);
        if (status != LK_EXIT_DONE)
            return status;
    }
    if (st == LK_OK)
        st = lk_experiment_expand(*out, lk_comm_rank(comm), lk_comm_size(comm));
    return st == LK_OK ? LK_EXIT_DONE : experiment_failed(*out ? *out : call->experiment, st);
}

int job_make(const lk_experiment *experiment, lk_comm *comm, lk_job **out)
{
    lk_status st = lk_job_new(experiment, comm, out);
    return st == LK_OK ? LK_EXIT_DONE : experiment_failed(experiment, st);
}

int job_on_ranks(int (*fn)(void *call), job_call *call)
{
    if (ranks_launched())
        return fn(call);
    int status = experiment_open(call->n, call->operand, &call->experiment);
    if (status != LK_EXIT_DONE)
        return status;
    lk_mesh_shape shape = layout_of(call->experiment);
    int64_t ranks = layout_ranks(&shape);
    if (ranks > LK_MAX_LOCAL)
        status = verb_refuse("parallel needs %lld ranks: at most %d are threads of one process",
                             (long long)ranks, LK_MAX_LOCAL);
    else
        status = ranks > 1 ? ranks_run((int)ranks, fn, call) : fn(call);
    lk_experiment_free(call->experiment);
    return status;
}
