/* lockstep help VERB [KIND]: the same text as `lockstep VERB [KIND] --help`. */
#include "verb.h"

static int help_run(const void *options, int n, char **operand)
{
    (void)options;
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
    .summary = "explain a verb",
    .operands = "VERB [KIND]",
    .about = "Explains a verb and its options.",
    .min_operands = 1,
    .max_operands = 2,
    .run = help_run,
};
