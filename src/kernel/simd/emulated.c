/* Says of itself how it was compiled, and so of the other files here. */
#include "kernel/runtime/isa.h"

#ifdef LK_EMULATE_AVX512
const bool LK_ISA(lk__emulated) = true;
#else
const bool LK_ISA(lk__emulated) = false;
#endif
