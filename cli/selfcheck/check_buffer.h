/* The outputs of one run of a case, with guards around them. */
#ifndef LK_CLI_CHECK_BUFFER_H
#define LK_CLI_CHECK_BUFFER_H

#include "selfcheck/check.h"

typedef struct check_buffer {
    void *block[CHECK_MAX_OUTPUTS]; /* as allocated, guards included */
    void *out[CHECK_MAX_OUTPUTS];
} check_buffer;

lk_status check_buffer_new(const check_case *c, check_buffer *b) LK_NODISCARD;
void check_buffer_free(check_buffer *b);

/** Give the outputs their first contents and the guards their pattern. */
void check_buffer_reset(const check_case *c, check_buffer *b);

/** Replace every NaN by one and the same: which NaN comes out is not defined. */
void check_buffer_settle(const check_case *c, check_buffer *b);

/** The number of the first output with a guard that was written to, or -1. */
int check_buffer_spill(const check_case *c, const check_buffer *b);

/** Find the first difference between outputs `o`; false if there is none. */
bool check_differ(const check_case *c, int o, const void *a, const void *b, int64_t *at);

#endif /* LK_CLI_CHECK_BUFFER_H */
