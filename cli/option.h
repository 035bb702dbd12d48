/* Options of a verb on the command line: reading argv by a table of options, and printing help.
 *
 * The tables are the library's (<lockstep/option.h>).  Words of a name are joined by "-" here.
 */
#ifndef LK_CLI_OPTION_H
#define LK_CLI_OPTION_H

#include <lockstep/option.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/** Flags of a row for the command line, beside those of the library. */
enum {
    OPTION_SHORT = 1 << 16, /* the row before, written with one dash and this name: -H for --host */
    OPTION_LINES = 1 << 17  /* a text that may be given several times: a line for each */
};

/** Who reads options, from which table, into which struct, which holds the defaults. */
typedef struct option_reader {
    const lk_option *table;
    const char *command; /* for messages */
    void *fields;
    lk_arena *arena;
    bool before; /* options stand before the operands only: the first operand ends them */
} option_reader;

/**
 * Read argv[0 ... argc-1].
 *
 * An option of one letter, or marked as a short form, is written with one dash.  Operands (what is no option) are moved to the
 * front of argv and counted in `n_operands`; "--" ends the options.  Wrong usage is LK_EINVAL, after
 * a message on stderr.
 */
lk_status option_parse(const option_reader *r, int argc, char **argv, int *n_operands) LK_NODISCARD;

/** How a name is written: `--learning-rate` or `learning_rate`. */
typedef enum option_style { OPTION_ON_LINE, OPTION_IN_FILE } option_style;

/** Print the table, one option a line with its default and range. */
void option_help(const lk_option *table, option_style style, FILE *to);

/** What stands for a value in help, such as "N"; "" for a flag. */
const char *option_value_name(const lk_option *o);

enum { OPTION_ABOUT = 1024 };

/** What the option is for, and what is allowed: its help, words, kind and range.  In `buf` of `size`
 * bytes; returns `buf`. */
const char *option_about(const lk_option *o, char *buf, size_t size);

/** Print `text` indented, wrapped at 80 columns; a newline in it begins a paragraph. */
void option_wrap(FILE *to, int indent, const char *text);

#endif /* LK_CLI_OPTION_H */
