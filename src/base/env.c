/* The environment: see env.h. */
#include "base/env.h"

#include <stdlib.h>

const char *lk__env(const char *name)
{
    return secure_getenv(name);
}
