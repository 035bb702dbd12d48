/* Updates: the loop of the instruction set in use, over blocks of the elements. */
#include "kernel/updates.h"

#include "base/fpenv.h"
#include "kernel/runtime/parallel.h"

enum { RUN = 512 }; /* elements of a task: whole lines of the cache */

struct job {
    const lk__update *update;
    lk__update_fn *fn;
    int64_t n;
};

static void work(void *arg, int64_t first, int64_t last)
{
    const struct job *job = arg;
    int64_t end = last * RUN;
    job->fn(job->update, first * RUN, end < job->n ? end : job->n);
}

lk_status lk__update_run(lk_dtype dtype, lk__update_rule rule, const lk__update *u, int64_t n)
{
    const lk__updates_table *t = NULL;
    LK_FP_GUARD();
    LK_TRY(LK_FP_CHECK());
    LK_CHECK(lk_dtype_is_real(dtype), LK_EDTYPE, "an update of %s: only f32 and f64",
             lk_dtype_name(dtype));
    LK_TRY(lk__updates_get(&t));
    struct job job = {.update = u, .fn = t->of[dtype][rule], .n = n};
    return LK_TRACE(lk__parallel(
        lk__tasks_bytes((n + RUN - 1) / RUN, RUN * (int64_t)lk_dtype_size(dtype)), work, &job));
}
