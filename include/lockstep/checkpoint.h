/* Checkpoints: the state of a run in a folder, whole or not at all.
 *
 *     checkpoints/
 *         LOCK                           held by the run that writes here
 *         LATEST                         the name of the newest one, for people and scripts
 *         step-000000000200/
 *             MANIFEST                   what there is, with checksums; written last
 *             part-00000.safetensors     tensors in their order, 64 MiB to a part
 *             part-00001.safetensors
 *
 * A *state* is a step, the hash of the state, named tensors and named numbers.  All ranks describe it
 * alike, and each holds a box of every tensor: all of it, a part, or nothing.  Who holds what, and which
 * rank writes which part, leaves no trace, so a run goes on from a checkpoint on any number of ranks
 * with any boxes.  No rank needs the whole state, or the whole of a tensor, in memory at any moment.
 * docs/reference/files.md has the format.
 *
 * **Saving** writes into a folder of another name, makes it durable, and renames it: what was
 * acknowledged stays, whenever and however the ranks end.  Every failure is collective: all ranks
 * return it, with the rank, the file and the reason, and what was there before is still there.  A
 * save may run while training goes on:
 *
 *     lk_checkpoint_dir_begin(c, &state);       collects what this rank writes; a thread writes it
 *     ... steps ...                          until lk_checkpoint_dir_poll(c) is true on all ranks
 *     lk_checkpoint_dir_commit(c);              agrees, publishes, removes the oldest
 *
 * **Loading** takes the newest checkpoint that verifies fully: every length and every checksum.
 */
#ifndef LK_CHECKPOINT_H
#define LK_CHECKPOINT_H

#include <lockstep/comm.h>
#include <lockstep/hash.h>
#include <lockstep/io.h>
#include <lockstep/pieces.h>

LK_BEGIN_DECLS

/* ---- a state ---- */

/**
 * A tensor of a state, and what this rank holds of it: `data` are the elements of `box`, row-major
 * without gaps.
 *
 * A part that is no box of the shape may be one of another shape of as many elements, as in slab.h: the
 * first units of all four gates of a weight [8][4 * 16] are a box of [8][4][16].  Ranks that hold a part
 * of a tensor see it with the same axes; for those that hold all of it or nothing they do not matter.
 *
 * Ranks may hold different boxes, equal ones or nothing (an empty box; `data` may be NULL then).  Of what
 * is saved each element must be held by some rank.  Boxes may overlap: the elements of the lowest rank are
 * saved then, or of another with the same box, for they should be the same.
 */
typedef struct lk_state_tensor {
    const char *name;
    lk_dtype dtype;
    lk_shape shape; /* of the whole tensor */
    void *data;
    const lk_box *box;      /* NULL: all of it */
    const lk_shape *box_of; /* what it is a box of; NULL: `shape` */
} lk_state_tensor;

/** A number of a state, kept to the bit. */
typedef struct lk_state_number {
    const char *name;
    lk_dtype dtype; /* LK_I64 or LK_F64: which of the two it is */
    int64_t i64;
    double f64;
    bool optional; /* a checkpoint without it can be loaded too, and it stays what it is */
} lk_state_number;

static inline lk_state_number lk_state_i64(const char *name, int64_t value)
{
    lk_state_number number = {name, LK_I64, value, 0, false};
    return number;
}

static inline lk_state_number lk_state_f64(const char *name, double value)
{
    lk_state_number number = {name, LK_F64, 0, value, false};
    return number;
}

/**
 * What is saved, or where to load it to.  All is borrowed during the call.
 *
 * Tensors and numbers are the same on all ranks, in the same order; names are UTF-8, not empty, and
 * each there once.  `metadata` are texts for people, which loading ignores, but for `ranks`.
 */
typedef struct lk_state {
    int64_t step;
    uint64_t hash;   /* of the state, such as lk_trainer_hash(); loading sets it, for the caller to
                      compare with what it then has */
    int hash_format; /* set by loading: LK_HASH_FORMAT, or 1: a checkpoint from before hashes had a
                        format, whose hash can be compared with nothing.  Saving ignores it */
    int ranks; /* set by loading: how many ranks have saved it; 0: it does not say.  Saving ignores it */
    lk_state_tensor *tensor;
    int64_t n_tensors;
    lk_state_number *number;
    int64_t n_numbers;
    const lk_metadata *metadata;
    int64_t n_metadata;
} lk_state;

/* ---- the state of a model ----
 *
 * Whatever lies in slabs becomes tensors of a state, with the boxes that their slices hold:
 *
 *     lk_hash h = lk_hash_start();
 *     lk_state_tensors_new(&all);
 *     lk_state_tensors_add_model(all, model);
 *     lk_state_tensors_add_slab(all, "optimizer.m.", lk_optimizer_slab(optimizer, 0, &name));
 *     lk_state_hash(comm, all->tensor, all->n, &h);
 *     state = (lk_state){.step = step, .hash = lk_hash_value(&h),
 *                        .tensor = all->tensor, .n_tensors = all->n};
 *     lk_checkpoint_dir_save(dir, &state);
 *
 * All ranks add the same tensors in the same order, whatever they hold of them.
 */

/** Tensors that are added one by one, by the code that saves a state: a trainer, or a program with a loop of
 * its own, on one thread at a time.  Not collective.  Fields are to be read. */
typedef struct lk_state_tensors {
    lk_state_tensor *tensor;
    int64_t n, room;
    lk_arena *arena; /* of names and boxes */
} lk_state_tensors;

/** Make an empty list.  The caller owns it.  Errors: LK_ENOMEM.  Not collective, like adding. */
LK_API lk_status lk_state_tensors_new(lk_state_tensors **out) LK_NODISCARD;

/** NULL is allowed. */
LK_API void lk_state_tensors_free(lk_state_tensors *list);

/** Add a tensor, its name behind `prefix` ("": as it is); the data are borrowed, all else is copied.
 * Errors: LK_ENOMEM. */
LK_API lk_status lk_state_tensors_add(lk_state_tensors *list, const char *prefix,
                                      const lk_state_tensor *tensor) LK_NODISCARD;

/** Add all slices of a slab, whose memory is borrowed.  Errors: LK_ENOMEM. */
LK_API lk_status lk_state_tensors_add_slab(lk_state_tensors *list, const char *prefix,
                                           const lk_slab *slab) LK_NODISCARD;

/** Add a model's parameters, then its state.  Errors: LK_ESTATE when it holds nothing, LK_ENOMEM. */
LK_API lk_status lk_state_tensors_add_model(lk_state_tensors *list,
                                            const lk_model *model) LK_NODISCARD;

/**
 * Add tensors of which ranks hold boxes to a hash: what lk_hash_add_array() adds of each of them whole.
 *
 * Each element is counted once, however many ranks hold it: where boxes overlap by the lowest rank, and ranks
 * with equal boxes share the work.  Copies are not compared with each other.
 *
 * Collective over `comm`; NULL: this process alone.  Takes no memory for elements.  Errors: LK_EINVAL
 * when no rank holds an element, naming the first; LK_ESHAPE, LK_EDTYPE for the boxes; LK_ESTATE for a
 * rank whose tensors are not those of rank 0; LK_ENOMEM; on all ranks the same, and `h` is then
 * unchanged.
 */
LK_API lk_status lk_state_hash(lk_comm *comm, const lk_state_tensor *tensor, int64_t n,
                               lk_hash *h) LK_NODISCARD;

/**
 * Write tensors of which ranks hold boxes to the file `path`, which is that of lk_safetensors_write() by
 * one rank that holds all of them, to the byte.
 *
 * Collective over `comm`; NULL: this process alone.  Rank 0 writes, a MiB at a time, and no rank needs
 * more memory than some of these.  Tensors and metadata are the same on all ranks, boxes and data are
 * each rank's own.
 *
 * Errors: as lk_safetensors_write(); LK_ESHAPE for a box that is not within its tensor; LK_EINVAL when
 * no rank holds an element, naming the first; on all ranks the same.  There is no new file then.
 */
LK_API lk_status lk_safetensors_write_boxes(lk_comm *comm, const char *path,
                                            const lk_state_tensor *tensor, int64_t n,
                                            const lk_metadata *metadata,
                                            int64_t n_metadata) LK_NODISCARD;

/* ---- the checkpoints of a run ---- */

typedef struct lk_checkpoint_dir_options {
    uint64_t identity;   /* of the run: whose checkpoints these are */
    int64_t keep;        /* how many of the newest stay; 0: all; 1 counts as 2, so that there is
                           one to fall back on */
    double wait_seconds; /* for another run that still holds the folder */
    int64_t part_bytes;  /* 0: 64 MiB; a larger tensor has a part of its own */
    bool anew;           /* the run begins at step 0: checkpoints that are there are renamed to
                           before-N, and those that had that name are removed */
    /* Which ranks are replicas of each other, of which the lowest writes and reads for all; the others only give
     * and get by messages: "0,1;2,3" are two sets, ranges are "0-3".  Ranks that are not named are one more
     * set.  NULL: each rank writes a share.  Who writes leaves no trace: ChainerMN's multi_node_snapshot. */
    const char *replica_sets;
    /* Called on rank 0 with a line about progress: it waits for another run or for the disk of a rank, or
     * renames checkpoints.  May run on another thread than the caller's, but during a call; NULL: not
     * called. */
    void (*message)(void *arg, const char *text);
    void *arg;
} lk_checkpoint_dir_options;

/**
 * A folder of checkpoints that belongs to this run.
 *
 * lk_job_run() opens one on each rank, or a program that saves by itself; calls are of the thread that
 * has the communicator, and a thread of its own writes.  Collective, unless marked.
 */
typedef struct lk_checkpoint_dir lk_checkpoint_dir;

/**
 * Make the folder if it is not there (not those above it), and take it for this run until
 * lk_checkpoint_dir_close().
 *
 * Collective over `comm`, which must not be freed before; NULL: this process alone.  A disk may take
 * longer than the communicator's deadline: ranks wait for the disk of another as long as it takes, of
 * which `message` is called, but for a rank that was stopped only until the deadline.  What an earlier
 * run left half written is removed.  Ranks that do not see the folder of rank 0 write nothing there, and
 * with options->replica_sets only the lowest of each set does.  The caller owns `*out`.
 *
 * Errors: LK_ESTATE when another run that lives has the folder, naming host and process; LK_EIDENTITY when
 * it holds checkpoints of another identity, naming both; LK_EINVAL, also for replica sets that name a rank
 * twice or one that does not exist; LK_EIO, LK_ENOMEM, and those of communication; on all ranks the same.
 * Where the file system has no locks, another run is not noticed, and nothing is removed.
 */
LK_API lk_status lk_checkpoint_dir_open(lk_comm *comm, const char *folder,
                                        const lk_checkpoint_dir_options *options,
                                        lk_checkpoint_dir **out) LK_NODISCARD;

/** Wait for this rank's thread, drop a save that was not committed, and give the folder up.  Not
 * collective.  NULL is allowed. */
LK_API void lk_checkpoint_dir_close(lk_checkpoint_dir *c);

/**
 * Begin to save: collect this rank's parts of the state from all who hold something of them, and write
 * them on a thread of their own.
 *
 * Collective.  The state may change when this returns.  Collecting takes memory for this rank's share
 * of the state, `part_bytes` more at most, which is kept for the next save, and for a few MiB that are
 * on their way; a part beyond that, as a tensor larger than many, is on disk when this returns.  Where
 * all ranks hold all of the state, a rank that writes copies all it writes.  A checkpoint of this step that
 * verifies and has this hash is not written again; one whose hash is of format 1 is replaced.
 *
 * Errors: LK_ESTATE when a save is under way, or there is a checkpoint of this step that verifies
 * and has another hash, naming both; LK_EIO, also when there is less free space than it takes;
 * LK_EINVAL, LK_ESHAPE and LK_EDTYPE for the state, also when no rank holds an element, naming the first;
 * LK_ENOMEM; on all ranks the same.  Nothing is under way then.
 */
LK_API lk_status lk_checkpoint_dir_begin(lk_checkpoint_dir *c, const lk_state *state) LK_NODISCARD;

/** Whether this rank has written its parts (or failed to), so that lk_checkpoint_dir_commit() will not
 * wait for its disk.  Not collective. */
LK_API bool lk_checkpoint_dir_poll(lk_checkpoint_dir *c);

/** Whether a save has begun and is not committed yet: the same on all ranks.  Not collective. */
LK_API bool lk_checkpoint_dir_is_saving(const lk_checkpoint_dir *c);

/**
 * Wait for the parts of all ranks, publish the checkpoint, and remove those beyond `keep` that are
 * older.  When it returns LK_OK, the checkpoint is on disk.
 *
 * Collective.  Errors: LK_ESTATE when no save is under way; LK_EIO naming rank, file and reason, on
 * all ranks the same.  No save is under way then, and what there was is still there.
 */
LK_API lk_status lk_checkpoint_dir_commit(lk_checkpoint_dir *c) LK_NODISCARD;

/** Begin, wait and commit.  Collective. */
LK_API lk_status lk_checkpoint_dir_save(lk_checkpoint_dir *c, const lk_state *state) LK_NODISCARD;

/**
 * Load the newest checkpoint that verifies fully: tensors, numbers, step and hash.
 *
 * Collective.  Each rank that writes the folder reads some of the parts, a MiB at a time, and sends all
 * others what their boxes have of it.  `*found` is false, and nothing has changed, when there is no
 * checkpoint at all.  When newer ones had to be left out,
 * lk_checkpoint_dir_messages() says which, why, and which one is used instead.
 *
 * Errors: LK_EIDENTITY for one of another identity, naming both; LK_ESTATE for a rank that describes
 * another state than rank 0; LK_EIO when there are checkpoints but
 * none verifies, with what is wrong with the newest; LK_ENOMEM; on all ranks the same.  The state is
 * unchanged then, unless a file that had verified could not be read again, which the message says.
 */
LK_API lk_status lk_checkpoint_dir_load(lk_checkpoint_dir *c, lk_state *state,
                                        bool *found) LK_NODISCARD;

/** What the last open, save or load has to say besides its status, a line each; "" if
 * there is nothing.  On rank 0; elsewhere "".  Not collective; borrowed until the next call. */
LK_API const char *lk_checkpoint_dir_messages(const lk_checkpoint_dir *c);

/* ---- one checkpoint, to be looked at ---- */

typedef struct lk_checkpoint_part {
    const char *file;
    int64_t bytes;
    uint64_t hash; /* XXH64 of the whole file */
} lk_checkpoint_part;

typedef struct lk_checkpoint_tensor {
    const char *name;
    lk_dtype dtype;
    lk_shape shape;
    int64_t part, offset, bytes; /* where it lies: part number, and where in its file */
    uint32_t crc;                /* CRC-32C of its elements */
} lk_checkpoint_tensor;

/** What the MANIFEST of a checkpoint says: fields are to be read.  Made by lk_checkpoint_read() for
 * the code that reads a checkpoint; several threads may use one.  Not collective. */
typedef struct lk_checkpoint {
    const char *path; /* of its folder */
    int64_t step;
    uint64_t identity, hash;
    int hash_format; /* of `hash`: LK_HASH_FORMAT; 1: it says none, and can be compared with nothing */
    lk_checkpoint_part *part;
    int64_t n_parts;
    lk_checkpoint_tensor *tensor; /* in the order of their places */
    int64_t n_tensors;
    lk_state_number *number;
    int64_t n_numbers;
    lk_metadata *metadata;
    int64_t n_metadata;
    const char *messages; /* what is wrong with newer ones that were left out, a line each */
    lk_arena *arena;
} lk_checkpoint;

/** Whether `path` is a folder with a MANIFEST, or one that holds such folders.  Not collective, like
 * all that follow. */
LK_API bool lk_checkpoint_exists(const char *path);

/**
 * Read and check the MANIFEST of a checkpoint; or, of a folder that holds checkpoints, that of the
 * newest one that verifies fully.  The caller owns `*out`.
 *
 * Errors: LK_EIO naming file and offset; LK_ENOMEM.
 */
LK_API lk_status lk_checkpoint_read(const char *path, lk_checkpoint **out) LK_NODISCARD;

/** NULL is allowed. */
LK_API void lk_checkpoint_free(lk_checkpoint *checkpoint);

/** Read part `i` and compare all of it with the MANIFEST.  Errors: LK_EIO naming file, tensor and
 * offset; LK_EINVAL, LK_ENOMEM. */
LK_API lk_status lk_checkpoint_verify(const lk_checkpoint *checkpoint, int64_t part) LK_NODISCARD;

/** Read the elements of tensor `i` to `data`, of tensor[i].bytes, and check them.  Errors: LK_EIO,
 * LK_EINVAL. */
LK_API lk_status lk_checkpoint_read_tensor(const lk_checkpoint *checkpoint, int64_t i,
                                           void *data) LK_NODISCARD;

/**
 * Read a box of tensor `i` to `data`, its elements row-major without gaps; NULL: all of it.  All of the
 * tensor is read and checked, but never more than a MiB of it is in memory besides `data`.
 *
 * Errors: LK_ESHAPE when the box is not within the tensor; LK_EIO, LK_EINVAL, LK_ENOMEM.
 */
LK_API lk_status lk_checkpoint_read_box(const lk_checkpoint *checkpoint, int64_t i,
                                        const lk_box *box, void *data) LK_NODISCARD;

LK_END_DECLS

#endif /* LK_CHECKPOINT_H */
