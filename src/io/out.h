/* lk__out: a string builder, for texts and bytes.  The writer has it on its stack or in its struct.
 *
 * The first failure is kept and all that follows does nothing, so that the writer of a long text
 * checks once, at the end.  A text that is cleared keeps its memory.
 */
#ifndef LK_IO_OUT_H
#define LK_IO_OUT_H

#include <lockstep/status.h>

#include <stdint.h>

/** Begin with zeros; end with lk_free(text). */
typedef struct lk__out {
    char *text; /* terminated, NULL if nothing was ever put */
    int64_t n, room;
    lk_status st;
} lk__out;

/** Forget what was put, and a failure. */
void lk__out_clear(lk__out *o);

/** Append bytes. */
void lk__out_bytes(lk__out *o, const void *bytes, int64_t n);

/** Append a text. */
void lk__out_put(lk__out *o, const char *text);

/** Append what printf() would print; at most 255 bytes, and no real numbers, which the locale would
 * change. */
void lk__out_format(lk__out *o, const char *fmt, ...) LK_PRINTF(2, 3);

/** Append a text for HTML: characters that mean something there are escaped, what is no UTF-8 or a
 * control character becomes U+FFFD, but tabs and newlines stay. */
void lk__out_html(lk__out *o, const char *text);

/** Append a text as JSON, with its quotes. */
void lk__out_json(lk__out *o, const char *text);

/** Append a number by the fewest digits that read back as it; "null" if it is not finite. */
void lk__out_real(lk__out *o, double value);

/** Append a number for people: four digits that count. */
void lk__out_short(lk__out *o, double value);

/** Append a whole number for people, its digits in groups of three. */
void lk__out_count(lk__out *o, int64_t value);

/** Append a number of magnitude below 2^40 with so many decimals, at most 6. */
void lk__out_fixed(lk__out *o, double value, int decimals);

#endif /* LK_IO_OUT_H */
