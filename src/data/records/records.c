/* The records of some files as a dataset: an index of where they are, and cursors that read them, on any
 * thread.  formats/tfrecord.c makes it.
 */
#include "data/records/records.h"

#include "base/log.h"
#include "data/content.h"
#include "data/dataset.h"
#include "data/format.h"
#include "data/records/cursor.h"
#include "data/records/tfrecord.h"

#include <lockstep/extra/alloc.h>

static void records_free(void *context)
{
    lk__record_reading_free(context);
}

/* ---- samples ---- */

/* Field `f` of the samples is made of this one of the records. */
static int field_of(const lk__record_reading *r, int f)
{
    int i = 0;
    while (r->fields.field[i].of != f)
        i++;
    return i;
}

static lk_status row_read(lk__record_reading *r, lk__record_cursor *c, int64_t index,
                          void *const *row)
{
    LK_TRY(lk__record_seek(r, c, index, true));
    for (int i = 0; i < r->fields.n; i++) {
        const lk__record_field *f = &r->fields.field[i];
        lk_box whole = lk__field_whole(&f->in);
        if (f->of >= 0 && row[f->of] && f->n > 0)
            LK_TRY(lk__record_box(r, c, i, &whole, row[f->of]));
    }
    return LK_OK;
}

static lk_status records_row(void *context, int64_t index, void *const *row)
{
    lk__record_reading *r = context;
    lk__record_cursor *c;
    LK_TRY(lk__record_take(r, index, &c));
    lk_status st = row_read(r, c, index, row);
    lk__record_give(r, c);
    return LK_TRACE(st);
}

static lk_status records_box(void *context, int64_t index, int field, const lk_box *box, void *out)
{
    lk__record_reading *r = context;
    lk__record_cursor *c;
    LK_TRY(lk__record_take(r, index, &c));
    lk_status st = lk__record_seek(r, c, index, true);
    if (st == LK_OK)
        st = lk__record_box(r, c, field_of(r, field), box, out);
    lk__record_give(r, c);
    return LK_TRACE(st);
}

/* ---- opening ---- */

/* What the first record says about all. */
static lk_status describe(lk__record_reading *r, const lk__record_options *o, lk_dataset_info *info)
{
    lk__record_cursor *c;
    LK_TRY(lk__record_take(r, 0, &c));
    lk_status st = lk__record_seek(r, c, 0, false);
    if (st == LK_OK)
        st = lk__record_fields_describe(&r->fields, o, &c->window, c->offset, c->feature, info);
    lk__record_give(r, c);
    return LK_TRACE(st);
}

static void take_label(void *arg, int f, int64_t first, int64_t n, const void *values)
{
    int64_t *most = arg;
    const int64_t *label = values;
    (void)f, (void)first;
    for (int64_t i = 0; i < n; i++)
        *most = label[i] > *most ? label[i] : *most;
}

/* One more than the largest label; all are read, and checked. */
static lk_status count_classes(const lk_dataset *ds, int64_t *classes)
{
    lk__content c;
    int64_t most = -1;
    lk_status st = lk__content_open(ds, lk_dataset_find(ds, "y"), &c);
    for (int64_t i = 0; st == LK_OK && i < lk_dataset_info_of(ds)->count; i++)
        st = lk__content_sample(&c, i, take_label, &most);
    lk__content_close(&c);
    LK_TRY(st);
    *classes = most + 1;
    return LK_OK;
}

static lk_status fill(lk__record_reading *r, const lk__record_options *o, lk_dataset_info *info)
{
    info->count = r->index.count;
    LK_CHECK(info->count > 0, LK_EIO, "%s: there is no %srecord in it", info->name,
             info->skipped > 0 || info->gaps > 0 ? "whole " : "");
    LK_TRY(lk__record_reading_start(r));
    LK_TRY(lk__record_fields_start(o, &r->fields));
    return LK_TRACE(describe(r, o, info));
}

/* Add a file to the index, unpacked if it is packed and no stream. */
static lk_status index_file(lk__record_reading *r, const lk__record_options *o, lk__source *s,
                            lk__record_damage *damage)
{
    lk__packing how;
    bool cut = false, skips = o->damaged == 1;
    lk_status st = lk__tfrecord_packing(s, &how);
    if (st != LK_OK) {
        lk__source_free(s);
        LK_TRY(st);
    }
    if (o->stream) {
        return LK_TRACE(lk__record_index_count(&r->index, s, how, skips, damage));
    }
    if (how != LK_PACKED_NOT)
        LK_TRY(lk__source_unpack(&s, how, skips ? &cut : NULL));
    if (skips)
        LK_TRY(lk__record_index_scan(&r->index, s, cut, damage));
    else
        LK_TRY(lk__record_index_add(&r->index, s));
    return LK_OK;
}

/* The index of all files, which it owns then, also after a failure. */
static lk_status index_make(lk__record_reading *r, const lk__record_options *o, lk__source **source,
                            int64_t n, lk__record_damage *damage)
{
    lk_status st = LK_OK;
    for (int64_t i = 0; i < n; i++)
        if (st == LK_OK)
            st = index_file(r, o, source[i], damage);
        else
            lk__source_free(source[i]);
    return LK_TRACE(st);
}

/* Say once what is left out. */
static void damage_report(const char *name, const lk__record_damage *d)
{
    if ((d->records > 0 || d->gaps > 0) && lk__log_leads())
        lk_log_write(LK_LOG_WARN,
                     "%s: damaged records that are left out: %lld; places where no record can be "
                     "found: %lld; the first: %s",
                     name, (long long)d->records, (long long)d->gaps, d->first);
}

/* The dataset of what is indexed, which owns `r` once it is there. */
static lk_status dataset_make(lk__record_reading *r, const char *name, const lk__record_options *o,
                              const lk__record_damage *damage, lk_dataset **out)
{
    lk_dataset_info info = {
        .name = name, .stream = o->stream, .skipped = damage->records, .gaps = damage->gaps};
    damage_report(name, damage);
    LK_TRY(fill(r, o, &info));
    lk_dataset_box_fn *box = o->stream ? NULL : records_box; /* a record at a time is held anyway */
    LK_TRY(lk_dataset_new_boxes(&info, records_row, box, records_free, r, out));
    lk__dataset_set_files(*out, r->index.source, r->index.n_files);
    lk__dataset_set_runs(*out, r->index.first, r->index.n_files);
    if (info.classes == 0 && lk__record_fields_labels(&r->fields)) {
        LK_TRY(count_classes(*out, &r->fields.classes));
        lk__dataset_set_classes(*out, r->fields.classes);
    }
    return LK_OK;
}

lk_status lk__records_dataset(const char *name, lk__source **source, int64_t n,
                              const lk__record_options *o, lk_dataset **out)
{
    *out = NULL;
    lk__record_reading *r;
    lk__record_damage damage = {0};
    lk_status st = lk__record_reading_new(o->stream, &r);
    for (int64_t i = 0; st != LK_OK && i < n; i++)
        lk__source_free(source[i]);
    LK_TRY(st);
    LK_TRY_TO(fail, index_make(r, o, source, n, &damage));
    LK_TRY_TO(fail, dataset_make(r, name, o, &damage, out));
    return LK_OK;
fail:
    if (*out)
        lk_dataset_free(*out); /* and `r` with it */
    else
        records_free(r);
    *out = NULL;
    return st;
}
