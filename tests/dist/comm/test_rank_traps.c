/* Collectives, jobs and checks of gradients on ranks that trap: none raises a signal, and flags and
 * traps are left alone. */
#include "ranks.h"
#include "traps.h"

#include <lockstep/extra/algorithms.h>
#include <lockstep/extra/dist_check.h>
#include <lockstep/lockstep.h>

enum { COUNT = 1031, FEW = 3 }; /* more ranks than a few show nothing more of a job */

/* Folds of real numbers, also of halves, begun and waited for at once. */
static void folds_run(lk_comm *comm, lk_dtype dtype, int sort)
{
    static const lk_reduce_op fold[] = {LK_REDUCE_SUM, LK_REDUCE_PROD, LK_REDUCE_MIN, LK_REDUCE_MAX,
                                        LK_REDUCE_AVG};
    lk_tensor *real, *given = NULL;
    void *data, *out;
    ASSERT_OK(lk_tensor_new(LK_F32, LK_SHAPE(COUNT), &real));
    ASSERT_OK(lk_tensor_writable_data(real, &data));
    traps_fill(LK_F32, sort, COUNT, data);
    ASSERT_OK(lk_tensor_clone(real, dtype, &given));
    ASSERT_OK(lk_alloc(&out, COUNT, lk_dtype_size(dtype)));
    for (int k = 0; k < 5; k++) {
        const void *in = lk_tensor_data(given);
        if (!lk_dtype_is_real(dtype) && (fold[k] == LK_REDUCE_MIN || fold[k] == LK_REDUCE_MAX))
            continue;
        TRAPPING(lk_allreduce(comm, in, out, COUNT, dtype, fold[k], "a"), "%s of %s %s numbers",
                 lk_reduce_op_name(fold[k]), traps_sort_name[sort], lk_dtype_name(dtype));
        TRAPPING(lk_reduce(comm, in, out, COUNT, dtype, fold[k], 0, "b"), "%s of %s %s numbers",
                 lk_reduce_op_name(fold[k]), traps_sort_name[sort], lk_dtype_name(dtype));
    }
    lk_free(out);
    lk_tensor_free(real);
    lk_tensor_free(given);
}

RANKS_TEST(folds_do_not_trap)
{
    static const lk_dtype dtype[] = {LK_F32, LK_F64, LK_F16, LK_BF16};
    for (int sort = 0; sort < N_TRAPS_SORTS; sort++)
        for (int k = 0; k < 4; k++)
            folds_run(comm, dtype[k], sort);
}

/* Whatever joins the vectors, at once and begun: there the join runs inside of lk_wait(). */
RANKS_TEST(no_algorithm_traps)
{
    static const int64_t count[] = {1, COUNT, 40 * COUNT};
    lk_coll_info a;
    float *in, *out;
    ASSERT_OK(lk_alloc(&in, 40 * COUNT, sizeof *in));
    ASSERT_OK(lk_alloc(&out, 40 * COUNT, sizeof *out));
    for (int i = 0; lk_coll_list(i, &a); i++)
        for (int k = 0; k < 6 && strcmp(a.call, "allreduce") == 0 && !a.benchmark_only; k++) {
            lk_collective c = {.call = LK_CALL_ALLREDUCE,
                               .name = "a",
                               .algorithm = a.name,
                               .in = in,
                               .out = out,
                               .count = count[k % 3],
                               .dtype = LK_F32,
                               .op = k < 3 ? LK_REDUCE_SUM : LK_REDUCE_AVG};
            const char *selected;
            lk_request *r = NULL;
            traps_fill(LK_F32, (i + k) % N_TRAPS_SORTS, c.count, in);
            if (lk_coll_selected(comm, &c, &selected) != LK_OK) {
                lk_error_clear();
                continue;
            }
            TRAPPING(lk_coll_run(comm, &c), "%s of %lld numbers", a.name, (long long)c.count);
            traps_begin("%s of %lld numbers, begun", a.name, (long long)c.count);
            lk_status st = lk_coll_start(comm, &c, &r);
            st = st == LK_OK ? lk_wait(&r, NULL) : st;
            traps_end();
            ASSERT_TRUE(st == LK_OK || st == LK_ENOTSUP); /* some run only at once */
            lk_error_clear();
        }
    lk_free(in);
    lk_free(out);
}

static lk_status job_train(lk_comm *comm, const char *rate)
{
    static const char text[] =
        "data: {type: glyphs, count: 40, test_count: 20, shape: [8, 8, 1], batch: 16, shards: 8}\n"
        "model:\n"
        "  - {type: conv, filters: 4, kernel: 3}\n"
        "  - batch_norm\n"
        "  - relu\n"
        "  - flatten\n"
        "  - {type: linear, units: 10}\n"
        "loss: softmax_cross_entropy\n"
        "metrics: [accuracy, confusion]\n"
        "optimizer: {type: sgd, rate: 0.1}\n"
        "train: {epochs: 2}\n";
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    lk_status st = lk_experiment_parse("x.yaml", text, (const char *[]){rate}, 1, &e);
    if (st == LK_OK)
        st = lk_job_new(e, comm, &job);
    if (st == LK_OK)
        st = lk_job_run(job, NULL, NULL);
    lk_job_free(job);
    lk_experiment_free(e);
    return st;
}

RANKS_TEST(jobs_do_not_trap)
{
    if (lk_comm_size(comm) > FEW)
        return;
    TRAPPING(job_train(comm, "optimizer.rate=0.1"), "%s", "a job");
    traps_begin("%s", "a job without numbers");
    lk_status st = job_train(comm, "optimizer.rate=1e30");
    traps_end();
    ASSERT_TRUE(st != LK_OK && strstr(lk_error_message(), "step"));
    lk_error_clear();
}

RANKS_TEST(checks_of_gradients_do_not_trap)
{
    for (int i = 0; lk_dist_checks[i]; i++) {
        lk_gradcheck_result r;
        if (i % 5 == 0 && lk_comm_size(comm) <= FEW)
            TRAPPING(lk_gradcheck_dist(comm, lk_dist_checks[i], 1, 1e-6, &r), "gradcheck of %s",
                     lk_dist_checks[i]->name);
    }
}
