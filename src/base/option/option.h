/* What the files of this folder share: reading the text of an option into its field of a struct, and defaults.
 * lk_options_parse(), lk_config_parse() and experiments end here, on the thread that calls them. */
#ifndef LK_BASE_OPTION_H
#define LK_BASE_OPTION_H

#include <lockstep/option.h>

#include <stdbool.h>

enum { LK_OPTION_MAX_DEPTH = 32 /* of entries within entries */ };

/** Where reading is: within so many entries, and so many characters into the text that the user gave.
 * After a failure it says where that was. */
typedef struct lk__option_reader {
    int depth;
    size_t at;
} lk__option_reader;

/** Number i of a list of reals, whichever of its two lengths it has. */
static inline double lk__option_real_at(const lk_option *o, const void *field, int i)
{
    return o->flags & LK_OPTION_LONG ? ((const lk_option_long_reals *)field)->item[i]
                                     : ((const lk_option_reals *)field)->item[i];
}

/** lk_option_set() and lk_options_set_defaults() where the reader is. */
lk_status lk__option_set(const lk_option *option, void *fields, const char *text, lk_arena *arena,
                         lk__option_reader *r) LK_NODISCARD;
lk_status lk__options_set_defaults(const lk_descriptor *entry, void *fields, lk_arena *arena,
                                   lk__option_reader *r) LK_NODISCARD;

/** Read "NAME" or "NAME(option=value ...)" as a choice, or such texts with commas between them. */
lk_status lk__config_read(const lk_registry *kind, const char *text, lk_arena *arena,
                          lk__option_reader *r, lk_config *out) LK_NODISCARD;
lk_status lk__configs_read(const lk_registry *kind, const char *text, lk_arena *arena,
                           lk__option_reader *r, lk_configs *out) LK_NODISCARD;

/** A copy of a config in `arena`, whatever becomes of the original; `out` may be it.  Errors: LK_ENOMEM. */
lk_status lk__config_copy(const lk_config *config, lk_arena *arena, lk_config *out) LK_NODISCARD;

#endif /* LK_BASE_OPTION_H */
