/* lockstep list: what is built in, by kind. */
#include "help/things.h"
#include "report.h"

#include <lockstep/extra/suggest.h>

#include <string.h>

struct list_options {
    bool json, markdown;
};

static const lk_option options[] = {
    {"json", LK_OPTION_FLAG, offsetof(struct list_options, json),
     .help = "print one JSON object for each entry"},
    {"markdown", LK_OPTION_FLAG, offsetof(struct list_options, markdown),
     .help = "print the reference page of what experiments are made of"},
    {.name = NULL},
};

static const report_column columns[] = {
    {"kind", "kind", -1},
    {"name", "name", -1},
    {"about", "about", -1},
};

static const report_column kind_columns[] = {
    {"kind", "kind", -1},
    {"entries", "entries", 1},
    {"about", "about", -1},
};

static void row(void *out, const thing *t)
{
    report_row(out, (report_cell[]){cell_text(t->kind), cell_text(t->name), cell_text(t->about)});
}

static int unknown_kind(const char *name)
{
    lk_suggestion s = {.wanted = name};
    fprintf(stderr, "error: lockstep list: unknown kind \"%s\"", name);
    for (int i = 0; things_plural(i); i++)
        lk_suggest_consider(&s, things_plural(i));
    if (lk_suggest_found(&s))
        fprintf(stderr, "; did you mean \"%s\"?", s.best);
    fprintf(stderr, "\n  kinds are");
    for (int i = 0; things_plural(i); i++)
        fprintf(stderr, " %s,", things_plural(i));
    fputs(" and all\n", stderr);
    return LK_EXIT_USAGE;
}

/* How many entries there are of each kind. */
static void list_kinds(report *out)
{
    for (int i = 0; things_plural(i); i++) {
        report entries;
        report_measure(&entries, columns, 3, false);
        things_each(i, NULL, row, &entries);
        report_row(out, (report_cell[]){cell_text(things_plural(i)), cell_int(entries.measured),
                                        cell_text(things_about(i))});
    }
}

/* The entries of one kind, or of all of them: name NULL. */
static void list_named(report *out, const char *name)
{
    for (int i = 0; things_plural(i); i++)
        if (!name || strcmp(things_plural(i), name) == 0)
            things_each(i, NULL, row, out);
}

static int list_run(const void *given, int n, char **operand)
{
    const struct list_options *o = given;
    report out;
    if (o->markdown) {
        kinds_markdown(stdout);
        return LK_EXIT_DONE;
    }
    if (n == 0) {
        report_measure(&out, kind_columns, 3, o->json);
        list_kinds(&out);
        report_print(&out);
        list_kinds(&out);
        if (!o->json)
            printf("\nlockstep list KIND lists one kind, lockstep list all everything\n");
        return LK_EXIT_DONE;
    }
    const char *name = strcmp(operand[0], "all") == 0 ? NULL : operand[0];
    int found = 0;
    while (name && things_plural(found) && strcmp(things_plural(found), name) != 0)
        found++;
    if (name && !things_plural(found))
        return unknown_kind(name);
    report_measure(&out, columns, 3, o->json);
    list_named(&out, name);
    report_print(&out);
    list_named(&out, name);
    return LK_EXIT_DONE;
}

const lk__verb lk__verb_list = {
    .name = "list",
    .summary = "what is built in: verbs, layers, optimizers, data formats, kernels, ops, ...",
    .operands = "[KIND]",
    .about =
        "Lists what is built in, of one kind, or all. Without KIND it prints which kinds there "
        "are, "
        "and how many entries of each. \"lockstep help conv\" explains what is named so.",
    .options = options,
    .options_size = sizeof(struct list_options),
    .max_operands = 1,
    .run = list_run,
};
