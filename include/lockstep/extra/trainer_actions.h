/* What the stages of a trainer do when: for who measures schedules (pipeline.h), as `lockstep bench pipeline`
 * does.
 */
#ifndef LK_TRAINER_ACTIONS_H
#define LK_TRAINER_ACTIONS_H

#include <lockstep/extra/pipeline.h>
#include <lockstep/train.h>

LK_BEGIN_DECLS

/** Called behind each action of this rank's stage, on the trainer's thread; `span` is by lk_clock_ns(), and
 * begins where that of the action before ends.  It must not call the trainer. */
typedef void lk_action_watch_fn(void *context, lk_action action, lk_action_span span);

/** Call `watch` with `context` behind each action of steps and evaluations from now on; NULL: no call.  A
 * trainer of one stage has no actions.  Not collective. */
LK_API void lk_trainer_watch_actions(lk_trainer *trainer, lk_action_watch_fn *watch, void *context);

LK_END_DECLS

#endif /* LK_TRAINER_ACTIONS_H */
