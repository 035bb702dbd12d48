/* Counted things: "1 rank", "2 ranks". */
#ifndef LK_CLI_PLURAL_H
#define LK_CLI_PLURAL_H

#include <stdint.h>

/** What is put behind the word for `n` of them, as in printf("%d rank%s", n, plural(n)). */
static inline const char *plural(int64_t n)
{
    return n == 1 ? "" : "s";
}

#endif /* LK_CLI_PLURAL_H */
