/* Files of known hashes: a line "name hash" for each check, comments behind #. */
#ifndef LK_CLI_GOLDEN_H
#define LK_CLI_GOLDEN_H

#include <stdbool.h>
#include <stdint.h>

enum { GOLDEN_MAX = 64, GOLDEN_NAME = 48 };

typedef struct golden {
    int epoch; /* of "# epoch N" */
    int n;
    struct {
        char name[GOLDEN_NAME];
        uint64_t hash;
        bool seen; /* by golden_find() */
    } entry[GOLDEN_MAX];
} golden;

/** Read a file.  False after a message on stderr with file and line. */
bool golden_read(golden *g, const char *path);

/** The hash of a name; false if the file has none. */
bool golden_find(golden *g, const char *name, uint64_t *hash);

/** Add a hash to those to be written; `g` starts empty, with its epoch. */
void golden_add(golden *g, const char *name, uint64_t hash);

/** Write the file, replacing an old one only when it is whole.  False after a message. */
bool golden_write(const golden *g, const char *path);

#endif /* LK_CLI_GOLDEN_H */
