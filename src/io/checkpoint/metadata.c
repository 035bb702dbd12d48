/* The metadata of a checkpoint as names and texts: step, identity, state and the format of its hash, numbers
 * and what was saved with it.  For lk_tensors_load().
 */
#include "base/fpenv.h"
#include "base/text/number.h"
#include "io/checkpoint/checkpoint.h"
#include "io/tensors.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { OWN_METADATA = 4 };

static lk_status metadata_put(lk_tensors *t, const char *prefix, const char *name, const char *text)
{
    lk_metadata *metadata = &t->metadata[t->n_metadata];
    char *joined;
    size_t room = strlen(prefix) + strlen(name) + 1;
    LK_TRY(lk_arena_alloc(t->arena, &joined, (int64_t)room, 1));
    snprintf(joined, room, "%s%s", prefix, name);
    metadata->name = joined;
    LK_TRY(lk_arena_text(t->arena, text, strlen(text), &metadata->text));
    t->n_metadata++;
    return LK_OK;
}

static const char *number_text(const lk_state_number *number, char text[LK_NUMBER_TEXT])
{
    if (number->dtype == LK_I64)
        snprintf(text, LK_NUMBER_TEXT, "%" PRId64, number->i64);
    else if (isfinite(number->f64))
        return lk__number_show(number->f64, text);
    else
        snprintf(text, LK_NUMBER_TEXT, "%s", isnan(number->f64) ? "nan" : "inf");
    return text;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const lk_metadata *)a)->name, ((const lk_metadata *)b)->name);
}

lk_status lk__checkpoint_metadata(const lk_checkpoint *c, lk_tensors *t)
{
    LK_FP_GUARD();
    char text[LK_NUMBER_TEXT];
    LK_TRY(lk_arena_alloc(t->arena, &t->metadata, OWN_METADATA + c->n_numbers + c->n_metadata,
                          sizeof *t->metadata));
    for (int64_t i = 0; i < c->n_metadata; i++)
        LK_TRY(metadata_put(t, "metadata.", c->metadata[i].name, c->metadata[i].text));
    snprintf(text, sizeof text, "%d", c->hash_format);
    LK_TRY(metadata_put(t, "", "hash", text));
    LK_TRY(metadata_put(t, "", "identity", lk_hash_text(c->identity, text)));
    for (int64_t i = 0; i < c->n_numbers; i++)
        LK_TRY(metadata_put(t, "number.", c->number[i].name, number_text(&c->number[i], text)));
    LK_TRY(metadata_put(t, "", "state", lk_hash_text(c->hash, text)));
    snprintf(text, sizeof text, "%" PRId64, c->step);
    LK_TRY(metadata_put(t, "", "step", text));
    qsort(t->metadata, (size_t)t->n_metadata, sizeof *t->metadata, by_name);
    return LK_OK;
}
