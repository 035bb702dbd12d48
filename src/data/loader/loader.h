/* lk_loader from inside: its options, its ring of slots, and what its threads and the caller's share.
 * For loader*.c, readers.c, keep.c, cache.c, buffers.c, order.c, slot.c, part.c, move.c, normalise.c and
 * indices.c.
 */
#ifndef LK_DATA_LOADER_H
#define LK_DATA_LOADER_H

#include "data/cache/cache.h"
#include "data/loader/buffers.h"

#include <lockstep/data.h>
#include <lockstep/rng.h>

#include <pthread.h>

/* ---- values: from the dtype of the set to that of the run ---- */

/* value * a[c] + b[c], c counting along the last axis, again and again; a and b are of the dtype of the run. */
typedef struct lk__affine {
    int64_t channels; /* numbers of a, and of b */
    bool identity;    /* a is 1 and b is 0: values are only converted */
    void *a, *b;
} lk__affine;

/** What `options` and, for measured statistics, the set say about field `x`.  Release with
 * lk__affine_free(), also after a failure. */
lk_status lk__affine_make(const lk_dataset *ds, int x, const lk_loader_options *options,
                          lk__affine *out) LK_NODISCARD;

lk_status lk__affine_copy(const lk__affine *from, lk_dtype dtype, lk__affine *out) LK_NODISCARD;

void lk__affine_free(lk__affine *f);

/** The map of the channels of a box of field "x", repeated until vectors are full.  Release as that of
 * lk__affine_make(). */
lk_status lk__affine_part(const lk__affine *f, lk_dtype dtype, const lk_box *box,
                          lk__affine *out) LK_NODISCARD;

/** Convert `count` values from one dtype to f32 or f64, with an affine map, whose channels begin with the
 * first value, unless NULL. */
void lk__convert(lk_dtype from, const void *in, lk_dtype to, void *out, int64_t count,
                 const lk__affine *f);

/* ---- whole numbers ---- */

/** The dtype of a batch whose field of dtype `from` is whole numbers. */
lk_dtype lk__index_dtype(lk_dtype from);

/** The values of the box of field "x" of a sample as whole numbers.  Errors: LK_EIO naming sample and
 * value, unless they are, and below options.indices. */
lk_status lk__indices_put(const lk_loader *l, int64_t sample, const void *raw,
                          void *out) LK_NODISCARD;

/* ---- moving images ---- */

/* Crop and flip of one sample: position p of axis i comes from p + shift[i], mirrored before that
 * on the last axis if `flip`. */
typedef struct lk__move {
    int axes; /* of fields that are moved: their first ones, rows and columns or planes as well */
    int64_t dim[3], shift[3];
    bool flip;
} lk__move;

/** Of the whole, what is needed for the box `box` of the moved: as large, or smaller where it comes from
 * outside. */
lk_box lk__move_source(const lk__move *m, const lk_box *box);

/** Move elements of `size` bytes: from the dense array of the box `from`, which has all that is needed, to
 * that of `box`, whose axes behind those that move are the same.  What comes from outside is zero bytes. */
void lk__move_box(const lk__move *m, const lk_box *from, const void *in, const lk_box *box,
                  void *out, size_t size);

/* ---- what is read of a sample ---- */

/* Memory of a reader for one sample at a time; each is NULL where it is not needed. */
typedef struct lk__scratch {
    void *block;
    void *row[LK_MAX_FIELDS];   /* the whole field as the set has it */
    void *part[LK_MAX_FIELDS];  /* the box, or what a moved one comes from */
    void *moved[LK_MAX_FIELDS]; /* the box, moved */
} lk__scratch;

/** The bytes of it with the boxes that the loader gives now.  Errors: LK_EOVERFLOW. */
lk_status lk__scratch_bytes(const lk_loader *l, int64_t *out) LK_NODISCARD;

/** Take the memory that the boxes of a loader need, unless it is there. */
lk_status lk__scratch_prepare(const lk_loader *l, lk__scratch *s) LK_NODISCARD;

/** Give back that of all readers: boxes or the cache are to be others. */
void lk__scratch_drop(lk_loader *l);

/** The box of each field of a sample at an epoch, moved, but not yet converted; in `s`, or where it lies,
 * until the next call.  `row`: where its fields lie, if they are read already; otherwise all NULL. */
lk_status lk__parts_read(const lk_loader *l, const lk__scratch *s, int64_t epoch, int64_t sample,
                         const void *const *row, const void **part) LK_NODISCARD;

/* ---- samples that are kept ---- */

/** The bytes of a set that is kept by a loader with these options, which gives whole samples; 0: it is not.
 * That also depends on the memory that is available now. */
int64_t lk__keep_bytes(const lk_dataset *ds, const lk_loader_options *options);

/** Of the set of a loader, with the boxes that it gives now. */
int64_t lk__keep_loader_bytes(const lk_loader *l);

/** Load the set, unless that was tried before. */
void lk__keep_prepare(lk_loader *l);

/** Give back the memory: boxes or the cache are to be others. */
void lk__keep_drop(lk_loader *l);

/** Where samples are read: the kept set, or that of files. */
const lk_dataset *lk__keep_set(const lk_loader *l);

/* ---- batches ---- */

typedef struct lk__request {
    int64_t epoch, number, first, n;
} lk__request;

enum { LK_LOADER_VIEWS = 2, LK_LOADER_MESSAGE = 512 };

/* Memory for one part of a batch. */
typedef struct lk__loader_slot {
    lk__request request;
    bool ready; /* it is filled, or that has failed */
    lk_status status;
    char message[LK_LOADER_MESSAGE];
    int64_t room;   /* rows */
    int64_t layout; /* of the loader, when they were made */
    int64_t *index;
    lk_tensor *full[LK_MAX_FIELDS]; /* `room` rows */
    char *data[LK_MAX_FIELDS];      /* their first elements */
    int64_t bytes[LK_MAX_FIELDS];   /* of a row */
    struct {
        int64_t n;
        lk_tensor *tensor[LK_MAX_FIELDS]; /* the first n rows of `full` */
    } view[LK_LOADER_VIEWS];
    int next_view; /* to be replaced */
} lk__loader_slot;

/* Who fills slots: a thread of the loader, or, without threads, the caller as the first reader. */
typedef struct lk__reader {
    lk_loader *loader;
    pthread_t thread;
    lk__scratch scratch;
} lk__reader;

struct lk_loader {
    lk_dataset *ds;
    const lk_dataset_info *info;
    lk_loader_options options;
    int64_t seed, classes;
    lk_rng shuffle, crop, flip;
    int x, y;                      /* fields; y is -1 if there is none */
    lk_field field[LK_MAX_FIELDS]; /* of a batch of whole samples */
    lk_box box[LK_MAX_FIELDS];     /* what is given of the set's fields */
    bool boxed[LK_MAX_FIELDS];     /* which is not all of it */
    int64_t layout;                /* how often that has changed */
    lk__affine
        affine;     /* of whole samples; no channels: values are whole numbers, or there are none */
    lk__affine map; /* of the box of x, for lk__convert() */
    bool moves[LK_MAX_FIELDS], moves_any; /* fields that crop and flip move */
    lk__cache cache;
    lk_dataset *kept;   /* all samples in memory; NULL: they stay where they are */
    bool keep_tried;    /* it was found out whether they can be kept */
    int64_t order_size; /* samples of a buffer; 0: there are none */
    lk__buffers buffers;

    lk__loader_slot *slot;
    int n_slots; /* what is prefetched, and one */
    lk__reader *reader;
    int n_readers, started; /* started: of them, threads that run; 0: the caller fills slots */

    /* The ring: `begun` slots from `head` on are prepared, or are being so; the one before `head` is the
     * caller's. */
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    int head, begun, busy;      /* busy: readers that fill a slot */
    bool idle, stop;            /* idle: nothing is begun until the next call */
    lk__request next;           /* what is begun next */
    int64_t part_first, part_n; /* the part that is asked for of a whole batch */
};

/** Start the threads, unless they run; without any, batches are made when they are asked for. */
void lk__readers_start(lk_loader *l);

/** The slot of a request, filled. */
lk__loader_slot *lk__readers_get(lk_loader *l, const lk__request *r);

/** End the threads. */
void lk__readers_stop(lk_loader *l);

/** Let the readers prepare nothing until the next read, and drop what they have. */
void lk__loader_pause(lk_loader *l);

/** The same, and give back memory for samples: boxes or the cache are to be others. */
void lk__loader_forget(lk_loader *l);

/** Fill a slot with what its request asks for. */
lk_status lk__slot_fill(lk_loader *l, lk__reader *reader, lk__loader_slot *s) LK_NODISCARD;

/** The tensors of a slot's request; it has been filled. */
lk_tensor *const *lk__slot_tensors(const lk__loader_slot *s);

void lk__slot_free(lk__loader_slot *s);

#endif /* LK_DATA_LOADER_H */
