/* Where known datasets such as mnist are looked for: in the folder given, where the system keeps
 * them, and otherwise generated images in their place.  Their formats call it when a set is opened.
 */
#ifndef LK_DATA_FALLBACK_H
#define LK_DATA_FALLBACK_H

#include <lockstep/data.h>

/** The folder `name` of the system's datasets, in `buf` of LK_PATH_SIZE bytes: below LK_DATASETS, or
 * /usr/share/datasets.  False if it is not there. */
bool lk__datasets_find(const char *name, char *buf);

/** Generated glyphs of a shape, as many as the set `name` has; rank 0 says so, of the set
 * for training. */
lk_status lk__glyphs_instead(const char *name, const char *shape, int64_t count, int64_t test_count,
                             lk_split split, lk_dataset **out) LK_NODISCARD;

#endif /* LK_DATA_FALLBACK_H */
