/* Finding, explaining and running verbs. */
#include "verb.h"

#include <lockstep/isa.h>
#include <lockstep/suggest.h>
#include <lockstep/thread.h>

#include <string.h>

enum { COMMAND_SIZE = 128 };

const lk_verb *verb_find(const lk_verb *const *table, const char *command, const char *what,
                         const char *name)
{
    lk_suggestion s = {.wanted = name};
    for (int i = 0; table[i]; i++) {
        if (strcmp(table[i]->name, name) == 0)
            return table[i];
        lk_suggest_consider(&s, table[i]->name);
    }
    fprintf(stderr, "error: %s: unknown %s \"%s\"", command, what, name);
    if (lk_suggest_found(&s))
        fprintf(stderr, "; did you mean \"%s\"?", s.best);
    fprintf(stderr, "\n  run \"%s --help\" for what there is\n", command);
    return NULL;
}

static void kinds_help(const lk_verb *const *kinds, FILE *to)
{
    fprintf(to, "\nkinds:\n");
    for (int i = 0; kinds[i]; i++)
        fprintf(to, "  %-12s %s\n", kinds[i]->name, kinds[i]->summary);
}

void verb_help(const lk_verb *verb, const char *command, FILE *to)
{
    const char *operands = verb->kinds ? "KIND" : verb->operands;
    fprintf(to, "usage: %s [options]%s%s\n\n", command, *operands ? " " : "", operands);
    option_wrap(to, 0, verb->about);
    if (verb->kinds)
        kinds_help(verb->kinds, to);
    fprintf(to, "\noptions:\n");
    if (verb->options)
        option_help(verb->options, OPTION_ON_LINE, to);
    fprintf(to, "  %-23s %s\n", "--help", "show this text");
}

/* Whether --help or -h comes before "--". */
static bool asks_for_help(int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

static int run_kind(const lk_verb *verb, const char *command, int argc, char **argv)
{
    if (argc == 0 || argv[0][0] == '-') {
        bool help = asks_for_help(argc, argv);
        if (!help)
            fprintf(stderr, "error: %s: say which kind first: %s KIND [options]\n", command,
                    command);
        verb_help(verb, command, help ? stdout : stderr);
        return help ? LK_EXIT_DONE : LK_EXIT_USAGE;
    }
    const lk_verb *kind = verb_find(verb->kinds, command, "kind", argv[0]);
    if (!kind)
        return LK_EXIT_USAGE;
    char name[COMMAND_SIZE];
    snprintf(name, sizeof name, "%s %s", command, kind->name);
    return verb_run(kind, name, argc - 1, argv + 1);
}

static bool environment_is_right(const char *command)
{
    lk_isa isa;
    int threads;
    if (lk_isa_get(&isa) == LK_OK && lk_threads_get(&threads) == LK_OK)
        return true;
    fprintf(stderr, "error: %s: %s\n", command, lk_error_message());
    return false;
}

static int run_with_options(const lk_verb *verb, const char *command, int argc, char **argv,
                            lk_arena *arena)
{
    const lk_entry entry = {.options = verb->options, .options_size = verb->options_size};
    void *fields;
    int n;
    if (lk_arena_alloc(arena, &fields, 1, verb->options_size) != LK_OK ||
        lk_options_preset(&entry, fields, arena) != LK_OK)
        return verb_failed();
    lk_status st = option_parse(verb->options, command, fields, arena, argc, argv, &n);
    if (st != LK_OK)
        return st == LK_EINVAL ? LK_EXIT_USAGE : verb_failed();
    if (n < verb->min_operands || n > verb->max_operands) {
        bool extra = n > verb->max_operands;
        fprintf(stderr, "error: %s: %s%s%s\n  usage: %s [options]%s%s\n", command,
                extra ? "there is nothing to do with \"" : "something is missing",
                extra ? argv[verb->max_operands] : "", extra ? "\"" : "", command,
                *verb->operands ? " " : "", verb->operands);
        return LK_EXIT_USAGE;
    }
    if (verb->computes && !environment_is_right(command))
        return LK_EXIT_USAGE;
    return verb->run(fields, n, argv);
}

int verb_run(const lk_verb *verb, const char *command, int argc, char **argv)
{
    if (verb->kinds)
        return run_kind(verb, command, argc, argv);
    if (asks_for_help(argc, argv)) {
        verb_help(verb, command, stdout);
        return LK_EXIT_DONE;
    }
    lk_arena *arena;
    if (lk_arena_new(&arena) != LK_OK)
        return verb_failed();
    int status = run_with_options(verb, command, argc, argv, arena);
    lk_arena_free(arena);
    return status;
}

int verb_failed(void)
{
    lk_error_print(stderr);
    return LK_EXIT_FAILED;
}
