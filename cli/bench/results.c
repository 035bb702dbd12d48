/* Reading lines of JSON, each an object of texts and numbers. */
#include "bench/results.h"

#include "verb.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FIELDS = 64, MAX_WORD = 256 };

/* Keys that tell cases of one name from each other, and what is written of them behind it. */
static const struct {
    const char *key, *before, *behind;
} marks[] = {
    {"mode", "", ""},        {"algorithm", "", ""},       {"devices", "", ""},
    {"bytes", "", " bytes"}, {"tensors", "", " tensors"}, {"batch", "batch ", ""},
    {"ranks", "", " ranks"}, {"readers", "", " readers"},
};

/* Keys of figures, of which the first that a row has counts. */
static const struct {
    const char *key, *unit;
    bool is_rate;
} figures[] = {
    {"milliseconds", "ms", false},        {"whole_microseconds", "us", false},
    {"microseconds", "us", false},        {"gflops", "GFLOP/s", true},
    {"samples_per_s", "samples/s", true},
};

/* A line of a file, as its fields. */
struct row {
    const char *path;
    int line, n;
    struct {
        char key[MAX_WORD], value[MAX_WORD]; /* a text without its quotes; "null" */
    } field[MAX_FIELDS];
};

/* ---- lines ---- */

/* Read a text behind its first quote; false if it has no end.  What is too long is cut. */
static bool text_read(const char **at, char *out)
{
    size_t n = 0;
    for (; **at != '"'; ++*at) {
        if (**at == '\\')
            ++*at;
        if (!**at)
            return false;
        if (n + 1 < MAX_WORD)
            out[n++] = **at;
    }
    out[n] = '\0';
    ++*at;
    return true;
}

/* Read a number, null, true or false. */
static bool word_read(const char **at, char *out)
{
    size_t n = strcspn(*at, ",} \t");
    if (n == 0 || n >= MAX_WORD || !strchr("-0123456789ntf", **at))
        return false;
    memcpy(out, *at, n);
    out[n] = '\0';
    *at += n;
    return true;
}

static void blanks(const char **at)
{
    *at += strspn(*at, " \t\r\n");
}

static bool take(const char **at, char c)
{
    blanks(at);
    if (**at != c)
        return false;
    ++*at;
    return true;
}

/* Read the fields of a line; false if it is no object of texts and numbers. */
static bool row_read(const char *at, struct row *r)
{
    r->n = 0;
    if (!take(&at, '{'))
        return false;
    do {
        if (r->n == MAX_FIELDS || !take(&at, '"') || !text_read(&at, r->field[r->n].key) ||
            !take(&at, ':'))
            return false;
        blanks(&at);
        bool is_text = take(&at, '"');
        if (!(is_text ? text_read : word_read)(&at, r->field[r->n].value))
            return false;
        r->n++;
    } while (take(&at, ','));
    if (!take(&at, '}'))
        return false;
    blanks(&at);
    return *at == '\0';
}

/* The value of a key, or NULL. */
static const char *row_find(const struct row *r, const char *key)
{
    for (int i = 0; i < r->n; i++)
        if (strcmp(r->field[i].key, key) == 0)
            return r->field[i].value;
    return NULL;
}

/* The noise of a figure, or NULL: then it is none. */
static const char *row_noise(const struct row *r, const char *key)
{
    char name[MAX_WORD];
    snprintf(name, sizeof name, "%s_noise", key);
    return row_find(r, name);
}

/* ---- cases ---- */

static double number_of(const char *text)
{
    return strcmp(text, "null") == 0 ? (double)NAN : strtod(text, NULL);
}

/* `name`, of `size` bytes: that of a case, and what tells the row from others of it. */
static void name_make(const struct row *r, const char *of, char *name, size_t size)
{
    size_t n = (size_t)snprintf(name, size, "%s", of);
    for (size_t i = 0; i < sizeof marks / sizeof marks[0] && n < size; i++) {
        const char *value = row_find(r, marks[i].key);
        if (value && *value && !row_noise(r, marks[i].key))
            n += (size_t)snprintf(name + n, size - n, ", %s%s%s", marks[i].before, value,
                                  marks[i].behind);
    }
}

/* Put a row's case behind `*last`, unless it is there already or has no figure. */
static lk_status row_keep(const struct row *r, lk_arena *arena, bench_results *out,
                          bench_recorded ***last)
{
    char name[4 * MAX_WORD];
    const char *of = row_find(r, "case"), *value = NULL, *noise = NULL;
    size_t k = 0;
    if (!of)
        return LK_OK;
    for (; k < sizeof figures / sizeof figures[0] && !value; k++) {
        value = row_find(r, figures[k].key);
        noise = row_noise(r, figures[k].key);
    }
    name_make(r, of, name, sizeof name);
    if (!value || !noise || bench_results_find(out, name))
        return LK_OK;
    bench_recorded *c;
    LK_TRY(lk_arena_alloc(arena, &c, 1, sizeof *c));
    LK_TRY(lk_arena_text(arena, name, strlen(name), &c->name));
    c->unit = figures[k - 1].unit;
    c->is_rate = figures[k - 1].is_rate;
    double off = number_of(noise);
    c->figure = (bench_figure){true, number_of(value), isnan(off) ? (double)INFINITY : off};
    **last = c;
    *last = &c->next;
    out->n++;
    return LK_OK;
}

static bool file_read(FILE *file, lk_arena *arena, bench_results *out)
{
    static struct row r;
    char *line = NULL;
    size_t room = 0;
    bool fine = true;
    bench_recorded **last = &out->first;
    for (r.line = 1; fine && getline(&line, &room, file) > 0; r.line++) {
        if (!row_read(line, &r)) {
            verb_refuse(
                "lockstep bench compare: %s:%d: this is no JSON object of a bench: give what "
                "\"lockstep bench KIND --json\" printed",
                out->path, r.line);
            fine = false;
        } else if (row_keep(&r, arena, out, &last) != LK_OK) {
            verb_failed();
            fine = false;
        }
    }
    if (fine && ferror(file)) {
        verb_refuse("lockstep bench compare: %s: %s", out->path, strerror(errno));
        fine = false;
    }
    free(line);
    return fine;
}

bool bench_results_read(const char *path, lk_arena *arena, bench_results *out)
{
    *out = (bench_results){.path = path};
    FILE *file = fopen(path, "r");
    if (!file) {
        verb_refuse("lockstep bench compare: %s: %s", path, strerror(errno));
        return false;
    }
    bool fine = file_read(file, arena, out);
    fclose(file);
    if (fine && out->n == 0)
        verb_refuse("lockstep bench compare: %s: no case with a figure is in it: give what "
                    "\"lockstep bench KIND --json\" printed",
                    path);
    return fine && out->n > 0;
}

const bench_recorded *bench_results_find(const bench_results *r, const char *name)
{
    for (const bench_recorded *c = r->first; c; c = c->next)
        if (strcmp(c->name, name) == 0)
            return c;
    return NULL;
}
