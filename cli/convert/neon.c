/* lockstep convert neon: an experiment of a recipe of neon (2014). */
#include "neon/neon.h"

#include "verb.h"

#include <lockstep/config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct convert_options {
    const char *output;
};

static const lk_option options[] = {
    {"output", LK_OPTION_TEXT, offsetof(struct convert_options, output), .value = "FILE",
     .help = "the file to write; by default standard output"},
    {"o", LK_OPTION_TEXT, offsetof(struct convert_options, output), .value = "FILE",
     .help = "as --output"},
    {.name = NULL},
};

/* All that cannot be converted, by place. */
static int refuse(const neon_recipe *r)
{
    for (const neon_remark *i = r->issues; i; i = i->next)
        fprintf(stderr, "error: %s:%lld:%lld: %s\n", r->path, (long long)i->line,
                (long long)i->column, i->text);
    fprintf(stderr, "%s: %lld %s cannot be converted; nothing is written\n", r->path,
            (long long)r->n_issues, r->n_issues == 1 ? "thing" : "things");
    return LK_EXIT_FAILED;
}

/* The experiment as a text, which the caller frees with free(), and which is read to be sure that it can
 * be. */
static lk_status text_make(const neon_recipe *r, char **text, size_t *n)
{
    lk_experiment *e;
    *text = NULL;
    FILE *memory = open_memstream(text, n);
    LK_CHECK(memory, LK_ENOMEM, "no memory for the experiment");
    neon_write(r, memory);
    bool failed = ferror(memory);
    failed = fclose(memory) != 0 || failed;
    LK_CHECK(!failed && *text, LK_ENOMEM, "no memory for the experiment");
    LK_TRY(lk_experiment_parse("the experiment that was made of it", *text, NULL, 0, &e));
    lk_experiment_free(e);
    return LK_OK;
}

static lk_status text_write(const char *path, const char *text, size_t n)
{
    FILE *to = path ? fopen(path, "w") : stdout;
    LK_CHECK(to, LK_EIO, "%s: cannot be written: %s", path, strerror(errno));
    bool failed = fwrite(text, 1, n, to) != n;
    failed = (path ? fclose(to) : fflush(to)) != 0 || failed;
    LK_CHECK(!failed, LK_EIO, "%s: cannot be written: %s", path ? path : "standard output",
             strerror(errno));
    return LK_OK;
}

static int convert(const struct convert_options *o, neon_recipe *r)
{
    const lk_recipe_node *root;
    char *text = NULL;
    size_t n = 0;
    lk_status st = lk_recipe_read_file(r->path, r->arena, &root);
    if (st == LK_OK) {
        neon_take(r, root);
        st = r->status;
    }
    if (st == LK_OK && r->n_issues > 0)
        return refuse(r);
    if (st == LK_OK)
        st = text_make(r, &text, &n);
    if (st == LK_OK)
        st = text_write(o->output, text, n);
    free(text);
    return st == LK_OK ? LK_EXIT_DONE : verb_failed_with(st, NULL);
}

static int convert_run(const void *given, int n, char **operand)
{
    neon_recipe r = {.path = operand[0]};
    (void)n;
    if (lk_arena_new(&r.arena) != LK_OK)
        return verb_failed();
    int status = convert(given, &r);
    lk_arena_free(r.arena);
    return status;
}

const lk__verb lk__convert_kind_neon = {
    .name = "neon",
    .summary = "an experiment of a recipe of neon",
    .operands = "FILE.yaml",
    .about =
        "Writes the experiment that a recipe of neon (2014, with !obj: classes) describes, with "
        "comments for what differs: MNIST, CIFAR10 and ToyImages; MLP, Convnet and GB with its "
        "pretraining; halopar, datapar and vecpar. Everything that has no counterpart is named "
        "with "
        "line and column; then nothing is written and the status is 1.",
    .options = options,
    .options_size = sizeof(struct convert_options),
    .min_operands = 1,
    .max_operands = 1,
    .run = convert_run,
};
