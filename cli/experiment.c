/* Opening an experiment from operands of the command line, and printing it: see experiment.h. */
#include "experiment.h"

#include "verb.h"

#include <string.h>

enum { VALUE_SIZE = 1024 };

int experiment_open(int n, char **operand, lk_experiment **out)
{
    lk_status st = lk_experiment_read(operand[0], (const char *const *)(operand + 1), n - 1, out);
    if (st == LK_ENOMEM)
        return verb_failed();
    return st == LK_OK ? LK_EXIT_DONE : verb_refuse("%s", lk_error_message());
}

lk_status experiment_copy(const lk_experiment *experiment, lk_experiment **out)
{
    size_t size = experiment->data.descriptor->options_size;
    lk_arena *arena;
    lk_experiment *e = NULL;
    void *data = NULL; /* its options have paths */
    lk_status st = LK_OK;
    *out = NULL;
    LK_TRY(lk_arena_new(&arena));
    LK_TRY_TO(failed, lk_arena_alloc(arena, &e, 1, sizeof *e));
    LK_TRY_TO(failed, lk_arena_alloc(arena, &data, 1, size));
    *e = *experiment;
    e->arena = arena;
    e->data.options = memcpy(data, experiment->data.options, size);
    *out = e;
    return LK_OK;
failed:
    lk_arena_free(arena);
    return st;
}

int experiment_failed(const lk_experiment *experiment, lk_status st)
{
    size_t n = strlen(experiment->path);
    const char *message = lk_error_message();
    bool placed = strncmp(message, experiment->path, n) == 0 && message[n] == ':';
    return verb_failed_with(st, placed ? NULL : experiment->path);
}

static void row(report *out, const char *section, const char *name, const char *value)
{
    report_row(out, (report_cell[]){cell_text(section), cell_text(name), cell_text(value)});
}

static void choice_rows(const char *section, const lk_config *choice, report *out);

/* Rows of the entries that an option holds. */
static void nested_rows(const char *section, const lk_option *o, const void *fields, report *out)
{
    const void *field = (const char *)fields + o->offset;
    const lk_config *one = field;
    const lk_configs *many = field;
    char name[VALUE_SIZE];
    bool top = strcmp(section, "experiment") == 0; /* its keys have no other before them */
    const char *outer = top ? "" : section, *dot = top ? "" : ".";
    if (o->type == LK_OPTION_CONFIG && one->descriptor) {
        snprintf(name, sizeof name, "%s%s%s", outer, dot, o->name);
        choice_rows(name, one, out);
    }
    for (int64_t i = 0; o->type == LK_OPTION_CONFIGS && i < many->n; i++) {
        snprintf(name, sizeof name, "%s%s%s.%lld", outer, dot, o->name, (long long)i);
        choice_rows(name, &many->item[i], out);
    }
}

static void table_rows(const char *section, const lk_option *table, const void *fields, report *out)
{
    for (const lk_option *o = table; o && o->name; o++) {
        char value[VALUE_SIZE];
        if (o->type == LK_OPTION_CONFIG || o->type == LK_OPTION_CONFIGS)
            continue;
        lk_option_show(o, fields, value, sizeof value);
        if (*value)
            row(out, section, o->name, value);
    }
    for (const lk_option *o = table; o && o->name; o++)
        nested_rows(section, o, fields, out);
}

static void choice_rows(const char *section, const lk_config *choice, report *out)
{
    row(out, section, "type", choice->descriptor->name);
    if (choice->name)
        row(out, section, "name", choice->name);
    table_rows(section, choice->descriptor->options, choice->options, out);
}

static const lk_option *section_table(const char *name)
{
    const lk_descriptor *e;
    for (int i = 0; (e = lk_registry_section.at(i)); i++)
        if (strcmp(e->name, name) == 0)
            return e->options;
    return NULL;
}

void experiment_rows(const lk_experiment *e, report *out)
{
    char name[64];
    table_rows("experiment", section_table("experiment"), e, out);
    choice_rows("data", &e->data, out);
    table_rows("data", lk_loader_descriptor.options, &e->loader, out);
    if (e->model.n == 0)
        row(out, "model", "type", "chain");
    for (int64_t i = 0; i < e->model.n; i++) {
        snprintf(name, sizeof name, "model.%lld", (long long)i);
        choice_rows(name, &e->model.item[i], out);
    }
    table_rows("train", section_table("train"), &e->train, out);
    table_rows("train.checkpoint", section_table("train.checkpoint"), &e->train.checkpoint, out);
    table_rows("train.early_stop", section_table("train.early_stop"), &e->train.early_stop, out);
    for (int64_t i = 0; i < e->n_phases; i++) {
        snprintf(name, sizeof name, "phases.%lld", (long long)i);
        table_rows(name, section_table("phases"), &e->phase[i], out);
    }
    table_rows("pieces", section_table("pieces"), &e->pieces, out);
    table_rows("parallel", section_table("parallel"), &e->parallel, out);
}
