/* lockstep help VERB [KIND], the same text as `lockstep VERB [KIND] --help`; and lockstep help layer
 * NAME, as for every kind that experiments choose from. */
#include "kinds.h"
#include "verb.h"

#include <string.h>

/* `lockstep help layer`: what there is to ask for. */
static int help_kind(const lk_kind *kind)
{
    const lk_entry *e;
    printf("%s: %s\n\n", kind->plural, kind->summary);
    for (int i = 0; (e = kind->at(i)); i++)
        printf("  %-23s %s\n", e->name, e->summary);
    printf("\nlockstep help %s NAME explains one\n", kind->name);
    return LK_EXIT_DONE;
}

static int help_entry(const lk_kind *kind, const char *name)
{
    const lk_entry *e;
    if (lk_entry_find(kind, name, &e) != LK_OK) {
        fprintf(stderr, "error: lockstep help: %s\n", lk_error_message());
        return LK_EXIT_USAGE;
    }
    kind_help(kind, e, stdout);
    return LK_EXIT_DONE;
}

static int help_run(const void *options, int n, char **operand)
{
    (void)options;
    const lk_kind *of_experiments = kind_find(operand[0]);
    if (of_experiments)
        return n == 2 ? help_entry(of_experiments, operand[1]) : help_kind(of_experiments);
    const lk_verb *verb = verb_find(lk_verbs, "lockstep", "verb", operand[0]);
    if (!verb)
        return LK_EXIT_USAGE;
    char command[128];
    snprintf(command, sizeof command, "lockstep %s", verb->name);
    if (n == 2) {
        if (!verb->kinds) {
            fprintf(stderr, "error: %s has no kinds\n  run \"lockstep help %s\"\n", command,
                    verb->name);
            return LK_EXIT_USAGE;
        }
        const lk_verb *kind = verb_find(verb->kinds, command, "kind", operand[1]);
        if (!kind)
            return LK_EXIT_USAGE;
        snprintf(command, sizeof command, "lockstep %s %s", verb->name, kind->name);
        verb = kind;
    }
    verb_help(verb, command, stdout);
    return LK_EXIT_DONE;
}

const lk_verb lk_verb_help = {
    .name = "help",
    .summary = "explain a verb, or a layer, an optimizer, ...",
    .operands = "VERB [KIND] | KIND NAME",
    .about = "Explains a verb and its options, or one of the things that experiments choose from, "
             "such as \"lockstep help layer conv\"; \"lockstep list\" shows the kinds.",
    .min_operands = 1,
    .max_operands = 2,
    .run = help_run,
};
