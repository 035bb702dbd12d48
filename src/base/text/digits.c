/* Numbers in lists: see digits.h. */
#include "base/text/digits.h"

#include <string.h>

bool lk__digits_read(const char **at, int64_t most, int64_t *out)
{
    const char *p = *at;
    int64_t n = 0;
    for (; *p >= '0' && *p <= '9'; p++) {
        int digit = *p - '0';
        n = n > (most - digit) / 10 ? most : 10 * n + digit;
    }
    bool found = p != *at;
    *at = p;
    *out = n;
    return found;
}

bool lk__repeated_read(const char **at, int64_t most, int64_t *count, int64_t *times)
{
    *times = 1;
    if (!lk__digits_read(at, most, count))
        return false;
    if (strncmp(*at, "(x", 2) != 0)
        return true;
    *at += 2;
    if (!lk__digits_read(at, most, times) || **at != ')')
        return false;
    ++*at;
    return true;
}
