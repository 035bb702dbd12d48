/* Reading numbers inside lists that launchers write into the environment ("4(x2),3") and that
 * people may have changed: never more than the caller's limit, however many digits there are. */
#ifndef LK_BASE_DIGITS_H
#define LK_BASE_DIGITS_H

#include <stdbool.h>
#include <stdint.h>

/** Read the decimal digits at `*at` and move behind them; false if there are none.  Numbers beyond `most`
 * (at least 9) read as `most`. */
bool lk__digits_read(const char **at, int64_t most, int64_t *out);

/** Read an entry of a list by node as SLURM writes it at `*at`, and move behind it: "4(x2),3" is 4, 4 and
 * 3, the first entry being 4, 2 times.  False if there is none, `*at` being where it went wrong.  Numbers as
 * by lk__digits_read(). */
bool lk__repeated_read(const char **at, int64_t most, int64_t *count, int64_t *times);

#endif /* LK_BASE_DIGITS_H */
