/* given: the samples are those of a program, which gives them to lk_job_new_spec(). */
#include <lockstep/data.h>

static lk_status given_open(const void *options, lk_split split, lk_dataset **out)
{
    (void)options;
    (void)split;
    *out = NULL;
    return LK_RAISE(LK_EINVAL, "data: {type: given} stands for sets that a program brings "
                               "(lk_job_spec.set); start that program, or give another data.type");
}

static const lk_option options[] = {{.name = NULL}};

const lk_format lk__format_given = {
    .descriptor = {.name = "given",
                   .summary = "samples that a program brings",
                   .details = "For experiments of programs that train on their own arrays: "
                              "lk_job_new_spec() gets the sets, and `data` says how they are "
                              "loaded, as batch and shards.",
                   .options = options,
                   .options_size = 0},
    .open = given_open,
};
