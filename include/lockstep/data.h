/* Data: sets of samples, the formats they come in, and batches.
 *
 * A *dataset* is a number of samples of equal shape, each with a few fields: usually "x", what goes in,
 * and "y", what should come out.  A *format* makes a dataset from files or out of nothing; formats have
 * descriptors in a registry (option.h), so experiments and the command choose them by name.  A *loader*
 * makes batches of a dataset: it picks the samples of a position, converts and augments them, and
 * prepares the next batches on threads of its own.
 *
 * Sample order, splits and augmentation are functions of a seed and of places (epoch, sample), never
 * of who asks or in what order.  So any part of any batch can be had by itself, and of each sample any
 * box (pieces.h): a rank that works on a tile of every image reads the tile, and never holds an image.
 *
 * Nothing here is collective.  What comes from files is not trusted: every length is checked before
 * memory is taken, and errors name the file and the offset.
 */
#ifndef LK_DATA_H
#define LK_DATA_H

#include <lockstep/option.h>
#include <lockstep/pieces.h>
#include <lockstep/tensor.h>

LK_BEGIN_DECLS

/* ---- datasets ---- */

enum { LK_MAX_FIELDS = 8, LK_FIELD_NAME = 64 };

/** One field of all samples of a dataset. */
typedef struct lk_field {
    char name[LK_FIELD_NAME]; /* "x", "y"; not empty */
    lk_dtype dtype;
    lk_shape shape; /* of one sample; images are [rows][columns][channels] */
} lk_field;

/** What a dataset is. */
typedef struct lk_dataset_info {
    const char *name; /* a path or a few words, for messages; copied */
    int64_t count;    /* samples */
    int64_t classes;  /* the i64 values of field "y" are 0 ... classes - 1; 0: no classes */
    bool in_memory;   /* a sample is there at once, nothing has to be read or computed */
    bool stream;      /* a sample is far from all but those that follow it: loaders read in order */
    /* Damaged records that are left out, and places of files where their number is unknown; 0
     * unless that was asked for. */
    int64_t skipped, gaps;
    int n_fields; /* 0: it is empty, see lk_dataset_new_empty_like() */
    lk_field field[LK_MAX_FIELDS];
} lk_dataset_info;

/** Samples that can be read in any order; of a stream that is slow unless it is the order they have.  Made by
 * formats (lk_dataset_open()) and by programs, read by loaders; any thread may read, retain and free one.
 * Not collective. */
typedef struct lk_dataset lk_dataset;

/**
 * Write sample `index`, which exists, to `row`: row[f] takes field f, row-major; NULL: not wanted.
 * Several threads may call it at once.
 */
typedef lk_status lk_dataset_row_fn(void *context, int64_t index, void *const *row);

/**
 * Make a dataset whose samples come from a function.
 *
 * `release`, unless NULL, is called with `context` when the last reference is released, and not
 * if this function fails.  The caller owns `*out`.
 *
 * Errors: LK_EINVAL for a negative count, no field or too many, names that are empty or given twice,
 * and classes without a field "y" of dtype i64; LK_EDTYPE, LK_EOVERFLOW, LK_ENOMEM.
 */
LK_API lk_status lk_dataset_new(const lk_dataset_info *info, lk_dataset_row_fn *row,
                                lk_release_fn *release, void *context,
                                lk_dataset **out) LK_NODISCARD;

/**
 * Write a box of field `field` of sample `index`, which exists, to `out`: dense, row-major, of the field's
 * dtype.  The box lies in the field and is not empty.  Several threads may call it at once.
 */
typedef lk_status lk_dataset_box_fn(void *context, int64_t index, int field, const lk_box *box,
                                    void *out);

/**
 * As lk_dataset_new(), of samples that can also be had box by box, so that who works on a part of each
 * never needs memory for a whole one.  `row` may be NULL: then rows are boxes, too.
 *
 * Of a set without `box`, whole rows are read and cut.  Errors: as lk_dataset_new(); LK_EINVAL if both
 * are NULL.
 */
LK_API lk_status lk_dataset_new_boxes(const lk_dataset_info *info, lk_dataset_row_fn *row,
                                      lk_dataset_box_fn *box, lk_release_fn *release, void *context,
                                      lk_dataset **out) LK_NODISCARD;

/**
 * Make a dataset of tensors in memory: field f is `tensor[f]`, whose first axis counts the samples.
 *
 * Retains the tensors (copies those that are not contiguous); `info` gives name, classes, and the
 * names of the fields: its count, dtypes and shapes are not read.  The caller owns `*out`.
 *
 * Errors: as lk_dataset_new(); LK_ESHAPE for a tensor without axes or with another number of
 * samples; LK_EINVAL for a label that is no class, naming the sample.
 */
LK_API lk_status lk_dataset_from_tensors(const lk_dataset_info *info, lk_tensor *const *tensor,
                                         lk_dataset **out) LK_NODISCARD;

/**
 * Make a dataset of two arrays of the program: `x` has `count` samples of this shape one after the other,
 * `y` the class of each, 0 ... classes - 1.  The arrays are borrowed until the set is freed; the caller
 * owns `*out`.
 *
 *     lk_dataset_from_arrays(1000, LK_SHAPE(28, 28, 1), image, label, 10, &set)
 *
 * Errors: as lk_dataset_from_tensors(); LK_EINVAL when `classes` is less than 1.
 */
LK_API lk_status lk_dataset_from_arrays(int64_t count, lk_shape sample, const float *x,
                                        const int64_t *y, int64_t classes,
                                        lk_dataset **out) LK_NODISCARD;

/**
 * Make an empty dataset: as many samples as `like` has, and no fields, so that there is nothing to read.
 *
 * For ranks that take part in steps over samples that are on other ranks; a number alone is given to the
 * format "empty" (lk_dataset_open("empty", "samples=60000", LK_TRAIN, &ds)).  Parts of it are empty as
 * well; its hash is that of the number.  What needs a field (a model to train, a file to write) refuses it.
 *
 * Keeps nothing of `like`.  The caller owns `*out`.  Errors: LK_EINVAL for NULL, LK_ENOMEM.
 */
LK_API lk_status lk_dataset_new_empty_like(const lk_dataset *like, lk_dataset **out) LK_NODISCARD;

/** Add a reference; returns it.  NULL is allowed. */
LK_API lk_dataset *lk_dataset_retain(lk_dataset *ds);

/** Release a reference.  Thread safe.  NULL is allowed. */
LK_API void lk_dataset_free(lk_dataset *ds);

/** What it is; borrowed. */
LK_API const lk_dataset_info *lk_dataset_info_of(const lk_dataset *ds);

/** The number of the field of this name, -1 if there is none. */
LK_API int lk_dataset_find(const lk_dataset *ds, const char *field);

/**
 * Read the samples index[0 ... n-1]: row i of tensor[f] becomes field f of sample index[i].
 *
 * tensor[f] is contiguous, [n, shape of the field...] and of the field's dtype; NULL: not wanted.
 * Thread safe.  Nothing is allocated.  After an error the tensors hold anything.
 *
 * Errors: LK_EINVAL for an index outside the set, LK_ESHAPE and LK_EDTYPE for a tensor that does not
 * fit, naming the field; what the format finds: LK_EIO, naming file and offset.
 */
LK_API lk_status lk_dataset_read(const lk_dataset *ds, const int64_t *index, int64_t n,
                                 lk_tensor *const *tensor) LK_NODISCARD;

/**
 * Read a box of one field of the samples index[0 ... n-1] to `tensor`, which is contiguous, [n, sizes of
 * the box...] and of the field's dtype.
 *
 * The bits are those of the same box of the whole rows.  Memory for one row is taken meanwhile if the set
 * has no function that writes boxes.  Thread safe.  After an error the tensor holds anything.
 *
 * Errors: LK_EINVAL for a field or a sample that does not exist, and for a box that does not lie in the
 * field or has other axes; the others as lk_dataset_read(); LK_ENOMEM.
 */
LK_API lk_status lk_dataset_read_box(const lk_dataset *ds, int field, const lk_box *box,
                                     const int64_t *index, int64_t n,
                                     lk_tensor *tensor) LK_NODISCARD;

/**
 * The hash of the content: count, classes, names, dtypes and shapes of the fields, then sample by
 * sample the values of all fields as little-endian bytes; where records or more are left out, how many.
 * The file and its format do not matter.
 *
 * Reads everything the first time.  Thread safe.  Errors: as lk_dataset_read(), LK_ENOMEM.
 */
LK_API lk_status lk_dataset_hash(lk_dataset *ds, uint64_t *out) LK_NODISCARD;

/**
 * The samples p(first), ..., p(first + n - 1) of `ds` as a dataset, where p is the permutation of
 * (seed, "data", "split") at epoch 0; of a stream, the samples first, ..., first + n - 1.  Retains `ds`.  The
 * caller owns `*out`.
 *
 * Errors: LK_EINVAL unless 0 <= first, n and first + n <= count; LK_ENOMEM.
 */
LK_API lk_status lk_dataset_subset(lk_dataset *ds, int64_t seed, int64_t first, int64_t n,
                                   lk_dataset **out) LK_NODISCARD;

/**
 * A choice of samples of `ds`: the first of the permutation of (seed, "data", "samples") at epoch 0, in its
 * order; of a stream, its first samples.  `samples` is their share of the set if below 1 (rounded down), else
 * their number.  With 0, `*out` is `ds` itself, retained.  The caller owns `*out`, which retains `ds`.
 *
 * Errors: LK_EINVAL for what is negative, from 1 on no whole number, less than one sample, or more than
 * there are; LK_ENOMEM.
 */
LK_API lk_status lk_dataset_sample(lk_dataset *ds, int64_t seed, double samples,
                                   lk_dataset **out) LK_NODISCARD;

/**
 * Cut a set in two by lk_dataset_subset(): the last samples of the permutation, or of a stream, become
 * `*validation`, the others `*train`.  `share` is their part of the set if below 1 (rounded down), else their
 * number.  With share 0, `*train` is `ds` itself, retained, and `*validation` NULL.
 *
 * Errors: LK_EINVAL for a negative share and for one that leaves nothing on either side; LK_ENOMEM.
 */
LK_API lk_status lk_dataset_split(lk_dataset *ds, int64_t seed, double share, lk_dataset **train,
                                  lk_dataset **validation) LK_NODISCARD;

/* ---- formats ---- */

typedef enum lk_split { LK_TRAIN, LK_VALIDATION, LK_TEST, LK_N_SPLITS } lk_split;

/** "train", "validation", "test"; "?" for a value that is none. */
LK_API const char *lk_split_name(lk_split split);

/** A data format: one file of src/data/formats. */
typedef struct lk_format {
    lk_descriptor descriptor;
    /* Make `*out`, or set it to NULL if the options name no such set. */
    lk_status (*open)(const void *options, lk_split split, lk_dataset **out);
    /* Write a dataset to the new file `path`, or as a set of the folder `path`; NULL: the format is not
     * written. */
    lk_status (*write)(const lk_dataset *ds, lk_split split, const void *options, const char *path);
    const lk_descriptor *writing; /* the options of `write`; NULL: it has none, and gets NULL */
    /* The name of what `write` makes of `path`, in the arena: see lk_format_written(); NULL: `path` itself. */
    lk_status (*written)(const void *options, const char *path, lk_arena *arena, const char **out);
    const char *suffix; /* of its files, such as ".npy"; NULL: none of its own */
    /* A set may lie in many files: `path` can also be a folder, a pattern, or several with commas between
     * them, and the suffix may stand anywhere in their names. */
    bool many;
} lk_format;

/** All formats, by name. */
LK_API extern const lk_registry lk_registry_format;

/**
 * Open one set of a format, by its name and its options as lk_config_parse() reads them; NULL: all
 * defaults.
 *
 * `*out` is NULL if there is no such set: only few formats have one for validation, which is
 * otherwise a part of the training set (lk_dataset_split()).  The caller owns `*out`, which keeps
 * nothing of the texts.
 *
 * Errors: those of lk_config_parse(); LK_EINVAL for options that do not fit together; LK_EIO for files
 * that cannot be read or are damaged, with path and offset; LK_ENOTSUP for what no reader here
 * understands; LK_ENOMEM.
 */
LK_API lk_status lk_dataset_open(const char *format, const char *options, lk_split split,
                                 lk_dataset **out) LK_NODISCARD;

/** As lk_dataset_open(), of a config of lk_registry_format, which is not needed afterwards. */
LK_API lk_status lk_dataset_open_config(const lk_config *format, lk_split split,
                                        lk_dataset **out) LK_NODISCARD;

/**
 * The config that reads the file or folder `path`, by its name or its first bytes; also a pattern, or several
 * files with commas between them, where the text or the name of the first file tells a format that has sets
 * in many files.
 *
 * `*out` lives in `arena`.  Errors: LK_EIO if there is no such file, LK_ENOTSUP if no format is
 * known for it; LK_ENOMEM.
 */
LK_API lk_status lk_format_guess(const char *path, lk_arena *arena, lk_config *out) LK_NODISCARD;

/**
 * Write a dataset in a format: by its name, or NULL for the one that the suffix of `path` names.
 *
 * The file takes its name when it is complete.  Errors: LK_EINVAL for an unknown format; LK_ENOTSUP
 * for a format that is not written or cannot hold these fields, saying why; LK_EIO, LK_ENOMEM.
 */
LK_API lk_status lk_dataset_write(const lk_dataset *ds, const char *format,
                                  const char *path) LK_NODISCARD;

/**
 * As lk_dataset_write(), with options as lk_options_parse() reads them, such as "files=8 gzip=true" of the
 * format tfrecord; NULL: all defaults.  A format whose folders hold several sets, such as idx, writes this
 * one of them and leaves the others.
 *
 * Errors: also those of lk_options_parse(), and LK_ENOTSUP for a set that the format has no files for.
 */
LK_API lk_status lk_dataset_write_as(const lk_dataset *ds, const char *format, const char *options,
                                     lk_split split, const char *path) LK_NODISCARD;

/**
 * The name of what lk_dataset_write_as() makes of the same format, options and path: mostly the path, of
 * packed records with .gz behind it, of many files their pattern, as `path` of the format takes it.
 *
 * `*out` lives in `arena`.  Errors: those of lk_dataset_write_as() for its arguments.
 */
LK_API lk_status lk_format_written(const char *format, const char *options, const char *path,
                                   lk_arena *arena, const char **out) LK_NODISCARD;

/* ---- loaders ---- */

typedef enum lk_normalise {
    LK_NORMALISE_AUTO,    /* as UNIT for bytes, as NONE for other dtypes */
    LK_NORMALISE_NONE,    /* values as they are */
    LK_NORMALISE_UNIT,    /* divided by 255 */
    LK_NORMALISE_STANDARD /* as AUTO, then (value - mean) / std of its channel */
} lk_normalise;

/** How to make batches; lk_loader_descriptor describes the fields.  Zero is not a valid batch. */
typedef struct lk_loader_options {
    int64_t batch, shards;
    bool shuffle;
    int normalise;             /* lk_normalise */
    lk_option_reals mean, std; /* per channel; none given: measured */
    double scale, shift;
    int64_t crop;
    bool flip, one_hot;
    double samples;         /* not read by loaders: for lk_dataset_sample() */
    double validation;      /* not read by loaders: for lk_dataset_split() */
    int64_t shuffle_buffer; /* samples; 0: all are permuted, of a stream as many as take 128 MiB */
    int64_t prefetch, readers; /* readers 0: one */
    int64_t keep;              /* MiB up to which a set of files is kept in memory; 0: none */
    const char *cache;         /* see lk_loader_set_cache(); NULL: none */
    lk_dtype dtype;            /* f32 or f64; not in the table, because it is the run's */
    /* Not 0: field "x" is whole numbers below this, as lk_model_index_limit() says; not in the table,
     * because it is the model's. */
    int64_t indices;
    int64_t ranks; /* that share the memory of this machine; 0: one; not in the table */
} lk_loader_options;

/** The table of lk_loader_options, with its defaults. */
LK_API extern const lk_descriptor lk_loader_descriptor;

/** Makes batches of a dataset.  A job makes one for each split, or the program does, and trainers read
 * them; one thread at a time calls it, and threads of its own prepare batches.  Not collective. */
typedef struct lk_loader lk_loader;

/**
 * Make a loader, with the options of lk_loader_descriptor as lk_options_parse() reads them, such as
 * "batch=50 shards=4"; NULL: all defaults.  Its dtype is f32; for f64, or for whole numbers, there is
 * lk_loader_new_options().
 *
 * Field "x" is converted to the dtype of the options and normalised: with the channel c on its last
 * axis, value * a[c] is rounded, then + b[c], with a and b rounded to the dtype from
 *
 *   a = scale * u / std[c],   b = shift - scale * mean[c] / std[c]       (u: 1/255 or 1)
 *
 * in double; where all a are 1 and all b are 0, values are only converted.  Measured means and
 * deviations are over all positions of all samples: per channel one chain of doubles over a sample's
 * values, and one chain over the samples; a deviation of 0 counts as 1.  Random crop moves an image
 * by up to `crop` in each direction and fills with value 0 before normalisation; flip mirrors the
 * columns of every second one.  Both draw at (epoch, sample) of the streams (seed, "data", "crop")
 * and (seed, "data", "flip").
 *
 * With `indices`, "x" stays whole numbers instead: i32 if the set has u8 or i32, else i64.  Reals are
 * accepted where they are whole and their dtype tells all whole numbers up to them apart.  Options of
 * normalisation are errors then; each value is checked when its batch is made.
 *
 * Field "y" becomes i64 if it has classes, or one-hot rows of the dtype; otherwise the dtype.  Other
 * fields stay as they are.  Position p of an epoch is sample p, or with shuffle sample p of the
 * permutation of (seed, "data", "shuffle") at the epoch; with shuffle_buffer, and of a stream, it is as
 * docs/reference/data.md says.
 *
 * Of an empty set the batches have positions, sizes and order, but no fields; x and y are NULL, nothing
 * is prepared ahead, and options about values change nothing: give those of the set that it stands for.
 *
 * A small set of files is kept in memory, as the option `keep` says: the first read of a batch then reads
 * all samples, and later ones no file.
 *
 * Retains `ds`.  The caller owns `*out`, which keeps nothing of the text.
 *
 * Errors: those of lk_options_parse(); LK_EINVAL for options that do not fit the set: no field "x" among its
 * fields, no sample, means for another number of channels, crop or flip of what is no image, one_hot without
 * classes, normalised indices; while measuring: as lk_dataset_read(); LK_ENOMEM.
 */
LK_API lk_status lk_loader_new(lk_dataset *ds, const char *options, int64_t seed,
                               lk_loader **out) LK_NODISCARD;

/** As lk_loader_new(), from a struct, which is copied: fill it by lk_options_parse(), or name all fields
 * that must not be zero. */
LK_API lk_status lk_loader_new_options(lk_dataset *ds, const lk_loader_options *options,
                                       int64_t seed, lk_loader **out) LK_NODISCARD;

/**
 * A loader of another set, for evaluation: batch, dtypes and normalisation as `train`, measured ones
 * included, but in order, without crop and flip.
 *
 * Retains `ds`.  The caller owns `*out`.  Errors: as lk_loader_new(), and LK_ESHAPE when fields have
 * other shapes or dtypes than those of that loader's set, and when one of the two sets is empty.
 */
LK_API lk_status lk_loader_new_like(const lk_loader *train, lk_dataset *ds,
                                    lk_loader **out) LK_NODISCARD;

/** Stops its threads and frees its memory, that of the last batch included.  NULL is allowed. */
LK_API void lk_loader_free(lk_loader *loader);

/** The set it reads; borrowed. */
LK_API lk_dataset *lk_loader_dataset(const lk_loader *loader);

/** Batches of an epoch, the last, partial one included. */
LK_API int64_t lk_loader_batches(const lk_loader *loader);

/** Samples of batch `number` of an epoch: the batch of the options, or fewer in the last one. */
LK_API int64_t lk_loader_batch_size(const lk_loader *loader, int64_t number);

/** Samples of a shard: batch / shards, rounded up. */
LK_API int64_t lk_loader_shard_size(const lk_loader *loader);

/** Shards of a whole batch: as many as shards, or fewer where rounding up leaves some empty. */
LK_API int64_t lk_loader_shards(const lk_loader *loader);

/** The same, from options, before the loader exists.  `options` has a batch and shards of at least 1. */
LK_API int64_t lk_loader_options_shards(const lk_loader_options *options);

/**
 * What field f of a batch is: its name, dtype and the shape of one row, that of the box if one is set.  The
 * name of a field that does not exist is "".
 */
LK_API lk_field lk_loader_field(const lk_loader *loader, int f);

/** The same without a box: what a batch of whole samples has. */
LK_API lk_field lk_loader_whole_field(const lk_loader *loader, int f);

/**
 * From the next read on, give a box of each sample's field `field` instead of all of it; NULL: all of it
 * again.
 *
 * The box is one of the field as the dataset has it (an axis of one_hot labels is always whole).  Batches
 * have [n, sizes of the box...] of that field, bit for bit the box of what the whole would be: means,
 * crops and flips are those of the whole sample, and of it only what the box needs is read.  A box may be
 * empty, and may cut channels.
 *
 * What was prepared ahead for another box is dropped; the last batch stays until the next read.  The same
 * thread calls this as lk_loader_read_batch().  A loader of lk_loader_new_like() begins without boxes.
 *
 * Errors: LK_EINVAL for a field that does not exist, and for a box that does not lie in it or has other axes.
 */
LK_API lk_status lk_loader_set_box(lk_loader *loader, int field, const lk_box *box) LK_NODISCARD;

/**
 * From the next read on, read from a file that holds what this loader gives of every sample: the box of each
 * field and, with crop and flip, whatever they can move into it.
 *
 * In `path` {rank} and {size} are replaced by these texts, such as "3" and "2x2"; NULL: the path of the
 * options, "": no file.  Without this call a path of the options has "0" and "1".  Behind the path of a
 * validation or test set comes ".validation" or ".test", behind that of another loader of
 * lk_loader_new_like() ".eval".
 *
 * The next read makes the file if it is not there, under another name until it is complete, and else checks
 * all of it: the hash of the set's content, boxes, crop and flip, and a checksum.  What does not fit is
 * refused with LK_EIO by a message that names the file, and never used.  Setting a box asks for another file:
 * set boxes first, then the cache.
 *
 * The same thread calls this as lk_loader_read_batch().  Errors: LK_EINVAL without `rank` or `size`, and, by
 * the next read, for several tiles and a path without {rank}; LK_ENOMEM.
 */
LK_API lk_status lk_loader_set_cache(lk_loader *loader, const char *path, const char *rank,
                                     const char *size) LK_NODISCARD;

/** The box that is given of a field; all of it if none is set.  The field exists. */
LK_API lk_box lk_loader_box(const lk_loader *loader, int field);

/** The seed of its order, crops and flips. */
LK_API int64_t lk_loader_seed(const lk_loader *loader);

/** From the next read on, have the order, crops and flips of another seed.  What was prepared ahead is
 * dropped; the same thread calls this as lk_loader_read_batch(). */
LK_API void lk_loader_set_seed(lk_loader *loader, int64_t seed);

/** A part of a batch; borrowed until the next lk_loader_read_batch() and lk_loader_free(). */
typedef struct lk_batch {
    int64_t epoch, number;
    int64_t size;         /* samples of the whole batch */
    int64_t first, n;     /* positions of the batch that are here */
    const int64_t *index; /* their samples in the dataset */
    lk_tensor *x, *y;     /* [n, ...]; y is NULL if there is none, both are of an empty set */
    int n_fields;
    lk_tensor *field[LK_MAX_FIELDS]; /* all of them, x and y among them */
} lk_batch;

/**
 * Positions first ... first + n - 1 of batch `number` of `epoch`.
 *
 * Without shuffle, crop and flip all epochs are the same.  While one part is used, the loader's threads (as
 * many as `readers`) prepare the same positions of the following batches (as many as `prefetch`), so ask for
 * them in order; any other order is right as well, only slower.  After a batch or two of each size, nothing
 * is allocated.  One thread at a time may call this.
 *
 * Errors: LK_EINVAL unless epoch >= 0, the batch exists and the positions are in it; those of
 * lk_dataset_read(), also when they occurred on a thread of the loader; LK_EIO for a label or an index that
 * is out of range, naming sample and value; LK_ENOMEM.
 */
LK_API lk_status lk_loader_read_batch(lk_loader *loader, int64_t epoch, int64_t number,
                                      int64_t first, int64_t n, lk_batch *out) LK_NODISCARD;

/* ---- loops over batches ---- */

/** Where a loop is: `step` steps are done, the next is batch `batch` of `epoch`.  Where batch is 0, the
 * last step has ended an epoch. */
typedef struct lk_position {
    int64_t step, epoch, batch;
    int64_t batches; /* of an epoch */
} lk_position;

/** How often something happens: every `n` epochs or steps; n 0: never. */
typedef struct lk_period {
    int64_t n;
    bool steps; /* counted in steps, not in epochs */
} lk_period;

/** Whether it is time for what happens so often, at a place between two steps; before the first it is not. */
LK_API bool lk_period_is_due(lk_period period, const lk_position *at);

LK_END_DECLS

#endif /* LK_DATA_H */
