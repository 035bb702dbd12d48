/* Tests of what kernels compute on several threads: their jobs are shorter than any that is worth sharing. */
#ifndef LK_TEST_ALL_THREADS_H
#define LK_TEST_ALL_THREADS_H

#include "harness.h"

#include <lockstep/extra/threads.h>
#include <lockstep/thread.h>

/* Kernels from now on use n threads, all of them for each job. */
static inline void all_threads_set(int n)
{
    ASSERT_OK(lk_threads_set(n));
    lk_threads_share_all(true);
}

#endif /* LK_TEST_ALL_THREADS_H */
