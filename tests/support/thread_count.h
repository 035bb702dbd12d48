/* The threads of this process. */
#ifndef LK_TEST_THREAD_COUNT_H
#define LK_TEST_THREAD_COUNT_H

#include "harness.h"

#include <dirent.h>

static inline int count_threads(void)
{
    DIR *dir = opendir("/proc/self/task");
    ASSERT_TRUE(dir);
    int n = 0;
    for (struct dirent *e; (e = readdir(dir));)
        n += e->d_name[0] != '.';
    closedir(dir);
    return n;
}

#endif /* LK_TEST_THREAD_COUNT_H */
