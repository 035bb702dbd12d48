/* The processors of this machine, or others that are pretended.
 *
 * A program that includes this has the calls below in place of the C library's, for itself and for the
 * library, which is linked statically.
 */
#ifndef LK_TEST_PROCESSORS_H
#define LK_TEST_PROCESSORS_H

#include "base/processors.h"
#include "harness.h"

#include <dlfcn.h>
#include <sched.h>

static lk__processors all; /* what this process may use */
static int n_all;

static bool pretends;
static bool gives_less; /* the next mask that is set loses its last processor */
static _Thread_local lk__processors pretended; /* mask of a thread; none: all */

static void *library_call(const char *name)
{
    void *symbol = dlsym(RTLD_NEXT, name);
    ASSERT_TRUE(symbol);
    return symbol;
}

/* These stand before the C library's. */
int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *out)
{
    int (*real)(pid_t, size_t, cpu_set_t *);
    void *symbol = library_call("sched_getaffinity");
    memcpy(&real, &symbol, sizeof real);
    if (!pretends)
        return real(pid, size, out);
    bool whole = pid != 0 || lk__processors_count(&pretended) == 0;
    memset(out, 0, size);
    memcpy(out, whole ? &all : &pretended, sizeof all);
    return 0;
}

int sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *mask)
{
    int (*real)(pid_t, size_t, const cpu_set_t *);
    void *symbol = library_call("sched_setaffinity");
    memcpy(&real, &symbol, sizeof real);
    if (!pretends)
        return real(pid, size, mask);
    ASSERT_EQ(size, sizeof pretended);
    memcpy(&pretended, mask, sizeof pretended);
    for (int p = LK__MAX_PROCESSORS; gives_less && p-- > 0;)
        if (lk__processors_have(&pretended, p)) {
            pretended.word[p / 64] ^= UINT64_C(1) << p % 64;
            gives_less = false;
        }
    return 0;
}

/* `n` of these, from the one with number `first` among them. */
static lk__processors some(int first, int n)
{
    lk__processors set = {{0}};
    for (int p = 0, k = 0; p < LK__MAX_PROCESSORS; p++)
        if (lk__processors_have(&all, p)) {
            if (k >= first && k < first + n)
                lk__processors_add(&set, p);
            k++;
        }
    ASSERT_EQ(lk__processors_count(&set), n);
    return set;
}

/* Read what this process may use. */
static inline void processors_begin(void)
{
    ASSERT_TRUE(lk__processors_allowed(&all));
    n_all = lk__processors_count(&all);
    ASSERT_TRUE(n_all > 0);
}

/* From now on there are `n` processors: 0 to 7, and others that the system numbers higher. */
static inline void processors_pretend(int n)
{
    pretends = true;
    n_all = n;
    memset(&all, 0, sizeof all);
    for (int i = 0; i < n; i++)
        lk__processors_add(&all, i < 8 ? i : 60 + i);
}

#endif /* LK_TEST_PROCESSORS_H */
