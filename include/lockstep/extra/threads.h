/* How kernels share their work among threads, for those who look at just that.
 *
 * <lockstep/thread.h> says how many threads there are.  This header may change in any release.
 */
#ifndef LK_THREADS_H
#define LK_THREADS_H

#include <lockstep/api.h>

#include <stdbool.h>

LK_BEGIN_DECLS

/**
 * From now on, whether kernels share whatever has two parts among all threads, however short it is, and not
 * only what pays; false at first.  The bits are the same: the self-check and tests see that they are.  For
 * the whole process; not while kernels run.
 */
LK_API void lk_threads_share_all(bool all);

LK_END_DECLS

#endif /* LK_THREADS_H */
