/* Texts that came from elsewhere, for people to read. */
#ifndef LK_TEXT_H
#define LK_TEXT_H

#include <lockstep/api.h>

#include <stddef.h>

LK_BEGIN_DECLS

/**
 * Copy `src` to `dst` (`size` bytes, at least 4) as one line of harmless UTF-8.
 *
 * Control characters (newlines and escapes among them), characters that turn the direction of
 * writing and bytes that are no UTF-8 become \xNN, byte by byte.  What does not fit is cut at a
 * character and marked with "...".  Returns the length of the result.
 */
LK_API size_t lk_sanitize_text(const char *src, char *dst, size_t size);

LK_END_DECLS

#endif /* LK_TEXT_H */
