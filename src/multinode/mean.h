/* The mean of a slab's gradients over ranks: for lk_multi_node_mean_grad(), which makes one for a call, and
 * for multi-node optimizers, which keep one; on the thread that has the communicator.
 *
 *     lk__mean_exchange(mean, &mine, st);         all know what each has, and whether one has failed
 *     lk__mean_weigh(mean, data);             n(r) g(r), or g(r) where ranks count alike; zeros filled in
 *     lk__mean_start(mean, data, wait);       the sum, over all ranks
 *     lk__mean_finish(mean, data);            divided
 */
#ifndef LK_MULTINODE_MEAN_H
#define LK_MULTINODE_MEAN_H

#include "parallel/wire.h"

#include <lockstep/multi_node.h>

/* What a rank brings. */
typedef struct lk__mean_part {
    int64_t samples;      /* of these gradients; 0 on all ranks: not said, and each counts 1 */
    int64_t before;       /* those of gradients that were accumulated before */
    const bool *has_grad; /* [slices]; NULL: all */
    bool wants_broadcast; /* the parameters are not those of rank 0 yet */
    bool lost;            /* a mean of before failed here while it was under way */
    bool stays;           /* they are accumulated: nothing is added up over ranks yet */
    bool weighed;         /* what is added up over ranks is multiplied with its samples by then */
} lk__mean_part;

typedef struct lk__mean {
    lk_comm *comm; /* NULL: alone */
    int rank, size;
    const lk_slab_layout *layout; /* of the parameters; borrowed */
    int64_t slices, elements;     /* of it, in a slab of gradients from its beginning on */
    lk_dtype dtype;
    const char *algorithm;
    lk_wire how;             /* gradients travel */
    bool zero_fill, by_rank; /* by_rank: ranks count alike, whatever their samples */
    lk__wire *wire;
    uint64_t hash;      /* of names, dtypes and shapes */
    int64_t record;     /* numbers that a rank tells */
    int64_t *own, *all; /* [record], [size * record] */
    /* What all ranks have exchanged: */
    bool broadcast;  /* a rank wants it */
    bool lost;       /* a rank has lost the mean of before; known even if the meeting fails */
    bool *has;       /* [slices] of which there will be a mean */
    bool weighs;     /* this rank's gradients are to be multiplied with its samples */
    int64_t samples; /* of these gradients of this rank, and of those before, too */
    int64_t samples_so_far;
    int64_t divisor;
    lk_request *request;
} lk__mean;

/** Name, dtype, shape and part of slice i; and of the first `slices` of a layout. */
uint64_t lk__slice_hash(const lk_slab_layout *layout, int64_t i);
uint64_t lk__layout_hash(const lk_slab_layout *layout, int64_t slices);

/** Of an algorithm by its name; NULL: by cost. */
uint64_t lk__algorithm_hash(const char *name);

/** Make one for gradients of the layout of `params`, borrowed; zeros may be closed, too.  Not collective.
 * Errors: LK_EDTYPE unless all are f32 or all f64, and for a wire of 16 bits unless f32; LK_EINVAL for an
 * algorithm that there is not, LK_ENOTSUP for one that cannot add up these gradients; LK_ENOMEM. */
lk_status lk__mean_open(lk__mean *m, lk_comm *comm, const lk_slab *params,
                        const lk_mean_grad_options *options) LK_NODISCARD;
void lk__mean_close(lk__mean *m);

/** Tell the others what this rank brings, or that it failed with `st`.  Collective.  Errors: `st`, or that of
 * another rank; LK_ESTATE when ranks have other tensors, options or, without zero_fill, gradients;
 * LK_EOVERFLOW for too many samples. */
lk_status lk__mean_exchange(lk__mean *m, const lk__mean_part *mine, lk_status st) LK_NODISCARD;

/** Prepare this rank's gradients, elements of a slab.  Not collective. */
lk_status lk__mean_weigh(const lk__mean *m, void *data) LK_NODISCARD;

/** Begin to add up `data` over ranks; `wait`: until it is done.  Then, not collective, end it. */
lk_status lk__mean_start(lk__mean *m, void *data, bool wait) LK_NODISCARD;
lk_status lk__mean_finish(lk__mean *m, void *data) LK_NODISCARD;

#endif /* LK_MULTINODE_MEAN_H */
