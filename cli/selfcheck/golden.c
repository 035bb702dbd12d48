/* Reading and writing files of known hashes. */
#include "selfcheck/golden.h"

#include <lockstep/hash.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool bad_line(const char *path, int line, const char *what)
{
    fprintf(stderr, "error: %s:%d: %s\n  a line is a name and 16 hex digits, or a # comment\n",
            path, line, what);
    return false;
}

static bool read_line(golden *g, const char *path, int line, const char *text)
{
    char name[GOLDEN_NAME], hash[32], rest[2];
    if (sscanf(text, "# epoch %d", &g->epoch) == 1 || text[strspn(text, " \t\n")] == '\0' ||
        text[0] == '#')
        return true;
    if (sscanf(text, "%47s %31s %1s", name, hash, rest) != 2 || strlen(hash) != 16 ||
        strspn(hash, "0123456789abcdef") != 16)
        return bad_line(path, line, "this is no name with its hash");
    if (g->n == GOLDEN_MAX)
        return bad_line(path, line, "too many lines");
    memcpy(g->entry[g->n].name, name, sizeof name);
    sscanf(hash, "%" SCNx64, &g->entry[g->n].hash);
    g->n++;
    return true;
}

bool golden_read(golden *g, const char *path)
{
    *g = (golden){.epoch = 0};
    FILE *f = fopen(path, "r");
    if (!f) {
        fprintf(stderr, "error: cannot read the golden file %s: %s\n", path, strerror(errno));
        return false;
    }
    char text[256];
    bool ok = true;
    for (int line = 1; ok && fgets(text, sizeof text, f); line++)
        ok = read_line(g, path, line, text);
    if (ok && ferror(f)) {
        fprintf(stderr, "error: cannot read the golden file %s: %s\n", path, strerror(errno));
        ok = false;
    } else if (ok && g->epoch == 0) {
        fprintf(stderr, "error: %s is no golden file: it has no line \"# epoch N\"\n", path);
        ok = false;
    }
    fclose(f);
    return ok;
}

bool golden_find(golden *g, const char *name, uint64_t *hash)
{
    for (int i = 0; i < g->n; i++)
        if (strcmp(g->entry[i].name, name) == 0) {
            g->entry[i].seen = true;
            *hash = g->entry[i].hash;
            return true;
        }
    return false;
}

void golden_add(golden *g, const char *name, uint64_t hash)
{
    if (g->n == GOLDEN_MAX)
        return;
    snprintf(g->entry[g->n].name, sizeof g->entry[g->n].name, "%s", name);
    g->entry[g->n++].hash = hash;
}

/* Write all lines to an open file and close it. */
static bool write_lines(const golden *g, FILE *f)
{
    char text[LK_HASH_TEXT];
    fprintf(f, "# What \"lockstep selfcheck\" computes, by kernel.\n# epoch %d\n", g->epoch);
    for (int i = 0; i < g->n; i++)
        fprintf(f, "%s %s\n", g->entry[i].name, lk_hash_text(g->entry[i].hash, text));
    bool ok = ferror(f) == 0;
    return fclose(f) == 0 && ok;
}

bool golden_write(const golden *g, const char *path)
{
    char beside[4096];
    if (snprintf(beside, sizeof beside, "%s.new", path) >= (int)sizeof beside) {
        fprintf(stderr, "error: cannot write %s: the name is too long\n", path);
        return false;
    }
    FILE *f = fopen(beside, "w");
    if (!f || !write_lines(g, f) || rename(beside, path) != 0) {
        fprintf(stderr, "error: cannot write %s: %s\n", path, strerror(errno));
        if (f)
            remove(beside);
        return false;
    }
    return true;
}
