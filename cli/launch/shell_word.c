/* Quoting for a shell: 'as it is', and ' itself as '\''. */
#include "launch/shell_word.h"

#include <string.h>

void shell_word_print(const char *word, FILE *to)
{
    size_t plain = strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "%+,-./:=@_");
    if (*word && !word[plain]) {
        fputs(word, to);
        return;
    }
    fputc('\'', to);
    for (; *word; word++)
        if (*word == '\'')
            fputs("'\\''", to);
        else
            fputc(*word, to);
    fputc('\'', to);
}
