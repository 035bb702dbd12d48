/* The canonical floating-point environment: round to nearest, denormals kept, nothing traps. */
#include "base/fpenv.h"

#include <stdbool.h>

void lk__fp_enter_long(fenv_t *host)
{
    feholdexcept(host);
}

void lk__fp_leave_long(const fenv_t *host)
{
    fesetenv(host);
}

#if defined __x86_64__
#    include <xmmintrin.h>

enum {
    MXCSR_DAZ = 0x0040,
    MXCSR_MASKS = 0x1f80, /* a bit of each exception that does not trap */
    MXCSR_ROUND = 0x6000,
    MXCSR_FTZ = 0x8000,
};

lk__fp_host lk__fp_enter(void)
{
    unsigned host = _mm_getcsr();
    if ((host & MXCSR_MASKS) != MXCSR_MASKS)
        _mm_setcsr(host | MXCSR_MASKS);
    return host;
}

/* Writing is cheaper than reading first whether a flag has changed. */
void lk__fp_leave(lk__fp_host host)
{
    _mm_setcsr(host);
}

lk_status lk__fp_check(void)
{
    unsigned bad = _mm_getcsr() & (MXCSR_DAZ | MXCSR_ROUND | MXCSR_FTZ);
    LK_CHECK(!(bad & (MXCSR_DAZ | MXCSR_FTZ)), LK_EFPENV,
             "this thread flushes denormals to zero (MXCSR %#x): a part of the program was linked "
             "with -ffast-math; link it without, or clear FTZ and DAZ before the call",
             _mm_getcsr());
    LK_CHECK(!bad, LK_EFPENV,
             "this thread does not round to nearest (MXCSR %#x): call fesetround(FE_TONEAREST)",
             _mm_getcsr());
    return LK_OK;
}

void lk__fp_set(void)
{
    _mm_setcsr((_mm_getcsr() & ~(unsigned)(MXCSR_DAZ | MXCSR_ROUND | MXCSR_FTZ)) | MXCSR_MASKS);
}

#else

#    ifdef __aarch64__
enum {
    FPCR_TRAPS = 0x9f00, /* a bit of each exception that traps; many processors have none of them */
    FPCR_ROUND = 3 << 22,
    FPCR_FZ = 1 << 24,
};

static unsigned long fpcr(void)
{
    unsigned long v;
    __asm__ volatile("mrs %0, fpcr" : "=r"(v));
    return v;
}

static void fpcr_set(unsigned long v)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(v));
}

lk__fp_host lk__fp_enter(void)
{
    lk__fp_host host = {.control = fpcr()};
    __asm__ volatile("mrs %0, fpsr" : "=r"(host.flags));
    if (host.control & FPCR_TRAPS)
        fpcr_set(host.control & ~(unsigned long)FPCR_TRAPS);
    return host;
}

/* Writing the control register waits for all that computes, so it is left alone if it can be. */
void lk__fp_leave(lk__fp_host host)
{
    __asm__ volatile("msr fpsr, %0" : : "r"(host.flags));
    if (fpcr() != host.control)
        fpcr_set(host.control);
}

static bool flushes_denormals(void)
{
    return fpcr() & FPCR_FZ;
}

void lk__fp_set(void)
{
    fpcr_set(fpcr() & ~(unsigned long)(FPCR_TRAPS | FPCR_ROUND | FPCR_FZ));
}
#    else
lk__fp_host lk__fp_enter(void)
{
    lk__fp_host host;
    feholdexcept(&host);
    return host;
}

void lk__fp_leave(lk__fp_host host)
{
    fesetenv(&host);
}

static bool flushes_denormals(void)
{
    volatile float tiny = 1e-38F;
    return tiny / 16 == 0;
}

void lk__fp_set(void)
{
    fenv_t before;
    feholdexcept(&before);
    fesetround(FE_TONEAREST);
}
#    endif

lk_status lk__fp_check(void)
{
    LK_CHECK(!flushes_denormals(), LK_EFPENV,
             "this thread flushes denormals to zero: clear that before the call");
    LK_CHECK(fegetround() == FE_TONEAREST, LK_EFPENV,
             "this thread does not round to nearest: call fesetround(FE_TONEAREST)");
    return LK_OK;
}

#endif
