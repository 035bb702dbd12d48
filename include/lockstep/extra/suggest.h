/* "Did you mean": the known name nearest to a mistyped one.
 *
 *     lk_suggestion s = {.wanted = name};
 *     for (...)
 *         lk_suggest_consider(&s, known[i]);
 *     if (lk_suggest_found(&s))
 *         ... did you mean s.best?
 */
#ifndef LK_SUGGEST_H
#define LK_SUGGEST_H

#include <lockstep/api.h>

#include <stdbool.h>

LK_BEGIN_DECLS

/** A search: set `wanted`, and the rest to 0. */
typedef struct lk_suggestion {
    const char *wanted;
    const char *best; /* the nearest so far, borrowed, or NULL */
    int distance;     /* between the two: letters to insert, delete, replace or swap */
} lk_suggestion;

/** Offer a known name, which is borrowed; the first of equally near ones is kept. */
LK_API void lk_suggest_consider(lk_suggestion *s, const char *known);

/** Whether `best` is near enough to be worth naming. */
LK_API bool lk_suggest_found(const lk_suggestion *s);

LK_END_DECLS

#endif /* LK_SUGGEST_H */
