/* A trainer from inside. */
#ifndef LK_TRAIN_TRAINER_H
#define LK_TRAIN_TRAINER_H

#include <lockstep/alloc.h>
#include <lockstep/op.h>
#include <lockstep/train.h>

enum { LK__TREE_LEVELS = 48 };

/* Numbers that metrics add up. */
typedef struct lk__counts {
    int64_t samples;
    double loss; /* the sum over samples */
    double *number[LK_MAX_METRICS];
} lk__counts;

struct lk_trainer {
    lk_trainer_spec spec;
    lk_arena *arena;     /* filled-in options */
    lk_arena *text;      /* of the last score */
    const lk_cost *cost; /* of spec.loss */
    int n_metrics;
    const lk_metric *metric[LK_MAX_METRICS];
    lk_optimizer *optimizer;
    lk_tape *tape;                   /* of steps */
    lk_tape *viewing;                /* of evaluation */
    lk_tensor *seed;                 /* of backward: one over the samples of the batch */
    lk_sums *level[LK__TREE_LEVELS]; /* partial sums of the tree, by level; made when needed */
    lk_sums *spare;                  /* the next block's */
    lk__counts seen;                 /* by the steps since the last score */
    lk__counts viewed;               /* by an evaluation */
    int64_t step;
};

/** The block's samples as variables on `tape`. */
lk_status lk__block_enter(lk_tape *tape, const lk_batch *batch, lk_var *x, lk_var *y) LK_NODISCARD;

/** Add the model's outputs for some samples to the counts. */
lk_status lk__counts_add(const lk_trainer *t, lk__counts *counts, lk_var out,
                         lk_var target) LK_NODISCARD;
void lk__counts_clear(const lk_trainer *t, lk__counts *counts);

/** Turn counts into a score. */
lk_status lk__counts_score(lk_trainer *t, const lk__counts *counts, lk_score *out) LK_NODISCARD;

/** Say which tensor of a pass is not finite first, or which parameter. */
lk_status lk__blame(lk_trainer *t, const lk_batch *batch, double loss) LK_NODISCARD;

#endif /* LK_TRAIN_TRAINER_H */
