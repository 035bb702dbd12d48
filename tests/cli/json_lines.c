/* Succeeds if standard input is one JSON object on each line, and there is at least one. */
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static bool value(const char **at);

static void blanks(const char **at)
{
    *at += strspn(*at, " \t");
}

static bool take(const char **at, char c)
{
    blanks(at);
    if (**at != c)
        return false;
    ++*at;
    return true;
}

static bool text(const char **at)
{
    if (!take(at, '"'))
        return false;
    for (; **at != '"'; ++*at) {
        if ((unsigned char)**at < 0x20)
            return false;
        if (**at != '\\')
            continue;
        ++*at;
        if (**at == 'u') {
            for (int i = 0; i < 4; i++)
                if (!isxdigit((unsigned char)*++*at))
                    return false;
        } else if (**at == '\0' || !strchr("\"\\/bfnrt", **at)) {
            return false;
        }
    }
    ++*at;
    return true;
}

static bool digits(const char **at)
{
    size_t n = strspn(*at, "0123456789");
    *at += n;
    return n > 0;
}

static bool number(const char **at)
{
    if (**at == '-')
        ++*at;
    if (**at == '0')
        ++*at;
    else if (!digits(at))
        return false;
    if (**at == '.') {
        ++*at;
        if (!digits(at))
            return false;
    }
    if (**at != 'e' && **at != 'E')
        return true;
    ++*at;
    if (**at == '+' || **at == '-')
        ++*at;
    return digits(at);
}

static bool word(const char **at, const char *w)
{
    if (strncmp(*at, w, strlen(w)) != 0)
        return false;
    *at += strlen(w);
    return true;
}

/* Members or elements up to `close`. */
static bool list(const char **at, char close, bool named)
{
    if (take(at, close))
        return true;
    do
        if ((named && !(text(at) && take(at, ':'))) || !value(at))
            return false;
    while (take(at, ','));
    return take(at, close);
}

static bool value(const char **at)
{
    blanks(at);
    switch (**at) {
    case '{': ++*at; return list(at, '}', true);
    case '[': ++*at; return list(at, ']', false);
    case '"': return text(at);
    case 't': return word(at, "true");
    case 'f': return word(at, "false");
    case 'n': return word(at, "null");
    default: return number(at);
    }
}

int main(void)
{
    static char line[1 << 16];
    int n = 0;
    while (fgets(line, sizeof line, stdin)) {
        const char *at = line;
        n++;
        if (line[0] != '{' || !value(&at) || strcmp(at, "\n") != 0) {
            fprintf(stderr, "line %d, column %d: %s", n, (int)(at - line) + 1, line);
            return 1;
        }
    }
    return n > 0 ? 0 : 1;
}
