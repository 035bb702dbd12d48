/* Options of a verb as a table.
 *
 * A verb declares a struct for its options and one row for each: name, type, the field's offset,
 * default, range and help.  Parsing, range checks, "did you mean" and --help all read the table, so
 * an option is documented where it is defined.
 */
#ifndef LK_CLI_OPTION_H
#define LK_CLI_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The field's type in the verb's struct is given behind each. */
typedef enum lk_option_type {
    LK_OPTION_FLAG,  /* bool; takes no value */
    LK_OPTION_INT,   /* int64_t */
    LK_OPTION_REAL,  /* double */
    LK_OPTION_TEXT,  /* const char *, borrowed from argv; NULL if not given */
    LK_OPTION_INTS,  /* lk_option_ints, "1,2,4", each once */
    LK_OPTION_NAMES, /* lk_option_names, "a,b", each once */
} lk_option_type;

enum { LK_OPTION_MAX_ITEMS = 16, LK_OPTION_NAME_SIZE = 32 };

typedef struct lk_option_ints {
    int n;
    int64_t item[LK_OPTION_MAX_ITEMS];
} lk_option_ints;

typedef struct lk_option_names {
    int n;
    char item[LK_OPTION_MAX_ITEMS][LK_OPTION_NAME_SIZE];
} lk_option_names;

typedef struct lk_option {
    const char *name; /* without the dashes */
    lk_option_type type;
    size_t offset;
    const char *value;  /* the value's name in --help; NULL for a flag */
    const char *preset; /* the default, read as a value is; NULL: zero, none */
    double min, max;    /* of a number; no limits if equal */
    const char *help;
} lk_option;

/**
 * Read argv[0 ... argc-1] into the struct at `fields`, which is zeroed by the caller.
 *
 * Operands (what is no option) are moved to the front of argv and counted in `n_operands`;
 * "--" ends the options.  Returns false after a message on stderr that names `command`.
 */
bool option_parse(const lk_option *table, const char *command, void *fields, int argc, char **argv,
                  int *n_operands);

/** Print the table, one option a line with its default and range. */
void option_help(const lk_option *table, FILE *to);

/** Print `text` indented, wrapped at 80 columns; a newline in it begins a paragraph. */
void option_wrap(FILE *to, int indent, const char *text);

#endif /* LK_CLI_OPTION_H */
