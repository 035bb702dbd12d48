/* The hash of a config: names and values of its options, in the order of the table.  It is part of
 * a model's identity, which checkpoints compare. */
#include "base/bits.h"
#include "base/option/option.h"

#include <string.h>

static lk_status hash_choice(const lk_config *choice, lk_arena *arena, lk_hash *h);

static lk_status hash_choices(const lk_configs *list, lk_arena *arena, lk_hash *h)
{
    lk_hash_add_i64(h, list->n);
    for (int64_t i = 0; i < list->n; i++)
        LK_TRY(hash_choice(&list->item[i], arena, h));
    return LK_OK;
}

static void hash_real(lk_hash *h, double value)
{
    lk_hash_add_i64(h, (int64_t)lk__f64_bits(value));
}

static void hash_list(const lk_option *o, const void *field, lk_hash *h)
{
    const lk_option_ints *ints = field;
    const lk_option_names *names = field;
    int n = *(const int *)field; /* all lists begin with their length */
    lk_hash_add_i64(h, n);
    for (int i = 0; i < n; i++)
        if (o->type == LK_OPTION_INTS)
            lk_hash_add_i64(h, ints->item[i]);
        else if (o->type == LK_OPTION_REALS)
            hash_real(h, lk__option_real_at(o, field, i));
        else
            lk_hash_add_text(h, names->item[i]);
}

static lk_status hash_option(const lk_option *o, const void *fields, lk_arena *arena, lk_hash *h)
{
    const void *field = (const char *)fields + o->offset;
    char word[LK_OPTION_NAME_SIZE];
    lk_hash_add_text(h, o->name);
    switch (o->type) {
    case LK_OPTION_FLAG: lk_hash_add_i64(h, *(const bool *)field); break;
    case LK_OPTION_INT: lk_hash_add_i64(h, *(const int64_t *)field); break;
    case LK_OPTION_REAL: hash_real(h, *(const double *)field); break;
    case LK_OPTION_TEXT: lk_hash_add_text(h, *(const char *const *)field); break;
    case LK_OPTION_INTS:
    case LK_OPTION_REALS:
    case LK_OPTION_NAMES: hash_list(o, field, h); break;
    case LK_OPTION_CHOICE: /* the word, so that a list of words can grow in the middle */
        lk_hash_add_text(h, lk_option_show(o, fields, word, sizeof word));
        break;
    case LK_OPTION_CONFIG: return hash_choice(field, arena, h);
    case LK_OPTION_CONFIGS: return hash_choices(field, arena, h);
    }
    return LK_OK;
}

static bool is_list(const lk_option *o)
{
    return o->type == LK_OPTION_INTS || o->type == LK_OPTION_REALS || o->type == LK_OPTION_NAMES;
}

/* Whether an option that came later has its default; of a list without one, none. */
static bool is_as_before(const lk_option *o, const void *fields)
{
    char value[LK_OPTION_NAME_SIZE];
    if (!(o->flags & LK_OPTION_LATER))
        return false;
    if (is_list(o) && !o->def)
        return *(const int *)(const void *)((const char *)fields + o->offset) == 0;
    return o->def && strcmp(lk_option_show(o, fields, value, sizeof value), o->def) == 0;
}

static lk_status hash_choice(const lk_config *choice, lk_arena *arena, lk_hash *h)
{
    lk_config filled;
    LK_TRY(lk_config_with_defaults(choice, arena, &filled));
    lk_hash_add_text(h, filled.descriptor ? filled.descriptor->name : "");
    lk_hash_add_text(h, filled.name);
    if (filled.tie) {
        lk_hash_add_text(h, "tie");
        lk_hash_add_text(h, filled.tie);
    }
    const lk_option *o = filled.descriptor ? filled.descriptor->options : NULL;
    for (; o && o->name; o++)
        if (!(o->flags & LK_OPTION_NO_HASH) && !is_as_before(o, filled.options))
            LK_TRY(hash_option(o, filled.options, arena, h));
    return LK_OK;
}

lk_status lk_config_hash(const lk_config *choice, lk_hash *h)
{
    lk_arena *arena; /* for defaults */
    lk_status st = LK_OK;
    lk_hash sum = *h;
    LK_TRY(lk_arena_new(&arena));
    LK_TRY_TO(done, hash_choice(choice, arena, &sum));
    *h = sum;
done:
    lk_arena_free(arena);
    return st;
}
