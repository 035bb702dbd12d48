/* The canonical floating-point environment: round to nearest, denormals kept. */
#include "kernel/isa.h"

#include <fenv.h>

#ifdef __x86_64__
#    include <xmmintrin.h>

enum { MXCSR_DAZ = 0x0040, MXCSR_ROUND = 0x6000, MXCSR_FTZ = 0x8000 };

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
    _mm_setcsr(_mm_getcsr() & ~(unsigned)(MXCSR_DAZ | MXCSR_ROUND | MXCSR_FTZ));
}

#else

#    ifdef __aarch64__
enum { FPCR_ROUND = 3 << 22, FPCR_FZ = 1 << 24 };

static unsigned long fpcr(void)
{
    unsigned long v;
    __asm__ volatile("mrs %0, fpcr" : "=r"(v));
    return v;
}

static bool flushes_denormals(void)
{
    return fpcr() & FPCR_FZ;
}

void lk__fp_set(void)
{
    unsigned long v = fpcr() & ~(unsigned long)(FPCR_ROUND | FPCR_FZ);
    __asm__ volatile("msr fpcr, %0" : : "r"(v));
}
#    else
static bool flushes_denormals(void)
{
    volatile float tiny = 1e-38F;
    return tiny / 16 == 0;
}

void lk__fp_set(void)
{
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
