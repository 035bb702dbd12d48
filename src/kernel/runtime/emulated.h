/* Whether the kernels of an instruction set are emulated: compiled for another one, for tests
 * (cmake/emulate.cmake). */
#ifndef LK_KERNEL_EMULATED_H
#define LK_KERNEL_EMULATED_H

#include "kernel/runtime/isa.h"

LK_ISA_EXTERN(bool, lk__emulated)

#endif /* LK_KERNEL_EMULATED_H */
