/* Files of lines: "#" begins a comment, lines without anything are left out. */
#include "launch/lines.h"

#include <lockstep/extra/text.h>

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

bool lines_open(lines *l, const char *command, const char *path)
{
    *l = (lines){.command = command, .path = path, .file = fopen(path, "re")};
    if (!l->file)
        fprintf(stderr, "error: %s: cannot read %s: %s\n", command, path, strerror(errno));
    return l->file != NULL;
}

void lines_close(lines *l)
{
    if (l->file)
        fclose(l->file);
    *l = (lines){.file = NULL};
}

void lines_complain(const lines *l, const char *fmt, ...)
{
    char raw[512], text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(raw, sizeof raw, fmt, ap);
    va_end(ap);
    lk_sanitize_text(raw, text, sizeof text);
    fprintf(stderr, "error: %s: %s:%d: %s\n", l->command, l->path, l->number, text);
}

/* Take off the comment, and blanks at both ends. */
static void line_trim(char *text)
{
    size_t n = strcspn(text, "#\n"), blanks;
    while (n > 0 && isspace((unsigned char)text[n - 1]))
        n--;
    text[n] = '\0';
    blanks = strspn(text, " \t");
    memmove(text, text + blanks, n - (blanks < n ? blanks : n) + 1);
}

/* The next line, as far as there is room; its bytes, or -1. */
static int line_take(lines *l)
{
    int n = 0, c = 0;
    while (n < LINES_LENGTH && c != '\n' && (c = getc(l->file)) != EOF)
        l->text[n++] = (char)c;
    l->text[n] = '\0';
    return n > 0 ? n : -1;
}

int lines_next(lines *l)
{
    for (;;) {
        errno = 0;
        int n = line_take(l);
        if (n < 0 && errno == 0)
            return 0;
        l->number++;
        if (n < 0) {
            lines_complain(l, "cannot read it: %s", strerror(errno));
            return -1;
        }
        if (strlen(l->text) != (size_t)n) {
            lines_complain(l, "there is a byte 0 in it: it is no text");
            return -1;
        }
        if (n == LINES_LENGTH) {
            lines_complain(l, "the line has %d bytes or more", LINES_LENGTH);
            return -1;
        }
        line_trim(l->text);
        if (*l->text)
            return 1;
    }
}

int lines_number(const char **at, int max)
{
    long long value = 0;
    size_t digits = strspn(*at, "0123456789");
    for (size_t i = 0; i < digits && value <= max; i++)
        value = 10 * value + ((*at)[i] - '0');
    *at += digits;
    return digits > 0 && value <= max ? (int)value : -1;
}

size_t lines_name(const char *text)
{
    size_t n = 0;
    while (isalnum((unsigned char)text[n]) || (text[n] && strchr(".-_", text[n])))
        n++;
    return n;
}
