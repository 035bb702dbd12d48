/* Schedules of pipelines as graphs, for the check and for times; the lists are in <lockstep/extra/pipeline.h>.
 *
 * The actions of all stages are numbered one stage behind the other.  Each has a begin and an end; these are
 * the nodes of the graph.  A node waits for at most two others:
 *
 *     begin of an action   the end of the one before it on its stage
 *     end of an action     its begin, and
 *         of a receive     the begin of its send
 *         of a wait        under rendezvous, the begin of the receive of what it waits for
 *
 * The stages come to their ends if none waits in a circle: messages are matched by what they are, so there
 * is no choice that a run could make otherwise.
 */
#ifndef LK_PARALLEL_PIPELINE_H
#define LK_PARALLEL_PIPELINE_H

#include <lockstep/extra/pipeline.h>

/** Computations have a slot each, messages one for each kind and value. */
enum { LK__ACTION_SLOTS = LK_ACTION_SEND + 2 * (LK_N_ACTION_KINDS - LK_ACTION_SEND) };

typedef struct lk__pipeline_graph {
    const lk_pipeline *pipeline;
    int64_t n;      /* actions of all stages */
    int64_t *first; /* [stages + 1] the number of each stage's first */
    int64_t *
        place; /* [stages][LK__ACTION_SLOTS][microbatches] where in the stage's list; -1: nowhere */
    int *stage;     /* [n] whose an action is */
    int64_t *other; /* [n] the action whose begin its end waits for; -1: none */
    int64_t
        *order; /* [2 n] nodes, 2 * action + (1: its end), each behind those that it waits for */
} lk__pipeline_graph;

/** The slot of an action whose kind and value are some. */
int lk__action_slot(lk_action_kind kind, lk_action_value value);

/** Where an action is in its stage's list; -1: nowhere. */
int64_t lk__pipeline_place(const lk__pipeline_graph *graph, int stage, int slot,
                           int64_t microbatch);

/** Make the graph of a schedule, without `other` and `order`, checking that each action is one that its stage
 * can do, and is there once.  What was made is freed in any case.  Errors: LK_EINVAL naming the action;
 * LK_ENOMEM. */
lk_status lk__pipeline_graph_make(lk__pipeline_graph *graph,
                                  const lk_pipeline *pipeline) LK_NODISCARD;
void lk__pipeline_graph_free(lk__pipeline_graph *graph);

/** Find who waits for whom, and an order in which all can go on.  Errors: LK_EINVAL with the circle that they
 * wait in; LK_ENOMEM. */
lk_status lk__pipeline_graph_sort(lk__pipeline_graph *graph, bool rendezvous) LK_NODISCARD;

/** lk_pipeline_check(), leaving the graph to the caller, who frees it, also after a failure. */
lk_status lk__pipeline_graph_check(lk__pipeline_graph *graph,
                                   const lk_pipeline *pipeline) LK_NODISCARD;

#endif /* LK_PARALLEL_PIPELINE_H */
