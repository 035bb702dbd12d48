/* lk__weights: the weights of a model that were put aside, to be written later.  For the best weights
 * of a run.
 */
#ifndef LK_IO_WEIGHTS_H
#define LK_IO_WEIGHTS_H

#include <lockstep/io.h>

typedef struct lk__weights lk__weights;

/** Parameters and state of a model as they are now, copied.  The caller owns `*out`. */
lk_status lk__weights_copy(const lk_model *model, lk__weights **out) LK_NODISCARD;

/** Those that a checkpoint of the model has; the model is not changed. */
lk_status lk__weights_of_checkpoint(const lk_model *model, const char *path,
                                    lk__weights **out) LK_NODISCARD;

/** As lk_weights_save(). */
lk_status lk__weights_write(const lk__weights *w, const char *path, const lk_metadata *metadata,
                            int64_t n_metadata) LK_NODISCARD;

/** NULL is allowed. */
void lk__weights_free(lk__weights *w);

#endif /* LK_IO_WEIGHTS_H */
