/* All values of a dataset, one behind the other, through a buffer of bounded size: for its hash, for means
 * and deviations, and for the classes of records.
 */
#ifndef LK_DATA_CONTENT_H
#define LK_DATA_CONTENT_H

#include <lockstep/data.h>

enum {
    LK_CONTENT_ELEMENTS = 1 << 15
}; /* that are given at once, but for sets that give rows only */

/** Given elements [first, first + n) of a field of a sample, in order. */
typedef void lk__values_fn(void *arg, int f, int64_t first, int64_t n, const void *values);

/* Memory to read samples of a set. */
typedef struct lk__content {
    const lk_dataset *ds;
    int only; /* the field that is wanted; -1: all */
    void *block, *row[LK_MAX_FIELDS];
} lk__content;

/** Take the memory.  Release with lk__content_close(), also after a failure. */
lk_status lk__content_open(const lk_dataset *ds, int only, lk__content *out) LK_NODISCARD;

void lk__content_close(lk__content *c);

/** Give the fields of a sample to `take`, one after the other. */
lk_status lk__content_sample(const lk__content *c, int64_t index, lk__values_fn *take,
                             void *arg) LK_NODISCARD;

/** What lk_dataset_hash() returns, computed anew. */
lk_status lk__content_hash(const lk_dataset *ds, uint64_t *out) LK_NODISCARD;

#endif /* LK_DATA_CONTENT_H */
