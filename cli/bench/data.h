/* Sets of records of CIFAR's size for `lockstep bench data`, and loaders that read them; copies of memory to
 * compare with.  Any thread; not collective. */
#ifndef LK_CLI_BENCH_DATA_H
#define LK_CLI_BENCH_DATA_H

#include "scratch.h"

#include <lockstep/data.h>
#include <lockstep/tensor.h>

/* Samples of a batch; bytes of a sample: an image of 32x32x3 bytes and its label. */
enum {
    DATA_BATCH = 128,
    DATA_BYTES = 32 * 32 * 3 + 1,
    DATA_PATH = SCRATCH_PATH,
    DATA_MOST_READERS = 64
};

/* How records are read. */
typedef struct data_case {
    const char *name;
    const char *files;  /* of a folder: the pattern of its names */
    const char *format; /* further options of the format */
    const char *loader; /* of the loader */
} data_case;

extern const data_case data_cases[]; /* the last has no name */

/** Make a folder below `parent`, NULL: TMPDIR or /tmp, with `samples` samples as plain and as packed
 * records; scratch_remove() removes it. */
lk_status data_folder_make(const char *parent, int64_t samples,
                           char folder[DATA_PATH]) LK_NODISCARD;

/* A loader, and where it is. */
typedef struct data_side {
    lk_dataset *ds;
    lk_loader *loader;
    int64_t next; /* batch */
} data_side;

lk_status data_side_open(const char *folder, const data_case *c, int readers,
                         data_side *out) LK_NODISCARD;

void data_side_close(data_side *s);

/** Read `n` batches, on from the last, and say how long that took. */
lk_status data_side_read(data_side *s, int64_t n, double *seconds) LK_NODISCARD;

/** The same by `copies` of them at once, each on a thread of its own: what the slowest takes for `n` each. */
lk_status data_copies_read(data_side *s, int copies, int64_t n, double *seconds) LK_NODISCARD;

/* Two blocks of memory, larger than most caches, whose pages are there: both have been written. */
typedef struct data_blocks {
    lk_tensor *from, *to;
} data_blocks;

/** data_blocks_free() also after a failure. */
lk_status data_blocks_new(data_blocks *out) LK_NODISCARD;

void data_blocks_free(data_blocks *b);

/** Copy as many bytes as `n` batches have from one block to the other, which is gone through again and again. */
lk_status data_memory_copy(const data_blocks *b, int64_t n, double *seconds) LK_NODISCARD;

#endif /* LK_CLI_BENCH_DATA_H */
