/* Sets of processors, by the system's numbers, and the set that a thread is bound to.
 *
 * A bound thread runs on the processors of its set and nowhere else, and its kernels use threads that
 * do the same (kernel/runtime/parallel.h).  Who binds is comm/device/use.c; the binding belongs to the thread
 * and ends with it.  A thread that it starts has its mask, as the system has it, but is not bound.
 */
#ifndef LK_BASE_PROCESSORS_H
#define LK_BASE_PROCESSORS_H

#include <lockstep/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LK__MAX_PROCESSORS = 4096, LK__PROCESSOR_WORDS = LK__MAX_PROCESSORS / 64 };

typedef struct lk__processors {
    uint64_t word[LK__PROCESSOR_WORDS]; /* processor p is bit p % 64 of word p / 64 */
} lk__processors;

/** What a thread is bound to. */
typedef struct lk__bound_set {
    int n; /* processors of the set; 0: not bound */
    lk__processors set;
    lk__processors before; /* what the thread might use before it was bound first */
} lk__bound_set;

static inline bool lk__processors_have(const lk__processors *set, int p)
{
    return set->word[p / 64] >> p % 64 & 1;
}

static inline void lk__processors_add(lk__processors *set, int p)
{
    set->word[p / 64] |= UINT64_C(1) << p % 64;
}

int lk__processors_count(const lk__processors *set);

bool lk__processors_same(const lk__processors *a, const lk__processors *b);

/** Whether all of `some` are in `all`. */
bool lk__processors_within(const lk__processors *some, const lk__processors *all);

/** Write "0-3,8" into `out` of `room` bytes, at least 8: cut at a comma, and marked with ",...", where
 * there is no room.  Returns the length. */
int lk__processors_text(const lk__processors *set, char *out, size_t room);

/** The affinity mask of the calling thread; false, and an empty set, if that cannot be read. */
bool lk__processors_allowed(lk__processors *out);

/** The same, but of a bound thread the mask that it had before. */
bool lk__processors_unbound(lk__processors *out);

/** What the calling thread is bound to; NULL: it is not. */
const lk__bound_set *lk__thread_binding(void);

/**
 * Bind the calling thread, or with NULL give it the mask back that it had before.
 *
 * Errors: LK_EINVAL when the set is empty or not within lk__processors_unbound(); LK_ENOTSUP when the
 * system refuses, or gives less.  The thread is then bound as it was.
 */
lk_status lk__thread_bind(const lk__processors *set) LK_NODISCARD;

/** Bind a worker that a bound thread started: it has the mask already, but where the host changed it. */
void lk__thread_follow(const lk__processors *set);

#endif /* LK_BASE_PROCESSORS_H */
