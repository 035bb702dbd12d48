/* lk_period: how often something happens in a loop over batches ("100 steps", "1 epoch"), read and
 * asked. */
#include "data/period.h"

#include <stdlib.h>
#include <string.h>

bool lk__period_read(const char *text, lk_period *out)
{
    static const char *const units[] = {" epoch", " epochs", " step", " steps"};
    enum { MOST_DIGITS = 9 };
    *out = (lk_period){0};
    if (strcmp(text, "never") == 0)
        return true;
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > MOST_DIGITS || *text == '0')
        return false;
    for (int i = 0; i < 4; i++)
        if (strcmp(text + digits, units[i]) == 0) {
            *out = (lk_period){.n = strtoll(text, NULL, 10), .steps = i >= 2};
            return true;
        }
    return false;
}

bool lk_period_is_due(lk_period period, const lk_position *at)
{
    if (period.n <= 0 || at->step == 0)
        return false;
    if (period.steps)
        return at->step % period.n == 0;
    return at->batch == 0 && at->epoch % period.n == 0;
}
