/* lk__table: fields as rows of equal size in files or memory; readers make a dataset of it. */
#include "data/table.h"

#include "data/bytes.h"
#include "data/dataset.h"
#include "data/format.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/checked.h>

#include <string.h>

lk_status lk__table_new(lk__table **out)
{
    LK_TRY(lk_alloc_zero(out, 1, sizeof **out));
    return LK_OK;
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
    LK_TRY(lk__table_own(t, s));
    return LK_OK;
}

/* Room for one more field; its elements and bytes of a row are set. */
static lk_status add_field(lk__table *t, const char *name, lk_dtype dtype, lk_shape shape, int *out)
{
    int f = t->info.n_fields;
    LK_CHECK(f < LK_MAX_FIELDS, LK_EINVAL, "a dataset of more than %d fields", LK_MAX_FIELDS);
    LK_TRY(lk_shape_count(shape, &t->column[f].elements));
    LK_TRY(lk_mul_i64(t->column[f].elements, (int64_t)lk_dtype_size(dtype), &t->column[f].bytes));
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

lk_status lk__table_rows(lk__table *t, const char *name, const lk__layout_in *in)
{
    int64_t elements;
    int f;
    LK_TRY(check_extent(t, in, &elements));
    LK_TRY(add_field(t, name, in->dtype, in->shape, &f));
    t->column[f].source = in->source;
    t->column[f].offset = in->offset;
    t->column[f].swap = in->swap;
    return LK_OK;
}

lk_status lk__table_memory(lk__table *t, const char *name, lk_dtype dtype, lk_shape shape,
                           void *memory)
{
    int f;
    lk_status st = add_field(t, name, dtype, shape, &f);
    if (st != LK_OK)
        lk_free(memory);
    else
        t->column[f].memory = memory;
    return st;
}

/* `n` integers of `in`, from number `first` on, as i64. */
static lk_status read_integers(const lk__layout_in *in, int64_t first, int64_t n, int64_t *out)
{
    unsigned char chunk[8192];
    int64_t size = (int64_t)lk_dtype_size(in->dtype), most = (int64_t)sizeof chunk / size;
    for (int64_t i = 0; i < n; i += most) {
        int64_t k = n - i < most ? n - i : most;
        LK_TRY(lk__source_read(in->source, in->offset + (first + i) * size, chunk, k * size,
                               "labels"));
        for (int64_t j = 0; j < k; j++) {
            const unsigned char *p = chunk + j * size;
            uint64_t v = in->swap ? lk__get_be(p, (int)size) : lk__get_le(p, (int)size);
            out[i + j] = size == 4 ? (int32_t)(uint32_t)v : (int64_t)v;
        }
    }
    return LK_OK;
}

lk_status lk__table_labels(lk__table *t, const lk__layout_in *in)
{
    LK_CHECK(in->dtype == LK_U8 || in->dtype == LK_I32 || in->dtype == LK_I64, LK_EDTYPE,
             "%s: labels are integers, not %s", lk__source_name(in->source),
             lk_dtype_name(in->dtype));
    int64_t elements;
    LK_TRY(check_extent(t, in, &elements));
    int64_t *label;
    LK_TRY(lk_alloc(&label, elements, sizeof *label));
    LK_TRY(lk__table_memory(t, "y", LK_I64, in->shape, label));
    LK_TRY(read_integers(in, 0, elements, label));
    LK_TRY(lk__labels_check(in->source, label, elements, t->info.count, &t->info.classes));
    return LK_OK;
}

lk_status lk__table_targets(lk__table *t, const lk__layout_in *in)
{
    if (in->dtype == LK_U8 || in->dtype == LK_I32 || in->dtype == LK_I64) {
        LK_TRY(lk__table_labels(t, in));
        return LK_OK;
    }
    t->info.classes = 0;
    LK_TRY(lk__table_rows(t, "y", in));
    return LK_OK;
}

static lk_status table_row(void *context, int64_t index, void *const *row)
{
    const lk__table *t = context;
    for (int f = 0; f < t->info.n_fields; f++) {
        int64_t bytes = t->column[f].bytes;
        if (!row[f])
            continue;
        if (t->column[f].memory) {
            memcpy(row[f], (const char *)t->column[f].memory + index * bytes, (size_t)bytes);
            continue;
        }
        LK_TRY(lk__source_read(t->column[f].source, t->column[f].offset + index * bytes, row[f],
                               bytes, "a sample"));
        if (t->column[f].swap)
            lk__swap_bytes(row[f], t->column[f].elements, lk_dtype_size(t->info.field[f].dtype));
    }
    return LK_OK;
}

static void table_release(void *context)
{
    lk__table_free(context);
}

lk_status lk__table_finish(lk__table *t, lk_dataset **out)
{
    LK_TRY(lk_dataset_new(&t->info, table_row, table_release, t, out));
    return LK_OK;
}
