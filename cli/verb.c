/* Verbs: finding one by name, printing its help, reading its arguments and running it. main.c calls
 * it. */
#include "verb.h"

#include "ranks.h"

#include <lockstep/extra/isa.h>
#include <lockstep/extra/suggest.h>
#include <lockstep/thread.h>

#include <stdarg.h>
#include <string.h>

enum { COMMAND_SIZE = 128 };

const lk__verb *verb_find(const lk__verb *const *table, const char *command, const char *what,
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

static void kinds_help(const lk__verb *const *kinds, FILE *to)
{
    fprintf(to, "\nkinds:\n");
    for (int i = 0; kinds[i]; i++)
        fprintf(to, "  %-12s %s\n", kinds[i]->name, kinds[i]->summary);
}

void verb_help(const lk__verb *verb, const char *command, FILE *to)
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

static int read_kind(const lk__verb *verb, const char *command, int argc, char **argv,
                     verb_call *out)
{
    if (argc == 0 || argv[0][0] == '-') {
        bool help = asks_for_help(argc, argv);
        if (!help)
            fprintf(stderr, "error: %s: say which kind first: %s KIND [options]\n", command,
                    command);
        verb_help(verb, command, help ? stdout : stderr);
        return help ? LK_EXIT_DONE : LK_EXIT_USAGE;
    }
    const lk__verb *kind = verb_find(verb->kinds, command, "kind", argv[0]);
    if (!kind)
        return LK_EXIT_USAGE;
    char name[COMMAND_SIZE];
    snprintf(name, sizeof name, "%s %s", command, kind->name);
    return verb_read(kind, name, argc - 1, argv + 1, out);
}

static bool environment_is_right(const char *command)
{
    lk_isa isa;
    int threads;
    if (lk_isa_now(&isa) == LK_OK && lk_threads_now(&threads) == LK_OK)
        return true;
    fprintf(stderr, "error: %s: %s\n", command, lk_error_message());
    return false;
}

/* Operand number `i` of those that must be there, as the usage line calls it; its length in `n`. */
static const char *operand_name(const lk__verb *verb, int i, int *n)
{
    const char *word = verb->operands;
    for (;; word += *n, word += strspn(word, " ")) {
        bool optional = *word == '[';
        *n = (int)strcspn(word, optional ? "]" : " ") + optional;
        if (!optional && i-- == 0)
            break;
    }
    if (*n > 3 && strncmp(word + *n - 3, "...", 3) == 0)
        *n -= 3;
    return word;
}

static int refuse_count(const lk__verb *verb, const char *command, int n, char **operand)
{
    int length = 0;
    const char *missing = n < verb->min_operands ? operand_name(verb, n, &length) : NULL;
    if (missing)
        fprintf(stderr, "error: %s: %.*s is missing\n", command, length, missing);
    else
        fprintf(stderr, "error: %s: there is nothing to do with \"%s\"\n", command,
                operand[verb->max_operands]);
    fprintf(stderr, "  usage: %s [options]%s%s\n", command, *verb->operands ? " " : "",
            verb->operands);
    return LK_EXIT_USAGE;
}

static int read_arguments(const lk__verb *verb, const char *command, int argc, char **argv,
                          verb_call *out)
{
    const lk_descriptor entry = {.options = verb->options, .options_size = verb->options_size};
    int n;
    if (lk_arena_new(&out->arena) != LK_OK ||
        lk_arena_alloc(out->arena, &out->options, 1, verb->options_size) != LK_OK ||
        lk_options_set_defaults(&entry, out->options, out->arena) != LK_OK)
        return verb_failed();
    const option_reader reader = {.table = verb->options,
                                  .command = command,
                                  .fields = out->options,
                                  .arena = out->arena,
                                  .before = verb->wraps};
    lk_status st = option_parse(&reader, argc, argv, &n);
    if (st != LK_OK)
        return st == LK_EINVAL ? LK_EXIT_USAGE : verb_failed();
    if (n < verb->min_operands || n > verb->max_operands)
        return refuse_count(verb, command, n, argv);
    if (verb->computes && !environment_is_right(command))
        return LK_EXIT_USAGE;
    out->verb = verb;
    out->n_operands = n;
    out->operand = argv;
    return LK_EXIT_DONE;
}

int verb_read(const lk__verb *verb, const char *command, int argc, char **argv, verb_call *out)
{
    *out = (verb_call){.verb = NULL};
    if (verb->kinds)
        return read_kind(verb, command, argc, argv, out);
    if (!asks_for_help(argc, argv))
        return read_arguments(verb, command, argc, argv, out);
    verb_help(verb, command, stdout);
    return LK_EXIT_DONE;
}

void verb_forget(verb_call *call)
{
    lk_arena_free(call->arena);
    *call = (verb_call){.verb = NULL};
}

int verb_run(const lk__verb *verb, const char *command, int argc, char **argv)
{
    verb_call call;
    int status = verb_read(verb, command, argc, argv, &call);
    if (call.verb)
        status = call.verb->run(call.options, call.n_operands, call.operand);
    verb_forget(&call);
    return status;
}

int verb_failed(void)
{
    if (ranks_may_report_error()) {
        ranks_print_prefix();
        lk_error_print(stderr);
    }
    lk_error_clear();
    return LK_EXIT_FAILED;
}

/* What was asked for does not fit together, with what is there, or is not there at all: trying again
 * will not help. */
static bool is_usage(lk_status st)
{
    return st == LK_EINVAL || st == LK_ESHAPE || st == LK_EDTYPE || st == LK_EOVERFLOW ||
           st == LK_ENOTSUP || st == LK_ESTATE || st == LK_EIDENTITY;
}

/* It cannot be had now: files that are missing or damaged, too little memory, or what is trained is not
 * finite. */
static bool is_lack(lk_status st)
{
    return st == LK_EIO || st == LK_ENOMEM || st == LK_ENAN;
}

int verb_failed_with(lk_status st, const char *where)
{
    if (!is_usage(st) && !is_lack(st))
        return verb_failed();
    (void)verb_refuse("%s%s%s", where ? where : "", where ? ": " : "", lk_error_message());
    lk_error_clear();
    return is_usage(st) ? LK_EXIT_USAGE : LK_EXIT_FAILED;
}

int verb_refuse(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (ranks_may_report_error()) {
        fputs("error: ", stderr);
        vfprintf(stderr, fmt, ap);
        fputc('\n', stderr);
    }
    va_end(ap);
    return LK_EXIT_USAGE;
}
