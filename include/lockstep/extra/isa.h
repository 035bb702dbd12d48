/* Instruction sets.
 *
 * Every kernel exists once for each instruction set the library was built with, and all of them
 * give the same bits; the scalar code is the specification.  The best one the processor has is
 * used, unless LK_ISA=scalar|avx2|avx512 in the environment or lk_isa_set() says otherwise.
 */
#ifndef LK_ISA_H
#define LK_ISA_H

#include <lockstep/status.h>

#include <stdbool.h>

LK_BEGIN_DECLS

/* In ascending order of preference: enumerator, name, what the processor must have. */
#define LK_ISA_MAP(X)                       \
    X(SCALAR, "scalar", "nothing beyond C") \
    X(AVX2, "avx2", "AVX2, FMA and F16C")   \
    X(AVX512, "avx512", "AVX-512 F, VL, DQ and BW")

typedef enum lk_isa {
#define X(code, name, needs) LK_ISA_##code,
    LK_ISA_MAP(X)
#undef X
        LK_N_ISAS
} lk_isa;

/** "scalar", "avx2", "avx512"; "?" for a value that is none. */
LK_API const char *lk_isa_name(lk_isa isa);

/** One line: what the processor must have for it. */
LK_API const char *lk_isa_needs(lk_isa isa);

/** Whether this build has it. */
LK_API bool lk_isa_is_built(lk_isa isa);

/** Whether this build has it and this processor can run it. */
LK_API bool lk_isa_is_available(lk_isa isa);

/** Whether this build runs it in terms of narrower instructions (a build for tests). */
LK_API bool lk_isa_is_emulated(lk_isa isa);

/**
 * The one in use by this process.
 *
 * The first call reads LK_ISA.  Errors: LK_EINVAL when LK_ISA names none or one that is not
 * available; the message lists those that are.
 */
LK_API lk_status lk_isa_now(lk_isa *out) LK_NODISCARD;

/**
 * Use `isa` in this process from now on.  No kernel may be running.
 *
 * Errors: LK_ENOTSUP when it is not available.
 */
LK_API lk_status lk_isa_set(lk_isa isa) LK_NODISCARD;

/** Find an instruction set by name.  Errors: LK_EINVAL with the list of known names. */
LK_API lk_status lk_isa_find(const char *name, lk_isa *out) LK_NODISCARD;

LK_END_DECLS

#endif /* LK_ISA_H */
