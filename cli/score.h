/* Printing the loss and metrics of an evaluated set: for train and eval. */
#ifndef LK_CLI_SCORE_H
#define LK_CLI_SCORE_H

#include <lockstep/train.h>

/** Print "set":{"loss":...,"accuracy":...,...}, after a comma if `comma`; of several losses "loss" is the sum, and
 * "losses":{"loss":...,"code":...}. */
void score_json(const lk_trainer *trainer, const char *set, const lk_eval *score, bool comma);

/** Print a line for samples, loss (and of several that count, each) and each metric; tables behind them. */
void score_print(const lk_trainer *trainer, const lk_eval *score);

#endif /* LK_CLI_SCORE_H */
