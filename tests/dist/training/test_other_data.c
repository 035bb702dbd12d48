/* Ranks that have other data, or train something else: refused before the first step, with both ranks and
 * what differs, in the same words on all. */
#include "trainers.h"

#include <stdio.h>

enum { MANY = 5000 };

/* All ranks got the same message. */
static void expect_same_words(lk_comm *comm)
{
    char mine[512] = "", first[512];
    snprintf(mine, sizeof mine, "%s", lk_error_message());
    memcpy(first, mine, sizeof first);
    ASSERT_OK(lk_bcast(comm, first, sizeof first, LK_U8, 0, "words"));
    ASSERT_EQ(strcmp(mine, first), 0);
}

/* The trainer of `s` is refused because the last rank differs, whose number is between the words. */
static void expect_refused(small_trainer *s, const char *before, const char *after)
{
    lk_comm *comm = s->spec.comm;
    char message[160];
    int last = lk_comm_size(comm) - 1;
    snprintf(message, sizeof message, "%s%d%s", before, last, after);
    if (last > 0) {
        ASSERT_FAILS(lk_trainer_new_options(&s->spec, &s->options, &s->trainer), LK_ESTATE,
                     message);
        expect_same_words(comm);
    } else {
        ASSERT_OK(lk_trainer_new_options(&s->spec, &s->options, &s->trainer));
    }
}

/* A trainer whose parts are there, but not itself. */
static void begin(small_trainer *s, lk_comm *comm)
{
    *s = (small_trainer){.trainer = NULL};
    small_begin(s, comm);
    ASSERT_OK(lk_config_parse(&lk_registry_loss, "softmax_cross_entropy", NULL, s->arena,
                              &s->options.loss));
    ASSERT_OK(lk_model_add(s->model, "linear", "units=2"));
}

static void build(const small_trainer *s, int64_t seed)
{
    lk_model_spec spec = {.in = {LK_F32, LK_SHAPE(SMALL_FEATURES)}, .seed = seed};
    ASSERT_OK(lk_model_build(s->model, &spec));
    ASSERT_OK(lk_model_hold(s->model, NULL));
}

static bool is_last(const lk_comm *comm)
{
    return lk_comm_rank(comm) == lk_comm_size(comm) - 1;
}

RANKS_TEST(another_value_is_found_with_its_sample)
{
    small_trainer s;
    begin(&s, comm);
    build(&s, 1);
    if (is_last(comm))
        s.x[17 * SMALL_FEATURES + 3] += 0.5F;
    expect_refused(&s, "sample 17 of the training set is another on rank ", " than on rank 0");
    small_free(&s);
    begin(&s, comm);
    build(&s, 1);
    if (is_last(comm))
        s.y[29] = 1 - s.y[29];
    expect_refused(&s, "sample 29 of the training set is another on rank ", " than on rank 0");
    small_free(&s);
}

/* Give the trainer a set of the first `n` samples, of which `skipped` records were left out before, in
 * batches of `batch`, in an order by `seed`. */
static void replace_set(small_trainer *s, int64_t n, int64_t skipped, int64_t batch, int64_t seed)
{
    lk_dataset_info info = {.name = "t",
                            .classes = 2,
                            .skipped = skipped,
                            .n_fields = 2,
                            .field = {{.name = "x"}, {.name = "y"}}};
    lk_tensor *part[2] = {NULL};
    for (int f = 0; f < 2; f++)
        ASSERT_OK(lk_tensor_slice(s->tensor[f], 0, 0, n, 1, &part[f]));
    lk_loader_free(s->loader);
    lk_dataset_free(s->set);
    ASSERT_OK(lk_dataset_from_tensors(&info, part, &s->set));
    lk_loader_options options = {.batch = batch, .shards = 8, .scale = 1, .shuffle = true};
    ASSERT_OK(lk_loader_new_options(s->set, &options, seed, &s->loader));
    s->spec.train = s->loader;
    lk_tensor_free(part[0]);
    lk_tensor_free(part[1]);
}

static void replace_loader(small_trainer *s, int64_t n, int64_t batch, int64_t seed)
{
    replace_set(s, n, 0, batch, seed);
}

RANKS_TEST(another_number_of_samples_is_told_with_both)
{
    small_trainer s;
    begin(&s, comm);
    build(&s, 1);
    replace_loader(&s, is_last(comm) ? 29 : 30, 8, 1);
    expect_refused(&s, "the training set has 30 samples on rank 0 and 29 on rank ", "");
    small_free(&s);
}

/* The samples that are left are the same, the sets are not. */
RANKS_TEST(records_that_one_rank_leaves_out_are_told)
{
    small_trainer s;
    begin(&s, comm);
    build(&s, 1);
    replace_set(&s, 30, is_last(comm) ? 2 : 1, 8, 1);
    expect_refused(
        &s, "the training set has 1 damaged records and 0 gaps on rank 0, 2 and 0 on rank ", "");
    small_free(&s);
}

/* Of batches, order, values to begin with, and optimizer. */
RANKS_TEST(what_else_differs_is_told_too)
{
    small_trainer s;
    bool odd = is_last(comm);
    begin(&s, comm);
    build(&s, 1);
    replace_loader(&s, 30, odd ? 15 : 8, 1);
    expect_refused(&s, "batches of 8 samples on rank 0 and of 15 on rank ", "");
    small_free(&s);
    begin(&s, comm);
    build(&s, 1);
    replace_loader(&s, 30, 8, odd ? 2 : 1);
    expect_refused(&s, "the seed of the loader is 1 on rank 0 and 2 on rank ", "");
    small_free(&s);
    begin(&s, comm);
    build(&s, odd ? 2 : 1);
    expect_refused(&s, "rank ", " has other parameters to begin with than rank 0");
    small_free(&s);
    begin(&s, comm);
    build(&s, 1);
    ASSERT_OK(lk_config_parse(&lk_registry_optimizer, odd ? "adam" : "sgd", NULL, s.arena,
                              &s.options.optimizer));
    expect_refused(&s, "rank ", " has another optimizer than rank 0");
    small_free(&s);
}

/* All ranks get the message of the one whose text is refused. */
RANKS_TEST(a_text_that_one_rank_cannot_read_stops_all)
{
    small_trainer s;
    begin(&s, comm);
    build(&s, 1);
    ASSERT_FAILS(lk_trainer_new(&s.spec,
                                is_last(comm) ? "loss=softmax_cross_entropy optimizer=sdg"
                                              : "loss=softmax_cross_entropy optimizer=sgd",
                                &s.trainer),
                 LK_EINVAL,
                 "options, column 38: trainer: optimizer: unknown optimizer \"sdg\"; did you mean "
                 "\"sgd\"?");
    ASSERT_TRUE(!s.trainer);
    small_free(&s);
}

/* It decides what ranks talk about from the first call on. */
RANKS_TEST(another_mode_is_named)
{
    for (int fast_first = 0; fast_first < 2; fast_first++) {
        small_trainer s;
        begin(&s, comm);
        build(&s, 1);
        s.spec.parallel.mode = is_last(comm) != (bool)fast_first ? LK_REDUCTION_FAST
                                                                 : LK_REDUCTION_CANONICAL;
        expect_refused(&s,
                       fast_first ? "parallel.mode is fast on rank 0 and canonical on rank "
                                  : "parallel.mode is canonical on rank 0 and fast on rank ",
                       ": all ranks must train the same");
        small_free(&s);
    }
}

/* Samples that are found by their parts: the first, the last, and one in between, of many. */
RANKS_TEST(one_sample_of_many_is_found)
{
    static const int64_t place[] = {0, 4321, MANY - 1};
    for (int k = 0; k < 3; k++) {
        lk_dataset_info info = {.name = "many", .n_fields = 1, .field = {{.name = "x"}}};
        lk_tensor *x = NULL;
        lk_dataset *set = NULL;
        lk_loader *loader = NULL;
        small_trainer s;
        char words[160];
        lk_eval score;
        begin(&s, comm);
        build(&s, 1);
        ASSERT_OK(lk_trainer_new_options(&s.spec, &s.options, &s.trainer));
        ASSERT_OK(lk_tensor_zeros(LK_F32, LK_SHAPE(MANY, SMALL_FEATURES), &x));
        if (is_last(comm))
            ASSERT_OK(lk_tensor_set_f64(x, LK_AT(place[k], 2), 1));
        ASSERT_OK(lk_dataset_from_tensors(&info, &x, &set));
        lk_loader_options options = {.batch = 500, .shards = 8, .scale = 1};
        ASSERT_OK(lk_loader_new_options(set, &options, 1, &loader));
        snprintf(words, sizeof words,
                 "sample %lld of the set to evaluate is another on rank %d than on rank 0",
                 (long long)place[k], lk_comm_size(comm) - 1);
        if (lk_comm_size(comm) > 1) {
            ASSERT_FAILS(lk_trainer_evaluate(s.trainer, loader, &score), LK_ESTATE, words);
            expect_same_words(comm);
        }
        lk_loader_free(loader);
        lk_dataset_free(set);
        lk_tensor_free(x);
        small_free(&s);
    }
}

/* A set that all have compared is not read again. */
static lk_status count_row(void *context, int64_t index, void *const *row)
{
    if (row[0])
        *(float *)row[0] = (float)index;
    if (row[1])
        *(int64_t *)row[1] = index % 2;
    ++*(int *)context;
    return LK_OK;
}

RANKS_TEST(a_set_is_compared_once)
{
    int reads = 0;
    lk_dataset_info info = {
        .name = "rows",
        .count = 30,
        .classes = 2,
        .n_fields = 2,
        .field = {{"x", LK_F32, LK_SHAPE(1)}, {.name = "y", .dtype = LK_I64, .shape = LK_SCALAR}}};
    small_trainer s;
    begin(&s, comm);
    lk_model_spec spec = {.in = {LK_F32, LK_SHAPE(1)}};
    ASSERT_OK(lk_model_build(s.model, &spec));
    ASSERT_OK(lk_model_hold(s.model, NULL));
    lk_loader_free(s.loader);
    lk_dataset_free(s.set);
    ASSERT_OK(lk_dataset_new(&info, count_row, NULL, &reads, &s.set));
    lk_loader_options options = {.batch = 8, .shards = 8, .scale = 1};
    ASSERT_OK(lk_loader_new_options(s.set, &options, 1, &s.loader));
    s.spec.train = s.loader;
    for (int k = 0; k < 2; k++) {
        ASSERT_OK(lk_trainer_new_options(&s.spec, &s.options, &s.trainer));
        ASSERT_EQ(reads, lk_comm_size(comm) > 1 ? 30 : 0);
        lk_trainer_free(s.trainer);
    }
    s.trainer = NULL;
    small_free(&s);
}
