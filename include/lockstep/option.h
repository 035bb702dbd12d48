/* Options as tables: what can be set on a thing, defined and documented in one place.
 *
 * A thing declares a struct for its options and one row for each: name, type, the field's offset,
 * default, range and help.  The command line, experiment files, C programs, `--help` and the
 * reference pages all read the same table.
 *
 *     typedef struct lk_dropout_options { double rate; } lk_dropout_options;
 *     static const lk_option dropout_options[] = {
 *         {"rate", LK_OPTION_REAL, offsetof(lk_dropout_options, rate), .def = "0.5", .max = 1,
 *          .help = "share of elements that become 0"},
 *         {0}};
 *
 * Things that can be chosen by name (layers, optimizers, data formats) have a descriptor in a registry; a
 * config is a descriptor with its options.  Options can be configs themselves, so that a layer can hold
 * layers.
 *
 * A C program gives options in one way everywhere: a call that makes something takes its name and its
 * options as two texts, or the options alone where there is nothing to choose; NULL: all defaults.
 *
 *     lk_model_add(model, "conv", "filters=32 kernel=3,3 init=normal(deviation=0.1)");
 *     lk_optimizer_new(params, "adam", "rate=0.003 schedule=cosine", &optimizer);
 *     lk_loader_new(set, "batch=50 shards=4", seed, &loader);
 *
 * What was read belongs to what was made, and the texts are not kept.  A text that is refused is reported with
 * the column, the option, the value and what is near or allowed, as in an experiment file.  Beside each
 * stands a call for programs that have a struct: `_config` takes an lk_config, as an experiment has them,
 * `_options` the struct that a table describes; these are borrowed where the call says so.
 *
 * Nothing here is collective.  Reading allocates from an arena, which is freed at once.
 */
#ifndef LK_OPTION_H
#define LK_OPTION_H

#include <lockstep/hash.h>

#include <stdbool.h>
#include <stddef.h>

LK_BEGIN_DECLS

/* ---- arenas ---- */

/** Memory that is freed all at once.  Made by the code that reads options; one thread at a time.  Not
 * collective. */
typedef struct lk_arena lk_arena;

/** Make an empty arena.  The caller owns it.  Errors: LK_ENOMEM. */
LK_API lk_status lk_arena_new(lk_arena **out) LK_NODISCARD;

/** Free it with all its blocks.  NULL is allowed. */
LK_API void lk_arena_free(lk_arena *arena);

/** `count` elements of `size` bytes, filled with zeros, until the arena is freed; `out` as for
 * lk_alloc().  Errors: as lk_alloc(). */
LK_API lk_status lk_arena_alloc(lk_arena *arena, void *out, int64_t count,
                                size_t size) LK_NODISCARD;

/** A copy of the first `n` bytes of `text`, terminated.  Errors: LK_ENOMEM. */
LK_API lk_status lk_arena_text(lk_arena *arena, const char *text, size_t n,
                               const char **out) LK_NODISCARD;

/* ---- tables ---- */

/* The field's type in the struct is given behind each. */
typedef enum lk_option_type {
    LK_OPTION_FLAG,   /* bool: true or false; on the command line it takes no value */
    LK_OPTION_INT,    /* int64_t */
    LK_OPTION_REAL,   /* double, finite */
    LK_OPTION_TEXT,   /* const char *, in the arena; NULL if not given */
    LK_OPTION_INTS,   /* lk_option_ints: "1,2,4" */
    LK_OPTION_REALS,  /* lk_option_reals, or lk_option_long_reals: "0.5,0.25" */
    LK_OPTION_NAMES,  /* lk_option_names: "a,b" */
    LK_OPTION_CHOICE, /* int: which of `choices` */
    LK_OPTION_CONFIG, /* lk_config: one of `registry`, its `descriptor` NULL if not given */
    LK_OPTION_CONFIGS /* lk_configs: a list of such */
} lk_option_type;

enum { LK_OPTION_MAX_ITEMS = 16, LK_OPTION_MAX_LONG = 4096, LK_OPTION_NAME_SIZE = 32 };

typedef struct lk_option_ints {
    int n;
    int64_t item[LK_OPTION_MAX_ITEMS];
} lk_option_ints;

typedef struct lk_option_reals {
    int n;
    double item[LK_OPTION_MAX_ITEMS];
} lk_option_reals;

/** With LK_OPTION_LONG in place of lk_option_reals: one number for each of many, such as classes. */
typedef struct lk_option_long_reals {
    int n;
    double item[LK_OPTION_MAX_LONG];
} lk_option_long_reals;

typedef struct lk_option_names {
    int n;
    char item[LK_OPTION_MAX_ITEMS][LK_OPTION_NAME_SIZE];
} lk_option_names;

enum {
    LK_OPTION_REQUIRED = 1, /* must be given */
    LK_OPTION_ONCE = 2,     /* no item of the list twice */
    LK_OPTION_OPEN_MIN = 4, /* a number must be above `min`, not equal to it */
    LK_OPTION_OPEN_MAX = 8, /* below `max` */
    LK_OPTION_NO_HASH = 16, /* does not belong to what the run computes: paths, speed, output */
    LK_OPTION_LONG = 64,    /* of LK_OPTION_REALS: the field is lk_option_long_reals */
    LK_OPTION_LATER = 32    /* in the hash only where it is not the default, which what has no such
                               option did: runs from before it came keep their identity */
};

typedef struct lk_registry lk_registry;

/** One row of a table; the table ends with a row whose name is NULL. */
typedef struct lk_option {
    const char
        *name; /* without dashes; words are joined by "_" in files, "-" on the command line */
    lk_option_type type;
    size_t offset;
    const char *value;   /* its name in help, such as "N"; NULL: the usual; "PATH" marks a path,
                            "PATHS" several, or a pattern */
    const char *def;     /* the default, read as a value is; NULL: zero, none */
    double min, max;     /* of a number; no limits if equal; HUGE_VAL is allowed */
    const char *help;    /* one or two sentences without a full stop at the end */
    const char *choices; /* LK_OPTION_CHOICE: "mean sum none", the names in order */
    const lk_registry *registry; /* LK_OPTION_CONFIG and LK_OPTION_CONFIGS */
    unsigned flags;
} lk_option;

/** Something that can be chosen by name; descriptors of all registries begin with it. */
typedef struct lk_descriptor {
    const char *name;    /* equals the file name without suffix */
    const char *summary; /* one line: the formula, or what it is */
    const char *details; /* more, for help; may be NULL */
    const lk_option *options;
    size_t options_size; /* of the struct that the table describes */
} lk_descriptor;

/** What can be chosen from: "layer", "optimizer", ... */
struct lk_registry {
    const char *name, *plural;
    const char *summary;
    bool named; /* a config can be given a name of its own, `name: stem`, and share
                                     what another has: `tie: stem.weight` */
    const lk_descriptor *(*at)(
        int i); /* descriptor number i, in the order of names; NULL behind the last */
};

/** A descriptor and its options. */
typedef struct lk_config {
    const lk_descriptor *descriptor;
    void *options;    /* descriptor->options_size bytes; NULL: all defaults */
    const char *name; /* given to it, in registries that are `named`; NULL: none */
    const char *tie;  /* whose weights it shares, "stem.weight", in such registries; NULL: none */
    const char *tie_place; /* where that was written, FILE:LINE:COLUMN; NULL: in no file */
    bool stage; /* a stage of a pipeline may begin with it, in such registries; in no hash */
} lk_config;

typedef struct lk_configs {
    int64_t n;
    lk_config *item;
} lk_configs;

/** The row of this name ("_" and "-" are the same); NULL if there is none.  `table` may be NULL. */
LK_API const lk_option *lk_option_find(const lk_option *table, const char *name);

/** The row whose name is nearest to `name`; NULL if none is near. */
LK_API const lk_option *lk_option_suggest(const lk_option *table, const char *name);

/**
 * Set every field to its default, all others to zero bytes.
 *
 * Errors: those of lk_option_set() for a default that is no value, LK_ENOMEM.
 */
LK_API lk_status lk_options_set_defaults(const lk_descriptor *descriptor, void *fields,
                                         lk_arena *arena) LK_NODISCARD;

/**
 * Read `text` as the value of an option; lists are separated by commas.  A config is its name, which
 * may have options behind it as for lk_config_parse(): "normal(deviation=0.1)".
 *
 * Numbers are decimal, with a point whatever the locale: no hexadecimal, no leading zeros, nothing
 * that becomes infinite.
 *
 * Errors: LK_EINVAL whose message says what is wrong with the text and what is allowed, such as
 * `"7x" is not a whole number`; LK_ENOMEM.
 */
LK_API lk_status lk_option_set(const lk_option *option, void *fields, const char *text,
                               lk_arena *arena) LK_NODISCARD;

/** Append one item to a list of numbers or names; `option` must be such a list.  Errors: as
 * lk_option_set(). */
LK_API lk_status lk_option_add(const lk_option *option, void *fields,
                               const char *item) LK_NODISCARD;

/** The value of a field as lk_option_set() would read it, in `buf` of `size` bytes, cut if it does
 * not fit; returns `buf`.  Entries are shown by name alone, what is not given as "". */
LK_API const char *lk_option_show(const lk_option *option, const void *fields, char *buf,
                                  size_t size);

/** Word number `i` of `choices`: its beginning, and its length in `*n`, 0 behind the last. */
LK_API const char *lk_option_word(const char *choices, int i, int *n);

/** What numbers are allowed, such as "from 1 to 256" or "above 0 and at most 1", in `buf` of `size`
 * bytes; "" if all are.  Returns `buf`. */
LK_API const char *lk_option_range(const lk_option *option, char *buf, size_t size);

/** The descriptor of this name.  Errors: LK_EINVAL, naming a similar one, all, or how to see all. */
LK_API lk_status lk_descriptor_find(const lk_registry *registry, const char *name,
                                    const lk_descriptor **out) LK_NODISCARD;

/**
 * A config from a text of options, "filters=32 kernel=3,3 init=normal(deviation=0.1)": NAME=VALUE
 * separated by spaces, the rest defaults.  `text` may be NULL.  A value with blanks or parentheses, such
 * as a path, stands in double quotes, and then has none: path="my data/x.csv".  In registries that are
 * `named`, "name=stem" gives the config a name, "tie=stem.weight" shares what another has,
 * "stage=true" lets a stage of a pipeline begin with it.
 *
 * The config lives in `arena`.  Errors: LK_EINVAL for an unknown name, naming a similar one, for a value
 * that is refused, and for a required option that is missing: the message has the column of the text,
 * the option and the value; LK_ENOMEM.
 */
LK_API lk_status lk_config_parse(const lk_registry *registry, const char *name, const char *text,
                                 lk_arena *arena, lk_config *out) LK_NODISCARD;

/**
 * Set every field of a struct that `descriptor` describes: to what `text`, as for lk_config_parse(),
 * gives it, or else to its default.  For things that are not chosen by name, such as loaders.
 *
 * Texts and lists of the fields live in `arena`.  Errors: as lk_config_parse().
 */
LK_API lk_status lk_options_parse(const lk_descriptor *descriptor, const char *text,
                                  lk_arena *arena, void *fields) LK_NODISCARD;

/**
 * The same descriptor with its options: those of `config`, borrowed, or its defaults if it has none.
 *
 * Errors: LK_EINVAL if there are none and one is required, LK_ENOMEM.
 */
LK_API lk_status lk_config_with_defaults(const lk_config *config, lk_arena *arena,
                                         lk_config *out) LK_NODISCARD;

/**
 * Add descriptor, name, tie and options, all the way down, to a hash; but not those of
 * LK_OPTION_NO_HASH.  A config without options has the hash of its defaults.
 *
 * Errors: as lk_config_with_defaults(); `h` is then unchanged.
 */
LK_API lk_status lk_config_hash(const lk_config *config, lk_hash *h) LK_NODISCARD;

LK_END_DECLS

#endif /* LK_OPTION_H */
