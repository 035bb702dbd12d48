/* What fits in memory: the bytes a rank of a plan takes against a limit, and layouts or options
 * that would fit.  `lockstep plan` prints it as notes. */
#ifndef LK_CLI_PLAN_FIT_H
#define LK_CLI_PLAN_FIT_H

#include "plan/show.h"

#include <lockstep/config.h>
#include <lockstep/train.h>

/** Make the plan of a rank of a layout, rehearsed, and the job that it is of, which lives longer than it.
 * Its data is that of the job `like`, NULL: as the experiment says.  After a failure both may be there, or
 * NULL. */
lk_status plan_make(lk_experiment *experiment, const lk_job *like, const lk_mesh_shape *shape,
                    int ranks, int rank, lk_job **job, lk_plan **out) LK_NODISCARD;

/** Read a size: bytes, or with K, M, G or T behind it those times 1024.  False: it is none. */
bool plan_size_read(const char *text, int64_t *out);

/** What is planned, and what it was read from: for what would take less. */
typedef struct plan_asked {
    int n; /* operands: a file, and assignments */
    char **operand;
    lk_mesh_shape shape;
    int64_t memory; /* that a rank may take; 0: what this machine and its limits allow */
} plan_asked;

enum { PLAN_FIT_NOTES = 8 };

/** Notes if a plan takes more than there is: that it does, and what would fit, as tried by plans: a finer
 * grid, a smaller batch, stages that compute again, segments of train.recompute, no set kept in memory; where
 * the model is most of it, more stages and ranks along features.  Returns how many. */
int plan_fit_notes(const plan_asked *asked, const lk_job *job, const lk_plan *plan,
                   char note[PLAN_FIT_NOTES][PLAN_NOTE]);

#endif /* LK_CLI_PLAN_FIT_H */
