/* Saying where two configurations of `lockstep verify` part. */
#ifndef LK_CLI_VERIFY_COMPLAIN_H
#define LK_CLI_VERIFY_COMPLAIN_H

#include "verify_compare.h"
#include "verify_place.h"

/** Print on stderr which configurations differ after which step, and if their states do, train both
 * again up to that step and name the first tensor. */
void verify_complain(const verify_place *a, const verify_place *b, const verify_difference *d);

#endif /* LK_CLI_VERIFY_COMPLAIN_H */
