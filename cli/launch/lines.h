/* Small files of lines that people write: host files and rank files. */
#ifndef LK_CLI_LINES_H
#define LK_CLI_LINES_H

#include <lockstep/api.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Bytes that a line may have. */
enum { LINES_LENGTH = 4096 };

/** A file that is read line by line, for a command that is named in messages. */
typedef struct lines {
    const char *command, *path;
    FILE *file;
    int number; /* of the line */
    char text[LINES_LENGTH +
              1]; /* the line, without blanks around it, its comment and its end; not empty */
} lines;

/** Open a file; false after a message.  lines_close() in any case. */
bool lines_open(lines *l, const char *command, const char *path);

/** The next line that says anything: 1, 0 at the end, -1 after a message if it cannot be read. */
int lines_next(lines *l);

void lines_close(lines *l);

/** Say what is wrong with this line, as "error: COMMAND: FILE:LINE: ...". */
void lines_complain(const lines *l, const char *fmt, ...) LK_PRINTF(2, 3);

/** Read a whole number from 0 to `max` at `*at`, and move behind it; -1 if there is none. */
int lines_number(const char **at, int max);

/** The characters of a host's name at the beginning of `text`. */
size_t lines_name(const char *text);

#endif /* LK_CLI_LINES_H */
