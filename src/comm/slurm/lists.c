/* The two lists that SLURM writes of a job: its hosts, and how many tasks each has.
 *
 *     hosts   = name { "," name }
 *     name    = { character | "[" range { "," range } "]" }        at most MAX_BRACKETS brackets
 *     range   = number [ "-" number ]                              the first says how many digits
 *     tasks   = count { "," count }
 *     count   = number [ "(x" number ")" ]
 *
 * Brackets expand in the order of SLURM's hostlist.c: the last varies fastest, then the first, the second and
 * so on; for two brackets that is an odometer.  A name is gone through twice, to count and to write, so that
 * nothing is allocated for a list that is refused.
 */
#include "base/text/digits.h"
#include "comm/slurm/slurm.h"

#include <stdio.h>
#include <string.h>

enum { MAX_BRACKETS = 8, MAX_DIGITS = 18 };

static const int64_t max_number = 1000000000000000000; /* more than MAX_DIGITS digits */

/* The numbers of a bracket, one of which is the current one. */
typedef struct bracket {
    const char *list; /* after "[" */
    const char *next; /* the range after the current one */
    int64_t number, last;
    int width;  /* digits that the number has at least */
    int64_t n;  /* numbers of all ranges */
    int digits; /* of the longest */
} bracket;

/* A name of the list, with its brackets. */
typedef struct name {
    const char *begin, *end;
    int n_brackets;
    bracket bracket[MAX_BRACKETS];
    int64_t n, longest; /* hosts that it stands for; characters of the longest name */
} name;

bool lk__slurm_is_host_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_';
}

/* ---- numbers in brackets ---- */

static lk_status number_read(const lk__slurm_text *t, const char **at, int64_t *out)
{
    const char *from = *at;
    LK_CHECK(lk__digits_read(at, max_number, out), LK_EINVAL,
             LK__SLURM_AT "a number is missing in the brackets; say node[1-3,07-08]",
             LK__SLURM_WHERE(t, from));
    LK_CHECK(*at - from <= MAX_DIGITS, LK_EINVAL,
             LK__SLURM_AT "a number of %lld digits; at most %d", LK__SLURM_WHERE(t, from),
             (long long)(*at - from), MAX_DIGITS);
    return LK_OK;
}

/* Read the range at b->next, so that its first number is the current one. */
static lk_status range_read(const lk__slurm_text *t, bracket *b)
{
    const char *from = b->next, *at = from;
    LK_TRY(number_read(t, &at, &b->number));
    b->width = (int)(at - from);
    b->last = b->number;
    if (*at == '-') {
        at++;
        LK_TRY(number_read(t, &at, &b->last));
    }
    LK_CHECK(b->number <= b->last, LK_EINVAL,
             LK__SLURM_AT "the range %lld-%lld runs backwards; say %lld-%lld",
             LK__SLURM_WHERE(t, from), (long long)b->number, (long long)b->last, (long long)b->last,
             (long long)b->number);
    LK_CHECK(*at, LK_EINVAL, LK__SLURM_AT "the bracket of column %d is not closed",
             LK__SLURM_WHERE(t, at), (int)(b->list - t->value));
    LK_CHECK(*at == ',' || *at == ']', LK_EINVAL,
             LK__SLURM_AT "\"%.1s\" is out of place: brackets have numbers and ranges, [1-3,07-08]",
             LK__SLURM_WHERE(t, at), at);
    b->next = at + (*at == ',');
    return LK_OK;
}

static int digits_of(int64_t number, int width)
{
    int n = snprintf(NULL, 0, "%lld", (long long)number);
    return n > width ? n : width;
}

/* Check the bracket whose list is at `list`, and count its numbers.  It ends at b->next. */
static lk_status bracket_count(const lk__slurm_text *t, const char *list, bracket *b)
{
    *b = (bracket){.list = list, .next = list};
    do {
        const char *from = b->next;
        LK_TRY(range_read(t, b));
        int64_t n = b->last - b->number + 1;
        LK_CHECK(n <= LK_SLURM_MAX_HOSTS && b->n + n <= LK_SLURM_MAX_HOSTS, LK_EINVAL,
                 LK__SLURM_AT "the bracket has %lld numbers up to here; at most %d",
                 LK__SLURM_WHERE(t, from), (long long)(b->n + n), LK_SLURM_MAX_HOSTS);
        b->n += n;
        int digits = digits_of(b->last, b->width);
        b->digits = digits > b->digits ? digits : b->digits;
    } while (*b->next != ']' || b->next[-1] == ',');
    return LK_OK;
}

/* Go back to the first number. */
static lk_status bracket_start(const lk__slurm_text *t, bracket *b)
{
    b->next = b->list;
    return LK_TRACE(range_read(t, b));
}

/* Advance to the next number; from the last to the first, `*wrapped`. */
static lk_status bracket_advance(const lk__slurm_text *t, bracket *b, bool *wrapped)
{
    *wrapped = b->number == b->last && *b->next == ']';
    if (b->number < b->last)
        b->number++;
    else if (*wrapped)
        LK_TRY(bracket_start(t, b));
    else
        LK_TRY(range_read(t, b));
    return LK_OK;
}

/* ---- names ---- */

static lk_status bracket_read(const lk__slurm_text *t, const char **at, name *out)
{
    LK_CHECK(out->n_brackets < MAX_BRACKETS, LK_EINVAL,
             LK__SLURM_AT "a name with more than %d brackets", LK__SLURM_WHERE(t, *at),
             MAX_BRACKETS);
    bracket *b = &out->bracket[out->n_brackets++];
    LK_TRY(bracket_count(t, *at + 1, b));
    LK_CHECK(out->n * b->n <= LK_SLURM_MAX_HOSTS, LK_EINVAL,
             LK__SLURM_AT "the name stands for %lld hosts up to here; at most %d",
             LK__SLURM_WHERE(t, *at), (long long)(out->n * b->n), LK_SLURM_MAX_HOSTS);
    out->n *= b->n;
    out->longest += b->digits;
    *at = b->next + 1;
    return LK_OK;
}

/* Read the name at `*at`, and move to the comma or the end after it. */
static lk_status name_read(const lk__slurm_text *t, const char **at, name *out)
{
    *out = (name){.begin = *at, .n = 1};
    while (**at && **at != ',') {
        if (**at == '[') {
            LK_TRY(bracket_read(t, at, out));
            continue;
        }
        LK_CHECK(lk__slurm_is_host_char(**at), LK_EINVAL,
                 LK__SLURM_AT "\"%.1s\" is in no host's name; say node[1-3,07-08],login",
                 LK__SLURM_WHERE(t, *at), *at);
        out->longest++;
        ++*at;
    }
    out->end = *at;
    LK_CHECK(out->end > out->begin, LK_EINVAL,
             LK__SLURM_AT "a host is missing; say node[1-3,07-08],login", LK__SLURM_WHERE(t, *at));
    LK_CHECK(out->longest < LK_SLURM_HOST, LK_EINVAL,
             LK__SLURM_AT "a host's name of %lld characters; at most %d",
             LK__SLURM_WHERE(t, out->begin), (long long)out->longest, LK_SLURM_HOST - 1);
    return LK_OK;
}

lk_status lk__slurm_hosts_count(const lk__slurm_text *t, int *n, int64_t *bytes)
{
    const char *at = t->value;
    int64_t all = 0;
    *bytes = 0;
    for (;; at++) {
        const char *from = at;
        name one;
        LK_TRY(name_read(t, &at, &one));
        all += one.n;
        *bytes += one.n * (one.longest + 1);
        LK_CHECK(all <= LK_SLURM_MAX_HOSTS, LK_EINVAL,
                 LK__SLURM_AT "%lld hosts up to this name; at most %d", LK__SLURM_WHERE(t, from),
                 (long long)all, LK_SLURM_MAX_HOSTS);
        if (!*at)
            break;
    }
    *n = (int)all;
    return LK_OK;
}

/* Write a host's name, with the current numbers; returns where the next goes. */
static char *name_write(const name *of, char *out)
{
    int k = 0;
    for (const char *p = of->begin; p < of->end; p++) {
        if (*p != '[') {
            *out++ = *p;
            continue;
        }
        const bracket *b = &of->bracket[k++];
        char digits[MAX_DIGITS + 4];
        int n = snprintf(digits, sizeof digits, "%0*lld", b->width, (long long)b->number);
        memcpy(out, digits, (size_t)n);
        out += n;
        p = strchr(p, ']');
    }
    *out = '\0';
    return out + 1;
}

/* Advance to the next host: the last bracket is the fastest, then the first, the second and so on. */
static lk_status name_advance(const lk__slurm_text *t, name *of)
{
    bool wrapped = true;
    if (of->n_brackets > 0)
        LK_TRY(bracket_advance(t, &of->bracket[of->n_brackets - 1], &wrapped));
    for (int k = 0; wrapped && k < of->n_brackets - 1; k++)
        LK_TRY(bracket_advance(t, &of->bracket[k], &wrapped));
    return LK_OK;
}

lk_status lk__slurm_hosts_write(const lk__slurm_text *t, char *names, const char **host)
{
    for (const char *at = t->value;; at++) {
        name one;
        LK_TRY(name_read(t, &at, &one));
        for (int k = 0; k < one.n_brackets; k++)
            LK_TRY(bracket_start(t, &one.bracket[k]));
        for (int64_t i = 0; i < one.n; i++) {
            *host++ = names;
            names = name_write(&one, names);
            LK_TRY(name_advance(t, &one));
        }
        if (!*at)
            break;
    }
    return LK_OK;
}

/* ---- tasks ---- */

lk_status lk__slurm_tasks_read(const lk__slurm_text *t, int room, int *tasks, int *n_hosts,
                               int *n_tasks)
{
    int64_t hosts = 0, all = 0;
    for (const char *at = t->value;; at++) {
        const char *from = at;
        int64_t count, times;
        LK_CHECK(lk__repeated_read(&at, max_number, &count, &times) && (*at == ',' || !*at),
                 LK_EINVAL,
                 LK__SLURM_AT "tasks of each host are written 1,3(x2),4, the second being 3,3",
                 LK__SLURM_WHERE(t, at));
        LK_CHECK(count >= 1 && count <= LK_SLURM_MAX_TASKS, LK_EINVAL,
                 LK__SLURM_AT "%lld tasks on a host; from 1 to %d", LK__SLURM_WHERE(t, from),
                 (long long)count, LK_SLURM_MAX_TASKS);
        LK_CHECK(times >= 1 && hosts + times <= LK_SLURM_MAX_HOSTS, LK_EINVAL,
                 LK__SLURM_AT "%lld times, which makes %lld hosts; from 1 to %d",
                 LK__SLURM_WHERE(t, from), (long long)times, (long long)(hosts + times),
                 LK_SLURM_MAX_HOSTS);
        all += count * times;
        LK_CHECK(all <= LK_SLURM_MAX_TASKS, LK_EINVAL,
                 LK__SLURM_AT "%lld tasks up to here; at most %d", LK__SLURM_WHERE(t, from),
                 (long long)all, LK_SLURM_MAX_TASKS);
        for (; times > 0; times--, hosts++)
            if (hosts < room)
                tasks[hosts] = (int)count;
        if (!*at)
            break;
    }
    *n_hosts = (int)hosts;
    *n_tasks = (int)all;
    return LK_OK;
}
