/* Which instruction set is in use in this process: the best available, LK_ISA, or what lk_isa_set() said.
 * Kernels ask on each call, on any thread, and take their table from it.
 */
#include "kernel/runtime/isa.h"

#include "base/env.h"

#include <stdatomic.h>
#include <string.h>
#ifdef __x86_64__
#    include <cpuid.h>
#endif

static const struct {
    const char *name, *needs;
} isas[LK_N_ISAS] = {
#define X(code, name, needs) [LK_ISA_##code] = {name, needs},
    LK_ISA_MAP(X)
#undef X
};

enum { UNDECIDED = -1 };
static _Atomic int current = UNDECIDED;

const char *lk_isa_name(lk_isa isa)
{
    return (unsigned)isa < LK_N_ISAS ? isas[isa].name : "?";
}

const char *lk_isa_needs(lk_isa isa)
{
    return (unsigned)isa < LK_N_ISAS ? isas[isa].needs : "?";
}

bool lk_isa_is_built(lk_isa isa)
{
    return (unsigned)isa < LK_BUILT_ISAS;
}

bool lk_isa_is_emulated(lk_isa isa)
{
    static const bool *const emulated[] = {LK_ISA_LIST(lk__emulated)};
    return lk_isa_is_built(isa) && *emulated[isa];
}

#ifdef __x86_64__
/* Not every compiler's __builtin_cpu_supports() knows the name. */
static bool has_f16c(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
#endif

bool lk_isa_is_available(lk_isa isa)
{
    if (!lk_isa_is_built(isa))
        return false;
    switch (isa) {
    case LK_ISA_SCALAR: return true;
#ifdef __x86_64__
    case LK_ISA_AVX2:
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
    case LK_ISA_AVX512:
        if (lk_isa_is_emulated(isa))
            return lk_isa_is_available(LK_ISA_AVX2);
        return lk_isa_is_available(LK_ISA_AVX2) && __builtin_cpu_supports("avx512f") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512bw");
#endif
    default: return false;
    }
}

/* The names of the available ones, for messages. */
static const char *available_names(char *buf, size_t size)
{
    size_t len = 0;
    buf[0] = '\0';
    for (int i = 0; i < LK_N_ISAS; i++)
        if (lk_isa_is_available((lk_isa)i) && len + strlen(isas[i].name) + 2 <= size)
            len += (size_t)snprintf(buf + len, size - len, " %s", isas[i].name);
    return buf;
}

lk_status lk_isa_find(const char *name, lk_isa *out)
{
    for (int i = 0; i < LK_N_ISAS; i++)
        if (strcmp(isas[i].name, name) == 0) {
            *out = (lk_isa)i;
            return LK_OK;
        }
#define X(code, known, needs) " " known
    return LK_RAISE(LK_EINVAL, "no instruction set named \"%s\"; known are" LK_ISA_MAP(X), name);
#undef X
}

lk_status lk_isa_set(lk_isa isa)
{
    char buf[64];
    LK_CHECK(lk_isa_is_available(isa), LK_ENOTSUP,
             "instruction set %s is not available here: use one of%s", lk_isa_name(isa),
             available_names(buf, sizeof buf));
    atomic_store(&current, (int)isa);
    return LK_OK;
}

static lk_isa best_available(void)
{
    lk_isa isa = (lk_isa)(LK_N_ISAS - 1);
    while (!lk_isa_is_available(isa))
        isa--;
    return isa;
}

static lk_status isa_of_environment(const char *name, lk_isa *out)
{
    char buf[64];
    for (int i = 0; i < LK_N_ISAS; i++)
        if (strcmp(isas[i].name, name) == 0 && lk_isa_is_available((lk_isa)i)) {
            *out = (lk_isa)i;
            return LK_OK;
        }
    return LK_RAISE(LK_EINVAL, "LK_ISA is \"%s\", which is not available here: use one of%s", name,
                    available_names(buf, sizeof buf));
}

lk_status lk_isa_now(lk_isa *out)
{
    int isa = atomic_load_explicit(&current, memory_order_relaxed);
    if (isa == UNDECIDED) {
        const char *env = lk__env("LK_ISA");
        lk_isa wanted = best_available();
        if (env && *env)
            LK_TRY(isa_of_environment(env, &wanted));
        LK_TRY(lk_isa_set(wanted));
        isa = (int)wanted;
    }
    *out = (lk_isa)isa;
    return LK_OK;
}
