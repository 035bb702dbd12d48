/* Parsing and help of option tables. */
#include "option.h"

#include <lockstep/suggest.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 80, HELP_COLUMN = 26 };

/* What is being read, for messages and for the table. */
struct reader {
    const lk_option *table;
    const char *command;
    char *fields;
};

static bool reject(const struct reader *r, const lk_option *o, const char *text, const char *why)
{
    fprintf(stderr,
            "error: %s: option --%s: \"%s\" %s\n"
            "  run \"%s --help\" for the options and their ranges\n",
            r->command, o->name, text, why, r->command);
    return false;
}

/* "from MIN to MAX", whole numbers with all their digits. */
static void range_text(const lk_option *o, char *buf, size_t size)
{
    bool real = o->type == LK_OPTION_REAL;
    snprintf(buf, size, real ? "from %g to %g" : "from %.0f to %.0f", o->min, o->max);
}

static bool in_range(const struct reader *r, const lk_option *o, const char *text, double v)
{
    if (o->min >= o->max || (v >= o->min && v <= o->max))
        return true;
    char range[64], why[128];
    range_text(o, range, sizeof range);
    snprintf(why, sizeof why, "is out of range, it must be %s", range);
    return reject(r, o, text, why);
}

static bool read_int(const struct reader *r, const lk_option *o, const char *text, int64_t *out)
{
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (end == text || *end != '\0')
        return reject(r, o, text, "is not a whole number");
    if (errno == ERANGE)
        return reject(r, o, text, "is too large a number");
    *out = v;
    return in_range(r, o, text, (double)v);
}

static bool read_real(const struct reader *r, const lk_option *o, const char *text, double *out)
{
    char *end;
    double v = strtod(text, &end);
    if (end == text || *end != '\0' || !(v - v == 0))
        return reject(r, o, text, "is not a number");
    *out = v;
    return in_range(r, o, text, v);
}

/* One item of a list: `i` is its position. */
static bool read_item(const struct reader *r, const lk_option *o, const char *item, int i)
{
    char *field = r->fields + o->offset;
    if (*item == '\0')
        return reject(r, o, item, "is an empty item of the list");
    if (i >= LK_OPTION_MAX_ITEMS)
        return reject(r, o, item, "is one item too many, at most 16 are allowed");
    bool twice = false;
    if (o->type == LK_OPTION_INTS) {
        lk_option_ints *list = (lk_option_ints *)(void *)field;
        list->n = i + 1;
        if (!read_int(r, o, item, &list->item[i]))
            return false;
        for (int j = 0; j < i; j++)
            twice = twice || list->item[j] == list->item[i];
    } else {
        lk_option_names *list = (lk_option_names *)(void *)field;
        list->n = i + 1;
        if (strlen(item) >= LK_OPTION_NAME_SIZE)
            return reject(r, o, item, "is too long a name");
        memcpy(list->item[i], item, strlen(item) + 1);
        for (int j = 0; j < i; j++)
            twice = twice || strcmp(list->item[j], item) == 0;
    }
    return !twice || reject(r, o, item, "is in the list twice");
}

static bool read_list(const struct reader *r, const lk_option *o, const char *text)
{
    char item[64];
    int n = 0;
    for (const char *at = text;; n++) {
        size_t len = strcspn(at, ",");
        if (len >= sizeof item)
            return reject(r, o, text, "has too long an item");
        memcpy(item, at, len);
        item[len] = '\0';
        if (!read_item(r, o, item, n))
            return false;
        if (at[len] == '\0')
            return true;
        at += len + 1;
    }
}

static bool read_value(const struct reader *r, const lk_option *o, const char *text)
{
    void *field = r->fields + o->offset;
    switch (o->type) {
    case LK_OPTION_FLAG: *(bool *)field = true; return true;
    case LK_OPTION_INT: return read_int(r, o, text, field);
    case LK_OPTION_REAL: return read_real(r, o, text, field);
    case LK_OPTION_TEXT: *(const char **)field = text; return true;
    case LK_OPTION_INTS:
    case LK_OPTION_NAMES: return read_list(r, o, text);
    }
    return false;
}

static const lk_option *find_option(const struct reader *r, const char *name, size_t len)
{
    for (const lk_option *o = r->table; o->name; o++)
        if (strlen(o->name) == len && memcmp(o->name, name, len) == 0)
            return o;
    return NULL;
}

static bool unknown_option(const struct reader *r, const char *arg)
{
    char name[64];
    size_t len = strcspn(arg, "=");
    snprintf(name, sizeof name, "%.*s", (int)(len < sizeof name ? len : sizeof name - 1), arg);
    lk_suggestion s = {.wanted = name + strspn(name, "-")};
    for (const lk_option *o = r->table; o->name; o++)
        lk_suggest_consider(&s, o->name);
    fprintf(stderr, "error: %s: unknown option \"%s\"", r->command, name);
    if (lk_suggest_found(&s))
        fprintf(stderr, "; did you mean \"--%s\"?", s.best);
    fprintf(stderr, "\n  run \"%s --help\" for the options\n", r->command);
    return false;
}

/* Read argv[*i], an option, and its value; *i moves to its last argument. */
static bool read_option(const struct reader *r, int argc, char **argv, int *i)
{
    const char *arg = argv[*i];
    if (strncmp(arg, "--", 2) != 0)
        return unknown_option(r, arg);
    const char *name = arg + 2;
    size_t len = strcspn(name, "=");
    const lk_option *o = find_option(r, name, len);
    if (!o)
        return unknown_option(r, arg);
    if (o->type == LK_OPTION_FLAG) {
        if (name[len] == '=')
            return reject(r, o, name + len + 1, "is a value, but the option takes none");
        return read_value(r, o, NULL);
    }
    if (name[len] == '=')
        return read_value(r, o, name + len + 1);
    if (*i + 1 == argc) {
        fprintf(stderr, "error: %s: option --%s needs a value: --%s %s\n", r->command, o->name,
                o->name, o->value);
        return false;
    }
    return read_value(r, o, argv[++*i]);
}

bool option_parse(const lk_option *table, const char *command, void *fields, int argc, char **argv,
                  int *n_operands)
{
    struct reader r = {table, command, fields};
    for (const lk_option *o = table; o->name; o++)
        if (o->preset && !read_value(&r, o, o->preset))
            return false;
    int n = 0, i = 0;
    for (; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (argv[i][0] != '-' || argv[i][1] == '\0')
            argv[n++] = argv[i];
        else if (!read_option(&r, argc, argv, &i))
            return false;
    }
    for (i++; i < argc; i++)
        argv[n++] = argv[i];
    *n_operands = n;
    return true;
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

void option_help(const lk_option *table, FILE *to)
{
    for (const lk_option *o = table; o->name; o++) {
        char left[64], range[64], right[512];
        snprintf(left, sizeof left, "  --%s%s%s", o->name, o->value ? " " : "",
                 o->value ? o->value : "");
        int n = snprintf(right, sizeof right, "%s", o->help);
        range_text(o, range, sizeof range);
        if (o->min < o->max && n < (int)sizeof right)
            n += snprintf(right + n, sizeof right - (size_t)n, "; %s", range);
        if (o->preset && n < (int)sizeof right)
            snprintf(right + n, sizeof right - (size_t)n, " (default %s)", o->preset);
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
