/* Printing where two configurations of `lockstep verify` differ: step, layer, tensor and element.
 */
#ifndef LK_CLI_VERIFY_DIFFERENCE_H
#define LK_CLI_VERIFY_DIFFERENCE_H

#include "verify/compare.h"
#include "verify/config.h"

enum { VERIFY_CONFIG_TEXT = 256 };

/** "layout 2x2, 4 ranks, 1 thread, local, avx2, auto", in `buf`, which is returned. */
const char *verify_config_text(const verify_config *config, char buf[VERIFY_CONFIG_TEXT]);

/** Print on stderr which configurations differ after which step, and if their states do, train both
 * again up to that step and name the first layer and tensor. */
void verify_print_difference(const verify_config *a, const verify_config *b,
                             const verify_difference *d);

#endif /* LK_CLI_VERIFY_DIFFERENCE_H */
