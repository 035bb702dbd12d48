/* One verb of the command: `lockstep VERB [options] [operands]`.
 *
 * A verb is one file of cli/verbs/ that defines `const lk__verb lk_verb_<file name>`; the build
 * collects them into lk__verbs[].  A verb with kinds (`lockstep bench KIND`) has no run function but
 * a table of verbs.
 */
#ifndef LK_CLI_VERB_H
#define LK_CLI_VERB_H

#include "option.h"

/* Exit statuses of the command.  LK_EXIT_REQUEUE: stopped on request, a checkpoint is saved. */
enum { LK_EXIT_DONE = 0, LK_EXIT_FAILED = 1, LK_EXIT_USAGE = 2, LK_EXIT_REQUEUE = 75 };

typedef struct lk__verb lk__verb;
struct lk__verb {
    const char *name;
    const char *summary;  /* one line, for the list of verbs */
    const char *operands; /* in the usage line, such as "[NAME...]"; "" if there are none */
    const char *about;    /* what it does, for --help */
    const lk_option *options;
    size_t options_size; /* of the struct that the table describes */
    int min_operands, max_operands;
    bool computes;                /* runs kernels, so LK_ISA and LK_THREADS must make sense */
    bool ranks;                   /* runs on many ranks at once: see ranks.h */
    bool wraps;                   /* its first operand is a verb, whose options follow */
    const lk__verb *const *kinds; /* NULL-terminated, or NULL */
    int (*run)(const void *options, int n_operands, char **operand);
};

/** All verbs, sorted by name, NULL-terminated. */
extern const lk__verb *const lk__verbs[];

/** The kinds of `lockstep bench`, sorted by name, NULL-terminated. */
extern const lk__verb *const lk__bench_kinds[];

/** The kinds of `lockstep convert`, sorted by name, NULL-terminated. */
extern const lk__verb *const lk__convert_kinds[];

/** The kinds of `lockstep ckpt`, sorted by name, NULL-terminated. */
extern const lk__verb *const lk__ckpt_kinds[];

/** The kinds of `lockstep data`, sorted by name, NULL-terminated. */
extern const lk__verb *const lk__data_kinds[];

/** Find a verb by name; NULL after a message with the nearest name, `what` being "verb" or so. */
const lk__verb *verb_find(const lk__verb *const *table, const char *command, const char *what,
                          const char *name);

/** Print the help of a verb; `command` is how it is called, such as "lockstep info". */
void verb_help(const lk__verb *verb, const char *command, FILE *to);

/** A verb, or one of its kinds, with its options and operands. */
typedef struct verb_call {
    const lk__verb *verb; /* NULL: there is nothing to run */
    lk_arena *arena;      /* of the options; freed by verb_forget() */
    void *options;
    int n_operands;
    char **operand; /* in argv */
} verb_call;

/**
 * Read the arguments behind a verb's name; argv is reordered.
 *
 * Returns LK_EXIT_DONE, with nothing to run when help was asked for and printed, or another exit
 * status after a message on stderr.  verb_forget() releases the call in any case.
 */
int verb_read(const lk__verb *verb, const char *command, int argc, char **argv, verb_call *out);
void verb_forget(verb_call *call);

/** Run a verb with the arguments behind its name; returns the exit status. */
int verb_run(const lk__verb *verb, const char *command, int argc, char **argv);

/** Print the trace of the library's last failure on stderr and return LK_EXIT_FAILED.  Of several
 * ranks that fail, the first one prints. */
int verb_failed(void);

/**
 * As verb_failed(), in one line where the message says all there is to know: of what does not fit
 * together, files, memory, and numbers that are not finite.  What does not fit together is a wrong
 * use, LK_EXIT_USAGE.
 *
 * `where`, an experiment, is put before the message.  NULL: the message says where.
 */
int verb_failed_with(lk_status st, const char *where);

/** Print "error: ", the message and a newline on stderr and return LK_EXIT_USAGE.  Of several ranks
 * that refuse, the first one prints. */
int verb_refuse(const char *fmt, ...) LK_PRINTF(1, 2);

#endif /* LK_CLI_VERB_H */
