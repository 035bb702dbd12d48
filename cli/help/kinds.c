/* Help for the registries that experiments choose from, in the terminal and as a page of Markdown. */
#include "help/kinds.h"

#include "option.h"

#include <lockstep/config.h>
#include <lockstep/loss.h>
#include <lockstep/metric.h>
#include <lockstep/models.h>
#include <lockstep/nn.h>
#include <lockstep/optim.h>

#include <stdlib.h>
#include <string.h>

const lk_registry *const lk__kinds[] = {
    &lk_registry_section,  &lk_registry_format,
    &lk_registry_model,    &lk_registry_layer,
    &lk_registry_init,     &lk_registry_loss,
    &lk_registry_metric,   &lk_registry_optimizer,
    &lk_registry_schedule, NULL,
};

void kind_help(const lk_registry *kind, const lk_descriptor *entry, FILE *to)
{
    char text[512];
    snprintf(text, sizeof text, "%s %s: %s", kind->name, entry->name, entry->summary);
    option_wrap(to, 0, text);
    if (entry->details) {
        fputc('\n', to);
        option_wrap(to, 0, entry->details);
    }
    bool any = entry->options && entry->options->name;
    fprintf(to, any || kind->named ? "\noptions:\n" : "\nIt has no options.\n");
    if (any)
        option_help(entry->options, OPTION_IN_FILE, to);
    if (kind->named)
        fprintf(to, "  %-23s %s\n", "name TEXT", "a name of its own");
    if (kind != &lk_registry_section)
        fprintf(to, "\nin an experiment: %s, or {type: %s, OPTION: VALUE, ...}\n", entry->name,
                entry->name);
}

/* Text as a cell of a table; a name between two backticks is code here too. */
static void cell(FILE *to, const char *text)
{
    bool code = false;
    for (; *text; text++) {
        if (*text == '`' && (code || strchr(text + 1, '`')))
            code = !code;
        else if (strchr(code ? "|" : "|*_<`\\", *text))
            fputc('\\', to);
        fputc(*text == '\n' ? ' ' : *text, to);
    }
}

/* Text as a paragraph; where there is no memory, as it is. */
static void paragraph(FILE *to, const char *text)
{
    char *escaped = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&escaped, &size);
    if (memory)
        cell(memory, text);
    bool done = memory && fclose(memory) == 0;
    option_wrap(to, 0, done && escaped ? escaped : text);
    free(escaped);
}

static void markdown_option(const lk_option *o, FILE *to)
{
    char about[OPTION_ABOUT];
    fprintf(to, "| `%s` | ", o->name);
    cell(to, o->type == LK_OPTION_FLAG ? "true, false" : option_value_name(o));
    fprintf(to, " | ");
    if (o->flags & LK_OPTION_REQUIRED)
        fprintf(to, "*required*");
    else if (o->def)
        fprintf(to, "`%s`", o->def);
    else if (o->type == LK_OPTION_FLAG)
        fprintf(to, "`false`");
    fprintf(to, " | ");
    cell(to, option_about(o, about, sizeof about));
    fprintf(to, " |\n");
}

static void markdown_entry(const lk_registry *kind, const lk_descriptor *entry, FILE *to)
{
    fprintf(to, "\n### %s %s\n\n", kind->name, entry->name);
    paragraph(to, entry->summary);
    if (entry->details) {
        fputc('\n', to);
        paragraph(to, entry->details);
    }
    if (!entry->options || !entry->options->name)
        return;
    fprintf(to, "\n| option | value | default | |\n|---|---|---|---|\n");
    for (const lk_option *o = entry->options; o->name; o++)
        markdown_option(o, to);
}

void kinds_markdown(FILE *to)
{
    fprintf(to,
            "# Reference: what experiments are made of\n\n"
            "Printed by `lockstep list --markdown` from the tables that experiment files and C\n"
            "programs are read with; do not edit. `lockstep help KIND NAME` shows one entry.\n\n");
    for (int i = 0; lk__kinds[i]; i++) {
        const char *plural = lk__kinds[i]->plural;
        fprintf(to, "* [%s](#%s): ", plural, plural);
        cell(to, lk__kinds[i]->summary);
        fputc('\n', to);
    }
    for (int i = 0; lk__kinds[i]; i++) {
        const lk_registry *kind = lk__kinds[i];
        fprintf(to, "\n## %s\n\n", kind->plural);
        cell(to, kind->summary);
        fprintf(to, ".%s\n",
                kind->named ? " Each can be given a `name` of its own, besides its options." : "");
        const lk_descriptor *entry;
        for (int j = 0; (entry = kind->at(j)); j++)
            markdown_entry(kind, entry, to);
    }
}
