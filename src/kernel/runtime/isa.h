/* One table of functions per instruction set.
 *
 * Files in src/kernel/simd/ are compiled once per instruction set.  Each defines one table,
 * `const lk__maps LK_ISA(lk__maps) = {...}`, and everything else in it is static.  The header that
 * declares the table's type says LK_ISA_TABLE(lk__maps, lk__maps) once; code in src/kernel/ then
 * picks with
 *
 *     const lk__maps *t;
 *     LK_TRY(lk__maps_get(&t));
 */
#ifndef LK_KERNEL_ISA_H
#define LK_KERNEL_ISA_H

#include <lockstep/extra/isa.h>

#define LK_CAT_(a, b) a##b
#define LK_CAT(a, b) LK_CAT_(a, b)

/* LK_ISA_SUFFIX is _scalar, _avx2 or _avx512, from the compiler's command line. */
#ifdef LK_ISA_SUFFIX
#    define LK_ISA(name) LK_CAT(name, LK_ISA_SUFFIX)
#endif

/* The build says how many instruction sets have kernels, in the order of lk_isa: LK_BUILT_ISAS. */
#define LK_ISA_EXTERN_1(type, name) extern const type name##_scalar;
#define LK_ISA_EXTERN_2(type, name) LK_ISA_EXTERN_1(type, name) extern const type name##_avx2;
#define LK_ISA_EXTERN_3(type, name) LK_ISA_EXTERN_2(type, name) extern const type name##_avx512;
#define LK_ISA_EXTERN(type, name) LK_CAT(LK_ISA_EXTERN_, LK_BUILT_ISAS)(type, name)
#define LK_ISA_LIST_1(name) &name##_scalar
#define LK_ISA_LIST_2(name) LK_ISA_LIST_1(name), &name##_avx2
#define LK_ISA_LIST_3(name) LK_ISA_LIST_2(name), &name##_avx512
#define LK_ISA_LIST(name) LK_CAT(LK_ISA_LIST_, LK_BUILT_ISAS)(name)

#define LK_ISA_TABLE(type, name)                                        \
    LK_ISA_EXTERN(type, name)                                           \
    static inline LK_NODISCARD lk_status name##_get(const type **table) \
    {                                                                   \
        static const type *const by_isa[] = {LK_ISA_LIST(name)};        \
        lk_isa isa = LK_ISA_SCALAR;                                     \
        *table = NULL;                                                  \
        LK_TRY(lk_isa_now(&isa));                                       \
        *table = by_isa[isa];                                           \
        return LK_OK;                                                   \
    }

/* Whether the kernels of an instruction set are emulated: compiled for another one, for tests
 * (cmake/emulate.cmake). */
LK_ISA_EXTERN(bool, lk__emulated)

#endif /* LK_KERNEL_ISA_H */
