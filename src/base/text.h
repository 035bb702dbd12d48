/* Text that came from elsewhere, made fit for a terminal and a log file. */
#ifndef LK_BASE_TEXT_H
#define LK_BASE_TEXT_H

#include <stddef.h>

/**
 * Copy `src` to `dst` (`size` bytes, at least 4) as one line of harmless UTF-8.
 *
 * Control characters (newlines and escapes among them), characters that turn the direction of
 * writing and bytes that are no UTF-8 become \xNN, byte by byte.  What does not fit is cut at a
 * character and marked with "...".  Returns the length of the result.
 */
size_t lk__text_clean(const char *src, char *dst, size_t size);

#endif /* LK_BASE_TEXT_H */
