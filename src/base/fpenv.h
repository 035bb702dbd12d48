/* The floating-point environment: what the arithmetic needs of it, and what is the host's.
 *
 * Bits depend on the rounding mode and on denormals: kernels check both.  Which exceptions trap and
 * which flags are up is the host's own affair.  Vectors compute in lanes that are dropped, and
 * functions in branches that are not taken, so a call may raise any exception on any input: none of
 * them may trap, and the host sees none of the flags.
 */
#ifndef LK_BASE_FPENV_H
#define LK_BASE_FPENV_H

#include <lockstep/status.h>

#include <fenv.h>
#include <stdbool.h>

#if defined __x86_64__
typedef unsigned lk__fp_host; /* MXCSR */
#elif defined __aarch64__
typedef struct lk__fp_host {
    unsigned long control, flags; /* FPCR, FPSR */
} lk__fp_host;
#else
typedef fenv_t lk__fp_host;
#endif

/**
 * From here to the end of the block no exception of the calling thread traps; then masks, flags and
 * modes are what they were.  It begins every public function that computes with floating-point
 * numbers or calls what does.  Within another such block it costs as much, 10 ns: what is called for a
 * few elements, or in a loop, leaves it to its caller.
 *
 * Both ends are calls, over which compilers move no arithmetic.
 */
#define LK_FP_GUARD() \
    __attribute__((cleanup(lk__fp_end), unused)) const lk__fp_host host_ = lk__fp_enter()

/** The same where long double is computed with, for which x86 has other registers; slower. */
#define LK_FP_GUARD_LONG()                                            \
    __attribute__((cleanup(lk__fp_leave_long), unused)) fenv_t host_; \
    lk__fp_enter_long(&host_)

lk__fp_host lk__fp_enter(void);
void lk__fp_leave(lk__fp_host host);
void lk__fp_enter_long(fenv_t *host);
void lk__fp_leave_long(const fenv_t *host);

/* Both ends of a block that may lie within another one. */
static inline lk__fp_host lk__fp_enter_unless(bool guarded)
{
    return guarded ? (lk__fp_host){0} : lk__fp_enter();
}

static inline void lk__fp_leave_unless(bool guarded, lk__fp_host host)
{
    if (!guarded)
        lk__fp_leave(host);
}

/* Inline, so that what it is given need not be in memory. */
static inline void lk__fp_end(const lk__fp_host *host)
{
    lk__fp_leave(*host);
}

/**
 * Check that the calling thread rounds to nearest and keeps denormals.  Every public kernel calls
 * it first.  Errors: LK_EFPENV, naming what is wrong and the usual cause (-ffast-math).
 */
lk_status lk__fp_check(void) LK_NODISCARD;

/** The same right behind LK_FP_GUARD(), which has read the registers already. */
#define LK_FP_CHECK() (lk__fp_is_canonical(&host_) ? LK_OK : lk__fp_check())

static inline bool lk__fp_is_canonical(const lk__fp_host *host)
{
#if defined __x86_64__
    enum { DAZ = 0x0040, ROUND = 0x6000, FTZ = 0x8000 };
    return !(*host & (DAZ | ROUND | FTZ));
#else
    (void)host;
    return false; /* not known */
#endif
}

/**
 * Give the calling thread the canonical floating-point environment, in which nothing traps.  The
 * threads of the pool begin with it: they have inherited the host's.
 */
void lk__fp_set(void);

#endif /* LK_BASE_FPENV_H */
