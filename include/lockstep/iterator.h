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

/* ---- iterators ---- */

typedef enum lk_iterator_kind {
    LK_ITERATOR_SERIAL,
    LK_ITERATOR_MULTI_NODE,
    LK_ITERATOR_SYNCHRONIZED
} lk_iterator_kind;

/** How to go through batches; lk_iterator_descriptor describes the fields. */
typedef struct lk_iterator_options {
    int kind;       /* lk_iterator_kind */
    int64_t master; /* multi_node: the rank whose loader is read */
    bool repeat;    /* begin another epoch behind the last batch, not end */
} lk_iterator_options;

/** The table of lk_iterator_options, with its defaults: serial, master 0, repeat. */
LK_API extern const lk_descriptor lk_iterator_descriptor;

/** Goes through the batches of a loader.  Made by a program with a loop of its own, whose evaluators
 * (observe.h) use it, too; on the thread that has the communicator.  What is collective is marked. */
typedef struct lk_iterator lk_iterator;

/**
 * Make an iterator, with the options of lk_iterator_descriptor as lk_options_parse() reads them, such as
 * "kind=multi_node master=1 repeat=false"; NULL: all defaults.
 *
 * - serial: `comm` may be NULL.
 * - multi_node: the others get the batches of the master's loader: all fields, in their dtypes, with the
 *   bits that the master has.  They need no set and no loader: NULL there, or not read.  The master's
 *   options count.
 * - synchronized: each rank has a loader, of as many samples in as large batches, shuffled on all ranks or
 *   on none; it gets the seed of rank 0's (lk_loader_set_seed()), so that all ranks are at the same
 *   samples.  Sets may differ, as where one of them is empty.
 *
 * Collective over `comm`, whatever the kind; NULL: this rank alone.  The loader and the communicator are
 * borrowed until the iterator is freed, and nothing else may read batches of the loader meanwhile.  The
 * caller owns `*out`.
 *
 * Errors: those of lk_options_parse(); LK_EINVAL for a kind without a communicator, a master that is no
 * rank, and without a loader where one is needed; LK_ESHAPE for loaders that cannot be synchronized,
 * naming what differs; LK_ENOMEM; of any rank on all of them; and those of communication.
 */
LK_API lk_status lk_iterator_new(lk_comm *comm, lk_loader *loader, const char *options,
                                 lk_iterator **out) LK_NODISCARD;

/** As lk_iterator_new(), from a struct. */
LK_API lk_status lk_iterator_new_options(lk_comm *comm, lk_loader *loader,
                                         const lk_iterator_options *options,
                                         lk_iterator **out) LK_NODISCARD;

/** Not collective.  NULL is allowed. */
LK_API void lk_iterator_free(lk_iterator *it);

/**
 * The next batch, borrowed until the next call; `*more` is false, and there is none, behind the last one
 * where the iterator does not repeat.
 *
 * The last batch of an epoch has the samples that are left: it is not filled up from the next epoch.
 *
 * Of kind multi_node collective: all ranks get the same batch, the same end, and the same failure.
 * Errors: those of lk_loader_read_batch(), after which the same batch can be asked for again;
 * LK_ESTATE when the master's loader gives other boxes than when the iterator was made; and those of
 * communication.
 */
LK_API lk_status lk_iterator_next(lk_iterator *it, lk_batch *out, bool *more) LK_NODISCARD;

/** Where it is.  Not collective, like all that follows but lk_iterator_restore(). */
LK_API lk_position lk_iterator_position(const lk_iterator *it);

/** Whether it begins another epoch behind the last batch. */
LK_API bool lk_iterator_repeats(const lk_iterator *it);

/** What field f of a batch is: its name, dtype and the shape of one row.  The name of a field that there
 * is not is "". */
LK_API lk_field lk_iterator_field(const lk_iterator *it, int f);

/** Begin again at step 0; all ranks of an iterator do. */
LK_API void lk_iterator_reset(lk_iterator *it);

/* ---- its state ---- */

enum { LK_ITERATOR_NUMBERS = 4, LK_ITERATOR_PREFIX = 48 };

/**
 * Where it is as numbers of a state: the step, the loader's seed, its samples and its batch, named PREFIX
 * with ".step", ".seed", ".samples" and ".batch" behind it.
 *
 * To save them, or to say what to load, before lk_iterator_restore().  The names are borrowed until the
 * next such call.  Errors: LK_EINVAL for a prefix of LK_ITERATOR_PREFIX bytes or more.
 */
LK_API lk_status lk_iterator_numbers(lk_iterator *it, const char *prefix,
                                     lk_state_number number[LK_ITERATOR_NUMBERS]) LK_NODISCARD;

/**
 * Go on from such numbers: the next batch is the one that would have come.  The loader gets the seed.
 *
 * Collective, but of kind serial: those of the master, or of rank 0, count on all ranks.  Errors:
 * LK_EINVAL for other samples or batches than the loader has, naming both, and for a step that is negative
 * or beyond 2^62; on all ranks the same, and nothing has changed then; and those of communication.
 */
LK_API lk_status lk_iterator_restore(
    lk_iterator *it, const lk_state_number number[LK_ITERATOR_NUMBERS]) LK_NODISCARD;

LK_END_DECLS

#endif /* LK_ITERATOR_H */
