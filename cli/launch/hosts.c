/* Lists of hosts, from options and host files: see hosts.h. */
#include "launch/hosts.h"

#include "launch/lines.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- names ---- */

/* Whether there was memory; false after a message. */
static bool has_memory(const char *command, lk_status st)
{
    if (st != LK_OK)
        fprintf(stderr, "error: %s: %s\n", command, lk_error_message());
    return st == LK_OK;
}

/* The number of a name in the list; -1: it is not there. */
static int list_find(const host_list *list, const char *name, size_t n)
{
    for (int i = 0; i < list->n; i++)
        if (strlen(list->item[i].name) == n && strncmp(list->item[i].name, name, n) == 0)
            return i;
    return -1;
}

bool hosts_here(const char *command, lk_arena *arena, host_list *out)
{
    char name[HOST_NAME_MAX + 1] = "localhost";
    (void)!gethostname(name, sizeof name - 1);
    out->n = 1;
    return has_memory(command, lk_arena_alloc(arena, &out->item, 1, sizeof *out->item)) &&
           has_memory(command, lk_arena_text(arena, name, strlen(name), &out->item->name));
}

/* The first part of a name, up to a dot, is enough: a host may know itself with its domain or without. */
bool hosts_is_here(const char *name)
{
    char own[HOST_NAME_MAX + 1] = "";
    (void)!gethostname(own, sizeof own - 1);
    size_t n = strcspn(own, ".");
    bool whole = own[n] == '.' && strchr(name, '.');
    return strcmp(name, "localhost") == 0 || strcmp(name, own) == 0 ||
           (!whole && n > 0 && strcspn(name, ".") == n && strncmp(name, own, n) == 0);
}

/* ---- -H a,b:4,c ---- */

static void option_complain(const char *command, const char *option, int number, const char *what)
{
    fprintf(stderr, "error: %s: option --%s: host %d has %s\n", command, option, number, what);
}

/* One host of the list; it ends at a comma. */
static bool entry_parse(const char *command, const char *option, const char *at, lk_arena *arena,
                        host_list *out)
{
    host_entry *h = &out->item[out->n];
    const char *behind = at + lines_name(at);
    int number = out->n + 1;
    size_t n = (size_t)(behind - at);
    if (n == 0 && (!*at || *at == ',')) {
        option_complain(command, option, number, "no name");
        return false;
    }
    if (*behind == ':' && n > 0) {
        behind++;
        h->slots = lines_number(&behind, HOSTS_MAX_SLOTS);
        if (h->slots < 1 || (*behind && *behind != ',')) {
            option_complain(command, option, number,
                            "no number from 1 to 1000000 behind its colon");
            return false;
        }
    }
    if (n == 0 || (*behind && *behind != ',')) {
        option_complain(command, option, number, "a character that no host's name has");
        return false;
    }
    if (list_find(out, at, n) >= 0) {
        fprintf(stderr, "error: %s: option --%s: \"%.*s\" is in the list twice\n", command, option,
                (int)n, at);
        return false;
    }
    return has_memory(command, lk_arena_text(arena, at, n, &h->name));
}

bool hosts_parse(const char *command, const char *option, const char *text, lk_arena *arena,
                 host_list *out)
{
    int count = 1;
    for (const char *c = text; *c; c++)
        count += *c == ',';
    *out = (host_list){.n = 0};
    if (count > HOSTS_MAX) {
        fprintf(stderr, "error: %s: option --%s: %d hosts; at most %d\n", command, option, count,
                HOSTS_MAX);
        return false;
    }
    if (!has_memory(command, lk_arena_alloc(arena, &out->item, count, sizeof *out->item)))
        return false;
    for (const char *at = text; out->n < count; out->n++, at += strcspn(at, ",") + 1)
        if (!entry_parse(command, option, at, arena, out))
            return false;
    return true;
}

/* ---- host files ---- */

/* The words behind a name: how many ranks the host takes. */
static bool slots_read(const lines *l, const char *at, host_entry *out)
{
    static const char *const keys[] = {"slots=", "max_slots=", "max-slots="};
    int most = 0;
    for (at += strspn(at, " \t"); *at; at += strspn(at, " \t")) {
        size_t k = 0;
        int word = (int)strcspn(at, " \t");
        while (k < 3 && strncmp(at, keys[k], strlen(keys[k])) != 0)
            k++;
        const char *value = k < 3 ? at + strlen(keys[k]) : at;
        int n = k < 3 ? lines_number(&value, HOSTS_MAX_SLOTS) : -1;
        if (n < 1 || (*value && *value != ' ' && *value != '\t')) {
            lines_complain(l, "\"%.*s\" is not known here: it may be slots=N, with N from 1 to %d",
                           word, at, HOSTS_MAX_SLOTS);
            return false;
        }
        *(k == 0 ? &out->slots : &most) = n;
        at = value;
    }
    if (most > 0 && out->slots > most) {
        lines_complain(l, "host %s has %d slots, and at most %d", out->name, out->slots, most);
        return false;
    }
    out->slots = out->slots > 0 ? out->slots : most;
    return true;
}

/* A line of a host file. */
static bool line_read(const lines *l, lk_arena *arena, host_list *out, int *line_of)
{
    host_entry *h = &out->item[out->n];
    const char *at = l->text;
    size_t n = lines_name(at);
    *h = (host_entry){.name = NULL};
    if (n == 0 || (at[n] && !strchr(" \t:", at[n]))) {
        lines_complain(l, "\"%.*s\" is no name of a host", (int)strcspn(at, " \t"), at);
        return false;
    }
    int before = list_find(out, at, n);
    if (before >= 0) {
        lines_complain(l, "host %.*s is in line %d as well", (int)n, at, line_of[before]);
        return false;
    }
    if (!has_memory(l->command, lk_arena_text(arena, at, n, &h->name)))
        return false;
    line_of[out->n++] = l->number;
    if (at[n] != ':')
        return slots_read(l, at + n, h);
    const char *behind = at + n + 1;
    h->slots = lines_number(&behind, HOSTS_MAX_SLOTS);
    if (h->slots >= 1 && !*behind)
        return true;
    lines_complain(l, "behind \"%s:\" there is \"%s\": it must be a number from 1 to %d", h->name,
                   at + n + 1, HOSTS_MAX_SLOTS);
    return false;
}

bool hosts_read(const char *command, const char *path, lk_arena *arena, host_list *out)
{
    lines l;
    int more = -1, *line_of = NULL;
    *out = (host_list){.n = 0};
    if (lines_open(&l, command, path) &&
        has_memory(command, lk_arena_alloc(arena, &line_of, HOSTS_MAX, sizeof *line_of)) &&
        has_memory(command, lk_arena_alloc(arena, &out->item, HOSTS_MAX, sizeof *out->item)))
        for (more = lines_next(&l); more > 0; more = lines_next(&l)) {
            if (out->n == HOSTS_MAX)
                lines_complain(&l, "more than %d hosts", HOSTS_MAX);
            if (out->n == HOSTS_MAX || !line_read(&l, arena, out, line_of)) {
                more = -1;
                break;
            }
        }
    if (more == 0 && out->n == 0) {
        fprintf(stderr, "error: %s: %s names no host\n", command, path);
        more = -1;
    }
    lines_close(&l);
    return more == 0;
}
