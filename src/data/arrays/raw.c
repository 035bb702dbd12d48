/* Reading raw elements, where the file's size gives the number of samples: for formats/raw.c. */
#include "data/arrays/raw.h"

#include <lockstep/extra/checked.h>

#include <string.h>

/* How the elements lie, and how many samples there are. */
static lk_status layout(const lk__source *s, const lk__raw_layout *o, lk__layout_in *in,
                        int64_t *count)
{
    LK_CHECK(o->shape.n < LK_MAX_NDIM, LK_EINVAL, "%s: a shape of %d axes, at most %d are possible",
             lk__source_name(s), o->shape.n, LK_MAX_NDIM - 1);
    *in = (lk__layout_in){.source = s,
                          .offset = o->offset,
                          .dtype = (lk_dtype)o->dtype,
                          .swap = o->big == 1 && lk_dtype_size((lk_dtype)o->dtype) > 1,
                          .shape = {.ndim = o->shape.n}};
    memcpy(in->shape.dim, o->shape.item, (size_t)o->shape.n * sizeof in->shape.dim[0]);
    int64_t bytes, size = lk__source_size(s);
    LK_TRY(lk_shape_count(in->shape, &bytes));
    LK_TRY(lk_mul_i64(bytes, (int64_t)lk_dtype_size(in->dtype), &bytes));
    if (bytes == 0 || o->offset > size || (size - o->offset) % bytes != 0)
        return LK_DAMAGED(s, o->offset, "%lld bytes are no whole number of samples %s%s, %lld each",
                          (long long)(size - o->offset), lk_dtype_name(in->dtype),
                          lk_shape_text(in->shape).s, (long long)bytes);
    *count = (size - o->offset) / bytes;
    return LK_OK;
}

lk_status lk__raw_dataset(lk__table *t, const lk__source *samples, const lk__raw_layout *x,
                          const lk__source *labels, const lk__raw_layout *y, lk_dataset **out)
{
    lk__layout_in in;
    int64_t n_labels;
    t->info.name = lk__source_name(samples);
    LK_TRY(layout(samples, x, &in, &t->info.count));
    LK_TRY(lk__table_rows(t, "x", &in));
    if (labels) {
        LK_TRY(layout(labels, y, &in, &n_labels));
        LK_CHECK(n_labels == t->info.count, LK_EIO, "%s: labels of %lld samples, %s has %lld",
                 lk__source_name(labels), (long long)n_labels, lk__source_name(samples),
                 (long long)t->info.count);
        LK_TRY(lk__table_targets(t, &in));
    } else
        t->info.classes = 0;
    return LK_TRACE(lk__table_finish(t, out));
}
