/* Experiments: files that say what to train on what.
 *
 *     seed: 1
 *     data: {type: idx, path: FOLDER, batch: 128, shards: 8}
 *     model:
 *       - {type: conv, filters: 32, kernel: 3, padding: 1}
 *       - relu
 *       - {type: linear, units: 10}
 *     loss: softmax_cross_entropy
 *     metrics: [accuracy]
 *     optimizer: {type: sgd, rate: 0.05, schedule: {type: cosine}}
 *     train: {epochs: 3, checkpoint: {every: 1 epoch, keep: 3}}
 *     pieces: {tiles: 2x2}
 *     parallel: {data: 2}
 *
 * A training may have phases, one behind the other:
 *
 *     phases:
 *       - {name: last, epochs: 1, layers: [linear1], optimizer: {type: sgd, rate: 0.1}}
 *       - {name: all, epochs: 3}
 *
 * Every key is an option of a table (option.h): of the experiment, of a section, or of the thing that
 * a `type` names.  Schedule, clipping and decay are options of the optimizer.  A thing without
 * options can be its name alone.
 *
 * The files are YAML without anchors, aliases and tags, of at most 1 MiB; docs/reference/experiments.md has the
 * rules.  Nothing here is collective or knows a rank.
 */
#ifndef LK_CONFIG_H
#define LK_CONFIG_H

#include <lockstep/data.h>
#include <lockstep/parallel.h>

LK_BEGIN_DECLS

/* What happens when a checkpoint cannot be written. */
typedef enum lk_on_error { LK_ON_ERROR_WARN, LK_ON_ERROR_STOP } lk_on_error;

typedef struct lk_checkpoint_options {
    const char *every_text; /* as written: "1 epoch", "500 steps" */
    lk_period every;
    int64_t keep;             /* the newest ones; 0: all */
    const char *folder;       /* NULL: "checkpoints" in the output folder */
    int on_error;             /* lk_on_error */
    bool wait;                /* training waits until a checkpoint is on disk */
    const char *replica_sets; /* who writes, as in lk_checkpoint_dir_options; NULL: all ranks */
} lk_checkpoint_options;

typedef struct lk_early_stop_options {
    const char *metric; /* "loss", or one of the experiment's metrics */
    int64_t patience;   /* evaluations without progress; 0: never stop */
    double change;      /* that counts as progress */
} lk_early_stop_options;

typedef struct lk_train_options {
    int64_t epochs;
    int64_t steps;                        /* stop after so many; 0: no limit */
    int64_t recompute;                    /* segments of the model; 0: values are kept */
    const char *evaluate_text, *log_text; /* as written */
    lk_period evaluate, log;
    const char *output; /* folder for all that is written; NULL: none */
    bool resume;        /* go on from the newest checkpoint, if there is one */
    lk_checkpoint_options checkpoint;
    lk_early_stop_options early_stop;
} lk_train_options;

/** The finest cut of the work that the file allows. */
typedef struct lk_pieces_options {
    const char *tiles_text; /* as written: "2x2" */
    lk_pieces
        cut; /* of no more axes than tiles_text has, the others are 1; its shards are data's */
} lk_pieces_options;

/* How the parts of a batch are joined. */
typedef enum lk_reduction_mode {
    LK_REDUCTION_CANONICAL, /* by the fixed tree over the shards */
    LK_REDUCTION_FAST       /* the ranks are the shards, joined in any order */
} lk_reduction_mode;

/* Who updates the parameters. */
typedef enum lk_update_by {
    LK_UPDATE_AUTO,  /* SHARED where all ranks are on one node and the optimizer allows it, but for
                      * few parameters EACH */
    LK_UPDATE_EACH,  /* each rank all of its own copy */
    LK_UPDATE_SHARED /* the ranks of a node have one copy, and each updates its share of it */
} lk_update_by;

/* Whether gradients travel while backward goes on. */
typedef enum lk_overlap { LK_OVERLAP_AUTO, LK_OVERLAP_NO, LK_OVERLAP_YES } lk_overlap;

/** Who computes what; never changes the bits, except that mode fast gives them up, and that double buffering
 * is another training, on any number of ranks the same. */
typedef struct lk_parallel_options {
    int64_t data;      /* parts of the batch; 0: as many as there are ranks left */
    int mode;          /* lk_reduction_mode */
    int wire;          /* lk_wire; other than dtype: in mode fast alone */
    int update;        /* lk_update_by */
    int overlap;       /* lk_overlap */
    double bucket_mib; /* of gradients that travel together when they overlap; 0: the default */
    bool
        double_buffering; /* gradients travel during the next step, and are followed one step late */
    const char *spatial_text;
    lk_option_ints spatial; /* parts of the image along each axis; n 0: whole */
    int64_t features;       /* parts of wide layers */
    int64_t stages;         /* of the model */
    int schedule;           /* lk_pipeline_kind: in what order micro-batches go through them */
    int64_t micro_batch;    /* shards of one, a power of two; 0: as the plan chooses */
    const char *lag_text;
    int64_t lag;    /* of schedule zb1p: micro-batches; -1: as the plan chooses; LK_LAG_FULL */
    bool recompute; /* of each stage, in backward */
    lk_option_names
        devices; /* of each process, which share its part of a batch; n 0: its threads */
} lk_parallel_options;

/** A part of a training: which layers move for which losses, by which optimizer, for how long. */
typedef struct lk_phase {
    const char *name;
    int64_t epochs;
    lk_option_names losses; /* that count: lk_trainer_options.losses; n 0: all */
    lk_option_names layers; /* whose parameters move; n 0: all */
    lk_config optimizer;    /* without a descriptor: the experiment's */
} lk_phase;

/** What a file says: fields are to be read.  Made by lk_experiment_read() for jobs and for the command;
 * any thread may read it, one at a time expands paths.  Not collective. */
typedef struct lk_experiment {
    const char *path;  /* of its file, or the name of the text */
    const char *text;  /* that it was parsed from; NULL: the file's */
    const char *about; /* a sentence for people; may be NULL */
    int64_t seed;
    int precision;  /* of the table; see dtype */
    lk_dtype dtype; /* of parameters and arithmetic: f32 or f64 */
    lk_config data; /* of lk_registry_format */
    lk_loader_options loader;
    lk_configs model; /* of lk_registry_layer */
    lk_config loss;
    lk_configs metrics;
    lk_config optimizer;
    lk_train_options train; /* with phases its epochs are those of all of them */
    lk_phase *phase;        /* [n_phases], one behind the other; 0: the training is one */
    int64_t n_phases;
    lk_pieces_options pieces;
    lk_parallel_options parallel;
    lk_arena *arena; /* that all of it lies in */
} lk_experiment;

/**
 * Read an experiment from a file, then set what `assignment[0 ... n-1]` say.
 *
 * An assignment is KEY=VALUE; KEY is a path of names and of numbers of list items, as in
 * "optimizer.rate=0.1" and "model.0.filters=16", VALUE a value in YAML.  `optimizer=adam` replaces
 * all of a section, `optimizer.rate=0.1` one option of it.  The caller owns `*out`.
 *
 * Errors: LK_EINVAL in one line that begins with FILE:LINE:COLUMN, or with the assignment; LK_EIO for
 * a file that cannot be read; LK_ENOTSUP in a build without libyaml; LK_ENOMEM.
 */
LK_API lk_status lk_experiment_read(const char *path, const char *const *assignment, int n,
                                    lk_experiment **out) LK_NODISCARD;

/** As lk_experiment_read(), from a text in memory; `name` is for messages. */
LK_API lk_status lk_experiment_parse(const char *name, const char *text,
                                     const char *const *assignment, int n,
                                     lk_experiment **out) LK_NODISCARD;

/** NULL is allowed. */
LK_API void lk_experiment_free(lk_experiment *experiment);

/**
 * Replace {rank} and {size} in all paths of an experiment: in options whose value is called "PATH" or
 * "PATHS".
 *
 * Errors: LK_EINVAL unless 0 <= rank < size, and for other words in braces; LK_ENOMEM.
 */
LK_API lk_status lk_experiment_expand(lk_experiment *experiment, int rank, int size) LK_NODISCARD;

/** Replace {rank} and {size} in one path, into the arena.  Errors: as lk_experiment_expand(). */
LK_API lk_status lk_path_expand(const char *path, int rank, int size, lk_arena *arena,
                                const char **out) LK_NODISCARD;

/**
 * The identity of a run: what decides its bits.  That is the numerics epoch, seed, dtype, model,
 * loss, optimizer, the early stopping of the training, how batches are made (batch and shards among
 * it), and the content of the data: lk_dataset_hash() of the training set.
 *
 * Not in it are paths, metrics, output, checkpoints, and the section `parallel`; but a
 * job with parallel.mode fast is another run, and so it is with another wire and with double buffering
 * (lk_job_identity()).  The epochs are in it
 * if lk_experiment_uses_end(); otherwise a finished run can be extended with more epochs.
 *
 * Errors: LK_ENOMEM.
 */
LK_API lk_status lk_experiment_identity(const lk_experiment *experiment, uint64_t data,
                                        uint64_t *out) LK_NODISCARD;

/** Whether the steps of a run depend on how many epochs it is to have: a schedule of its optimizer ends
 * with the last. */
LK_API bool lk_experiment_uses_end(const lk_experiment *experiment);

/** The words that mark a state, as they stand behind its hash wherever that is shown: "fast" or "fast bf16" where
 * bits are those of a number of ranks, "double_buffering" where the training is another; "" otherwise. */
LK_API lk_short_string lk_parallel_marks(const lk_parallel_options *parallel);

/** The sections of an experiment as a registry, for lists and help. */
LK_API extern const lk_registry lk_registry_section;

LK_END_DECLS

#endif /* LK_CONFIG_H */
