/* Numbers as text, decimal, with a point whatever the locale: read strictly (the whole text or
 * nothing), and shown with as many digits as it takes to read the same bits again.  Any thread. */
#ifndef LK_BASE_NUMBER_H
#define LK_BASE_NUMBER_H

#include <stddef.h>
#include <stdint.h>

/**
 * Read all of `text` as a number.  Returns NULL, or what is wrong with the text, such as
 * "is not a whole number".
 *
 * Strict: an optional sign, digits without leading zeros; a real number may have a fraction and an
 * exponent, and must neither become infinite nor vanish.
 */
const char *lk__number_read_int(const char *text, int64_t *out);
const char *lk__number_read_real(const char *text, double *out);

enum { LK_NUMBER_TEXT = 32 };

/** The fewest digits that read back as `value`, which is finite, in `buf` of LK_NUMBER_TEXT bytes;
 * returns `buf`.  Whole numbers below 10^15 have no exponent. */
const char *lk__number_show(double value, char *buf);

#endif /* LK_BASE_NUMBER_H */
