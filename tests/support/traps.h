/* A host that traps every floating-point exception, and numbers that raise all of them. */
#ifndef LK_TEST_TRAPS_H
#define LK_TEST_TRAPS_H

#include "harness.h"

#include <lockstep/dtype.h>
#include <lockstep/extra/isa.h>
#include <lockstep/thread.h>

#include <fenv.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* What is called while traps are on, by this thread and by the last of all: the handler of SIGFPE
 * names the one, or on a thread of the library the other. */
static _Thread_local char traps_where[256];
static char *_Atomic traps_latest;
static _Thread_local int traps_enabled, traps_flags;

static void traps_on_signal(int sig)
{
    static const char text[] = "FAIL: SIGFPE in ";
    const char *where = traps_where[0] ? traps_where : atomic_load(&traps_latest);
    (void)sig;
    bool said = write(STDERR_FILENO, text, sizeof text - 1) > 0 &&
                write(STDERR_FILENO, where, strlen(where)) > 0 && write(STDERR_FILENO, "\n", 1) > 0;
    _exit(said ? 1 : 3);
}

/* From here to traps_end() every exception traps, as far as the processor can.  Every other time
 * some flags are up before. */
__attribute__((format(printf, 1, 2))) static void traps_begin(const char *format, ...)
{
    static _Thread_local bool some_up;
    va_list args;
    va_start(args, format);
    vsnprintf(traps_where, sizeof traps_where, format, args);
    va_end(args);
    atomic_store(&traps_latest, traps_where);
    signal(SIGFPE, traps_on_signal);
    some_up = !some_up;
    feclearexcept(FE_ALL_EXCEPT);
    volatile double up = 1, zero = 0;
    if (some_up)
        up = up / 3 / zero;
    traps_flags = fetestexcept(FE_ALL_EXCEPT);
    feenableexcept(FE_ALL_EXCEPT);
    traps_enabled = fegetexcept();
}

/* Traps and flags are what they were. */
static void traps_end(void)
{
    int flags = fetestexcept(FE_ALL_EXCEPT), enabled = fegetexcept();
    fedisableexcept(FE_ALL_EXCEPT);
    if (flags != traps_flags)
        TEST_FAIL("%s: the flags were %#x and are %#x", traps_where, (unsigned)traps_flags,
                  (unsigned)flags);
    if (enabled != traps_enabled)
        TEST_FAIL("%s: the traps were %#x and are %#x", traps_where, (unsigned)traps_enabled,
                  (unsigned)enabled);
}

/* While traps are on, nothing may be computed but by the call itself. */
#define TRAPPING(call, ...)       \
    do {                          \
        traps_begin(__VA_ARGS__); \
        lk_status st__ = (call);  \
        traps_end();              \
        ASSERT_OK(st__);          \
    } while (0)

/* Numbers near the largest, near zero, and all sorts with NaN (also signalling) and infinity. */
enum { TRAPS_LARGE, TRAPS_SMALL, TRAPS_MIXED, N_TRAPS_SORTS };

static const char *const traps_sort_name[] = {"large", "small", "mixed"};

static void traps_fill(lk_dtype dtype, int sort, int64_t n, void *data)
{
    static const uint32_t f32[] = {
        0x7f7fffff, 0xff7fffff, 0x7f000000, 0xfeffffff, 0x7e967699, 0xfe967699, /* large */
        0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007fffff, 0x80800000, /* small */
        0x7f800000, 0xff800000, 0x7fc00000, 0x7fa00000, 0x3f800000, 0xbf8ccccd, 0x42f00000};
    static const uint64_t f64[] = {
        0x7fefffffffffffff, 0xffefffffffffffff, 0x7fe0000000000000, 0xffdfffffffffffff,
        0x7e37e43c8800759c, 0xfe37e43c8800759c, /* large */
        0x0000000000000000, 0x8000000000000000, 0x0000000000000001, 0x8000000000000001,
        0x000fffffffffffff, 0x8010000000000000, /* small */
        0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000000, 0x7ff4000000000000,
        0x3ff0000000000000, 0xbff199999999999a, 0x405e000000000000};
    const int64_t first = sort == TRAPS_SMALL ? 6 : 0, all = sizeof f64 / sizeof f64[0];
    uint64_t draw = 1;
    for (int64_t i = 0; i < n; i++) {
        draw = draw * 6364136223846793005U + 1442695040888963407U;
        uint64_t k = (uint64_t)first + (draw >> 33) % (uint64_t)(sort == TRAPS_MIXED ? all : 6);
        if (dtype == LK_F32)
            memcpy((char *)data + i * 4, &f32[k], 4);
        else
            memcpy((char *)data + i * 8, &f64[k], 8);
    }
}

/* Call fn with every instruction set, 1 and 3 threads, both types, and all sorts of numbers; where
 * that takes long, with the mixed alone. */
static inline void traps_each(void (*fn)(lk_dtype dtype, int sort))
{
    for (int isa = 0; isa < LK_N_ISAS; isa++)
        for (int threads = 1; threads <= 3 && lk_isa_is_available((lk_isa)isa); threads += 2)
            for (lk_dtype dtype = LK_F32; dtype <= LK_F64; dtype++)
                for (int sort = TEST_SLOWNESS > 1 ? TRAPS_MIXED : 0; sort < N_TRAPS_SORTS; sort++) {
                    ASSERT_OK(lk_isa_set((lk_isa)isa));
                    ASSERT_OK(lk_threads_set(threads));
                    fn(dtype, sort);
                }
}

/* For messages: what was computed how. */
#define TRAPS_HOW "%s %s, %s numbers, %s"
#define TRAPS_HOW_OF(what, dtype, sort) \
    what, lk_dtype_name(dtype), traps_sort_name[sort], traps_isa_name()

static inline const char *traps_isa_name(void)
{
    lk_isa isa = LK_ISA_SCALAR;
    return lk_isa_now(&isa) == LK_OK ? lk_isa_name(isa) : "?";
}

#endif /* LK_TEST_TRAPS_H */
