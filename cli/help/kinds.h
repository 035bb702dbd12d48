/* The registries that experiments choose from by name, with their option tables: for `help` and the
 * reference.
 */
#ifndef LK_CLI_KINDS_H
#define LK_CLI_KINDS_H

#include <lockstep/option.h>

#include <stdio.h>

/** All kinds, NULL-terminated. */
extern const lk_registry *const lk__kinds[];

/** Print the help of an entry: what it is, and its options. */
void kind_help(const lk_registry *kind, const lk_descriptor *entry, FILE *to);

/** Print a page of Markdown about all kinds: docs/reference/options.md. */
void kinds_markdown(FILE *to);

#endif /* LK_CLI_KINDS_H */
