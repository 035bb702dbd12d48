/* Files that runs leave behind: weights, metrics and reports.
 *
 * Weights are `.safetensors`: 8 bytes with the length of a JSON header, the header, the tensors one
 * behind the other, little-endian.  Other tools open them.  What is read is not trusted: names,
 * shapes and places are checked before memory is taken, and errors name file and offset.
 *
 * A file that is written takes its name when it is complete and on disk: no half of one is ever found.
 * A symbolic link of that name is replaced, its target is never written to.
 *
 * Not collective, but for lk_weights_save() with a communicator.
 */
#ifndef LK_IO_H
#define LK_IO_H

#include <lockstep/comm.h>
#include <lockstep/nn.h>
#include <lockstep/pieces.h>

LK_BEGIN_DECLS

/* ---- safetensors ---- */

/** A tensor with its name. */
typedef struct lk_named_tensor {
    const char *name;
    lk_tensor *tensor;
} lk_named_tensor;

/** A text with its name, for the header. */
typedef struct lk_metadata {
    const char *name, *text;
} lk_metadata;

/**
 * Write tensors to `path`, in this order.
 *
 * `metadata` are `n_metadata` texts for the header's "__metadata__".  Dtypes become F32, F64, F16, BF16,
 * I32, I64 and U8.
 *
 * Errors: LK_EINVAL for a name that is empty, given twice, not UTF-8 or "__metadata__", and for
 * names and metadata that need more than 16 MiB; LK_EIO, LK_ENOMEM.
 */
LK_API lk_status lk_safetensors_write(const char *path, const lk_named_tensor *tensor, int64_t n,
                                      const lk_metadata *metadata, int64_t n_metadata) LK_NODISCARD;

/** A file that is open for reading, made by the program that reads one; any thread may read.  Not
 * collective. */
typedef struct lk_safetensors lk_safetensors;

/**
 * Open a file and check its header.  The caller owns `*out`.
 *
 * Errors: LK_EIO for a file that cannot be read or is damaged: header of more than 16 MiB or beyond
 * the end, wrong JSON, names given twice, tensors that overlap, leave holes or do not fill the
 * file, shapes that do not have the bytes they claim; LK_ENOTSUP for a dtype that is not in the
 * list above; LK_ENOMEM.
 */
LK_API lk_status lk_safetensors_open(const char *path, lk_safetensors **out) LK_NODISCARD;

/** NULL is allowed. */
LK_API void lk_safetensors_close(lk_safetensors *file);

/** What tensor `i` of a file is; `name` is borrowed. */
typedef struct lk_safetensors_info {
    const char *name;
    lk_dtype dtype;
    lk_shape shape;
    int64_t offset, bytes; /* in the file */
} lk_safetensors_info;

/** Tensors in the file. */
LK_API int64_t lk_safetensors_count(const lk_safetensors *file);

/** Tensor `i`, in the order of their places.  Errors: LK_EINVAL when there is no such. */
LK_API lk_status lk_safetensors_at(const lk_safetensors *file, int64_t i,
                                   lk_safetensors_info *out) LK_NODISCARD;

/** The number of the tensor of this name, -1 if there is none. */
LK_API int64_t lk_safetensors_find(const lk_safetensors *file, const char *name);

/** The text of "__metadata__" of this name; NULL if there is none.  Borrowed. */
LK_API const char *lk_safetensors_metadata(const lk_safetensors *file, const char *name);

/** Texts of "__metadata__" in the file, sorted by name. */
LK_API int64_t lk_safetensors_metadata_count(const lk_safetensors *file);

/** Number `i` of them.  Errors: LK_EINVAL when there is no such. */
LK_API lk_status lk_safetensors_metadata_at(const lk_safetensors *file, int64_t i,
                                            lk_metadata *out) LK_NODISCARD;

/** Read tensor `i` into `out`, which has its dtype and shape and is contiguous.
 * Errors: LK_ESHAPE, LK_EDTYPE, LK_EIO. */
LK_API lk_status lk_safetensors_read(const lk_safetensors *file, int64_t i,
                                     lk_tensor *out) LK_NODISCARD;

/** Read a box of tensor `i` to `data`, its elements row-major without gaps, in the file's dtype; NULL:
 * all of it.  Takes a MiB of memory besides.  Errors: LK_ESHAPE when the box is not within the tensor;
 * LK_EINVAL, LK_EIO, LK_ENOMEM. */
LK_API lk_status lk_safetensors_read_box(const lk_safetensors *file, int64_t i, const lk_box *box,
                                         void *data) LK_NODISCARD;

/* ---- named tensors in files of several formats ----
 *
 * The suffix says which: ".safetensors", ".npz" or ".npy".  A .npy file holds one array, which is
 * named after the file: "a/bias.npy" is "bias".  NumPy's formats know neither bf16 nor metadata.
 */

/** All tensors of a file, in memory; fields are to be read.  Made by lk_tensors_load() for the caller;
 * several threads may read it.  Not collective. */
typedef struct lk_tensors {
    int64_t n;
    lk_named_tensor *tensor; /* sorted by name */
    int64_t n_metadata;
    lk_metadata *metadata; /* sorted by name */
    lk_arena *arena;       /* of the names and texts */
} lk_tensors;

/**
 * Read all tensors of a file, or of a checkpoint (checkpoint.h): its folder, or one that holds
 * several, of which the newest that verifies is read.  The metadata of a checkpoint is "step",
 * "identity", "state", "number.NAME" and "metadata.NAME".  The caller owns `*out`.
 *
 * A file of another suffix is read if its first bytes are those of safetensors.
 *
 * Errors: LK_EINVAL for a file that is none of these; LK_EIO for a file that cannot be read, is
 * damaged or has a name that is not UTF-8 or there twice; LK_ENOTSUP for types that are not read;
 * LK_ENOMEM.
 */
LK_API lk_status lk_tensors_load(const char *path, lk_tensors **out) LK_NODISCARD;

/** NULL is allowed. */
LK_API void lk_tensors_free(lk_tensors *tensors);

/**
 * Write tensors to a file; metadata is left out where the format has none.
 *
 * Errors: LK_EINVAL for a suffix that is none of these, and unless a .npy file is given one tensor;
 * those of lk_safetensors_write(); LK_ENOTSUP for what the format cannot hold.
 */
LK_API lk_status lk_tensors_save(const char *path, const lk_named_tensor *tensor, int64_t n,
                                 const lk_metadata *metadata, int64_t n_metadata) LK_NODISCARD;

/** The tensor of this name, borrowed; NULL if there is none. */
LK_API lk_tensor *lk_tensors_find(const lk_tensors *tensors, const char *name);

/** Names, dtypes, shapes and values as 64 bits, in the order of names: what the file is called and
 * how it is written does not matter. */
LK_API uint64_t lk_tensors_hash(const lk_tensors *tensors);

/* ---- weights of a model ---- */

/**
 * Write parameters and state of a model.  Rank 0 writes the file, which is the same however the tensors are
 * distributed.
 *
 * Collective over `comm`, whose ranks hold all of the model together; NULL: this process alone does.
 * Takes some MiB of memory.  Errors: as lk_safetensors_write_boxes() (checkpoint.h); LK_ESTATE when the
 * model holds nothing.
 */
LK_API lk_status lk_weights_save(lk_comm *comm, const lk_model *model, const char *path,
                                 const lk_metadata *metadata, int64_t n_metadata) LK_NODISCARD;

/**
 * Read what a model holds of its parameters and state, from what lk_tensors_load() reads; values are
 * converted if the file has another dtype.  Of a checkpoint (checkpoint.h) the tensors that the model
 * does not know are left out.
 *
 * Not collective: each rank reads what it holds.  Takes the memory of that once more, never that of
 * a whole tensor of which a part is held.
 *
 * Nothing is changed unless all fit.  Errors: LK_EINVAL naming a tensor that the file lacks (and a
 * similar one it has), or one that the model does not know; LK_ESHAPE naming both; LK_EDTYPE for
 * integers; those of lk_tensors_load().
 */
LK_API lk_status lk_weights_load(lk_model *model, const char *path) LK_NODISCARD;

/** As lk_weights_load(), of a file of several models, whose names begin with `prefix` ("0.1." for component 1
 * of rank 0 of a chain list); tensors whose names do not are left out. */
LK_API lk_status lk_weights_load_prefix(lk_model *model, const char *path,
                                        const char *prefix) LK_NODISCARD;

/* ---- metrics, while a run goes on ----
 *
 * These files grow line by line and record by record, each written whole before the call returns:
 * readers can follow the file.  With `append`, a file that is there goes on; what an interrupted run
 * left of a last line or record is cut off, and a symbolic link is refused.  Without, it begins anew.
 *
 * What cannot be written (LK_EIO) is kept, up to 1 MiB, and written before what comes next, or when
 * the file is closed; closing brings all to disk.
 */

typedef enum lk_kv_type {
    LK_KV_REAL, /* what is not finite becomes null */
    LK_KV_INT,
    LK_KV_TEXT,
    LK_KV_JSON /* a text that is JSON already, on one line */
} lk_kv_type;

/** A value with its name. */
typedef struct lk_kv {
    const char *name;
    lk_kv_type type;
    double real;
    int64_t integer;
    const char *text; /* of LK_KV_TEXT and LK_KV_JSON */
} lk_kv;

static inline lk_kv lk_kv_real(const char *name, double value)
{
    lk_kv kv = {name, LK_KV_REAL, value, 0, NULL};
    return kv;
}

static inline lk_kv lk_kv_int(const char *name, int64_t value)
{
    lk_kv kv = {name, LK_KV_INT, 0, value, NULL};
    return kv;
}

static inline lk_kv lk_kv_text(const char *name, const char *text)
{
    lk_kv kv = {name, LK_KV_TEXT, 0, 0, text};
    return kv;
}

static inline lk_kv lk_kv_json_value(const char *name, const char *json)
{
    lk_kv kv = {name, LK_KV_JSON, 0, 0, json};
    return kv;
}

/** Key-value pairs as one JSON object on one line, in the arena.  Real numbers have the fewest digits that
 * read back as the same.  Errors: LK_EINVAL (NULL, JSON of several lines), LK_ENOMEM. */
LK_API lk_status lk_kvs_json(const lk_kv *kv, int64_t n, lk_arena *arena,
                             const char **out) LK_NODISCARD;

/** A file of JSON lines.  A run opens one on rank 0, for its metrics; one thread at a time.  Not
 * collective. */
typedef struct lk_jsonl lk_jsonl;

/** Open it.  The caller owns `*out`.  Errors: LK_EINVAL, LK_EIO, LK_ENOMEM. */
LK_API lk_status lk_jsonl_open(const char *path, bool append, lk_jsonl **out) LK_NODISCARD;

/** Append pairs as one object on a line of its own.  Errors: as lk_kvs_json(); LK_EIO. */
LK_API lk_status lk_jsonl_add(lk_jsonl *jsonl, const lk_kv *kv, int64_t n) LK_NODISCARD;

/** Close and free it, also after an error.  NULL is allowed.  Errors: LK_EIO. */
LK_API lk_status lk_jsonl_close(lk_jsonl *jsonl) LK_NODISCARD;

/** A number with its name, such as "train/loss": TensorBoard groups by what is before the "/". */
typedef struct lk_scalar {
    const char *name;
    double value; /* written as f32 */
} lk_scalar;

/** An event file of TensorBoard, which takes files with "tfevents" in their names.  A run opens one on
 * rank 0; one thread at a time.  Not collective. */
typedef struct lk_tfevents lk_tfevents;

/** Open it.  The caller owns `*out`.  Errors: LK_EINVAL, LK_EIO, LK_ENOMEM. */
LK_API lk_status lk_tfevents_open(const char *path, bool append, lk_tfevents **out) LK_NODISCARD;

/** Append scalars of a step, with the time of day.  Errors: LK_EINVAL for a negative step and a
 * name that is NULL or not UTF-8; LK_EIO, LK_ENOMEM. */
LK_API lk_status lk_tfevents_add(lk_tfevents *events, int64_t step, const lk_scalar *scalar,
                                 int64_t n) LK_NODISCARD;

/** Close and free it, also after an error.  NULL is allowed.  Errors: LK_EIO. */
LK_API lk_status lk_tfevents_close(lk_tfevents *events) LK_NODISCARD;

/* ---- the report at the end of a run ---- */

/** A curve: y over x, in the order of x.  Where y is not finite, the curve is broken. */
typedef struct lk_curve {
    const char *name; /* "training" */
    const double *x, *y;
    int64_t n;
} lk_curve;

/** Curves that share their axes. */
typedef struct lk_chart {
    const char *title;   /* "loss" */
    const char *x_title; /* "epoch" */
    const lk_curve *curve;
    int64_t n;
} lk_chart;

/** What a report shows.  All but the title may be missing (NULL, 0). */
typedef struct lk_report {
    const char *title, *subtitle;
    const lk_kv *headline; /* the few numbers that matter */
    int64_t n_headline;
    const lk_chart *chart;
    int64_t n_charts;
    const lk_model *model; /* built; its layers become a table */
    const char *confusion; /* JSON, as the metric of this name gives it: [[5,1],[0,4]] */
    const lk_kv *metadata; /* all else about the run */
    int64_t n_metadata;
    const char *experiment; /* the text of the experiment file */
} lk_report;

/**
 * Write a report as one HTML file, which loads nothing from elsewhere and runs no script.
 *
 * Errors: LK_EINVAL for a NULL that may not be one; LK_EIO when `confusion` is no square table of
 * whole numbers, or the file cannot be written; LK_ENOMEM.
 */
LK_API lk_status lk_report_write(const char *path, const lk_report *report) LK_NODISCARD;

LK_END_DECLS

#endif /* LK_IO_H */
