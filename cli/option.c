/* Reading a verb's arguments by its table of options, and printing the table as help. verb.c calls
 * it. */
#include "option.h"

#include <stdlib.h>
#include <string.h>

enum { WIDTH = 80, HELP_COLUMN = 26, NAME_SIZE = 64 };

/* How many dashes are before the name. */
static int dashes_of(const lk_option *o)
{
    return o->name[1] && !(o->flags & OPTION_SHORT) ? 2 : 1;
}

/* The name as it is written on the command line, in `buf` of NAME_SIZE bytes. */
static const char *dashed(const lk_option *o, char *buf)
{
    snprintf(buf, NAME_SIZE, "%s%s", dashes_of(o) == 2 ? "--" : "-", o->name);
    for (char *c = buf; *c; c++)
        if (*c == '_')
            *c = '-';
    return buf;
}

const char *option_value_name(const lk_option *o)
{
    if (o->value)
        return o->value;
    switch (o->type) {
    case LK_OPTION_FLAG: return "";
    case LK_OPTION_INT: return "N";
    case LK_OPTION_REAL: return "X";
    case LK_OPTION_TEXT: return "TEXT";
    case LK_OPTION_INTS: return "N,...";
    case LK_OPTION_REALS: return "X,...";
    case LK_OPTION_CHOICE:
    case LK_OPTION_CONFIG: return "NAME";
    case LK_OPTION_NAMES:
    case LK_OPTION_CONFIGS: return "NAME,...";
    }
    return "VALUE";
}

static lk_status reject(const option_reader *r, const lk_option *o, const char *why)
{
    char name[NAME_SIZE];
    fprintf(stderr,
            "error: %s: option %s: %s\n"
            "  run \"%s --help\" for the options and their ranges\n",
            r->command, dashed(o, name), why, r->command);
    return LK_EINVAL;
}

/* Of a text that may be given several times: `*text` becomes what was there, and a line with it. */
static lk_status line_join(const option_reader *r, const lk_option *o, const char **text)
{
    const char *before = *(const char *const *)((const char *)r->fields + o->offset);
    char *both;
    if (strchr(*text, '\n'))
        return reject(r, o, "the value has several lines");
    if (!before)
        return LK_OK;
    size_t size = strlen(before) + strlen(*text) + 2;
    LK_TRY(lk_arena_alloc(r->arena, &both, (int64_t)size, 1));
    snprintf(both, size, "%s\n%s", before, *text);
    *text = both;
    return LK_OK;
}

static lk_status read_value(const option_reader *r, const lk_option *o, const char *text)
{
    if (o->flags & OPTION_LINES)
        LK_TRY(line_join(r, o, &text));
    lk_status st = lk_option_set(o, r->fields, text, r->arena);
    return st == LK_EINVAL ? reject(r, o, lk_error_message()) : st;
}

static lk_status unknown_option(const option_reader *r, const char *arg)
{
    char name[NAME_SIZE], near[NAME_SIZE];
    int len = (int)strcspn(arg, "=");
    snprintf(name, sizeof name, "%.*s", len, arg);
    const lk_option *o = lk_option_suggest(r->table, name + strspn(name, "-"));
    fprintf(stderr, "error: %s: unknown option \"%s\"", r->command, name);
    if (o)
        fprintf(stderr, "; did you mean \"%s\"?", dashed(o, near));
    fprintf(stderr, "\n  run \"%s --help\" for the options\n", r->command);
    return LK_EINVAL;
}

/* Read argv[*i], an option, and its value; *i moves to its last argument. */
static lk_status read_option(const option_reader *r, int argc, char **argv, int *i)
{
    const char *arg = argv[*i], *equals = strchr(arg, '=');
    char name[NAME_SIZE];
    size_t len = equals ? (size_t)(equals - arg) : strlen(arg);
    int dashes = strncmp(arg, "--", 2) == 0 ? 2 : 1;
    if (len >= sizeof name)
        return unknown_option(r, arg);
    snprintf(name, sizeof name, "%.*s", (int)len - dashes, arg + dashes);
    const lk_option *o = lk_option_find(r->table, name);
    if (!o || dashes_of(o) != dashes)
        return unknown_option(r, arg);
    if (o->flags & OPTION_SHORT)
        o--;
    if (o->type == LK_OPTION_FLAG && equals) {
        char why[128];
        snprintf(why, sizeof why, "\"%s\" is a value, but the option takes none", equals + 1);
        return reject(r, o, why);
    }
    if (o->type == LK_OPTION_FLAG)
        return read_value(r, o, "true");
    if (equals)
        return read_value(r, o, equals + 1);
    if (*i + 1 == argc) {
        dashed(o, name);
        fprintf(stderr, "error: %s: option %s needs a value: %s %s\n", r->command, name, name,
                option_value_name(o));
        return LK_EINVAL;
    }
    return read_value(r, o, argv[++*i]);
}

lk_status option_parse(const option_reader *r, int argc, char **argv, int *n_operands)
{
    int n = 0, i = 0;
    for (; i < argc && strcmp(argv[i], "--") != 0 && !(r->before && n > 0); i++) {
        if (argv[i][0] != '-' || argv[i][1] == '\0')
            argv[n++] = argv[i];
        else
            LK_TRY(read_option(r, argc, argv, &i));
    }
    if (n == 0 || !r->before)
        i++; /* past "--" */
    for (; i < argc; i++)
        argv[n++] = argv[i];
    *n_operands = n;
    return LK_OK;
}

void option_wrap(FILE *to, int indent, const char *text)
{
    int column = indent;
    fprintf(to, "%*s", indent, "");
    while (*text) {
        int len = (int)strcspn(text, " \n");
        if (column > indent && column + 1 + len > WIDTH) {
            fprintf(to, "\n%*s", indent, "");
            column = indent;
        } else if (column > indent) {
            fputc(' ', to);
            column++;
        }
        fprintf(to, "%.*s", len, text);
        column += len;
        text += len;
        if (*text == '\n') {
            fprintf(to, "\n%*s", indent, "");
            column = indent;
        }
        if (*text)
            text++;
    }
    fputc('\n', to);
}

const char *option_about(const lk_option *o, char *buf, size_t size)
{
    char range[96];
    int n = snprintf(buf, size, "%s", o->help);
    for (int i = 0; o->choices && n < (int)size; i++) {
        int length;
        const char *word = lk_option_word(o->choices, i, &length);
        if (length == 0)
            break;
        n += snprintf(buf + n, size - (size_t)n, "%s%.*s", i > 0 ? ", " : "; one of ", length,
                      word);
    }
    if (o->registry && n < (int)size)
        n += snprintf(buf + n, size - (size_t)n, "; of the %s", o->registry->plural);
    if (*lk_option_range(o, range, sizeof range) && n < (int)size)
        snprintf(buf + n, size - (size_t)n, "; %s", range);
    return buf;
}

/* "  --name VALUE", "  -n, --name VALUE", or "  name VALUE". */
static void help_left(const lk_option *o, option_style style, char *buf, size_t size)
{
    char name[NAME_SIZE], short_name[NAME_SIZE] = "";
    bool in_file = style == OPTION_IN_FILE;
    const char *value = option_value_name(o);
    if (in_file && o->type == LK_OPTION_FLAG)
        value = "true|false";
    bool has_short = o[1].name && (o[1].flags & OPTION_SHORT);
    snprintf(buf, size, "  %s%s%s%s%s", has_short ? dashed(o + 1, short_name) : "",
             has_short ? ", " : "", in_file ? o->name : dashed(o, name), *value ? " " : "", value);
}

void option_help(const lk_option *table, option_style style, FILE *to)
{
    for (const lk_option *o = table; o->name; o++) {
        char left[3 * NAME_SIZE], right[OPTION_ABOUT + 256];
        if (o->flags & OPTION_SHORT)
            continue;
        help_left(o, style, left, sizeof left);
        option_about(o, right, OPTION_ABOUT);
        size_t n = strlen(right);
        if (o->flags & LK_OPTION_REQUIRED)
            snprintf(right + n, sizeof right - n, " (required)");
        else if (o->def)
            snprintf(right + n, sizeof right - n, " (default %s)", o->def);
        if (strlen(left) >= HELP_COLUMN) {
            fprintf(to, "%s\n", left);
            option_wrap(to, HELP_COLUMN, right);
            continue;
        }
        /* The first line of the wrapped text begins where `left` ends. */
        fprintf(to, "%s", left);
        char *text = NULL;
        size_t size = 0;
        FILE *memory = open_memstream(&text, &size);
        if (!memory) {
            fprintf(to, " %s\n", right);
            continue;
        }
        option_wrap(memory, HELP_COLUMN, right);
        fclose(memory);
        fprintf(to, "%s", text + strlen(left));
        free(text);
    }
}
