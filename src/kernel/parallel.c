/* Placeholder until the pool: one thread. */
#include "kernel/parallel.h"

lk_status lk_threads_get(int *out)
{
    *out = 1;
    return LK_OK;
}

lk_status lk_threads_set(int n)
{
    (void)n;
    return LK_OK;
}

void lk_threads_stop(void)
{
}

lk_status lk__parallel(int64_t n, int64_t grain, lk__task_fn *fn, void *arg)
{
    (void)grain;
    fn(arg, 0, n);
    return LK_OK;
}
