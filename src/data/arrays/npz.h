/* NumPy's .npz: a zip archive whose member "NAME.npy" is the array NAME. */
#ifndef LK_DATA_NPZ_H
#define LK_DATA_NPZ_H

#include "data/arrays/npy.h"
#include "data/packed/zip.h"

/** Append a contiguous tensor as the array `name`. */
lk_status lk__npz_add(lk__zip_out *z, const char *name, const lk_tensor *t) LK_NODISCARD;

/** "NAME.npy" in `buf` of LK_ZIP_NAME bytes.  Errors: LK_ENOTSUP for a name that is too long. */
lk_status lk__npz_member(const char *name, char *buf) LK_NODISCARD;

#endif /* LK_DATA_NPZ_H */
