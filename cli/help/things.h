/* Everything that is built in and has a name, by kind, for `list` and `help`. */
#ifndef LK_CLI_THINGS_H
#define LK_CLI_THINGS_H

#include "help/kinds.h"
#include "verb.h"

/** Kinds are numbered from 0: "ops" and "op", and what they are; plural NULL behind the last. */
const char *things_plural(int kind);
const char *things_singular(int kind);
const char *things_about(int kind);

/** The number of the kind with this name, plural or singular; -1 if there is none. */
int things_find(const char *name);

typedef struct thing {
    const char *kind, *name, *about; /* `kind` is singular; valid during the call that has it */
    const lk__verb *verb;            /* of a verb */
    const lk_registry *chosen;       /* of what experiments choose from */
    const lk_descriptor *descriptor;
} thing;

typedef void thing_fn(void *arg, const thing *t);

/** Tell `fn` of all things of a kind, or of those that are named `only`. */
void things_each(int kind, const char *only, thing_fn *fn, void *arg);

/** Whether something named "allreduce ring" is meant by "allreduce ring", "allreduce" or "ring". */
bool thing_is(const char *name, const char *wanted);

#endif /* LK_CLI_THINGS_H */
