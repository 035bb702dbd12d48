/* lk__memory_available() and lk__memory_is_limited(): read from the system at each call, on any
 * thread. */
#include "base/memory/memory.h"

#include <stdio.h>
#include <sys/resource.h>

int64_t lk__memory_available(void)
{
    char line[128];
    long long kib = -1;
    FILE *f = fopen("/proc/meminfo", "re");
    while (f && kib < 0 && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %lld kB", &kib) != 1)
            kib = -1;
    if (f)
        fclose(f);
    return kib < 0 || kib > INT64_MAX / 1024 ? INT64_MAX : kib * 1024;
}

bool lk__memory_is_limited(void)
{
    struct rlimit data, addresses;
    return (getrlimit(RLIMIT_DATA, &data) == 0 && data.rlim_cur != RLIM_INFINITY) ||
           (getrlimit(RLIMIT_AS, &addresses) == 0 && addresses.rlim_cur != RLIM_INFINITY);
}
