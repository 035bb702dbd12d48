/* What cifar10_cnn.c and cifar10_slurm.c have in common: the CIFAR-10 network of keras_experiments and its
 * data, as experiments/cifar10-cnn.yaml has both.  They are run where that file is, in the folder of the
 * sources or in share/lockstep of an installation, or are told where it is.
 *
 * The data are
 *     a folder with CIFAR-10's binary files,
 *     a folder with records, train*.tfrecord and test*.tfrecord, or
 *     a pattern of records to train on, 'records/train-*.tfrecord', without a set to test on;
 * images of that shape are generated where none are named.
 */
#ifndef EXAMPLES_CIFAR10_H
#define EXAMPLES_CIFAR10_H

#include <lockstep/lockstep.h>

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CIFAR10_SETTINGS = 16, CIFAR10_SETTING = 4096 };

/* Settings of the experiment, NAME=VALUE. */
struct cifar10 {
    char text[CIFAR10_SETTINGS][CIFAR10_SETTING];
    int n;
};

/* Where the experiment is if --experiment does not say it, an option that both have. */
#define CIFAR10_EXPERIMENT "experiments/cifar10-cnn.yaml"

/* Read the options of a table, of which number `help` explains them by a text, into `given`; where that ends
 * the program, its status, otherwise -1. */
static inline int cifar10_options(int argc, char **argv, const struct option *all, int help,
                                  const char *text, const char **given)
{
    int c;
    while ((c = getopt_long(argc, argv, "", all, NULL)) != -1 && c != '?' && c != help)
        given[c] = optarg ? optarg : "";
    if (c != -1) {
        fprintf(c == help ? stdout : stderr,
                "%s"
                "  --experiment FILE  with the network (default: %s, as it is\n"
                "                 in the folder of the sources and in share/lockstep of an "
                "installation)\n",
                text, CIFAR10_EXPERIMENT);
        return c == help ? 0 : 2;
    }
    if (optind == argc)
        return -1;
    fprintf(stderr, "there is nothing to do with \"%s\"", argv[optind]);
    for (; all->name; all++)
        if (all->has_arg == optional_argument)
            fprintf(stderr, "; if it is for --%s, it is --%s=%s", all->name, all->name,
                    argv[optind]);
    fputs("\n", stderr);
    return 2;
}

/* Read the number of an option, from 1 to `most`. */
static inline lk_status cifar10_number(const char *option, const char *text, long most, long *out)
{
    char *end;
    *out = strtol(text, &end, 10);
    LK_CHECK(end != text && !*end && *out > 0 && *out <= most, LK_EINVAL,
             "%s is a number from 1 to %ld, not %s", option, most, text);
    return LK_OK;
}

/* Add a setting, as printf() writes it. */
__attribute__((format(printf, 2, 3))) static inline lk_status cifar10_set(struct cifar10 *c,
                                                                          const char *format, ...)
{
    va_list args;
    LK_CHECK(c->n < CIFAR10_SETTINGS, LK_EINVAL, "more than %d settings", CIFAR10_SETTINGS);
    va_start(args, format);
    int length = vsnprintf(c->text[c->n++], CIFAR10_SETTING, format, args);
    va_end(args);
    LK_CHECK(length < CIFAR10_SETTING, LK_EINVAL, "a setting is too long: %s", c->text[c->n - 1]);
    return LK_OK;
}

/* Set where the data are; NULL: they are generated. */
static inline lk_status cifar10_data(struct cifar10 *c, const char *path)
{
    lk_arena *arena = NULL;
    lk_config found;
    lk_status st;
    if (!path) {
        return LK_TRACE(
            cifar10_set(c, "data={type: glyphs, count: 256, test_count: 64, shape: [32, 32, 3]}"));
    }
    LK_TRY(lk_arena_new(&arena));
    LK_TRY_TO(done, lk_format_guess(path, arena, &found));
    LK_TRY_TO(done, cifar10_set(c, "data.type=%s", found.descriptor->name));
    LK_TRY_TO(done, cifar10_set(c, "data.path=\"%s\"", path));
done:
    lk_arena_free(arena);
    return st;
}

/* Read the experiment of a file with the settings. */
static inline lk_status cifar10_read(const struct cifar10 *c, const char *file, lk_experiment **out)
{
    const char *set[CIFAR10_SETTINGS];
    for (int i = 0; i < c->n; i++)
        set[i] = c->text[i];
    return LK_TRACE(lk_experiment_read(file, set, c->n, out));
}

/* Its network, with initial weights. */
static inline lk_status cifar10_model(const lk_experiment *experiment, lk_model **out)
{
    const lk_model_spec spec = {.in = {LK_F32, LK_SHAPE(32, 32, 3)}, .seed = experiment->seed};
    LK_TRY(lk_model_new(out));
    for (int64_t i = 0; i < experiment->model.n; i++)
        LK_TRY(lk_model_add_config(*out, &experiment->model.item[i]));
    LK_TRY(lk_model_build(*out, &spec));
    return LK_TRACE(lk_model_hold(*out, NULL));
}

#endif /* EXAMPLES_CIFAR10_H */
