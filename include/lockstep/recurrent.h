/* Recurrent nets whose times lie on several ranks: what the layers carry from one time to the next goes from
 * rank to rank.
 *
 *     rank 0:  x(0..2) -> [encoder]                    rank 0 has the first times, rank 1 those that follow;
 *                             |                        each has a model of its own
 *                             `- - carry - -.
 *                                            v
 *     rank 1:                   x(3..4) -> [decoder] -> y
 *
 *     lk_recurrent_forward(encoder, &pass, x, comm, LK_NO_RANK, 1, NULL, &unused);      on rank 0
 *     lk_recurrent_forward(decoder, &pass, x, comm, 0, LK_NO_RANK, NULL, &y);           on rank 1
 *
 * It is ChainerMN's create_multi_node_n_step_rnn, and there is no delegate variable: the messages lie on the
 * tape.  docs/guide/model-parallel.md is the guide; lk_component.carry_in and carry_out are the same for chain
 * lists.
 */
#ifndef LK_RECURRENT_H
#define LK_RECURRENT_H

#include <lockstep/dist.h>
#include <lockstep/nn.h>

LK_BEGIN_DECLS

/* No rank; so is any negative number. */
enum { LK_NO_RANK = -1 };

/**
 * Receive the carry from `rank_in` (LK_NO_RANK: it begins as zeros), run the model over the times of x, which
 * are those of this rank, send the carry to `rank_out` (LK_NO_RANK: nowhere); *out is what the model gives.
 * `name`, which may be NULL, is for reports.
 *
 * As lk_dist_recv_list(), lk_model_forward_carry() and lk_dist_send_list() one after the other: backward
 * gets the carry's gradient from `rank_out` and sends that of what came to `rank_in`, whether any rank
 * wants it or not.  Values, gradients and carries have the bits of the same models called one after the
 * other on one rank.  A rank may have no times: it passes the carry on.
 *
 * Errors: LK_EINVAL for a model without a recurrent layer, before anything is sent; those of the three
 * calls.  A failure behind the first message ends the job on all ranks, for others may wait for this one.
 */
LK_API lk_status lk_recurrent_forward(lk_model *model, const lk_pass *pass, lk_var x, lk_comm *comm,
                                      int rank_in, int rank_out, const char *name,
                                      lk_var *out) LK_NODISCARD;

LK_END_DECLS

#endif /* LK_RECURRENT_H */
