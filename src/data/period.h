/* Reading an lk_period from text: for experiment files and early-stop triggers. */
#ifndef LK_DATA_PERIOD_H
#define LK_DATA_PERIOD_H

#include <lockstep/data.h>

/** Read "1 epoch", "500 steps" or "never".  Returns false for anything else. */
bool lk__period_read(const char *text, lk_period *out);

#endif /* LK_DATA_PERIOD_H */
