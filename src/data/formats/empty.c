/* empty: a number of samples and nothing in them. */
#include "data/empty.h"

#include <stddef.h>

struct empty_options {
    int64_t samples, test_samples;
};

static const lk_option options[] = {
    {.name = "samples",
     .type = LK_OPTION_INT,
     .offset = offsetof(struct empty_options, samples),
     .value = "N",
     .min = 1,
     .max = 1e15,
     .flags = LK_OPTION_REQUIRED,
     .help = "how many samples the training set has"},
    {.name = "test_samples",
     .type = LK_OPTION_INT,
     .offset = offsetof(struct empty_options, test_samples),
     .value = "N",
     .def = "0",
     .min = 0,
     .max = 1e15,
     .help = "how many the test set has; 0: there is none"},
    {.name = NULL},
};

static lk_status empty_open(const void *given, lk_split split, lk_dataset **out)
{
    const struct empty_options *o = given;
    int64_t samples = split == LK_TRAIN ? o->samples : split == LK_TEST ? o->test_samples : 0;
    *out = NULL;
    if (samples > 0)
        LK_TRY(lk__dataset_new_empty(samples, out));
    return LK_OK;
}

const lk_format lk__format_empty = {
    .descriptor =
        {.name = "empty",
         .summary = "a number of samples and nothing in them",
         .details = "Needs no file, and nothing is read. For ranks of a program that take "
                    "part in steps over samples that are on other ranks: batches have "
                    "positions, sizes and order, but no x and no y. A model cannot be "
                    "trained on it.",
         .options = options,
         .options_size = sizeof(struct empty_options)},
    .open = empty_open,
};
