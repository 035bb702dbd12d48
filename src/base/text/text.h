/* UTF-8: reading one character, and whether a text is valid. */
#ifndef LK_BASE_TEXT_H
#define LK_BASE_TEXT_H

#include <lockstep/extra/text.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** The UTF-8 character at `s`, of which `n` bytes are there: returns how many it has and sets `*c`
 * to its number; 0 if it is none.  A terminating zero within `n` ends what is read. */
size_t lk__utf8_read(const char *s, size_t n, uint32_t *c);

/** Whether a text is UTF-8 to its end. */
bool lk__utf8_is(const char *text);

#endif /* LK_BASE_TEXT_H */
