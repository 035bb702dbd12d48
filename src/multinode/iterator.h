/* lk_iterator from inside: a loader, the step it is at, and of a multi_node one room for what the master
 * sends.  The program makes one on each rank and calls it, on the thread of its communicator.
 */
#ifndef LK_MULTINODE_ITERATOR_H
#define LK_MULTINODE_ITERATOR_H

#include <lockstep/iterator.h>

/* What the batches of a multi-node iterator are; all ranks have the same. */
typedef struct lk__batch_layout {
    int64_t samples, batch, seed, repeat; /* batch: the samples of the first one */
    int64_t n_fields;
    lk_field field[LK_MAX_FIELDS];
} lk__batch_layout;

struct lk_iterator {
    lk_iterator_kind kind;
    lk_comm *comm;     /* NULL: alone */
    lk_loader *loader; /* NULL: the master's is read */
    bool is_master;    /* whose state counts; where there is none, this rank's own */
    int master;
    bool repeat;
    int64_t samples, batch, seed;
    int64_t step; /* batches that were given */
    char name[LK_ITERATOR_NUMBERS][LK_ITERATOR_PREFIX + 16];

    /* multi_node, where there is no loader: a batch that came from the master. */
    lk__batch_layout layout;
    int64_t *index;
    lk_tensor *whole[LK_MAX_FIELDS]; /* `batch` rows */
    lk_tensor *last[LK_MAX_FIELDS];  /* as many as the last batch of an epoch has, of these */
};

/** Batches of an epoch. */
int64_t lk__iterator_batches(const lk_iterator *it);

/** Samples of the batch that comes next. */
int64_t lk__iterator_next_size(const lk_iterator *it);

/** Read the next batch of this rank's loader, unless it is the end; the step stays. */
lk_status lk__iterator_read(lk_iterator *it, lk_batch *out, bool *more) LK_NODISCARD;

/** Tell all ranks what batches are, and take memory for them.  Collective. */
lk_status lk__multi_node_open(lk_iterator *it) LK_NODISCARD;

/** The next batch, or the end, or the failure, of the master.  Collective. */
lk_status lk__multi_node_next(lk_iterator *it, lk_batch *out, bool *more) LK_NODISCARD;

#endif /* LK_MULTINODE_ITERATOR_H */
