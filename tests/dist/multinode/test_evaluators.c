/* Evaluation over ranks: weighted by samples, exact however they are shared out, and the generic one, which
 * gathers what each rank has of each batch.  Sets are dealt out as ChainerMN's tests do: sample i is on rank
 * i mod size; 97 in batches of 7, 9 in batches of 77, and fewer than there are ranks. */
#include "known_sets.h"
#include "ranks.h"

#include <lockstep/coll.h>
#include <lockstep/observe.h>

#include <math.h>

enum { CLASSES = 5 };

static const struct deal {
    int64_t samples, batch;
} deals[] = {{97, 7}, {9, 77}, {3, 2}, {1, 1}};

enum { N_DEALS = sizeof deals / sizeof deals[0] };

/* This rank's samples of a deal, and what goes through them. */
struct shard {
    lk_comm *comm;
    int rank, size;
    int64_t n;
    known_set known;
    lk_dataset *ds;
    lk_loader *loader;
    lk_iterator *it; /* NULL: it has none */
    int fails;       /* evaluating fails in this batch; -1: in none */
    int batches;     /* that were evaluated */
};

static void shard_begin(struct shard *s, lk_comm *comm, const struct deal *d)
{
    char options[64];
    *s = (struct shard){.comm = comm, .fails = -1, .known = {.fails_at = -1}};
    s->rank = lk_comm_rank(comm);
    s->size = lk_comm_size(comm);
    s->n = (d->samples - s->rank + s->size - 1) / s->size;
    if (s->n <= 0)
        return;
    s->ds = known_new(&s->known, s->n, 10);
    snprintf(options, sizeof options, "batch=%lld prefetch=0", (long long)d->batch);
    ASSERT_OK(lk_loader_new(s->ds, options, 3, &s->loader));
    ASSERT_OK(lk_iterator_new(NULL, s->loader, "repeat=false", &s->it));
}

static void shard_end(struct shard *s)
{
    lk_iterator_free(s->it);
    lk_loader_free(s->loader);
    lk_dataset_free(s->ds);
}

/* The number, among all, of a sample of this rank. */
static int64_t global(const struct shard *s, int64_t index)
{
    return index * s->size + s->rank;
}

/* Something whose sum in doubles depends on the order. */
static double rough(int64_t i)
{
    return (i % 3 ? 0.1 : -1e9) * (double)(i + 1) + 1e-7 / (double)(i + 2);
}

/* ---- means ---- */

static lk_status add_squares(void *context, const lk_batch *batch, lk_summary *summary)
{
    struct shard *s = context;
    double squares = 0;
    LK_CHECK(s->batches++ != s->fails, LK_ENOTSUP, "planted in an evaluation");
    for (int64_t k = 0; k < batch->n; k++) {
        double i = (double)global(s, batch->index[k]);
        squares += i * i;
        LK_TRY(lk_summary_add(summary, "rough", rough(global(s, batch->index[k])), 1));
    }
    return LK_TRACE(lk_summary_add(summary, "squares", squares, batch->n));
}

/* The mean of the ranks' means, which is what ChainerMN's evaluator gives. */
static double mean_of_means(const struct shard *s)
{
    double sum = 0;
    for (int64_t k = 0; k < s->n; k++)
        sum += (double)(global(s, k) * global(s, k));
    double mean = s->n > 0 ? sum / (double)s->n : 0;
    ASSERT_OK(lk_allreduce(s->comm, NULL, &mean, 1, LK_F64, LK_REDUCE_AVG, "mean of means"));
    return mean;
}

RANKS_TEST(means_are_over_all_samples)
{
    lk_summary *summary, *alone;
    ASSERT_OK(lk_summary_new(&summary));
    ASSERT_OK(lk_summary_new(&alone));
    for (int d = 0; d < N_DEALS; d++) {
        struct shard s;
        const int64_t n = deals[d].samples;
        double got, want;
        int64_t count;
        shard_begin(&s, comm, &deals[d]);
        for (int twice = 0; twice < 2; twice++) { /* the iterator begins anew */
            ASSERT_OK(lk_multi_node_evaluate(comm, s.it, add_squares, &s, summary));
            ASSERT_EQ(lk_summary_size(summary), 2);
            ASSERT_TRUE(strcmp(lk_summary_name(summary, 0), "rough") == 0);
            ASSERT_TRUE(!lk_summary_name(summary, 2));
            ASSERT_OK(lk_summary_value(summary, "squares", &got));
            want = (double)((n - 1) * (2 * n - 1) * n / 6) / (double)n;
            ASSERT_SAME_BITS(&got, &want, sizeof got);
            ASSERT_OK(lk_summary_count(summary, "squares", &count));
            ASSERT_EQ(count, n);
        }
        if (n % s.size != 0 && n > 1) /* where it is another number */
            ASSERT_TRUE(fabs(mean_of_means(&s) - want) > 1e-6 * want);
        lk_summary_clear(alone);
        for (int64_t i = 0; i < n; i++)
            ASSERT_OK(lk_summary_add(alone, "rough", rough(i), 1));
        ASSERT_OK(lk_summary_join(alone, NULL));
        ASSERT_OK(lk_summary_value(alone, "rough", &want));
        ASSERT_OK(lk_summary_value(summary, "rough", &got));
        ASSERT_SAME_BITS(&got, &want, sizeof got);
        shard_end(&s);
    }
    lk_summary_free(summary);
    lk_summary_free(alone);
}

/* ---- metrics ---- */

/* What a network might give for sample i: scores of classes, often of the label. */
static void answer(int64_t i, float *scores, int64_t *label)
{
    *label = i * 7 % CLASSES;
    for (int c = 0; c < CLASSES; c++)
        scores[c] = (float)((i * 13 + c * 29) % 17) / 4 + (c == *label && i % 2 ? 3.0f : 0.0f);
}

static const struct {
    const char *name, *metric, *options;
} metrics[] = {{NULL, "accuracy", NULL},
               {NULL, "confusion", NULL},
               {"top 2", "top_k", "k=2"},
               {NULL, "top_k", "k=3"},
               {NULL, "misclassification", NULL}};

enum { N_METRICS = sizeof metrics / sizeof metrics[0] };

/* Add `n` samples with these numbers to all metrics. */
static lk_status metrics_add(lk_summary *summary, int64_t n, const int64_t *number)
{
    lk_tensor *y = NULL, *target = NULL;
    void *scores, *labels;
    lk_status st;
    LK_TRY_TO(done, lk_tensor_new(LK_F32, LK_SHAPE(n, CLASSES), &y));
    LK_TRY_TO(done, lk_tensor_new(LK_I64, LK_SHAPE(n), &target));
    LK_TRY_TO(done, lk_tensor_writable_data(y, &scores));
    LK_TRY_TO(done, lk_tensor_writable_data(target, &labels));
    for (int64_t k = 0; k < n; k++)
        answer(number[k], (float *)scores + k * CLASSES, (int64_t *)labels + k);
    for (int m = 0; m < N_METRICS; m++)
        LK_TRY_TO(done, lk_summary_add_metric(summary, metrics[m].name, metrics[m].metric,
                                              metrics[m].options, y, target));
done:
    lk_tensor_free(y);
    lk_tensor_free(target);
    return st;
}

static lk_status add_metrics(void *context, const lk_batch *batch, lk_summary *summary)
{
    int64_t number[128];
    for (int64_t k = 0; k < batch->n; k++)
        number[k] = global(context, batch->index[k]);
    return metrics_add(summary, batch->n, number);
}

RANKS_TEST(metrics_are_those_of_one_rank)
{
    lk_summary *summary, *alone;
    int64_t all[128];
    ASSERT_OK(lk_summary_new(&summary));
    ASSERT_OK(lk_summary_new(&alone));
    for (int64_t i = 0; i < 128; i++)
        all[i] = i;
    for (int d = 0; d < N_DEALS; d++) {
        struct shard s;
        shard_begin(&s, comm, &deals[d]);
        ASSERT_OK(lk_multi_node_evaluate(comm, s.it, add_metrics, &s, summary));
        lk_summary_clear(alone);
        ASSERT_OK(metrics_add(alone, deals[d].samples, all));
        ASSERT_OK(lk_summary_join(alone, NULL));
        ASSERT_EQ(lk_summary_size(summary), N_METRICS);
        for (int m = 0; m < N_METRICS; m++) {
            const char *name = metrics[m].name ? metrics[m].name : metrics[m].metric;
            const double *numbers, *want_numbers;
            double value, want;
            int64_t n, want_n;
            ASSERT_OK(lk_summary_value(summary, name, &value));
            ASSERT_OK(lk_summary_value(alone, name, &want));
            ASSERT_SAME_BITS(&value, &want, sizeof want);
            ASSERT_EQ(isnan(value), strcmp(name, "confusion") == 0);
            ASSERT_OK(lk_summary_numbers(summary, name, &numbers, &n));
            ASSERT_OK(lk_summary_numbers(alone, name, &want_numbers, &want_n));
            ASSERT_EQ(n, want_n);
            ASSERT_SAME_BITS(numbers, want_numbers, n * 8);
        }
        shard_end(&s);
    }
    double accuracy; /* of 97 samples: those with an odd number whose score is then the largest */
    int64_t hits = 0;
    ASSERT_OK(metrics_add((lk_summary_clear(alone), alone), 97, all));
    ASSERT_OK(lk_summary_join(alone, NULL));
    ASSERT_OK(lk_summary_value(alone, "accuracy", &accuracy));
    for (int64_t i = 0; i < 97; i++) {
        float scores[CLASSES];
        int64_t label, best = 0;
        answer(i, scores, &label);
        for (int c = 1; c < CLASSES; c++)
            best = scores[c] > scores[best] ? c : best;
        hits += best == label;
    }
    ASSERT_TRUE(accuracy == (double)hits / 97 && hits > 20 && hits < 97);
    lk_summary_free(summary);
    lk_summary_free(alone);
}

/* A metric of the program's own: the rows it has seen. */
static lk_status seen_check(const void *options, lk_tensor_type out, lk_tensor_type target)
{
    (void)options, (void)out, (void)target;
    return LK_OK;
}

static int64_t seen_numbers(const void *options, lk_tensor_type out)
{
    (void)options, (void)out;
    return 1;
}

static lk_status seen_add(const void *options, const lk_tensor *y, const lk_tensor *target,
                          double *number)
{
    (void)options, (void)target;
    number[0] += (double)lk_tensor_shape(y).dim[0];
    return LK_OK;
}

static double seen_value(const void *options, lk_tensor_type out, const double *number)
{
    (void)options, (void)out;
    return number[0];
}

static const lk_metric seen = {.descriptor = {.name = "seen", .summary = "the number of rows"},
                               .check = seen_check,
                               .numbers = seen_numbers,
                               .add = seen_add,
                               .value = seen_value};

static lk_status add_seen(void *context, const lk_batch *batch, lk_summary *summary)
{
    const lk_config config = {.descriptor = &seen.descriptor};
    (void)context;
    return lk_summary_add_metric_config(summary, NULL, &config, batch->x, batch->y);
}

RANKS_TEST(a_program_can_have_metrics_of_its_own)
{
    lk_summary *summary;
    ASSERT_OK(lk_summary_new(&summary));
    for (int d = 0; d < N_DEALS; d++) {
        struct shard s;
        double value;
        shard_begin(&s, comm, &deals[d]);
        ASSERT_OK(lk_multi_node_evaluate(comm, s.it, add_seen, NULL, summary));
        ASSERT_OK(lk_summary_value(summary, "seen", &value));
        ASSERT_EQ(value, deals[d].samples);
        shard_end(&s);
    }
    lk_summary_free(summary);
}

/* ---- failures ---- */

RANKS_TEST(names_are_compared_between_ranks)
{
    int rank = lk_comm_rank(comm), last = lk_comm_size(comm) - 1;
    lk_summary *s;
    double value;
    ASSERT_OK(lk_summary_new(&s));
    for (int i = 0; i < 3 && last > 0; i++) {
        const char *words = i == 0   ? "nothing was added under \"b\", as on rank 0"
                            : i == 1 ? "something was added under \"c\", on rank 0 nothing was"
                                     : "\"b\" is a mean on rank ";
        lk_tensor *y, *target;
        ASSERT_OK(lk_tensor_zeros(LK_F32, LK_SHAPE(1, 2), &y));
        ASSERT_OK(lk_tensor_zeros(LK_I64, LK_SHAPE(1), &target));
        lk_summary_clear(s);
        ASSERT_OK(lk_summary_add(s, "a", 1, 1));
        if (i == 2 && rank != last)
            ASSERT_OK(lk_summary_add_metric(s, "b", "accuracy", NULL, y, target));
        else if (i != 0 || rank != last)
            ASSERT_OK(lk_summary_add(s, "b", 1, 1));
        if (i == 1 && rank == last)
            ASSERT_OK(lk_summary_add(s, "c", 1, 1));
        ASSERT_FAILS(lk_summary_join(s, comm), LK_ESTATE, words);
        lk_tensor_free(y);
        lk_tensor_free(target);
    }
    lk_summary_clear(s); /* names in another order, and none at all, are fine */
    if (rank != 1) {
        ASSERT_OK(lk_summary_add(s, rank == last ? "a" : "b", 2, 1));
        ASSERT_OK(lk_summary_add(s, rank == last ? "b" : "a", 2, 1));
    }
    ASSERT_OK(lk_summary_join(s, comm));
    ASSERT_OK(lk_summary_value(s, "b", &value));
    ASSERT_TRUE(value == 2);
    ASSERT_FAILS(lk_summary_value(s, "c", &value), LK_EINVAL, "the names are a, b");
    ASSERT_FAILS(lk_summary_add(s, "a", 1, 1), LK_ESTATE, "is joined");
    ASSERT_FAILS(lk_summary_join(s, comm), LK_ESTATE, "joined already");
    lk_summary_free(s);
}

/* They have as many numbers, and could be added up. */
RANKS_TEST(metrics_are_compared_between_ranks)
{
    static const char *const other[][3] = {
        {"top_k", "k=2", "\"m\" is top_k with other options on rank "},
        {"accuracy", NULL, "\"m\" is accuracy on rank "}};
    int rank = lk_comm_rank(comm), last = lk_comm_size(comm) - 1;
    lk_tensor *y, *target;
    lk_summary *s;
    ASSERT_OK(lk_summary_new(&s));
    ASSERT_OK(lk_tensor_zeros(LK_F32, LK_SHAPE(1, 6), &y));
    ASSERT_OK(lk_tensor_zeros(LK_I64, LK_SHAPE(1), &target));
    for (int i = 0; i < 2 && last > 0; i++) {
        lk_summary_clear(s);
        ASSERT_OK(lk_summary_add_metric(s, "m", rank == last ? other[i][0] : "top_k",
                                        rank == last ? other[i][1] : "k=1", y, target));
        ASSERT_FAILS(lk_summary_join(s, comm), LK_ESTATE, other[i][2]);
    }
    lk_summary_clear(s); /* the same in other words */
    ASSERT_OK(lk_summary_add_metric(s, "m", "top_k", rank == last ? " k=5 " : "k=5", y, target));
    ASSERT_OK(lk_summary_join(s, comm));
    lk_tensor_free(y);
    lk_tensor_free(target);
    lk_summary_free(s);
}

RANKS_TEST(too_many_samples_are_refused)
{
    int size = lk_comm_size(comm);
    int64_t n;
    lk_summary *s;
    ASSERT_OK(lk_summary_new(&s));
    ASSERT_OK(lk_summary_add(s, "a", 1, INT64_MAX / size));
    ASSERT_OK(lk_summary_join(s, comm));
    ASSERT_OK(lk_summary_count(s, "a", &n));
    ASSERT_EQ(n, INT64_MAX / size * size);
    lk_summary_clear(s);
    ASSERT_OK(lk_summary_add(s, "a", 1, INT64_MAX / size + (size > 1)));
    if (size > 1)
        ASSERT_FAILS(lk_summary_join(s, comm), LK_EOVERFLOW, "more samples on all ranks");
    lk_summary_free(s);
}

RANKS_TEST(nothing_at_all_can_be_joined)
{
    lk_summary *s;
    ASSERT_OK(lk_summary_new(&s));
    ASSERT_OK(lk_multi_node_evaluate(comm, NULL, add_squares, NULL, s));
    ASSERT_EQ(lk_summary_size(s), 0);
    lk_summary_clear(s);
    ASSERT_OK(lk_summary_add(s, "none", 0, 0));
    ASSERT_OK(lk_summary_join(s, comm));
    double value;
    ASSERT_OK(lk_summary_value(s, "none", &value));
    ASSERT_TRUE(isnan(value));
    lk_summary_free(s);
}

/* In a function of the program, in a file, in the arguments: what fails on one rank fails on all. */
RANKS_TEST(a_failure_on_one_rank_is_that_of_all)
{
    struct shard s;
    lk_summary *summary;
    ASSERT_OK(lk_summary_new(&summary));
    shard_begin(&s, comm, &deals[0]);
    bool last = s.rank == s.size - 1;
    s.fails = last ? 1 : -1;
    ASSERT_FAILS(lk_multi_node_evaluate(comm, s.it, add_squares, &s, summary), LK_ENOTSUP,
                 "planted in an evaluation");
    s.fails = -1;
    s.known.fails_at = last ? 5 : -1;
    ASSERT_FAILS(lk_multi_node_evaluate(comm, s.it, add_squares, &s, summary), LK_EIO,
                 "planted at sample 5");
    s.known.fails_at = -1;
    lk_iterator *endless;
    ASSERT_OK(lk_iterator_new(NULL, s.loader, NULL, &endless));
    ASSERT_FAILS(lk_multi_node_evaluate(comm, last ? endless : s.it, add_squares, &s, summary),
                 LK_EINVAL, "repeat=false");
    ASSERT_OK(lk_multi_node_evaluate(comm, s.it, add_squares, &s, summary));
    lk_iterator_free(endless);
    shard_end(&s);
    lk_summary_free(summary);
}

/* Batches of a master: a rank that fails takes the rest of them, for the others do. */
RANKS_TEST(a_failure_on_the_batches_of_a_master_is_that_of_all)
{
    struct shard s;
    lk_summary *summary;
    lk_iterator *it;
    ASSERT_OK(lk_summary_new(&summary));
    shard_begin(&s, comm, &deals[0]);
    ASSERT_OK(lk_iterator_new(comm, s.loader, "kind=multi_node repeat=false", &it));
    s.fails = s.rank == s.size - 1 ? 1 : -1;
    ASSERT_FAILS(lk_multi_node_evaluate(comm, it, add_squares, &s, summary), LK_ENOTSUP,
                 "planted in an evaluation");
    ASSERT_OK(lk_barrier(comm, "and the ranks go on"));
    lk_iterator_free(it);
    shard_end(&s);
    lk_summary_free(summary);
}

RANKS_TEST(wrong_arguments_are_refused)
{
    lk_summary *s;
    lk_tensor *y, *target, *scalar;
    double value;
    (void)comm;
    ASSERT_OK(lk_summary_new(&s));
    ASSERT_OK(lk_tensor_zeros(LK_F32, LK_SHAPE(2, 3), &y));
    ASSERT_OK(lk_tensor_zeros(LK_I64, LK_SHAPE(2), &target));
    ASSERT_OK(lk_tensor_zeros(LK_F32, LK_SCALAR, &scalar));
    ASSERT_FAILS(lk_summary_add(s, "", 1, 1), LK_EINVAL, "a name of 0 bytes");
    ASSERT_FAILS(lk_summary_add(s, NULL, 1, 1), LK_EINVAL, "name is NULL");
    ASSERT_FAILS(lk_summary_add_metric(s, NULL, NULL, NULL, y, target), LK_EINVAL,
                 "metric is NULL");
    ASSERT_FAILS(lk_summary_add_metric(s, NULL, "accuracy", NULL, NULL, target), LK_EINVAL,
                 "y is NULL");
    ASSERT_FAILS(lk_summary_add_metric(s, NULL, "accuracy", NULL, y, NULL), LK_EINVAL,
                 "target is NULL");
    ASSERT_FAILS(lk_summary_add(s, "a", 1, -1), LK_EINVAL, "a sum over -1 samples");
    ASSERT_FAILS(lk_summary_value(s, "a", &value), LK_ESTATE, "before lk_summary_join()");
    ASSERT_FAILS(lk_summary_add_metric(s, NULL, "acuracy", NULL, y, target), LK_EINVAL, "accuracy");
    ASSERT_FAILS(lk_summary_add_metric(s, NULL, "accuracy", NULL, scalar, target), LK_EINVAL,
                 "axis of samples");
    ASSERT_OK(lk_summary_add_metric(s, NULL, "accuracy", NULL, y, y));
    ASSERT_FAILS(lk_summary_add_metric(s, NULL, "accuracy", NULL, y, target), LK_ESHAPE, "before");
    ASSERT_FAILS(lk_summary_add_metric(s, "accuracy", "top_k", NULL, y, target), LK_EINVAL,
                 "accuracy is there already");
    ASSERT_FAILS(lk_summary_add(s, "accuracy", 1, 1), LK_EINVAL, "accuracy is a metric");
    ASSERT_EQ(lk_summary_size(s), 1);
    lk_tensor_free(y);
    lk_tensor_free(target);
    lk_tensor_free(scalar);
    lk_summary_free(s);
}

/* ---- the generic evaluator ---- */

/* What the root has aggregated. */
struct generic {
    struct shard *s;
    int64_t results, sum, hooks, calls;
    int64_t of_rank[64];
    int fails;
};

/* Two for each batch, as the original's test has it, and which batch of which rank it is. */
static lk_status calc_two(void *context, const lk_batch *batch, void **bytes, int64_t *n)
{
    struct generic *g = context;
    int64_t *result;
    LK_CHECK(batch->number != g->fails, LK_ENOTSUP, "planted in calc_local");
    LK_TRY(lk_alloc(&result, 3 + batch->number, sizeof *result));
    result[0] = 2;
    result[1] = batch->number;
    result[2] = g->s->rank;
    for (int64_t i = 0; i < batch->number; i++)
        result[3 + i] = i;
    *bytes = result;
    *n = (3 + batch->number) * (int64_t)sizeof *result;
    return LK_OK;
}

static lk_status aggregate_sum(void *context, const lk_batch_result *result, int64_t n)
{
    struct generic *g = context;
    g->calls++;
    g->results = n;
    for (int64_t i = 0; i < n; i++) {
        const int64_t *got = result[i].bytes;
        ASSERT_EQ(result[i].n, 8 * (3 + result[i].batch));
        ASSERT_EQ(got[1], result[i].batch);
        ASSERT_EQ(got[2], result[i].rank);
        ASSERT_EQ(g->of_rank[result[i].rank]++, result[i].batch);
        if (i > 0) /* by batch, then by rank */
            ASSERT_TRUE(
                result[i].batch > result[i - 1].batch ||
                (result[i].batch == result[i - 1].batch && result[i].rank > result[i - 1].rank));
        g->sum += got[0];
    }
    LK_CHECK(g->fails != -2, LK_ENOTSUP, "planted in aggregate");
    return LK_OK;
}

static void count_hook(void *context, const lk_batch *batch)
{
    struct generic *g = context;
    ASSERT_EQ(batch->number, g->hooks++);
}

RANKS_TEST(results_of_all_batches_are_aggregated_on_the_root)
{
    for (int d = 0; d < N_DEALS; d++)
        for (int root = 0; root < lk_comm_size(comm); root++) {
            struct shard s;
            shard_begin(&s, comm, &deals[d]);
            struct generic g = {.s = &s, .fails = -1};
            lk_generic_evaluator e = {.root = root,
                                      .context = &g,
                                      .calc_local = calc_two,
                                      .aggregate = aggregate_sum,
                                      .progress_hook = count_hook};
            ASSERT_OK(lk_generic_multi_node_evaluate(comm, s.it, &e));
            int64_t batches = 0, own = s.it ? lk_iterator_position(s.it).batches : 0;
            for (int r = 0; r < s.size; r++) {
                int64_t n = (deals[d].samples - r + s.size - 1) / s.size;
                batches += n > 0 ? (n + deals[d].batch - 1) / deals[d].batch : 0;
            }
            ASSERT_EQ(g.calls, s.rank == root);
            ASSERT_EQ(g.results, s.rank == root ? batches : 0);
            ASSERT_EQ(g.sum, s.rank == root ? 2 * batches : 0);
            ASSERT_EQ(g.hooks, s.rank == root ? own : 0);
            shard_end(&s);
        }
}

RANKS_TEST(a_generic_evaluation_fails_on_all_ranks)
{
    struct shard s;
    shard_begin(&s, comm, &deals[0]);
    struct generic g = {.s = &s, .fails = s.rank == s.size - 1 ? 1 : -1};
    lk_generic_evaluator e = {.context = &g, .calc_local = calc_two, .aggregate = aggregate_sum};
    ASSERT_FAILS(lk_generic_multi_node_evaluate(comm, s.it, &e), LK_ENOTSUP,
                 "planted in calc_local");
    ASSERT_EQ(g.calls, 0);
    g.fails = -2;
    ASSERT_FAILS(lk_generic_multi_node_evaluate(comm, s.it, &e), LK_ENOTSUP,
                 "planted in aggregate");
    e.root = s.size;
    ASSERT_FAILS(lk_generic_multi_node_evaluate(comm, s.it, &e), LK_EINVAL, "root");
    e.root = 0;
    e.aggregate = NULL;
    ASSERT_FAILS(lk_generic_multi_node_evaluate(comm, s.it, &e), LK_EINVAL, "aggregate is NULL");
    shard_end(&s);
}

RANKS_TEST(a_generic_evaluation_can_be_alone)
{
    struct shard s;
    shard_begin(&s, comm, &deals[0]);
    struct generic g = {.s = &s, .fails = -1};
    lk_generic_evaluator e = {.context = &g, .calc_local = calc_two, .aggregate = aggregate_sum};
    if (s.rank == 0)
        ASSERT_OK(lk_generic_multi_node_evaluate(NULL, s.it, &e));
    ASSERT_EQ(g.sum, s.rank == 0 ? 2 * lk_iterator_position(s.it).batches : 0);
    shard_end(&s);
}
