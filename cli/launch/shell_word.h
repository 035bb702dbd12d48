/* Words of a shell's command line. */
#ifndef LK_CLI_SHELL_WORD_H
#define LK_CLI_SHELL_WORD_H

#include <stdio.h>

/** Print a word so that a shell reads it as one, quoted where it must be. */
void shell_word_print(const char *word, FILE *to);

#endif /* LK_CLI_SHELL_WORD_H */
