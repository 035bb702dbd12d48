/* Steps of a model in one layout, for `lockstep gradcheck --layout`, and what they leave: all of the state
 * after each step, the losses that the ranks saw, and the nodes that they had.
 */
#ifndef LK_CLI_GRADCHECK_TRAIN_H
#define LK_CLI_GRADCHECK_TRAIN_H

#include <lockstep/config.h>
#include <lockstep/io.h>

/** What is trained: an experiment, with an optimizer whose momentum is the gradient of its last step, and a
 * layout in place of its own. */
typedef struct gradcheck_model {
    const char *name; /* for people */
    const char *path; /* of its file; NULL: it is `text` */
    const char *text;
    lk_dataset *set; /* in place of its data; NULL: as it says */
    int n;           /* assignments on the command line */
    char **assignment;
} gradcheck_model;

/** Read it; `parallel` is its section of that name.  The caller owns `*out`.  Errors: those of
 * lk_experiment_read(). */
lk_status gradcheck_model_read(const gradcheck_model *model, const char *parallel,
                               lk_experiment **out) LK_NODISCARD;

typedef struct gradcheck_trial {
    const gradcheck_model *model;
    const char *parallel; /* "{data: 2, stages: 3}" */
    int ranks;            /* of that layout: threads of this process */
    int64_t steps;
    /* What it leaves: */
    lk_safetensors **state; /* [steps], after each: snapshot_write() */
    double *loss;           /* [ranks][steps] */
    int64_t *nodes;         /* [ranks][GRADCHECK_KINDS] */
} gradcheck_trial;

/** Train.  Of the trial, what it leaves is written; gradcheck_trial_free() in any case.
 *
 * Errors: those of lk_job_new(), lk_trainer_step() and lk_trainer_hash(), which is LK_ESTATE when ranks
 * have other copies than rank 0; LK_EIO for files in TMPDIR, LK_ENOMEM. */
lk_status gradcheck_train(gradcheck_trial *trial) LK_NODISCARD;

void gradcheck_trial_free(gradcheck_trial *trial);

#endif /* LK_CLI_GRADCHECK_TRAIN_H */
