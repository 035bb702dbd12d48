/* Text that came from elsewhere, made fit for a terminal and a log file. */
#ifndef LK_BASE_TEXT_H
#define LK_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** The UTF-8 character at `s`, of which `n` bytes are there: returns how many it has and sets `*c` to
 * its number; 0 if it is none.  A terminating zero within `n` ends what is read. */
size_t lk__utf8_read(const char *s, size_t n, uint32_t *c);

/** Whether a text is UTF-8 to its end. */
bool lk__utf8_is(const char *text);

/**
 * Copy `src` to `dst` (`size` bytes, at least 4) as one line of harmless UTF-8.
 *
 * Control characters (newlines and escapes among them), characters that turn the direction of
 * writing and bytes that are no UTF-8 become \xNN, byte by byte.  What does not fit is cut at a
 * character and marked with "...".  Returns the length of the result.
 */
size_t lk__text_clean(const char *src, char *dst, size_t size);

#endif /* LK_BASE_TEXT_H */
