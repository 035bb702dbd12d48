/* lk__table: fields as rows of equal size in files or memory; readers make a dataset of it. */
#include "data/arrays/table.h"

#include "data/bytes.h"
#include "data/dataset.h"
#include "data/format.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/checked.h>

#include <string.h>

lk_status lk__table_new(lk__table **out)
{
    return LK_TRACE(lk_alloc_zero(out, 1, sizeof **out));
}

void lk__table_free(lk__table *t)
{
    if (!t)
        return;
    for (int f = 0; f < LK_MAX_FIELDS; f++)
        lk_free(t->column[f].memory);
    for (int i = 0; i < t->n_sources; i++)
        lk__source_free(t->source[i]);
    lk_free(t);
}

lk_status lk__table_own(lk__table *t, lk__source *s)
{
    if (t->n_sources == LK_MAX_FIELDS) {
        lk__source_free(s);
        return LK_RAISE(LK_EINVAL, "a dataset of more than %d files", LK_MAX_FIELDS);
    }
    t->source[t->n_sources++] = s;
    return LK_OK;
}

lk_status lk__table_open(lk__table *t, const char *path, const lk__source **out)
{
    lk__source *s;
    LK_TRY(lk__source_open(path, &s));
    *out = s;
    return LK_TRACE(lk__table_own(t, s));
}

/* Room for one more field, of elements that lie there as `in`. */
static lk_status add_field(lk__table *t, const char *name, lk_dtype dtype, lk_shape shape,
                           lk_dtype in, int *out)
{
    int f = t->info.n_fields;
    int64_t elements;
    LK_CHECK(f < LK_MAX_FIELDS, LK_EINVAL, "a dataset of more than %d fields", LK_MAX_FIELDS);
    LK_TRY(lk_shape_count(shape, &elements));
    LK_TRY(lk_mul_i64(elements, (int64_t)lk_dtype_size(in), &t->column[f].bytes));
    t->column[f].dtype = in;
    t->info.field[f] = lk__field(name, dtype, shape);
    t->info.n_fields++;
    *out = f;
    return LK_OK;
}

/* The rows of `in` are all there. */
static lk_status check_extent(const lk__table *t, const lk__layout_in *in, int64_t *elements)
{
    int64_t bytes, size = lk__source_size(in->source);
    LK_TRY(lk_shape_count(in->shape, elements));
    if (*elements == 0 && t->info.count > 0) /* billions of nothing would fit into any file */
        return LK_DAMAGED(in->source, in->offset, "%lld samples of shape %s have no values",
                          (long long)t->info.count, lk_shape_text(in->shape).s);
    LK_TRY(lk_mul_i64(*elements, t->info.count, elements));
    LK_TRY(lk_mul_i64(*elements, (int64_t)lk_dtype_size(in->dtype), &bytes));
    if (in->offset < 0 || in->offset > size || bytes > size - in->offset)
        return LK_DAMAGED(in->source, in->offset,
                          "%lld samples of %s%s need %lld bytes, but the file ends at %lld",
                          (long long)t->info.count, lk_dtype_name(in->dtype),
                          lk_shape_text(in->shape).s, (long long)bytes, (long long)size);
    return LK_OK;
}

/* A field whose rows stay where they are, and become `dtype`. */
static lk_status add_rows(lk__table *t, const char *name, lk_dtype dtype, const lk__layout_in *in)
{
    int f;
    LK_TRY(add_field(t, name, dtype, in->shape, in->dtype, &f));
    t->column[f].source = in->source;
    t->column[f].offset = in->offset;
    t->column[f].swap = in->swap;
    return LK_OK;
}

lk_status lk__table_rows(lk__table *t, const char *name, const lk__layout_in *in)
{
    int64_t elements;
    LK_TRY(check_extent(t, in, &elements));
    return LK_TRACE(add_rows(t, name, in->dtype, in));
}

lk_status lk__table_memory(lk__table *t, const char *name, lk_dtype dtype, lk_shape shape,
                           void *memory)
{
    int f;
    lk_status st = add_field(t, name, dtype, shape, dtype, &f);
    if (st != LK_OK)
        lk_free(memory);
    else
        t->column[f].memory = memory;
    return st;
}

/* An integer as it lies in a file. */
static int64_t integer(const unsigned char *p, int size, bool swap)
{
    uint64_t v = swap ? lk__get_be(p, size) : lk__get_le(p, size);
    return size == 4 ? (int32_t)(uint32_t)v : (int64_t)v;
}

/* Look at all labels; `label` takes them, unless it is NULL. */
static lk_status read_labels(lk__table *t, const lk__layout_in *in, int64_t elements,
                             int64_t *label)
{
    enum { MOST = 1024 };
    unsigned char chunk[8 * MOST];
    int64_t value[MOST], size = (int64_t)lk_dtype_size(in->dtype), most = -1;
    for (int64_t i = 0, n; i < elements; i += n) {
        n = elements - i < MOST ? elements - i : MOST;
        LK_TRY(lk__source_read(in->source, in->offset + i * size, chunk, n * size, "labels"));
        for (int64_t j = 0; j < n; j++)
            value[j] = integer(chunk + j * size, (int)size, in->swap);
        LK_TRY(lk__labels_check_range(in->source, value, (lk_range){i, n}, elements / t->info.count,
                                      t->info.classes, &most));
        if (label)
            memcpy(label + i, value, (size_t)n * sizeof *value);
    }
    if (t->info.classes == 0)
        t->info.classes = most + 1;
    return LK_OK;
}

lk_status lk__table_labels(lk__table *t, const lk__layout_in *in)
{
    LK_CHECK(in->dtype == LK_U8 || in->dtype == LK_I32 || in->dtype == LK_I64, LK_EDTYPE,
             "%s: labels are integers, not %s", lk__source_name(in->source),
             lk_dtype_name(in->dtype));
    int64_t elements, *label = NULL;
    LK_TRY(check_extent(t, in, &elements));
    if (in->shape.ndim == 0) { /* one for each sample */
        LK_TRY(lk_alloc(&label, elements, sizeof *label));
        LK_TRY(lk__table_memory(t, "y", LK_I64, in->shape, label));
    } else
        LK_TRY(add_rows(t, "y", LK_I64, in));
    return LK_TRACE(read_labels(t, in, elements, label));
}

lk_status lk__table_targets(lk__table *t, const lk__layout_in *in)
{
    if (in->dtype == LK_U8 || in->dtype == LK_I32 || in->dtype == LK_I64) {
        return LK_TRACE(lk__table_labels(t, in));
    }
    t->info.classes = 0;
    return LK_TRACE(lk__table_rows(t, "y", in));
}

static lk_status table_box(void *context, int64_t index, int f, const lk_box *box, void *out)
{
    const lk__table *t = context;
    const lk_field *field = &t->info.field[f];
    int64_t from = index * t->column[f].bytes;
    if (t->column[f].memory) {
        lk__box_cut(field, (const char *)t->column[f].memory + from, box, out);
        return LK_OK;
    }
    /* Elements that become larger are read to the end of `out`, and grow from its beginning on. */
    int64_t n = lk_box_count(box), size = (int64_t)lk_dtype_size(t->column[f].dtype);
    int64_t grown = (int64_t)lk_dtype_size(field->dtype);
    char *raw = (char *)out + n * (grown - size);
    LK_TRY(lk__source_read_box(t->column[f].source, t->column[f].offset + from, &field->shape, box,
                               (size_t)size, raw));
    if (field->dtype != t->column[f].dtype)
        for (int64_t i = 0; i < n; i++) {
            int64_t v = integer((const unsigned char *)raw + i * size, (int)size,
                                t->column[f].swap);
            memcpy((char *)out + i * grown, &v, sizeof v);
        }
    else if (t->column[f].swap)
        lk__swap_bytes(out, n, (size_t)size);
    return LK_OK;
}

static void table_release(void *context)
{
    lk__table_free(context);
}

lk_status lk__table_finish(lk__table *t, lk_dataset **out)
{
    LK_TRY(lk_dataset_new_boxes(&t->info, NULL, table_box, table_release, t, out));
    lk__dataset_set_files(*out, t->source, t->n_sources);
    return LK_OK;
}
