/* Rows of a table by number, of which a part may be elsewhere: the table has rows from `first` on, of more. */
#ifndef LK_OPS_COMMON_EMBEDDING_H
#define LK_OPS_COMMON_EMBEDDING_H

#include <lockstep/op.h>

/** The infer of embedding: input 0 is a table, input 1 has the indices. */
lk_status lk__embedding_infer(lk_call *c, lk_output_spec *out) LK_NODISCARD;

/** y [...][columns] = the rows that `index` names, zeros for those that `table` does not have.  Errors:
 * LK_EINVAL for an index that is none of `all` rows. */
lk_status lk__embedding_copy(const lk_tensor *table, const lk_tensor *index, int64_t first,
                             int64_t all, void *y) LK_NODISCARD;

/** In backward: the gradient of input 0, the table, from dy and the indices of input 1; those of rows that
 * it does not have count for nothing. */
lk_status lk__embedding_gradient(const lk_call *c, int64_t first, lk_var dy,
                                 lk_var *out) LK_NODISCARD;

#endif /* LK_OPS_COMMON_EMBEDDING_H */
