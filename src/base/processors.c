/* Sets of processors, and what the calling thread is bound to.
 *
 * Masks are read and set by the system's calls themselves: a cpu_set_t ends at 1024 processors.
 */
#include "base/processors.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

static _Thread_local lk__bound_set bound;

int lk__processors_count(const lk__processors *set)
{
    int n = 0;
    for (int i = 0; i < LK__PROCESSOR_WORDS; i++)
        n += __builtin_popcountll(set->word[i]);
    return n;
}

bool lk__processors_same(const lk__processors *a, const lk__processors *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

bool lk__processors_within(const lk__processors *some, const lk__processors *all)
{
    for (int i = 0; i < LK__PROCESSOR_WORDS; i++)
        if (some->word[i] & ~all->word[i])
            return false;
    return true;
}

int lk__processors_text(const lk__processors *set, char *out, size_t room)
{
    size_t used = 0;
    out[0] = '\0';
    for (int p = 0; p < LK__MAX_PROCESSORS; p++) {
        if (!lk__processors_have(set, p))
            continue;
        int last = p;
        while (last + 1 < LK__MAX_PROCESSORS && lk__processors_have(set, last + 1))
            last++;
        char item[32];
        int n = last == p ? snprintf(item, sizeof item, "%s%d", used ? "," : "", p)
                          : snprintf(item, sizeof item, "%s%d-%d", used ? "," : "", p, last);
        if (used + (size_t)n + sizeof ",..." > room)
            return (int)used + snprintf(out + used, room - used, ",...");
        memcpy(out + used, item, (size_t)n + 1);
        used += (size_t)n;
        p = last;
    }
    return (int)used;
}

bool lk__processors_allowed(lk__processors *out)
{
    /* Words of the kernel's masks are unsigned long: the same bits where that has 64, little-endian or
     * not. */
    _Static_assert(sizeof(unsigned long) == sizeof out->word[0], "words of another size");
    memset(out, 0, sizeof *out);
    return sched_getaffinity(0, sizeof *out, (cpu_set_t *)out) == 0;
}

bool lk__processors_unbound(lk__processors *out)
{
    if (bound.n == 0)
        return lk__processors_allowed(out);
    *out = bound.before;
    return true;
}

const lk__bound_set *lk__thread_binding(void)
{
    return bound.n > 0 ? &bound : NULL;
}

static int mask_set(const lk__processors *set)
{
    return sched_setaffinity(0, sizeof *set, (const cpu_set_t *)set) == 0 ? 0 : errno;
}

static lk_status unbind(void)
{
    if (bound.n == 0)
        return LK_OK;
    int code = mask_set(&bound.before);
    LK_CHECK(code == 0, LK_ENOTSUP,
             "the system does not give the thread the processors back that it had: %s",
             strerror(code));
    bound.n = 0;
    return LK_OK;
}

lk_status lk__thread_bind(const lk__processors *set)
{
    if (!set) {
        return LK_TRACE(unbind());
    }
    lk__processors before, now;
    char wanted[96], allowed[96];
    LK_CHECK(lk__processors_count(set) > 0, LK_EINVAL, "a set of no processors");
    LK_CHECK(lk__processors_unbound(&before) && lk__processors_allowed(&now), LK_ENOTSUP,
             "the system does not say which processors the thread may use");
    lk__processors_text(set, wanted, sizeof wanted);
    lk__processors_text(&before, allowed, sizeof allowed);
    LK_CHECK(lk__processors_within(set, &before), LK_EINVAL,
             "processors %s are not all among those that this thread may use: %s", wanted, allowed);
    int code = mask_set(set);
    LK_CHECK(code == 0, LK_ENOTSUP, "the system does not bind the thread to processors %s: %s",
             wanted, strerror(code));
    lk__processors got;
    if (!lk__processors_allowed(&got) || !lk__processors_same(&got, set)) {
        (void)mask_set(&now);
        return LK_RAISE(LK_ENOTSUP, "the system gives the thread only some of the processors %s",
                        wanted);
    }
    bound.set = *set;
    bound.before = before;
    bound.n = lk__processors_count(set);
    return LK_OK;
}

void lk__thread_follow(const lk__processors *set)
{
    (void)mask_set(set);
    bound.set = bound.before = *set;
    bound.n = lk__processors_count(set);
}
