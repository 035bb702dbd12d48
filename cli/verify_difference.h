/* Printing where two configurations of `lockstep verify` differ. */
#ifndef LK_CLI_VERIFY_DIFFERENCE_H
#define LK_CLI_VERIFY_DIFFERENCE_H

#include "verify_compare.h"
#include "verify_config.h"

/** Print on stderr which configurations differ after which step, and if their states do, train both
 * again up to that step and name the first tensor. */
void verify_print_difference(const verify_config *a, const verify_config *b,
                             const verify_difference *d);

#endif /* LK_CLI_VERIFY_DIFFERENCE_H */
