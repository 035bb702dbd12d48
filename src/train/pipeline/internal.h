/* lk__pipeline from inside: the tapes of a stage, its messages and its lists of actions.  The trainer makes
 * one on each rank (pipeline.c); steps and evaluations go through batches (batch.c) and lists (actions.c)
 * with it, on the trainer's thread.
 */
#ifndef LK_TRAIN_PIPELINE_INTERNAL_H
#define LK_TRAIN_PIPELINE_INTERNAL_H

#include "parallel/pipeline/stages.h"
#include "train/batches.h"

#include <lockstep/extra/trainer_actions.h>

/* What goes from one stage to the next: for one sample, and where that is cut into tiles those of this rank. */
typedef struct lk__boundary {
    lk_tensor_type type; /* of what a rank has of a sample; ndim of its shape -1: there is none */
    bool by_tile;        /* of all samples; otherwise whole samples of those that the rank owns */
    bool idle;           /* the layer does not run, so messages have nothing in them */
    const char *name;    /* of the layer that gives it */
} lk__boundary;

/* A micro-batch that is under way. */
typedef struct lk__slot {
    lk__pass_room room;
    lk_accumulator *observed;
    lk_tensor *x, *dy; /* room for the largest: what came in, and the gradient of what goes out */
    lk_tensor *x_now, *dy_now; /* of this one's samples; NULL: there are none yet */
    lk_batch part;
    lk_var in, out;
    int64_t losses;
    lk_request *sent;
} lk__slot;

/* The lists of a kind for a number of micro-batches. */
typedef struct lk__stage_lists {
    lk_pipeline *made;
    struct lk__stage_lists *next;
} lk__stage_lists;

struct lk__pipeline {
    lk_comm *comm;
    const lk_plan *plan;
    lk__boundary before, behind;
    lk__slot *slot;
    int64_t n_slots;
    lk_tensor *dx[LK_PIPELINE_GRADIENTS], *dx_now[LK_PIPELINE_GRADIENTS];
    lk_request *dx_sent[LK_PIPELINE_GRADIENTS];
    lk__shard_sums sums; /* of the micro-batches */
    lk_tape *done;       /* of the last one whose gradients are complete; NULL: none */
    lk__stage_lists *schedules;
    bool helps; /* the communicator has its progress thread for this */
    lk_action_watch_fn *watch;
    void *watch_context;
};

/* A batch that goes through the stages. */
typedef struct lk__pipeline_work {
    lk_trainer *t;
    lk__pipeline *p;
    const lk_batch *batch; /* this rank's samples of it; x and y where its stage takes them */
    bool trains;
    lk_step_seconds *time;
} lk__pipeline_work;

static inline bool lk__boundary_is(const lk__boundary *b)
{
    return b->type.shape.ndim >= 0;
}

/** The slot of a micro-batch. */
static inline lk__slot *lk__slot_of(const lk__pipeline_work *w, int64_t microbatch)
{
    return &w->p->slot[microbatch % w->p->n_slots];
}

/** The lists for so many micro-batches, made and checked the first time. */
lk_status lk__schedule_get(lk__pipeline *p, lk_pipeline_kind kind, int64_t microbatches,
                           const lk_pipeline **out) LK_NODISCARD;

/** Wait for sends that a list which did not come to its end has left: the job is over then, and they fail. */
lk_status lk__sends_finish(lk__pipeline *p) LK_NODISCARD;

/** Take the samples of a micro-batch, on whichever stage, as its slot's, and note which of them are whose. */
lk_status lk__slot_begin(const lk__pipeline_work *w, int64_t microbatch) LK_NODISCARD;

/** Let go of the samples of a micro-batch, and of all that its tape has. */
void lk__slot_clear(lk__slot *s);

/** Put what the layers of this stage take on the tape of a pass: samples, or what has come from the one before;
 * and what is to come out. */
lk_status lk__slot_enter(const lk__pipeline_work *w, lk__slot *s, const lk_pass *pass,
                         lk_var *y) LK_NODISCARD;

/** Take room in the slot for what an action receives; and receive it there. */
lk_status lk__slot_make_room(const lk__pipeline_work *w, lk_action a, lk_tensor **out) LK_NODISCARD;
lk_status lk__slot_receive(const lk__pipeline_work *w, lk_action a) LK_NODISCARD;

/** Do what an action says. */
lk_status lk__action_run(const lk__pipeline_work *w, lk_action a) LK_NODISCARD;

/** Go through the list of this rank's stage, for a batch of so many shards of its replica. */
lk_status lk__actions_run(const lk__pipeline_work *w, int64_t shards) LK_NODISCARD;

#endif /* LK_TRAIN_PIPELINE_INTERNAL_H */
