/* lk_checkpoint_dir from inside, for the files of this folder.  Each rank has one; all of it runs on
 * the thread that calls it, but for writing and reading of parts, which have threads of their own.
 */
#ifndef LK_IO_CHECKPOINT_H
#define LK_IO_CHECKPOINT_H

#include "base/storage/storage.h"
#include "io/disk.h"
#include "io/exchange.h"
#include "io/out.h"

#include <lockstep/checkpoint.h>
#include <lockstep/version.h>

enum {
    LK__STEP_NAME = 32,
    LK__RUN_NAME = 17,
    LK__MESSAGE = 512,
    LK__BAND = 1 << 20,
    LK__PART_BYTES = 64 << 20 /* of a part, where nothing is said */
};

/* ---- names ---- */

/** "step-000000000200" */
void lk__step_name(int64_t step, char name[LK__STEP_NAME]);

/** The step that a folder's name says, "step-..." or "before-..."; -1: it says none. */
int64_t lk__step_of_name(const char *name);

/** The steps of the checkpoints in a folder, ascending, in the arena. */
lk_status lk__steps_list(const char *folder, lk_arena *arena, int64_t **out,
                         int64_t *n) LK_NODISCARD;

/** The path of a step's folder, or with `tail` behind its name. */
lk_status lk__step_path(const char *folder, int64_t step, const char *tail,
                        char path[LK_PATH_SIZE]) LK_NODISCARD;

/* ---- what is to be written ---- */

/**
 * Cut a state into parts, in its order, of `part_bytes` at most or of one tensor: a checkpoint
 * without checksums, which has copies of all names.  The caller owns `*out`.
 *
 * Errors: LK_EINVAL, LK_EDTYPE, LK_EOVERFLOW for the state; LK_ENOMEM.
 */
lk_status lk__plan_make(const lk_state *state, uint64_t identity, int64_t part_bytes,
                        lk_checkpoint **out) LK_NODISCARD;

/** The bytes of part `i` before its tensors, in a block that the caller frees. */
lk_status lk__plan_header(const lk_checkpoint *plan, int64_t i, char **out,
                          int64_t *bytes) LK_NODISCARD;

/** The first tensor of part `i`; of a part that is not there, n_tensors. */
int64_t lk__part_begin(const lk_checkpoint *c, int64_t i);

/** Step, identity, hash, tensors, numbers: what all ranks must describe alike; with the values of the
 * numbers, or without. */
uint64_t lk__plan_digest(const lk_checkpoint *plan, bool values);

/** Fail on all ranks, naming one, unless all have the digest of rank 0.  Collective; NULL: alone. */
lk_status lk__plan_agree(lk_comm *comm, uint64_t digest) LK_NODISCARD;

/** What this rank holds of a tensor; all of it as a box of its shape. */
lk__box_held lk__state_held(const lk_state_tensor *tensor);

/* ---- what is loaded ---- */

/** Whether a checkpoint has the tensors and numbers of a state.  map [n_tensors]: where each tensor of the
 * state is in the checkpoint.  Errors: LK_ESHAPE and LK_EDTYPE naming what differs, LK_ENOMEM. */
lk_status lk__state_match(const lk_checkpoint *c, const lk_state *state, int64_t *map) LK_NODISCARD;

/** Give the numbers of a state, its step and hash the values of a checkpoint that matches it. */
void lk__state_take(const lk_checkpoint *c, lk_state *state);

/** Read the tensors of a checkpoint that has verified into the boxes of all ranks: held, by tensor of
 * the checkpoint.  Collective.  Errors: LK_EIO, LK_ENOMEM, on all ranks the same; and those of
 * communication. */
lk_status lk__tensors_fetch(lk_checkpoint_dir *c, const lk_checkpoint *from,
                            lk__box_held *held) LK_NODISCARD;

/** lk_checkpoint_read_box() of what is held.  Errors: LK_EIO, LK_ENOMEM. */
lk_status lk__checkpoint_read_held(const lk_checkpoint *c, int64_t i,
                                   const lk__box_held *held) LK_NODISCARD;

/* ---- the manifest ---- */

/** Append the text of a MANIFEST. */
void lk__manifest_put(lk__out *o, const lk_checkpoint *c);

/** Read `n` bytes as the MANIFEST of the checkpoint in the folder `path`. */
lk_status lk__manifest_parse(const char *path, const char *text, int64_t n,
                             lk_checkpoint **out) LK_NODISCARD;

/** Read the MANIFEST in the folder `path`.  Errors: LK_EIO, also when the folder has the name of
 * another step. */
lk_status lk__manifest_read(const char *path, lk_checkpoint **out) LK_NODISCARD;

/** Whether it is of the run of this identity.  Errors: LK_EIDENTITY naming both. */
lk_status lk__identity_check(const lk_checkpoint *c, uint64_t identity) LK_NODISCARD;

/** Whether a tensor's elements have the checksum that the MANIFEST says.  Errors: LK_EIO naming both. */
lk_status lk__crc_check(const char *path, const lk_checkpoint_tensor *t, uint32_t crc) LK_NODISCARD;

/** lk_checkpoint_verify() of all parts. */
lk_status lk__checkpoint_verify_all(const lk_checkpoint *c) LK_NODISCARD;

/* ---- a rank's parts, from boxes to disk ---- */

/* Writer `place` of `writers` has the parts place, place + writers, ... */
typedef struct lk__writer {
    lk_checkpoint *plan; /* whose checksums it fills in */
    const char *folder;
    int place, writers;   /* place -1: writes nothing */
    const bool *streamed; /* of each part: it went to disk when the save began */
    unsigned char *image; /* of the other files, one behind the other */
    int64_t room;
    lk__work work;
} lk__writer;

/**
 * Get the parts of this writer from all ranks that hold them: into memory, or, of a part for which its
 * share of memory is too small, straight to disk.
 *
 * Collective.  Errors: LK_ENOMEM, LK_EIO, on all ranks the same; and those of communication.
 */
lk_status lk__writer_fill(lk__writer *w, lk__exchange *x, const lk__disk *disk,
                          int64_t part_bytes) LK_NODISCARD;

/** Bytes of memory that saving a state takes on one of `size` ranks, all of which write: *image, of its parts,
 * which is kept, and *bands, that travel.  `whole`: all hold all of it.  Errors: those of
 * lk__plan_make(). */
lk_status lk__save_bytes(const lk_state *state, int64_t part_bytes, int size, int rank, bool whole,
                         int64_t *image, int64_t *bands) LK_NODISCARD;

/** Begin to write what is in memory: w->work. */
void lk__writer_start(lk__writer *w);

/* ---- who writes ---- */

/** Read lk_checkpoint_dir_options.replica_sets: set [size] is a number for each rank, equal for those of one
 * set.  Errors: LK_EINVAL naming text and rank. */
lk_status lk__replica_sets_read(const char *text, int size, int *set) LK_NODISCARD;

/** Whether a rank is the lowest of its set. */
bool lk__replica_is_master(const int *set, int rank);

/* ---- the folder ---- */

struct lk_checkpoint_dir {
    lk__disk disk; /* its communicator is its own */
    lk_comm *comm; /* the same; NULL: one rank */
    int rank, size;
    bool is_master; /* of its replica set */
    int32_t *place; /* [size] of each rank among those that write and read; -1: it does not */
    int64_t band;   /* bytes that travel at a time */
    lk_checkpoint_dir_options options;
    char folder[LK_PATH_SIZE], temporary[LK_PATH_SIZE];
    char run[LK__RUN_NAME]; /* a name that no other run has */
    int lock;               /* of rank 0; -1: none */
    lk__out messages;
    bool saving, there; /* a save is under way; what it would write is there already */
    lk_checkpoint *plan;
    lk__writer writer;
};

/** Add the last failure, which is then forgotten, to the messages; `what` comes before it. */
void lk__checkpoint_dir_add_message(lk_checkpoint_dir *c, const char *what);

/** Take the folder: `*fd` holds the lock, -1 if there are no locks here.  Errors: LK_ESTATE when
 * another process has it, LK_EIO. */
lk_status lk__lock_take(const char *folder, const char *run,
                        const lk_checkpoint_dir_options *options, int *fd) LK_NODISCARD;

/** Whether the lock file here is the one that this run took: the folder is the same. */
bool lk__lock_is_seen(const char *folder, const char *run);

/** Give the MANIFEST and its folder their places, then LATEST; remove what is too old.  Of rank 0. */
lk_status lk__publish(lk_checkpoint_dir *c) LK_NODISCARD;

#endif /* LK_IO_CHECKPOINT_H */
