/* lk__order_*(): which sample is at which position of an epoch, as order.c defines it.  For slot.c,
 * buffers.c and keep.c. */
#ifndef LK_DATA_ORDER_H
#define LK_DATA_ORDER_H

#include <lockstep/data.h>

/** Samples of a buffer; 0: there is none, any sample is as near as any other. */
int64_t lk__order_size(const lk_dataset_info *info, const lk_loader_options *o);

/** Without buffers: the samples of positions [first, first + n). */
lk_status lk__order_pick(const lk_loader *l, int64_t epoch, int64_t first, int64_t n,
                         int64_t *index) LK_NODISCARD;

/** Buffers that an epoch has at most. */
int64_t lk__order_buffers(const lk_loader *l);

/** The buffer of a position. */
lk_status lk__order_find(const lk_loader *l, int64_t epoch, int64_t position,
                         int64_t *number) LK_NODISCARD;

/** The positions of a buffer; behind the last one there are none. */
lk_status lk__order_range(const lk_loader *l, int64_t epoch, int64_t number,
                          lk_range *out) LK_NODISCARD;

/** The samples of a range of positions in the order in which they are read; `runs` has room for a number for
 * each run of the set. */
lk_status lk__order_read(const lk_loader *l, int64_t epoch, lk_range range, int64_t *runs,
                         int64_t *out) LK_NODISCARD;

/** Which of the `n` samples of a buffer, as they are read, is at which of its positions. */
lk_status lk__order_shuffle(const lk_loader *l, int64_t epoch, int64_t number, int64_t n,
                            int64_t *out) LK_NODISCARD;

#endif /* LK_DATA_ORDER_H */
