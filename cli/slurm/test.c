/* lockstep slurm --test: whether the ranks of a job compute, and reach each other.
 *
 *     [1 2 3]   [1 2]   [22 28]
 *     [4 5 6] x [3 4] = [49 64]      on every rank; the sum over P ranks is P times that
 *               [5 6]
 *
 * By the kernels of the library, on the host of each rank, and by its allreduce.  All numbers are exact in
 * f32, so that any other bit is an error.
 */
#include "ranks.h"
#include "report.h"
#include "slurm/slurm.h"
#include "term.h"
#include "verb.h"

#include <lockstep/coll.h>
#include <lockstep/extra/alloc.h>
#include <lockstep/extra/gemm.h>
#include <lockstep/topology.h>

#include <stdio.h>

enum { ELEMENTS = 4, TEXT = 128 };

/* What a rank has found. */
typedef struct finding {
    float product[ELEMENTS], sum[ELEMENTS];
} finding;

enum { FLOATS = sizeof(finding) / sizeof(float) };

static const float expected[ELEMENTS] = {22, 28, 49, 64};

static lk_status product_make(finding *own)
{
    static const float a[] = {1, 2, 3, 4, 5, 6};
    const lk_gemm g = {.dtype = LK_F32, .m = 2, .n = 2, .k = 3, .lda = 3, .ldb = 2, .ldc = 2};
    return LK_TRACE(lk_gemm_run(&g, a, a, NULL, own->product));
}

static bool is_right(const finding *of, int size)
{
    for (int i = 0; i < ELEMENTS; i++)
        if (of->product[i] != expected[i] || of->sum[i] != (float)size * expected[i])
            return false;
    return true;
}

static const char *matrix_text(const float *m, char out[TEXT])
{
    snprintf(out, TEXT, "[[%.9g,%.9g],[%.9g,%.9g]]", (double)m[0], (double)m[1], (double)m[2],
             (double)m[3]);
    return out;
}

static const report_column columns[] = {{"rank", "rank", 0},
                                        {"host", "host", -1},
                                        {"product", "product", -1},
                                        {"sum", "sum over ranks", -1},
                                        {"right", "result", -1}};

static void rows_print(const lk_topology *t, const finding *all, bool json)
{
    report out;
    char product[TEXT], sum[TEXT];
    report_keep(&out, columns, sizeof columns / sizeof columns[0], json);
    for (int r = 0; r < t->size; r++) {
        bool right = is_right(&all[r], t->size);
        report_row(&out, (report_cell[]){cell_int(r), cell_text(t->location[r].host),
                                         cell_text(matrix_text(all[r].product, product)),
                                         cell_text(matrix_text(all[r].sum, sum)),
                                         cell_bool(right, right ? "right" : "wrong", NULL)});
    }
    report_end(&out);
    if (!json)
        printf("\n%d rank%s on %d host%s\n", t->size, plural(t->size), t->n_nodes,
               plural(t->n_nodes));
}

/* Every rank knows what all have found, and returns the same. */
static int judge(const char *command, const lk_topology *t, const finding *all, bool json)
{
    char right[TEXT];
    int wrong = 0;
    for (int r = 0; r < t->size; r++)
        wrong += !is_right(&all[r], t->size);
    if (t->rank == 0)
        rows_print(t, all, json);
    if (wrong == 0)
        return LK_EXIT_DONE;
    (void)verb_refuse("%s: %d rank%s of %d computed something else than %s, or than %d times that",
                      command, wrong, plural(wrong), t->size, matrix_text(expected, right),
                      t->size);
    return LK_EXIT_FAILED;
}

static lk_status exchange(lk_comm *comm, lk_topology **t, finding **all)
{
    finding own = {.product = {0}};
    LK_TRY(lk_agree(comm, lk_alloc(all, lk_comm_size(comm), sizeof **all)));
    LK_TRY(lk_topology_new(comm, NULL, t));
    LK_TRY(lk_agree(comm, product_make(&own)));
    LK_TRY(lk_allreduce(comm, own.product, own.sum, ELEMENTS, LK_F32, LK_REDUCE_SUM, "product"));
    return LK_TRACE(lk_allgather(comm, &own, *all, FLOATS, LK_F32, "findings"));
}

int slurm_test(const char *command, bool json)
{
    lk_comm *comm;
    lk_topology *t = NULL;
    finding *all = NULL;
    int status = ranks_open(&comm);
    if (status == LK_EXIT_DONE)
        status = exchange(comm, &t, &all) == LK_OK ? judge(command, t, all, json) : verb_failed();
    lk_topology_free(t);
    lk_free(all);
    ranks_close(comm);
    return status;
}
