/* The parts of matrix multiplication: arguments, a plan that cuts C into blocks, and one way to
 * compute a block for each way A and B are stored.
 *
 * A task is one block: `block_rows` rows of one product by one panel of columns.  Consecutive tasks
 * are panels of the same rows.
 */
#ifndef LK_KERNEL_GEMM_H
#define LK_KERNEL_GEMM_H

#include "kernel/cross.h"
#include "kernel/maps.h"

#include <lockstep/extra/gemm.h>

/* Bytes of the packed operands that a task keeps on its stack; columns of a panel of one row; rows
 * of a block of a narrow C. */
enum { LK_GEMM_ROOM = 96 * 1024, LK_GEMM_ROW_PANEL = 64, LK_GEMM_NARROW_ROWS = 256 };

typedef struct lk__gemm_job {
    lk_gemm g;
    lk_gemm_batch batch;
    int64_t elem; /* bytes of one element */
    const char *a, *b, *bias;
    char *c;
    lk__start start;
    lk__act_fn *act; /* NULL: none */
    const lk__rows_type *rows;
    const lk__cross_type *cross;
    lk__gemv_fn *gemv;
    int64_t block_rows, n_blocks; /* blocks of rows in one product */
    int64_t panel, n_panels;      /* columns of every panel but the last */
    int64_t n_chunks;             /* of k, by rows: such that a packed panel fits the room */
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

/* Tasks, by how op(A) is read: by rows, by columns, by columns for a narrow C, or as one row. */
void lk__gemm_by_rows(void *job, int64_t first, int64_t last);
void lk__gemm_by_columns(void *job, int64_t first, int64_t last);
void lk__gemm_narrow(void *job, int64_t first, int64_t last);
void lk__gemm_one_row(void *job, int64_t first, int64_t last);

/** to[i] = from[i] + to[i] for i < n: a join whose first operand is `from`. */
void lk__gemm_add(lk_dtype dtype, void *to, const void *from, int64_t n);

/** The most rows of op(A) that a block of lk__gemm_by_columns() may have. */
int64_t lk__gemm_columns_rows(const lk__gemm_job *job);

/** A panel from column j on, k in pieces; op(A) is A. */
void lk__gemm_pieces(const lk__gemm_job *job, const lk__gemm_run *run, int64_t j);

static inline int64_t lk__min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* a / b rounded up. */
static inline int64_t lk__parts(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

#endif /* LK_KERNEL_GEMM_H */
