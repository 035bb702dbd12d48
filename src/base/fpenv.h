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
 * numbers or calls what does; within another such block it costs as much, some nanoseconds.
 *
 * Both ends are calls, over which compilers move no arithmetic.
 */
#define LK_FP_GUARD() \
    __attribute__((cleanup(lk__fp_leave), unused)) const lk__fp_host host_ = lk__fp_enter()

/** The same where long double is computed with, for which x86 has other registers; slower. */
#define LK_FP_GUARD_LONG()                                            \
    __attribute__((cleanup(lk__fp_leave_long), unused)) fenv_t host_; \
    lk__fp_enter_long(&host_)

lk__fp_host lk__fp_enter(void);
void lk__fp_leave(const lk__fp_host *host);
void lk__fp_enter_long(fenv_t *host);
void lk__fp_leave_long(const fenv_t *host);

/**
 * Check that the calling thread rounds to nearest and keeps denormals.  Every public kernel calls
 * it first.  Errors: LK_EFPENV, naming what is wrong and the usual cause (-ffast-math).
 */
lk_status lk__fp_check(void) LK_NODISCARD;

/**
 * Give the calling thread the canonical floating-point environment, in which nothing traps.  The
 * threads of the pool begin with it: they have inherited the host's.
 */
void lk__fp_set(void);

#endif /* LK_BASE_FPENV_H */
