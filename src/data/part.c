/* What a loader reads of a sample: of each field the box that is given, moved by crop and flip.  slot.c
 * asks for it, on a thread of the loader or the caller's.
 *
 * A field that is given whole is read as a row, or looked at where it lies.  Of one that is given as a box
 * only the box is read, or what a moved one comes from; of a set that gives rows alone, the row is cut.
 * What is in a cache (cache.h) is read from there, by boxes; what is in a buffer (buffers.h) lies there.
 */
#include "data/dataset.h"
#include "data/loader/loader.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/checked.h>

#include <string.h>

/* Whether a field is read as a row. */
static bool needs_row(const lk_loader *l, int f)
{
    return !lk__cache_has(l, f) && (!l->boxed[f] || !lk__dataset_has_boxes(lk__keep_set(l)));
}

/* Whether a field is cut or read to a part. */
static bool needs_part(const lk_loader *l, int f)
{
    return l->boxed[f] || lk__cache_has(l, f);
}

/* Room for `bytes` behind `*end` of the block; its place. */
static lk_status reserve(bool needed, int64_t bytes, int64_t *end, int64_t *at)
{
    *at = needed ? *end : -1;
    if (needed) {
        LK_TRY(lk_add_i64(*end, bytes, end));
        LK_TRY(lk_round_up_i64(*end, LK_ALIGN, end));
    }
    return LK_OK;
}

/* Where in the block what each field needs begins, and where the block ends. */
typedef struct layout {
    int64_t row[LK_MAX_FIELDS], part[LK_MAX_FIELDS], moved[LK_MAX_FIELDS], end;
} layout;

static lk_status layout_make(const lk_loader *l, layout *out)
{
    out->end = 0;
    for (int f = 0; f < l->info->n_fields; f++) {
        const lk_field *field = &l->info->field[f];
        int64_t box = lk__box_bytes(field, &l->box[f]);
        bool reads_row = needs_row(l, f) && !lk__dataset_has_base(lk__keep_set(l));
        LK_TRY(reserve(reads_row, lk__field_bytes(field), &out->end, &out->row[f]));
        LK_TRY(reserve(needs_part(l, f), box, &out->end, &out->part[f]));
        LK_TRY(reserve(l->moves[f], box, &out->end, &out->moved[f]));
    }
    return LK_OK;
}

lk_status lk__scratch_bytes(const lk_loader *l, int64_t *out)
{
    layout at;
    LK_TRY(layout_make(l, &at));
    *out = at.end;
    return LK_OK;
}

lk_status lk__scratch_prepare(const lk_loader *l, lk__scratch *s)
{
    layout at;
    char *start;
    if (s->block)
        return LK_OK;
    LK_TRY(layout_make(l, &at));
    LK_TRY(lk_alloc(&start, at.end, 1));
    for (int f = 0; f < l->info->n_fields; f++) {
        s->row[f] = at.row[f] >= 0 ? start + at.row[f] : NULL;
        s->part[f] = at.part[f] >= 0 ? start + at.part[f] : NULL;
        s->moved[f] = at.moved[f] >= 0 ? start + at.moved[f] : NULL;
    }
    s->block = start;
    return LK_OK;
}

void lk__scratch_drop(lk_loader *l)
{
    for (int i = 0; i < l->n_readers; i++) {
        lk_free(l->reader[i].scratch.block);
        l->reader[i].scratch = (lk__scratch){.block = NULL};
    }
}

/* Crop and flip of one sample. */
static lk_status draw_move(const lk_loader *l, int64_t epoch, int64_t sample, lk__move *m)
{
    const lk_shape *shape = &l->info->field[l->x].shape;
    *m = (lk__move){.axes = shape->ndim - 1}; /* 2 of an image, 3 of a volume */
    memcpy(m->dim, shape->dim, (size_t)m->axes * sizeof m->dim[0]);
    lk_rng_at at = {epoch, sample, 0};
    if (l->options.crop > 0) {
        LK_TRY(lk_rng_below(l->crop, at, 2 * l->options.crop + 1, m->axes, m->shift));
        for (int i = 0; i < m->axes; i++)
            m->shift[i] -= l->options.crop;
    }
    if (l->options.flip) {
        uint32_t bits;
        LK_TRY(lk_rng_bits(l->flip, at, 1, &bits));
        m->flip = bits >> 31;
    }
    return LK_OK;
}

/* The whole rows of the fields that need them. */
static lk_status read_rows(const lk_loader *l, const lk__scratch *s, int64_t sample,
                           const void **row)
{
    bool any = false;
    for (int f = 0; f < l->info->n_fields; f++)
        any = any || needs_row(l, f);
    if (any)
        LK_TRY(lk__dataset_row_ptr(lk__keep_set(l), sample, s->row, row));
    return LK_OK;
}

/* The box `from` of a field that is given as a box. */
static lk_status read_box(const lk_loader *l, int64_t sample, int f, const lk_box *from,
                          const void *row, void *part)
{
    const lk_field *field = &l->info->field[f];
    if (lk__cache_has(l, f))
        LK_TRY(lk__cache_box(l, sample, f, from, part));
    else if (needs_row(l, f))
        lk__box_cut(field, row, from, part);
    else
        LK_TRY(lk__dataset_box(lk__keep_set(l), sample, f, from, part));
    return LK_OK;
}

lk_status lk__parts_read(const lk_loader *l, const lk__scratch *s, int64_t epoch, int64_t sample,
                         const void *const *given, const void **part)
{
    const void *row[LK_MAX_FIELDS] = {NULL};
    lk__move m = {.axes = 0};
    if (given[0])
        memcpy(row, given, sizeof row);
    else
        LK_TRY(read_rows(l, s, sample, row));
    if (l->moves_any)
        LK_TRY(draw_move(l, epoch, sample, &m));
    for (int f = 0; f < l->info->n_fields; f++) {
        lk_box from = l->box[f];
        part[f] = row[f];
        if (needs_part(l, f)) {
            if (l->moves[f])
                from = lk__move_source(&m, &l->box[f]);
            LK_TRY(read_box(l, sample, f, &from, row[f], s->part[f]));
            part[f] = s->part[f];
        }
        if (l->moves[f]) {
            lk__move_box(&m, &from, part[f], &l->box[f], s->moved[f],
                         lk_dtype_size(l->info->field[f].dtype));
            part[f] = s->moved[f];
        }
    }
    return LK_OK;
}
