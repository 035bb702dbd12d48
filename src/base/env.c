/* lk__env(): getenv() for a process that runs with its caller's rights alone; env.h says why. */
#include "base/env.h"

#include <stdlib.h>

const char *lk__env(const char *name)
{
    return secure_getenv(name);
}
