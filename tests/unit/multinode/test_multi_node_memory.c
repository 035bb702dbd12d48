/* A rank that runs out of memory in a call of iterator.h or observe.h tells the others. */
#include "dist/multinode/known_sets.h"
#include "memory_ranks.h"

#include <lockstep/lockstep.h>

struct side {
    lk_comm *comm;
    int rank, size;
    known_set known;
    lk_dataset *ds;
    lk_loader *loader;
};

static lk_status side_begin(lk_comm *comm, void *side)
{
    struct side *s = side;
    s->comm = comm;
    s->rank = lk_comm_rank(comm);
    s->size = lk_comm_size(comm);
    s->known.fails_at = -1;
    s->ds = known_new(&s->known, 10, 10);
    return LK_TRACE(lk_loader_new(s->ds, "batch=4 prefetch=0", 1, &s->loader));
}

static void side_end(void *side)
{
    lk_loader_free(((struct side *)side)->loader);
    lk_dataset_free(((struct side *)side)->ds);
}

static const struct memory_sides sides = {sizeof(struct side), side_begin, side_end};

static lk_status scatter(void *side)
{
    struct side *s = side;
    lk_dataset *mine = NULL;
    lk_status st = lk_scatter_dataset(s->comm, s->rank == 1 ? s->ds : NULL, "root=1 shuffle=true",
                                      &mine);
    lk_dataset_free(mine);
    return st;
}

/* All batches of an epoch. */
static lk_status iterate(struct side *s, const char *options)
{
    lk_iterator *it = NULL;
    lk_batch batch;
    bool more = true;
    lk_status st;
    LK_TRY_TO(done, lk_iterator_new(s->comm, s->loader, options, &it));
    while (more)
        LK_TRY_TO(done, lk_iterator_next(it, &batch, &more));
done:
    lk_iterator_free(it);
    return st;
}

static lk_status multi_node(void *side)
{
    return iterate(side, "kind=multi_node master=1 repeat=false");
}

/* Only making one is collective. */
static lk_status synchronized(void *side)
{
    struct side *s = side;
    lk_iterator *it = NULL;
    lk_status st = lk_iterator_new(s->comm, s->loader, "kind=synchronized", &it);
    lk_iterator_free(it);
    return st;
}

/* Adding is not collective: what fails there is told when ranks join. */
static lk_status sums_add(void *context, const lk_batch *batch, lk_summary *summary)
{
    lk_tensor *labels;
    (void)context;
    LK_TRY(lk_summary_add(summary, "samples", 1, batch->n));
    LK_TRY(lk_tensor_zeros(LK_I64, LK_SHAPE(batch->n), &labels));
    lk_status st = lk_summary_add_metric(summary, NULL, "accuracy", NULL, batch->x, labels);
    lk_tensor_free(labels);
    return st;
}

/* Rank 0 has no samples, and hears the names. */
static lk_status evaluation(void *side)
{
    struct side *s = side;
    lk_iterator *it = NULL;
    lk_summary *summary = NULL;
    lk_status st = lk_iterator_new(NULL, s->loader, "repeat=false", &it);
    if (st == LK_OK)
        st = lk_summary_new(&summary);
    LK_TRY_TO(done, lk_agree(s->comm, st));
    LK_TRY_TO(done,
              lk_multi_node_evaluate(s->comm, s->rank == 0 ? NULL : it, sums_add, NULL, summary));
done:
    lk_summary_free(summary);
    lk_iterator_free(it);
    return st;
}

static lk_status result_calc(void *context, const lk_batch *batch, void **bytes, int64_t *n)
{
    (void)context;
    *n = batch->n;
    return LK_TRACE(lk_alloc_zero(bytes, *n, 1));
}

static lk_status results_take(void *context, const lk_batch_result *result, int64_t n)
{
    (void)context, (void)result, (void)n;
    return LK_OK;
}

static lk_status generic(void *side)
{
    struct side *s = side;
    lk_iterator *it = NULL;
    const lk_generic_evaluator e = {.calc_local = result_calc, .aggregate = results_take};
    lk_status st = lk_iterator_new(NULL, s->loader, "repeat=false", &it);
    LK_TRY_TO(done, lk_agree(s->comm, st));
    LK_TRY_TO(done, lk_generic_multi_node_evaluate(s->comm, it, &e));
done:
    lk_iterator_free(it);
    return st;
}

/* Of batches that all ranks ask for together. */
static lk_status generic_together(void *side)
{
    struct side *s = side;
    lk_iterator *it = NULL;
    const lk_generic_evaluator e = {.calc_local = result_calc, .aggregate = results_take};
    lk_status st;
    LK_TRY_TO(done,
              lk_iterator_new(s->comm, s->loader, "kind=multi_node master=1 repeat=false", &it));
    LK_TRY_TO(done, lk_generic_multi_node_evaluate(s->comm, it, &e));
done:
    lk_iterator_free(it);
    return st;
}

static lk_status last_value(void *context, const double *value, const int64_t *first, int size,
                            double *out)
{
    (void)context;
    *out = value[first[size] - 1];
    return LK_OK;
}

/* One value of each rank, in the step in which they are joined. */
static lk_status aggregated(void *side)
{
    struct side *s = side;
    lk_aggregator *a = NULL;
    double x = s->rank, out;
    bool due;
    lk_status st;
    LK_TRY_TO(done, lk_aggregator_new(s->comm, (lk_period){1, true}, last_value, NULL, &a));
    LK_TRY_TO(done, lk_aggregator_observe(a, &(lk_position){.step = 1}, &x, &out, &due));
done:
    lk_aggregator_free(a);
    return st;
}

static lk_status early_stop(void *side)
{
    struct side *s = side;
    lk_early_stop_trigger *t = NULL;
    double x = s->rank;
    bool stop;
    lk_status st;
    LK_TRY_TO(done, lk_early_stop_trigger_new(s->comm, "check=\"1 step\"", &t));
    LK_TRY_TO(done, lk_early_stop_trigger_observe(t, &(lk_position){.step = 1}, &x, &stop));
done:
    lk_early_stop_trigger_free(t);
    return st;
}

TEST(the_others_are_told)
{
    static const struct memory_work all[] = {
        {"scatter", scatter},           {"multi_node", multi_node},
        {"synchronized", synchronized}, {"evaluation", evaluation},
        {"generic", generic},           {"generic together", generic_together},
        {"aggregated", aggregated},     {"early_stop", early_stop}};
    memory_runs_out_on_few(all, (int)(sizeof all / sizeof *all), &sides);
}
