/* Byte-order marks, which some editors put at the beginning of a text file: recognised and skipped
 * by the readers of YAML and CSV. */
#ifndef LK_BASE_MARK_H
#define LK_BASE_MARK_H

#include <stddef.h>
#include <string.h>

/** Bytes of the mark of UTF-8 that a text begins with: 3 or 0; -1 for a text in UTF-16 or UTF-32. */
static inline int lk__mark_bytes(const void *text, size_t n)
{
    const unsigned char *c = text;
    if (n >= 3 && memcmp(c, "\xef\xbb\xbf", 3) == 0)
        return 3;
    if (n >= 4 && memcmp(c, "\0\0\xfe\xff", 4) == 0)
        return -1;
    return n >= 2 && (memcmp(c, "\xff\xfe", 2) == 0 || memcmp(c, "\xfe\xff", 2) == 0) ? -1 : 0;
}

#endif /* LK_BASE_MARK_H */
