/* Which Lockstep this is. */
#ifndef LK_VERSION_H
#define LK_VERSION_H

#include <lockstep/api.h>

LK_BEGIN_DECLS

/* The version of these headers. */
#define LK_VERSION_MAJOR 0
#define LK_VERSION_MINOR 1
#define LK_VERSION_PATCH 0

/* The numerics epoch: raised on purpose, with the golden hashes of the tests, whenever a change
 * gives other bits for the same inputs.  It is part of a run's identity. */
enum { LK_NUMERICS_EPOCH = 2 };

/* How the hash of a state is made (docs/reference/numerics.md): raised when the same state gets another hash.
 * Checkpoints say it, and states of two formats are not compared.  Format 1 was a hash of the bytes of
 * all tensors in their order; its checkpoints say nothing. */
enum { LK_HASH_FORMAT = 2 };

/** The version of the library that is running, "major.minor.patch".  Not collective. */
LK_API const char *lk_version(void);

/** LK_NUMERICS_EPOCH of the library that is running. */
LK_API int lk_numerics_epoch(void);

/** LK_HASH_FORMAT of the library that is running. */
LK_API int lk_hash_format(void);

/** The compiler that built the library, such as "gcc 12.2.0". */
LK_API const char *lk_build_compiler(void);

/** The kind of build, such as "Release". */
LK_API const char *lk_build_type(void);

LK_END_DECLS

#endif /* LK_VERSION_H */
