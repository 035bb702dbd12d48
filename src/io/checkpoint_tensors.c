/* A checkpoint as tensors with names, and notes: step, identity, state and the format of its hash, numbers
 * and facts. */
#include "base/fpenv.h"
#include "base/number.h"
#include "io/checkpoint.h"
#include "io/tensors.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { OWN_NOTES = 4 };

static lk_status note_put(lk_tensors *t, const char *prefix, const char *name, const char *text)
{
    lk_metadata *note = &t->note[t->n_notes];
    char *joined;
    size_t room = strlen(prefix) + strlen(name) + 1;
    LK_TRY(lk_arena_alloc(t->arena, &joined, (int64_t)room, 1));
    snprintf(joined, room, "%s%s", prefix, name);
    note->name = joined;
    LK_TRY(lk_arena_text(t->arena, text, strlen(text), &note->text));
    t->n_notes++;
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

static lk_status notes_make(const lk_checkpoint *c, lk_tensors *t)
{
    char text[LK_NUMBER_TEXT];
    LK_TRY(
        lk_arena_alloc(t->arena, &t->note, OWN_NOTES + c->n_numbers + c->n_facts, sizeof *t->note));
    for (int64_t i = 0; i < c->n_facts; i++)
        LK_TRY(note_put(t, "fact.", c->fact[i].name, c->fact[i].text));
    snprintf(text, sizeof text, "%d", c->hash_format);
    LK_TRY(note_put(t, "", "hash", text));
    LK_TRY(note_put(t, "", "identity", lk_hash_text(c->identity, text)));
    for (int64_t i = 0; i < c->n_numbers; i++)
        LK_TRY(note_put(t, "number.", c->number[i].name, number_text(&c->number[i], text)));
    LK_TRY(note_put(t, "", "state", lk_hash_text(c->hash, text)));
    snprintf(text, sizeof text, "%" PRId64, c->step);
    LK_TRY(note_put(t, "", "step", text));
    qsort(t->note, (size_t)t->n_notes, sizeof *t->note, by_name);
    return LK_OK;
}

static lk_status tensors_read(const lk_checkpoint *c, lk_tensors *t)
{
    int64_t room = 0;
    LK_TRY(notes_make(c, t));
    for (int64_t i = 0; i < c->n_tensors; i++) {
        const lk_checkpoint_tensor *from = &c->tensor[i];
        lk_tensor *tensor;
        void *data;
        LK_TRY(lk_tensor_new(from->dtype, from->shape, &tensor));
        LK_TRY(lk__tensors_add(t, &room, from->name, strlen(from->name), tensor));
        LK_TRY(lk_tensor_writable_data(tensor, &data));
        LK_TRY(lk_checkpoint_read_tensor(c, i, data));
    }
    return LK_OK;
}

lk_status lk__tensors_load_checkpoint(const char *path, lk_tensors *t)
{
    LK_FP_GUARD();
    lk_checkpoint *c;
    LK_TRY(lk_checkpoint_read(path, &c));
    lk_status st = tensors_read(c, t);
    lk_checkpoint_free(c);
    LK_TRY(st);
    return LK_OK;
}
