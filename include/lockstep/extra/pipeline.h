/* Pipelines: what each stage of a model does in a step, as lists that are made and checked before the first
 * byte moves.
 *
 * A model of p stages takes a batch in micro-batches.  Stage s receives the activation of one from stage
 * s - 1, computes forward, and sends what comes out to stage s + 1; gradients come back the other way.  A
 * schedule says in which order each stage does that:
 *
 *     gpipe     forward of all micro-batches, then backward of all
 *     1f1b      p - 1 - s forwards ahead, then one forward and one backward in turn: p - s under way
 *     zb1p      the same with the two halves of backward apart: that of the input, for which the stage before
 *               waits, goes first, and that of the weights fills the gaps, up to `lag` micro-batches later
 *     forward   forward alone, for evaluations
 *
 * A micro-batch has a tape from its first action to its last: what is received and what is computed lies
 * there.  Stage s has some tapes, and micro-batch i the tape i modulo their number.  Sends are begun, and
 * waited for later: that of an activation where its tape is given back, that of a gradient before its buffer
 * is used again, and at the end.  Of these buffers a stage has LK_PIPELINE_GRADIENTS, and micro-batch i the
 * one i modulo their number.
 *
 * Everything here is arithmetic, on the caller's thread; nothing is collective: all ranks make the same
 * lists.  They are for a trainer to run from; `lockstep plan --schedule` draws them.
 */
#ifndef LK_PIPELINE_H
#define LK_PIPELINE_H

#include <lockstep/api.h>
#include <lockstep/status.h>

#include <stdbool.h>
#include <stdint.h>

LK_BEGIN_DECLS

typedef enum lk_pipeline_kind {
    LK_PIPELINE_1F1B,
    LK_PIPELINE_GPIPE,
    LK_PIPELINE_ZB1P,
    LK_PIPELINE_FORWARD
} lk_pipeline_kind;

/** The names of those that train, in this order, for options of type LK_OPTION_CHOICE. */
#define LK_PIPELINE_CHOICES "1f1b gpipe zb1p"

/** "1f1b", "gpipe", "zb1p" or "forward"; "?" for a value that is none. */
LK_API const char *lk_pipeline_name(lk_pipeline_kind kind);

/* ---- actions ---- */

typedef enum lk_action_kind {
    LK_ACTION_FORWARD,
    LK_ACTION_BACKWARD,         /* both halves: */
    LK_ACTION_BACKWARD_INPUT,   /* the gradient of what came in, */
    LK_ACTION_BACKWARD_WEIGHTS, /* and those of the parameters, which never communicates */
    LK_ACTION_SEND,             /* is begun: the value must stay where it is */
    LK_ACTION_RECEIVE,          /* ends when the value is there */
    LK_ACTION_WAIT,             /* ends when what was sent has gone */
    LK_N_ACTION_KINDS
} lk_action_kind;

/** What a message has: an activation for the stage behind, or a gradient for the one before. */
typedef enum lk_action_value { LK_ACTION_ACTIVATION, LK_ACTION_GRADIENT } lk_action_value;

typedef struct lk_action {
    lk_action_kind kind;
    lk_action_value value; /* of messages */
    int64_t microbatch;
} lk_action;

enum { LK_ACTION_TEXT = 64 };

/** "forward 3", "receive gradient 3", "wait for the send of activation 3", the number being the
 * micro-batch's; written to `out`, which is returned. */
LK_API const char *lk_action_text(lk_action action, char out[LK_ACTION_TEXT]);

/* ---- schedules ---- */

/** The lag as large as it can help: that of a stage is never more than its number. */
#define LK_LAG_FULL INT64_MAX

enum { LK_PIPELINE_GRADIENTS = 2 };

typedef struct lk_pipeline_spec {
    lk_pipeline_kind kind;
    int stages;
    int64_t microbatches; /* of a replica; it may have none */
    /* zb1p: [stages], by how many micro-batches gradients of weights may come later than those of the input;
     * cut to the number of the stage.  NULL: LK_LAG_FULL everywhere. */
    const int64_t *lag;
} lk_pipeline_spec;

/** What one stage does, in order. */
typedef struct lk_pipeline_stage {
    int64_t n;
    lk_action *action;
    int64_t tapes; /* that it has: so many micro-batches may be under way */
} lk_pipeline_stage;

/** A schedule, as data: made by lk_pipeline_new(), or written by a program that has another, which lets
 * lk_pipeline_check() look at it.  Fields are to be read, on any thread.  Not collective. */
typedef struct lk_pipeline {
    lk_pipeline_kind kind; /* of the check: whether there is anything but forward */
    int stages;
    int64_t microbatches;
    lk_pipeline_stage *stage; /* [stages] */
} lk_pipeline;

/**
 * Make the lists of all stages.  The caller owns `*out`; the spec is not kept.
 *
 * Errors: LK_EINVAL for a kind that is none, no stage, a negative number of micro-batches or lag, naming it;
 * LK_ENOMEM.
 */
LK_API lk_status lk_pipeline_new(const lk_pipeline_spec *spec, lk_pipeline **out) LK_NODISCARD;

/** NULL is allowed. */
LK_API void lk_pipeline_free(lk_pipeline *pipeline);

/**
 * Check that a schedule, whatever its origin, does all of the work and can end:
 *
 *   - each stage does forward of every micro-batch once, behind the receive of its activation; and unless the
 *     kind is LK_PIPELINE_FORWARD, backward once, whole or in both halves, behind the receive of its gradient;
 *   - what comes out is sent once, behind what computes it, and each send is waited for once;
 *   - both ends of a boundary send and receive in the same order;
 *   - forwards are in ascending order, for the sums of losses, and so are the gradients of weights;
 *   - a tape is not used again before it is given back, nor is the buffer of a gradient;
 *   - no cycle of stages that wait for each other, neither where messages are buffered nor where a send is
 *     over only when its receive has begun.
 *
 * Then all stages reach the end of their lists whatever the times and the transport are.  Every number is
 * looked at before it is used.
 *
 * Errors: LK_EINVAL naming stages and actions, and of a cycle which waits for which; LK_ENOMEM.
 */
LK_API lk_status lk_pipeline_check(const lk_pipeline *pipeline) LK_NODISCARD;

/* ---- memory ---- */

/** The lag of a stage: what the spec says, cut to the stage's number; 0 unless it is zb1p. */
LK_API int64_t lk_pipeline_lag(const lk_pipeline_spec *spec, int stage);

/**
 * The lag of a stage that costs about no memory: min(s, floor(s * forward_bytes / weights_bytes)).
 *
 * `forward_bytes` is what a micro-batch holds between forward and backward, `weights_bytes` what it holds
 * between the two halves of backward: inputs and gradients of outputs of the layers with weights.
 */
LK_API int64_t lk_pipeline_lag_by_bytes(int stage, int64_t forward_bytes, int64_t weights_bytes);

/** How many tapes a stage needs, which is how many micro-batches it has under way: of m micro-batches
 * min(m, p - s + lag), for gpipe m, for evaluations at most two. */
LK_API int64_t lk_pipeline_tapes(const lk_pipeline_spec *spec, int stage);

/**
 * Bytes that the micro-batches under way on a stage hold at most, of these sizes: with enough of them
 * (p - s) * forward_bytes, and for zb1p, where weights_bytes is the larger one as it mostly is,
 * (p - s - 1) * forward_bytes + (lag + 1) * weights_bytes.
 *
 * Errors: LK_EINVAL for negative sizes; LK_EOVERFLOW.
 */
LK_API lk_status lk_pipeline_bytes(const lk_pipeline_spec *spec, int stage, int64_t forward_bytes,
                                   int64_t weights_bytes, int64_t *out) LK_NODISCARD;

/* ---- times ---- */

/** How long the actions of a stage take, in any unit; and how long a message of its, from when it can move. */
typedef struct lk_stage_times {
    int64_t forward, backward, backward_input, backward_weights;
    int64_t message;
} lk_stage_times;

typedef struct lk_action_span {
    int64_t begin, end;
} lk_action_span;

/** When each action begins and ends: made by lk_pipeline_times_new(), to be read on any thread.  Not
 * collective. */
typedef struct lk_pipeline_times {
    int64_t total; /* the end of the last one: the critical path */
    int64_t busy;  /* what the busiest stage computes */
    double bubble; /* (total - busy) / busy; 0 where nothing is computed */
    int stages;
    lk_action_span **span; /* [stages][actions of the stage] */
} lk_pipeline_times;

/**
 * Find when each action of a schedule begins and ends, if all stages begin at 0 and each action as soon as it
 * can.  `stage` is [pipeline->stages].  A message moves when it is sent; with `rendezvous`, when both its
 * send and its receive have begun, and a wait for the send then waits for that.  The caller owns `*out`.
 *
 * Errors: those of lk_pipeline_check(), which is called first; LK_EINVAL for a negative time; LK_EOVERFLOW;
 * LK_ENOMEM.
 */
LK_API lk_status lk_pipeline_times_new(const lk_pipeline *pipeline, const lk_stage_times *stage,
                                       bool rendezvous, lk_pipeline_times **out) LK_NODISCARD;

/** NULL is allowed. */
LK_API void lk_pipeline_times_free(lk_pipeline_times *times);

LK_END_DECLS

#endif /* LK_PIPELINE_H */
