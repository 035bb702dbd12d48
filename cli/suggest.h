/* "Did you mean": the known name nearest to a mistyped one. */
#ifndef LK_CLI_SUGGEST_H
#define LK_CLI_SUGGEST_H

#include <stdbool.h>

/* Set `wanted`, offer each known name with suggest_consider(), then ask suggest_found(). */
typedef struct suggestion {
    const char *wanted;
    const char *best; /* the nearest so far, or NULL */
    int distance;
} suggestion;

void suggest_consider(suggestion *s, const char *known);

/** Whether `best` is near enough to be worth naming. */
bool suggest_found(const suggestion *s);

#endif /* LK_CLI_SUGGEST_H */
