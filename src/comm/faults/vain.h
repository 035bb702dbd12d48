/* Ranks that all wait in vain: found, and not waited for until the deadline.
 *
 *     a rank that waits                          the lowest rank that has not left, if it waits
 *     a pass that found nothing: shows its       all others rest, and as many packets were taken as
 *     rest, with the packets it sent and took    were sent: asks all a question
 *     reads the question
 *     another pass that found nothing: answers
 *                                                all have answered, and all rest as before: no
 *                                                rank will ever do anything again
 *
 * Why that is so.  While a rank rests it has done nothing that another could see: no packet sent or
 * taken, no flag posted.  When the question is put, all rest, so all that could still be seen was done
 * before.  Who answers has looked at everything after it read the question: no flag is left to see, and
 * by their numbers no packet is under way.  So the first one to act again would act on nothing.
 *
 * A rank that computes, tests, is on its way into a call, or whose messages MPI has not finished shows no
 * rest; one that is stopped or gets no core does not answer.  Its progress thread works only while the
 * rank is in no call.  Where a rank cannot be seen, on another node, none asks, and deadlines remain.
 */
#ifndef LK_COMM_VAIN_H
#define LK_COMM_VAIN_H

#include "comm/world.h"

/** What this rank is asked, before a pass whose end lk__rest_show() records. */
static inline uint64_t lk__rest_question(const lk__world *w)
{
    return atomic_load(&w->board[w->rank]->rest.asked);
}

/** A pass found nothing for a wait whose first request is `r`: rest, or answer if it was resting. */
void lk__rest_show(lk__world *w, const lk_request *r, uint64_t question);

/** The wait is over. */
void lk__rest_end(lk__world *w);

/** The rank leaves: what it sent and took in all, before its state says so. */
void lk__rest_leave(lk__world *w);

/** Look now and then, in a wait that has lasted a while: LK_ESTALL, or LK_EMISMATCH if calls differ, when
 * all ranks wait in vain. */
lk_status lk__vain_check(lk__world *w, int64_t now) LK_NODISCARD;

/** Raise it: `waiting` ranks wait, all others left. */
lk_status lk__report_vain(lk__world *w, int waiting) LK_NODISCARD;

#endif /* LK_COMM_VAIN_H */
