/* The parts of matrix multiplication: arguments, a plan that cuts C into blocks, and one way to
 * compute a block for each way A and B are stored.
 *
 * A task is one block: `block_rows` rows of one product by one panel of columns.  Consecutive tasks
 * are panels of the same rows.
 */
#ifndef LK_KERNEL_GEMM_H
#define LK_KERNEL_GEMM_H

#include "base/integer.h"
#include "kernel/cross.h"
#include "kernel/maps.h"

#include <lockstep/extra/gemm.h>

/* Bytes of the packed operands, and of the slots of pieces, that a task keeps on its stack (for which
 * lockstep/thread.h names a limit); columns of a panel of one row; rows of a block of a narrow C. */
enum {
    LK_GEMM_ROOM = 96 * 1024,
    LK_GEMM_SLOTS = 192 * 1024,
    LK_GEMM_ROW_PANEL = 64,
    LK_GEMM_NARROW_ROWS = 256
};

/* Rows that are a multiple of this many bytes apart share a set of the first-level cache, which
 * holds few lines of one set. */
enum { LK_GEMM_SET = 4096 };

typedef struct lk__gemm_job {
    lk_gemm g;
    lk_gemm_batch batch;
    int64_t elem; /* bytes of one element */
    const char *a, *b, *bias;
    char *c;
    lk__start start;
    lk__act_fn *act;  /* NULL: none */
    lk__map2_fn *add; /* with pieces, otherwise NULL */
    const lk__rows_type *rows;
    const lk__cross_type *cross;
    lk__gemv_fn *gemv;
    int64_t block_rows, n_blocks; /* blocks of rows in one product */
    int64_t panel, n_panels;      /* columns of every panel but the last */
    int64_t n_chunks; /* of k or of a piece, by rows: such that a packed panel fits the room */
} lk__gemm_job;

/* A run of tasks in the same rows. */
typedef struct lk__gemm_run {
    const char *a; /* the stored A of this product */
    const char *b;
    char *c;             /* the first row */
    int64_t row, n_rows; /* in op(A) and C */
    int64_t first, last; /* panels */
} lk__gemm_run;

/** The operands' sizes, whether they are there, and that C is apart from them. */
lk_status lk__gemm_check(const lk_gemm *g, const lk_gemm_batch *batch, const void *const in[3],
                         const void *c) LK_NODISCARD;

/** The tasks [*next, last) as far as they are in the same rows; moves *next behind them. */
lk__gemm_run lk__gemm_next(const lk__gemm_job *job, int64_t *next, int64_t last);

/** Apply the activation to columns [first, last) of the rows of a run. */
void lk__gemm_act(const lk__gemm_job *job, const lk__gemm_run *run, int64_t first, int64_t last);

/** Whether lk__gemm_narrow() suits a job. */
bool lk__gemm_is_narrow(const lk__gemm_job *job);

/* Tasks, by how op(A) is read: by rows, by columns, by columns for a narrow C, or row by row. */
void lk__gemm_by_rows(void *job, int64_t first, int64_t last);
void lk__gemm_by_columns(void *job, int64_t first, int64_t last);
void lk__gemm_narrow(void *job, int64_t first, int64_t last);
void lk__gemm_one_row(void *job, int64_t first, int64_t last);

/** The most rows of op(A) that a block of lk__gemm_by_columns() may have. */
int64_t lk__gemm_columns_rows(const lk__gemm_job *job);

/* A block by rows under way: rows.c. */
struct lk__gemm_rows;

/* Where the outputs of a panel go. */
typedef struct lk__gemm_target {
    char *c; /* the first row and column */
    int64_t ldc;
    const int64_t *off; /* elements from there to each row of a tile */
    lk__start start;
} lk__gemm_target;

/** Steps [k0, k1) of the panel from column j on, for all rows of the block. */
void lk__gemm_steps(const struct lk__gemm_rows *b, int64_t j, int64_t k0, int64_t k1,
                    lk__gemm_target to);

/** The panel from column j on, k in pieces. */
void lk__gemm_pieces(const struct lk__gemm_rows *b, const lk__gemm_job *job,
                     const lk__gemm_run *run, int64_t j);

/** The most rows of a block whose panels lk__gemm_pieces() can compute. */
int64_t lk__gemm_pieces_rows(const lk__gemm_job *job);

/* a / b rounded up. */
static inline int64_t lk__parts(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* The tree of reduce.h as a binary counter: the sum of piece i, and of those that it joins, goes to the
 * slot of the lowest zero bit of i, where it waits for the next of its size.  The last of n pieces has a
 * slot of its own while it is computed. */

/* Slots for n pieces. */
static inline int64_t lk__gemm_slots(int64_t n)
{
    int64_t slots = 1;
    while ((n - 1) >> (slots - 1))
        slots++;
    return slots;
}

/* The slot of piece i of n. */
static inline int64_t lk__gemm_level(int64_t i, int64_t n)
{
    return i == n - 1 ? lk__gemm_slots(n) - 1 : __builtin_ctzll(~(unsigned long long)i);
}

/* Bit l is set if piece i of n joins slot l, from the lowest up: the ones below the lowest zero, and for
 * the last piece all that wait. */
static inline int64_t lk__gemm_joins(int64_t i, int64_t n)
{
    return i == n - 1 ? i : i & ~(i + 1);
}

#endif /* LK_KERNEL_GEMM_H */
