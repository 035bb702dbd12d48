/* Training a few steps of an experiment for `lockstep verify`, which records a trace: hash of the
 * state and loss, step by step.  Called on each rank of the configuration. */
#ifndef LK_CLI_VERIFY_TRAIN_H
#define LK_CLI_VERIFY_TRAIN_H

#include "verify/layouts.h"

#include <lockstep/comm.h>
#include <lockstep/train.h>

/** What is trained. */
typedef struct verify_setting {
    const verify_version *version;
    int64_t steps; /* of the whole comparison, which the phases share */
    int64_t until; /* those of them that are trained, from the first on */
    const char
        *snapshot; /* a .safetensors file for all of the state after the last step; or NULL */
} verify_setting;

/** What was seen. */
typedef struct verify_trace {
    int64_t steps;
    uint64_t *state; /* [steps] lk_trainer_hash() after each step */
    double *loss;    /* [steps] */
    uint64_t score;  /* of loss and metrics in the evaluation at the end; 0: no evaluation */
} verify_trace;

/** Make a trace of zeros.  The caller frees it, also after a failure. */
lk_status verify_trace_new(int64_t steps, verify_trace *out) LK_NODISCARD;
void verify_trace_free(verify_trace *trace);

/**
 * Train on the ranks of `comm`, evaluate on a few batches, and see to it that all ranks see the same.
 * Each reads the experiment for itself: paths may have {rank} and {size} in them.
 *
 * Collective.  `out` is filled on rank 0.  Errors: those of lk_job_new() and lk_trainer_step();
 * LK_ESTATE on rank 0 when another rank saw something else, saying which and when; LK_EIO for the
 * snapshot.
 */
lk_status verify_train(lk_comm *comm, const verify_setting *setting,
                       verify_trace *out) LK_NODISCARD;

#endif /* LK_CLI_VERIFY_TRAIN_H */
