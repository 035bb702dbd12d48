/* lockstep help NAME: a verb, a kind, or whatever has that name; lockstep help KIND NAME, or VERB
 * KIND, if it is to be one of them. */
#include "help/things.h"

#include <lockstep/extra/suggest.h>

#include <string.h>

enum { NAME = 128 };

/* What has been explained, and the name nearest to one that there is not. */
struct answer {
    int n;
    int n_kinds;      /* of which it is */
    char alone[1024]; /* commands that explain one of them */
    lk_suggestion near;
    char best[NAME]; /* what to type behind "lockstep help" for it */
};

/* Something that could have been meant, and how it is asked for. */
static void consider(struct answer *a, const char *name, const char *of, const char *words)
{
    lk_suggest_consider(&a->near, name);
    if (a->near.best != name)
        return;
    snprintf(a->best, sizeof a->best, "%s%s%s", of, *of ? " " : "", words);
    a->near.best = a->best; /* names are borrowed for a moment only */
}

static void show_verb(const lk__verb *verb, const lk__verb *kind)
{
    char command[NAME];
    snprintf(command, sizeof command, "lockstep %s%s%s", verb->name, kind ? " " : "",
             kind ? kind->name : "");
    verb_help(kind ? kind : verb, command, stdout);
}

/* Texts of several lines stand apart. */
static void show(void *arg, const thing *t)
{
    struct answer *a = arg;
    char text[1024];
    bool is_long = t->verb || t->descriptor;
    if (a->n > 0 && is_long)
        putchar('\n');
    if (t->verb)
        show_verb(t->verb, NULL);
    else if (t->descriptor)
        kind_help(t->chosen, t->descriptor, stdout);
    snprintf(text, sizeof text, "%s %s: %s", t->kind, t->name, t->about);
    if (!is_long)
        option_wrap(stdout, 0, text);
    a->n++;
}

/* `lockstep help layer`: what there is to ask for. */
static void show_line(void *arg, const thing *t)
{
    (void)arg;
    printf("  %-23s %s\n", t->name, t->about);
}

/* The kinds of verbs, "ckpt diff": where they are explained. */
static void show_verb_kinds(const char *name, struct answer *a)
{
    for (int i = 0; lk__verbs[i]; i++)
        for (int j = 0; lk__verbs[i]->kinds && lk__verbs[i]->kinds[j]; j++) {
            const lk__verb *kind = lk__verbs[i]->kinds[j];
            char text[1024];
            consider(a, kind->name, lk__verbs[i]->name, kind->name);
            if (strcmp(kind->name, name) != 0)
                continue;
            snprintf(text, sizeof text, "%s %s: %s; \"lockstep help %s %s\" explains it",
                     lk__verbs[i]->name, name, kind->summary, lk__verbs[i]->name, name);
            option_wrap(stdout, 0, text);
            a->n++;
        }
}

static void consider_thing(void *arg, const thing *t)
{
    consider(arg, t->name, "", t->name);
}

static void consider_of_kind(void *arg, const thing *t)
{
    consider(arg, t->name, t->kind, t->name);
}

/* `list` is what "lockstep list" shows all of. */
static int unknown(const char *what, const char *list, const struct answer *a)
{
    fprintf(stderr, "error: lockstep help: unknown %s \"%s\"", what, a->near.wanted);
    if (lk_suggest_found(&a->near))
        fprintf(stderr, "; did you mean \"lockstep help %s\"?", a->best);
    fprintf(stderr, "\n  run \"lockstep list%s%s\" for what there is\n", *list ? " " : "", list);
    return LK_EXIT_USAGE;
}

static const lk__verb *verb_named(const char *name)
{
    for (int i = 0; lk__verbs[i]; i++)
        if (strcmp(lk__verbs[i]->name, name) == 0)
            return lk__verbs[i];
    return NULL;
}

/* Cases of benches are no names but texts, and benches are kinds of a verb. */
static bool has_names(int kind)
{
    return strcmp(things_singular(kind), "bench") != 0 &&
           strcmp(things_singular(kind), "case") != 0;
}

/* Whatever is named so. */
static void show_all(const char *name, struct answer *a)
{
    int kind = things_find(name);
    if (kind >= 0 && !verb_named(name)) {
        printf("%s: %s\n\n", things_plural(kind), things_about(kind));
        things_each(kind, NULL, show_line, NULL);
        printf("\nlockstep help %s NAME explains one\n", things_singular(kind));
        a->n++;
    }
    for (int i = 0; things_plural(i); i++) {
        int before = a->n;
        if (has_names(i))
            things_each(i, name, show, a);
        if (a->n == before)
            continue;
        size_t used = strlen(a->alone);
        snprintf(a->alone + used, sizeof a->alone - used, "%slockstep help %s %s",
                 a->n_kinds > 0 ? ", " : "one alone: ", things_singular(i), name);
        a->n_kinds++;
    }
    show_verb_kinds(name, a);
}

static int help_name(const char *name)
{
    struct answer a = {.near = {.wanted = name}};
    show_all(name, &a);
    if (a.n_kinds > 1) {
        putchar('\n');
        option_wrap(stdout, 0, a.alone);
    }
    if (a.n > 0)
        return LK_EXIT_DONE;
    for (int i = 0; things_plural(i); i++) {
        consider(&a, things_singular(i), "", things_singular(i));
        if (has_names(i) && strcmp(things_singular(i), "peer") != 0)
            things_each(i, NULL, consider_thing, &a);
    }
    return unknown("name", "all", &a);
}

/* A name of two words, "allreduce ring", or a kind or verb that there is not. */
static int help_both(const char *first, const char *second)
{
    struct answer a = {.near = {.wanted = first}};
    char both[NAME];
    snprintf(both, sizeof both, "%s %s", first, second);
    show_all(both, &a);
    if (a.n > 0)
        return LK_EXIT_DONE;
    for (int i = 0; things_plural(i); i++)
        consider(&a, things_singular(i), things_singular(i), second);
    for (int i = 0; lk__verbs[i]; i++)
        consider(&a, lk__verbs[i]->name, lk__verbs[i]->name, second);
    return unknown("kind or verb", "", &a);
}

/* What is named so of one kind. */
static int help_of_kind(int kind, const char *name)
{
    struct answer a = {.near = {.wanted = name}};
    things_each(kind, name, show, &a);
    if (a.n > 0)
        return LK_EXIT_DONE;
    things_each(kind, NULL, consider_of_kind, &a);
    return unknown(things_singular(kind), things_plural(kind), &a);
}

static int help_of_verb(const lk__verb *verb, const char *name)
{
    char command[NAME];
    snprintf(command, sizeof command, "lockstep %s", verb->name);
    if (!verb->kinds) {
        fprintf(stderr, "error: %s has no kinds\n  run \"lockstep help %s\"\n", command,
                verb->name);
        return LK_EXIT_USAGE;
    }
    const lk__verb *kind = verb_find(verb->kinds, command, "kind", name);
    if (!kind)
        return LK_EXIT_USAGE;
    show_verb(verb, kind);
    return LK_EXIT_DONE;
}

static int help_run(const void *options, int n, char **operand)
{
    (void)options;
    if (n == 1)
        return help_name(operand[0]);
    const lk__verb *verb = verb_named(operand[0]);
    if (verb)
        return help_of_verb(verb, operand[1]);
    int kind = things_find(operand[0]);
    if (kind >= 0)
        return help_of_kind(kind, operand[1]);
    return help_both(operand[0], operand[1]);
}

const lk__verb lk__verb_help = {
    .name = "help",
    .summary = "explain a verb, a layer, an optimizer, an op, ...",
    .operands = "NAME | KIND NAME | VERB KIND",
    .about = "Explains whatever is built in under a name: a verb and its options, or a layer, an "
             "optimizer, an op, a collective, ..., such as \"lockstep help conv\"; all of them "
             "where several are named so. \"lockstep help layer conv\" explains the layer alone, "
             "\"lockstep help layer\" shows all layers, and \"lockstep list\" the kinds.",
    .min_operands = 1,
    .max_operands = 2,
    .run = help_run,
};
