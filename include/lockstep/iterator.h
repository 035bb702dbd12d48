/* Data sets and batches for a program with a loop of its own, on several ranks.
 *
 *     lk_scatter_dataset(comm, set, "shuffle=true", &mine);      rank 0 has the set, each gets its part
 *     lk_loader_new(mine, "batch=50", 1, &loader);
 *     lk_iterator_new(NULL, loader, NULL, &it);
 *     while (lk_iterator_position(it).epoch < 5) {
 *         lk_iterator_next(it, &batch, &more);
 *         ... a step on batch.x and batch.y ...
 *     }
 *
 * An *iterator* goes through the batches of a loader (data.h), which converts, normalises and orders
 * them; it only knows where it is.  There are three kinds:
 *
 *     serial         the batches of this rank's own loader
 *     multi_node     the batches of one rank's loader, the master's, on all ranks
 *     synchronized   the batches of each rank's own loader, all in the order of rank 0's seed
 *
 * Where an iterator is are a few numbers, which can be saved in a checkpoint and restored.
 *
 * lk_trainer_new() needs none of this: it gives every rank its part of every batch.
 */
#ifndef LK_ITERATOR_H
#define LK_ITERATOR_H

#include <lockstep/checkpoint.h>
#include <lockstep/comm.h>
#include <lockstep/data.h>

LK_BEGIN_DECLS

/* ---- a part of a set for each rank ---- */

/**
 * The samples of a set of `n` that rank `rank` of `size` gets.
 *
 * With `equal_length` all ranks get n / size of them, rounded up, from n * rank / size on, rounded down:
 * some samples are then on several ranks.  Otherwise each is on one, and the first n mod size ranks have one
 * more than the others.  10 samples on 4 ranks are 0-2, 2-4, 5-7, 7-9, or 0-2, 3-5, 6-7, 8-9.
 *
 * Not collective.  n >= 0 and 0 <= rank < size.
 */
LK_API lk_range lk_scatter_range(int64_t n, int rank, int size, bool equal_length);

/** How to scatter a set; lk_scatter_descriptor describes the fields. */
typedef struct lk_scatter_options {
    int64_t root;      /* the rank that has the set */
    bool shuffle;      /* give out the samples of a permutation, not of the set */
    int64_t seed;      /* of the permutation */
    bool equal_length; /* as of lk_scatter_range() */
} lk_scatter_options;

/** The table of lk_scatter_options, with its defaults: root 0, no shuffle, seed 0, equal lengths. */
LK_API extern const lk_descriptor lk_scatter_descriptor;

/**
 * Give each rank its samples of a set that one of them has, with the options of lk_scatter_descriptor as
 * lk_options_parse() reads them, such as "root=2 shuffle=true seed=7"; NULL: all defaults.
 *
 * `*out` holds the samples lk_scatter_range() of the set, in order and in memory, or with `shuffle` those
 * of the permutation of (seed, "data", "scatter") at epoch 0.  A rank is sent these samples and nothing
 * else, about a MiB at a time, and the root reads each sample once for each rank that gets it.  A set
 * without fields becomes smaller ones; one without samples is on all ranks.
 *
 * Collective.  All ranks name the same root, whose options count; `ds` is borrowed, of other ranks it
 * is not read and may be NULL.  The caller owns `*out`.
 *
 * Errors: those of lk_options_parse(); LK_EINVAL for a root that is no rank or has no set; what
 * lk_dataset_read() finds on the root, and what lk_dataset_from_tensors() does; LK_ENOMEM; of any rank
 * on all of them by lk_agree(); and those of communication.
 */
LK_API lk_status lk_scatter_dataset(lk_comm *comm, lk_dataset *ds, const char *options,
                                    lk_dataset **out) LK_NODISCARD;

/** As lk_scatter_dataset(), from a struct. */
LK_API lk_status lk_scatter_dataset_options(lk_comm *comm, lk_dataset *ds,
                                            const lk_scatter_options *options,
                                            lk_dataset **out) LK_NODISCARD;

LK_END_DECLS

#endif /* LK_ITERATOR_H */
