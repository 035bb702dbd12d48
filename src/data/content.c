/* Reading all of a dataset in order, and its hash.  What writes boxes is read in slabs, boxes that lie in
 * one piece in the sample; what lies in memory is looked at there; of other sets a row at a time is held.
 */
#include "data/content.h"

#include "base/fpenv.h"
#include "data/dataset.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/hash.h>

/* ---- slabs ---- */

/* The slabs of a field: runs of its axis `axis`, of `rows` rows of `inner` elements at most. */
struct slabs {
    const lk_shape *shape;
    int axis;
    int64_t rows, inner, total;
    int64_t first, n; /* elements of the slab at hand */
    lk_box box;
};

static struct slabs slabs_start(const lk_field *field)
{
    struct slabs s = {.shape = &field->shape, .axis = field->shape.ndim, .inner = 1};
    s.total = lk__field_bytes(field) / (int64_t)lk_dtype_size(field->dtype);
    s.box = lk__field_whole(field);
    if (s.total == 0 || s.axis == 0)
        return s;
    while (--s.axis > 0 && s.inner * s.shape->dim[s.axis] <= LK_CONTENT_ELEMENTS)
        s.inner *= s.shape->dim[s.axis];
    s.rows = LK_CONTENT_ELEMENTS / s.inner;
    return s;
}

static bool slabs_next(struct slabs *s)
{
    s->first += s->n;
    s->n = s->total - s->first;
    if (s->n == 0 || s->axis == s->shape->ndim)
        return s->n > 0;
    int64_t row = s->first / s->inner;
    for (int i = s->axis; i >= 0; i--) {
        s->box.first[i] = row % s->shape->dim[i];
        s->box.n[i] = 1;
        row /= s->shape->dim[i];
    }
    int64_t left = s->shape->dim[s->axis] - s->box.first[s->axis];
    s->box.n[s->axis] = left < s->rows ? left : s->rows;
    s->n = s->box.n[s->axis] * s->inner;
    return true;
}

/* ---- reading ---- */

lk_status lk__content_open(const lk_dataset *ds, int only, lk__content *out)
{
    const lk_dataset_info *info = lk_dataset_info_of(ds);
    *out = (lk__content){.ds = ds, .only = only};
    if (lk__dataset_has_base(ds) || info->count == 0)
        return LK_OK;
    if (lk__dataset_has_boxes(ds)) {
        return LK_TRACE(lk_alloc(&out->block, LK_CONTENT_ELEMENTS, sizeof(double)));
    }
    LK_TRY(lk__dataset_rows_new(ds, out->row, &out->block));
    for (int f = 0; only >= 0 && f < info->n_fields; f++)
        if (f != only)
            out->row[f] = NULL;
    return LK_OK;
}

void lk__content_close(lk__content *c)
{
    lk_free(c->block);
    *c = (lk__content){.ds = NULL};
}

static lk_status sample_slabs(const lk__content *c, int64_t index, int f, lk__values_fn *take,
                              void *arg)
{
    struct slabs s = slabs_start(&lk_dataset_info_of(c->ds)->field[f]);
    while (slabs_next(&s)) {
        LK_TRY(lk__dataset_box(c->ds, index, f, &s.box, c->block));
        take(arg, f, s.first, s.n, c->block);
    }
    return LK_OK;
}

lk_status lk__content_sample(const lk__content *c, int64_t index, lk__values_fn *take, void *arg)
{
    const lk_dataset_info *info = lk_dataset_info_of(c->ds);
    const void *at[LK_MAX_FIELDS];
    bool slabs = lk__dataset_has_boxes(c->ds) && !lk__dataset_has_base(c->ds);
    if (!slabs)
        LK_TRY(lk__dataset_row_ptr(c->ds, index, c->row, at));
    for (int f = 0; f < info->n_fields; f++) {
        if (c->only >= 0 && f != c->only)
            continue;
        if (slabs)
            LK_TRY(sample_slabs(c, index, f, take, arg));
        else
            take(arg, f, 0,
                 lk__field_bytes(&info->field[f]) / (int64_t)lk_dtype_size(info->field[f].dtype),
                 at[f]);
    }
    return LK_OK;
}

/* ---- the hash ---- */

struct hashing {
    const lk_dataset_info *info;
    lk_hash hash;
};

static void hash_values(void *arg, int f, int64_t first, int64_t n, const void *values)
{
    struct hashing *h = arg;
    (void)first; /* they come in order */
    lk_hash_add_bytes(&h->hash, values, (size_t)n * lk_dtype_size(h->info->field[f].dtype));
}

lk_status lk__content_hash(const lk_dataset *ds, uint64_t *out)
{
    const lk_dataset_info *info = lk_dataset_info_of(ds);
    struct hashing h = {info, lk_hash_start()};
    lk_hash_add_i64(&h.hash, info->count);
    lk_hash_add_i64(&h.hash, info->classes);
    lk_hash_add_i64(&h.hash, info->n_fields);
    for (int f = 0; f < info->n_fields; f++) {
        const lk_field *field = &info->field[f];
        lk_hash_add_header(&h.hash, field->name, field->dtype, field->shape.ndim, field->shape.dim);
    }
    lk__content c;
    lk_status st = lk__content_open(ds, -1, &c);
    int64_t samples = info->n_fields > 0 ? info->count : 0; /* that there is something of */
    for (int64_t i = 0; st == LK_OK && i < samples; i++)
        st = lk__content_sample(&c, i, hash_values, &h);
    lk__content_close(&c);
    LK_TRY(st);
    if (info->skipped > 0 || info->gaps > 0) {
        lk_hash_add_text(&h.hash, "skipped");
        lk_hash_add_i64(&h.hash, info->skipped);
        lk_hash_add_i64(&h.hash, info->gaps);
    }
    *out = lk_hash_value(&h.hash);
    return LK_OK;
}
