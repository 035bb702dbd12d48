/* A fuzz target is one file fuzz_NAME.c of this folder: a function of an input that returns normally
 * when all is well, whatever the input.  tests/fuzz/corpus/NAME holds inputs to begin with. */
#ifndef LK_TEST_FUZZ_H
#define LK_TEST_FUZZ_H

#include <lockstep/extra/alloc.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(cond)                                                      \
    do {                                                                      \
        if (!(cond)) {                                                        \
            fprintf(stderr, "fuzz: %s (%s:%d)\n", #cond, __FILE__, __LINE__); \
            abort();                                                          \
        }                                                                     \
    } while (0)

/* What a reader answers: success, or a refusal that says why in one line, without a word about
 * memory, for which small inputs give no reason. */
static inline void fuzz_check_status(lk_status st)
{
    const char *message = lk_error_message();
    if (st == LK_OK)
        return;
    FUZZ_CHECK(st != LK_ENOMEM && st == lk_error_status());
    FUZZ_CHECK(*message);
    for (const char *c = message; *c; c++)
        FUZZ_CHECK((unsigned char)*c >= ' ');
    lk_error_clear();
}

/* Nothing is left behind an input. */
static inline void fuzz_check_memory(void)
{
    FUZZ_CHECK(lk_alloc_stats_now().live_blocks == 0);
}

#endif /* LK_TEST_FUZZ_H */
