/* The batches of a multi-node iterator: the master reads them, all others get what it has read.
 *
 * When the iterator is made the master says what its batches are, and all take memory for them.  Each call
 * then is a word of the master (a batch, the end, or a failure) and its step, and of a batch the numbers
 * of its samples and its fields, as they are.
 */
#include "coll/objects.h"
#include "multinode/iterator.h"

#include <lockstep/extra/alloc.h>

#include <string.h>

enum { FAILED, ENDED, BATCH };

static lk_shape rows_shape(const lk_field *field, int64_t n)
{
    lk_shape shape = {.ndim = field->shape.ndim + 1, .dim = {n}};
    memcpy(shape.dim + 1, field->shape.dim, (size_t)field->shape.ndim * sizeof shape.dim[0]);
    return shape;
}

/* ---- when it is made ---- */

static lk__batch_layout layout_make(const lk_iterator *it)
{
    lk__batch_layout l = {
        .samples = it->samples, .batch = it->batch, .seed = it->seed, .repeat = it->repeat};
    while (l.n_fields < LK_MAX_FIELDS && lk_loader_field(it->loader, (int)l.n_fields).name[0]) {
        l.field[l.n_fields] = lk_loader_field(it->loader, (int)l.n_fields);
        l.n_fields++;
    }
    return l;
}

/* What came in a message is not more than there can be. */
static lk_status layout_check(lk__batch_layout *l)
{
    LK_CHECK(l->samples >= 1 && l->batch >= 1 && l->batch <= l->samples && l->n_fields >= 0 &&
                 l->n_fields <= LK_MAX_FIELDS,
             LK_EINVAL, "the master has batches of %lld of %lld samples with %lld fields",
             (long long)l->batch, (long long)l->samples, (long long)l->n_fields);
    for (int f = 0; f < l->n_fields; f++) {
        const lk_field *field = &l->field[f];
        LK_CHECK(field->shape.ndim >= 0 && field->shape.ndim < LK_MAX_NDIM, LK_EINVAL,
                 "the master has samples of %d axes, at most %d are possible", field->shape.ndim,
                 LK_MAX_NDIM - 1);
        l->field[f].name[LK_FIELD_NAME - 1] = '\0';
    }
    return LK_OK;
}

/* Memory for a batch of the master's. */
static lk_status batch_new(lk_iterator *it)
{
    LK_TRY(layout_check(&it->layout));
    int64_t rest = it->layout.samples % it->layout.batch;
    LK_TRY(lk_alloc(&it->index, it->layout.batch, sizeof *it->index));
    for (int f = 0; f < it->layout.n_fields; f++) {
        const lk_field *field = &it->layout.field[f];
        LK_TRY(lk_tensor_new(field->dtype, rows_shape(field, it->layout.batch), &it->whole[f]));
        if (rest > 0)
            LK_TRY(lk_tensor_slice(it->whole[f], 0, 0, rest, 1, &it->last[f]));
    }
    return LK_OK;
}

lk_status lk__multi_node_open(lk_iterator *it)
{
    if (it->is_master)
        it->layout = layout_make(it);
    LK_TRY(lk_bcast(it->comm, &it->layout, sizeof it->layout, LK_U8, it->master, "batches"));
    LK_TRY(lk_agree(it->comm, it->is_master ? LK_OK : batch_new(it)));
    it->samples = it->layout.samples;
    it->batch = it->layout.batch;
    it->seed = it->layout.seed;
    it->repeat = it->layout.repeat;
    return LK_OK;
}

/* ---- each batch ---- */

/* The master's next batch is as it said when the iterator was made. */
static lk_status master_read(lk_iterator *it, lk_batch *out, bool *more)
{
    LK_TRY(lk__iterator_read(it, out, more));
    for (int f = 0; *more && f < it->layout.n_fields; f++) {
        const lk_field *field = &it->layout.field[f];
        LK_CHECK(lk_shape_is_equal(lk_tensor_shape(out->field[f]), rows_shape(field, out->n)),
                 LK_ESTATE,
                 "the loader gives %s of field \"%s\", not rows of %s as when the iterator was "
                 "made",
                 lk_tensor_text(out->field[f]).s, field->name, lk_shape_text(field->shape).s);
    }
    return LK_OK;
}

/* Where the others put the next batch: `n` of its samples. */
static void batch_place(const lk_iterator *it, int64_t n, lk_batch *out)
{
    int64_t batches = lk__iterator_batches(it);
    *out = (lk_batch){.epoch = it->step / batches,
                      .number = it->step % batches,
                      .size = n,
                      .n = n,
                      .index = it->index,
                      .n_fields = (int)it->layout.n_fields};
    for (int f = 0; f < out->n_fields; f++) {
        out->field[f] = n == it->batch ? it->whole[f] : it->last[f];
        if (strcmp(it->layout.field[f].name, "x") == 0)
            out->x = out->field[f];
        if (strcmp(it->layout.field[f].name, "y") == 0)
            out->y = out->field[f];
    }
}

/* The numbers of the samples and all fields, from the master to all. */
static lk_status batch_share(const lk_iterator *it, const lk_batch *batch)
{
    void *index = (void *)(uintptr_t)batch->index; /* which the master only reads */
    LK_TRY(lk_bcast(it->comm, index, batch->n, LK_I64, it->master, "samples"));
    for (int f = 0; f < batch->n_fields; f++) {
        const lk_tensor *t = batch->field[f];
        int64_t bytes = lk_tensor_count(t) * (int64_t)lk_dtype_size(lk_tensor_dtype(t));
        void *data = (void *)(uintptr_t)lk_tensor_data(t);
        LK_TRY(lk__bcast_pieces(it->comm, data, bytes, LK_BCAST_PIECE, it->master,
                                it->layout.field[f].name));
    }
    return LK_OK;
}

lk_status lk__multi_node_next(lk_iterator *it, lk_batch *out, bool *more)
{
    lk_status st = it->is_master ? master_read(it, out, more) : LK_OK;
    int64_t word[2] = {st != LK_OK ? FAILED : *more ? BATCH : ENDED, it->step};
    LK_TRY(lk_bcast(it->comm, word, 2, LK_I64, it->master, "iterator"));
    if (word[0] == FAILED)
        LK_TRY(lk_agree(it->comm, st));
    LK_CHECK(word[1] >= 0, LK_EMISMATCH, "the master is at step %lld", (long long)word[1]);
    it->step = word[1];
    *more = word[0] == BATCH;
    if (!*more)
        return LK_OK;
    if (!it->is_master)
        batch_place(it, lk__iterator_next_size(it), out);
    return LK_TRACE(batch_share(it, out));
}
