/* Filling one slot of a loader, a part of a batch: pick the samples, read and convert them.  On
 * a thread of the loader, or on the caller's if there is none.
 */
#include "base/fpenv.h"
#include "data/dataset.h"
#include "data/loader/loader.h"
#include "data/loader/order.h"

#include <lockstep/extra/alloc.h>

#include <string.h>

/* Samples between the one at hand and the one that is asked for. */
enum { AHEAD = 2 };

static void views_free(lk__loader_slot *s)
{
    for (int v = 0; v < LK_LOADER_VIEWS; v++)
        for (int f = 0; f < LK_MAX_FIELDS; f++) {
            lk_tensor_free(s->view[v].tensor[f]);
            s->view[v].tensor[f] = NULL;
        }
}

void lk__slot_free(lk__loader_slot *s)
{
    views_free(s);
    for (int f = 0; f < LK_MAX_FIELDS; f++) {
        lk_tensor_free(s->full[f]);
        s->full[f] = NULL;
    }
    lk_free(s->index);
    s->index = NULL;
    s->room = 0;
}

/* Tensors for `n` rows. */
static lk_status slot_grow(const lk_loader *l, lk__loader_slot *s, int64_t n)
{
    lk__slot_free(s);
    LK_TRY(lk_alloc(&s->index, n, sizeof *s->index));
    for (int f = 0; f < l->info->n_fields; f++) {
        lk_field field = lk_loader_field(l, f);
        lk_shape shape = {.ndim = field.shape.ndim + 1, .dim = {n}};
        memcpy(shape.dim + 1, field.shape.dim, (size_t)field.shape.ndim * sizeof shape.dim[0]);
        LK_TRY(lk_tensor_new(field.dtype, shape, &s->full[f]));
        s->bytes[f] = lk__field_bytes(&field);
    }
    s->room = n;
    s->layout = l->layout;
    return LK_OK;
}

static int find_view(const lk__loader_slot *s, int64_t n)
{
    for (int v = 0; v < LK_LOADER_VIEWS; v++)
        if (s->view[v].tensor[0] && s->view[v].n == n)
            return v;
    return -1;
}

/* A view of the first `n` rows, made anew unless it is there. */
static lk_status slot_view(const lk_loader *l, lk__loader_slot *s, int64_t n)
{
    if (n == s->room || l->info->n_fields == 0 || find_view(s, n) >= 0)
        return LK_OK;
    int v = s->next_view;
    s->next_view = (v + 1) % LK_LOADER_VIEWS;
    for (int f = l->info->n_fields - 1; f >= 0; f--) { /* the first one last: it says "complete" */
        lk_tensor_free(s->view[v].tensor[f]);
        s->view[v].tensor[f] = NULL;
    }
    s->view[v].n = n;
    for (int f = l->info->n_fields - 1; f >= 0; f--)
        LK_TRY(lk_tensor_slice(s->full[f], 0, 0, n, 1, &s->view[v].tensor[f]));
    return LK_OK;
}

lk_tensor *const *lk__slot_tensors(const lk__loader_slot *s)
{
    bool whole = s->request.n == s->room || !s->full[0]; /* none at all: of an empty set */
    return whole ? s->full : s->view[find_view(s, s->request.n)].tensor;
}

/* Memory for the request, and for the same part of the last batch, which may be smaller. */
static lk_status slot_prepare(const lk_loader *l, lk__loader_slot *s)
{
    const lk__request *r = &s->request;
    if (s->room == 0 || r->n > s->room || s->layout != l->layout) {
        LK_TRY(slot_grow(l, s, r->n > 0 ? r->n : 1));
        int64_t last = lk_loader_batch_size(l, lk_loader_batches(l) - 1) - r->first;
        last = last < 0 ? 0 : last > r->n ? r->n : last;
        LK_TRY(slot_view(l, s, last));
    }
    return LK_TRACE(slot_view(l, s, r->n));
}

/* Labels as rows that are 1 at the label and 0 elsewhere. */
static void one_hot(const int64_t *label, int64_t n, int64_t classes, lk_dtype dtype, void *out)
{
    memset(out, 0, (size_t)(n * classes) * lk_dtype_size(dtype));
    for (int64_t i = 0; i < n; i++)
        if (dtype == LK_F32)
            ((float *)out)[i * classes + label[i]] = 1;
        else
            ((double *)out)[i * classes + label[i]] = 1;
}

/* One field of one sample, from `raw` to row `out` of the batch. */
static lk_status put_field(const lk_loader *l, int f, const void *raw, int64_t sample, void *out)
{
    const lk_field *field = &l->info->field[f];
    const lk_box *box = &l->box[f];
    int64_t n = lk__box_bytes(field, box) / (int64_t)lk_dtype_size(field->dtype);
    if (f == l->x && l->options.indices > 0) {
        LK_TRY(lk__indices_put(l, sample, raw, out));
    } else if (f == l->x) {
        lk__convert(field->dtype, raw, l->options.dtype, out, n, &l->map);
    } else if (f == l->y && l->classes > 0) {
        const int64_t *label = raw;
        for (int64_t i = 0; i < n; i++)
            LK_CHECK(label[i] >= 0 && label[i] < l->classes, LK_EIO,
                     "dataset %s: sample %lld has the label %lld, but there are %lld classes",
                     lk__dataset_title(l->ds), (long long)sample, (long long)label[i],
                     (long long)l->classes);
        if (l->options.one_hot)
            one_hot(label, n, l->classes, l->options.dtype, out);
        else
            memcpy(out, raw, (size_t)n * sizeof *label);
    } else if (f == l->y) {
        lk__convert(field->dtype, raw, l->options.dtype, out, n, NULL);
    } else
        memcpy(out, raw, (size_t)lk__box_bytes(field, box));
    return LK_OK;
}

/* The sample of row i; `row`: its fields, where they are at hand. */
static lk_status put_sample(const lk_loader *l, const lk__scratch *scratch,
                            const lk__loader_slot *s, int64_t i, const void *const *row)
{
    int64_t index = s->index[i];
    const void *part[LK_MAX_FIELDS];
    LK_TRY(lk__parts_read(l, scratch, s->request.epoch, index, row, part));
    if (l->order_size == 0 && i + AHEAD < s->request.n)
        lk__dataset_prefetch(lk__keep_set(l), s->index[i + AHEAD]);
    for (int f = 0; f < l->info->n_fields; f++)
        LK_TRY(put_field(l, f, part[f], index, s->data[f] + i * s->bytes[f]));
    return LK_OK;
}

/* Samples that can be had in any order. */
static lk_status fill_at_once(const lk_loader *l, const lk__scratch *scratch, lk__loader_slot *s)
{
    static const void *const none[LK_MAX_FIELDS];
    const lk__request *r = &s->request;
    int64_t first = r->number * l->options.batch + r->first;
    LK_TRY(lk__order_pick(l, r->epoch, first, r->n, s->index));
    for (int64_t i = 0; l->info->n_fields > 0 && i < r->n; i++)
        LK_TRY(put_sample(l, scratch, s, i, none));
    return LK_OK;
}

/* The rows from `*i` on that a buffer has. */
static lk_status fill_from(const lk_loader *l, const lk__scratch *scratch, lk__loader_slot *s,
                           const lk__buffer *b, int64_t *i)
{
    int64_t first = s->request.number * l->options.batch + s->request.first;
    for (; *i < s->request.n; ++*i) {
        int64_t position = first + *i, at = position - b->positions.first;
        const void *row[LK_MAX_FIELDS] = {NULL};
        if (at >= b->positions.n)
            return LK_OK;
        s->index[*i] = b->sample[at];
        lk__buffer_row(l, b, position, row);
        LK_TRY(put_sample(l, scratch, s, *i, row));
    }
    return LK_OK;
}

/* Samples that come through buffers. */
static lk_status fill_in_order(lk_loader *l, const lk__scratch *scratch, lk__loader_slot *s)
{
    const lk__request *r = &s->request;
    int64_t first = r->number * l->options.batch + r->first;
    for (int64_t i = 0; i < r->n;) {
        lk__buffer *b;
        LK_TRY(lk__buffers_hold(l, r->epoch, first + i, (lk_range){r->first, r->n}, &b));
        lk_status st = fill_from(l, scratch, s, b, &i);
        lk__buffers_release(l, b);
        LK_TRY(st);
    }
    return LK_OK;
}

lk_status lk__slot_fill(lk_loader *l, lk__reader *reader, lk__loader_slot *s)
{
    LK_FP_GUARD();
    LK_TRY(lk__fp_check());
    LK_TRY(lk__scratch_prepare(l, &reader->scratch));
    LK_TRY(slot_prepare(l, s));
    for (int f = 0; f < l->info->n_fields; f++) {
        void *start;
        LK_TRY(lk_tensor_writable_data(s->full[f], &start));
        s->data[f] = start;
    }
    if (l->order_size > 0)
        LK_TRY(fill_in_order(l, &reader->scratch, s));
    else
        LK_TRY(fill_at_once(l, &reader->scratch, s));
    return LK_OK;
}
