/* lk_loader from inside: its options, its ring of slots, and what its thread and the caller's share.
 * For loader.c, slot.c, normalise.c and indices.c.
 */
#ifndef LK_DATA_LOADER_H
#define LK_DATA_LOADER_H

#include <lockstep/data.h>
#include <lockstep/rng.h>

#include <pthread.h>

/* ---- values: from the dtype of the set to that of the run ---- */

/* value * a[c] + b[c], c counting along the last axis; a and b are of the dtype of the run. */
typedef struct lk__affine {
    int64_t channels;
    bool identity; /* a is 1 and b is 0: values are only converted */
    void *a, *b;
} lk__affine;

/** What `options` and, for measured statistics, the set say about field `x`.  Release with
 * lk__affine_free(), also after a failure. */
lk_status lk__affine_make(const lk_dataset *ds, int x, const lk_loader_options *options,
                          lk__affine *out) LK_NODISCARD;

lk_status lk__affine_copy(const lk__affine *from, lk_dtype dtype, lk__affine *out) LK_NODISCARD;

void lk__affine_free(lk__affine *f);

/** Convert `count` values from one dtype to f32 or f64, with an affine map unless NULL. */
void lk__convert(lk_dtype from, const void *in, lk_dtype to, void *out, int64_t count,
                 const lk__affine *f);

/* ---- whole numbers ---- */

/** The dtype of a batch whose field of dtype `from` is whole numbers. */
lk_dtype lk__index_dtype(lk_dtype from);

/** The `n` values of field "x" of a sample as whole numbers.  Errors: LK_EIO naming sample and value,
 * unless they are, and below options.indices. */
lk_status lk__indices_put(const lk_loader *l, int64_t sample, const void *raw, int64_t n,
                          void *out) LK_NODISCARD;

/* ---- moving images ---- */

/* Crop and flip of one sample: position p of axis i comes from p + shift[i], mirrored before that
 * on the last axis if `flip`. */
typedef struct lk__move {
    int64_t dim[3], shift[3]; /* planes, rows, columns */
    bool flip;
} lk__move;

/** Move a row of pixels of `pixel` bytes; what comes from outside is zero bytes. */
void lk__move_row(const lk__move *m, const char *in, char *out, int64_t pixel);

/* ---- batches ---- */

typedef struct lk__request {
    int64_t epoch, number, first, n;
} lk__request;

enum { LK_LOADER_VIEWS = 2, LK_LOADER_MESSAGE = 512 };

/* Memory for one part of a batch. */
typedef struct lk__loader_slot {
    lk__request request;
    lk_status status;
    char message[LK_LOADER_MESSAGE];
    int64_t room; /* rows */
    int64_t *index;
    lk_tensor *full[LK_MAX_FIELDS]; /* `room` rows */
    char *data[LK_MAX_FIELDS];      /* their first elements */
    struct {
        int64_t n;
        lk_tensor *tensor[LK_MAX_FIELDS]; /* the first n rows of `full` */
    } view[LK_LOADER_VIEWS];
    int next_view; /* to be replaced */
} lk__loader_slot;

struct lk_loader {
    lk_dataset *ds;
    const lk_dataset_info *info;
    lk_loader_options options;
    int64_t seed, classes;
    lk_rng shuffle, crop, flip;
    int x, y;                      /* fields; y is -1 if there is none */
    lk_field field[LK_MAX_FIELDS]; /* of a batch */
    lk__affine affine;
    void *row[LK_MAX_FIELDS], *row_block;     /* one sample as the set has it */
    void *moved[LK_MAX_FIELDS], *moved_block; /* the same, moved; NULL if nothing is */
    bool moves_y;

    lk__loader_slot *slot;
    int n_slots; /* prefetch + 1 */

    /* The ring: `ready` slots from `head` on are prepared, the one before `head` is the caller's. */
    pthread_t thread;
    bool threaded;
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    int head, ready;
    bool busy, idle, stop;      /* idle: prepares nothing until the next call */
    lk__request next;           /* what the thread prepares next */
    int64_t part_first, part_n; /* the part that is asked for of a whole batch */
};

/** Fill a slot with what its request asks for. */
lk_status lk__slot_fill(lk_loader *l, lk__loader_slot *s) LK_NODISCARD;

/** The tensors of a slot's request; it has been filled. */
lk_tensor *const *lk__slot_tensors(const lk__loader_slot *s);

void lk__slot_free(lk__loader_slot *s);

#endif /* LK_DATA_LOADER_H */
