/* Boxes of the tensors in a safetensors file: written by all ranks that hold some, read by any. */
#include "data/sink.h"
#include "io/checkpoint.h"
#include "io/safetensors.h"

#include <lockstep/alloc.h>
#include <lockstep/coll.h>

/* ---- reading ---- */

/* The elements from the first to the last of a box that is not empty, counted in the tensor. */
static lk_range box_span(const lk_box *box, const int64_t *dim)
{
    int64_t first = 0, last = 0;
    for (int i = 0; i < box->ndim; i++) {
        first = first * dim[i] + box->first[i];
        last = last * dim[i] + box->first[i] + box->n[i] - 1;
    }
    return (lk_range){first, last + 1 - first};
}

/* Read the one tensor of `c` as far as `end` has room for it; chunk has LK__BAND bytes. */
static lk_status box_read(const lk__source *source, const lk_checkpoint *c, lk__end *end,
                          unsigned char *chunk)
{
    int64_t size = (int64_t)lk_dtype_size(c->tensor->dtype);
    lk_range span = box_span(&end->flow->piece->box, c->tensor->shape.dim);
    lk__band band = {.end = 1};
    lk__end file = {.c = c, .flow = end->flow, .band = &band, .base = chunk};
    end->band = &band;
    for (int64_t at = span.first; at < span.first + span.n; at = band.last) {
        int64_t left = span.first + span.n - at, room = LK__BAND / size;
        band.first = at;
        band.last = at + (left < room ? left : room);
        band.offset = c->tensor->offset + at * size;
        band.bytes = (band.last - at) * size;
        unsigned char *to = lk__end_direct(end, band.bytes);
        LK_TRY(lk__source_read(source, band.offset, to ? to : chunk, band.bytes, "a tensor"));
        if (!to)
            lk__end_copy(&file, end);
    }
    return LK_OK;
}

lk_status lk_safetensors_read_box(const lk_safetensors *f, int64_t i, const lk_box *box, void *data)
{
    unsigned char *chunk;
    lk_safetensors_info t;
    LK_TRY(lk_safetensors_at(f, i, &t));
    lk_checkpoint_tensor tensor = {
        .dtype = t.dtype, .shape = t.shape, .offset = t.offset, .bytes = t.bytes};
    lk_checkpoint one = {.tensor = &tensor, .n_tensors = 1};
    lk__piece piece = {0, box ? *box : lk_box_whole(t.shape.ndim, t.shape.dim)};
    lk__flow flow = {.piece = &piece, .n = 1};
    lk__box_held held = {data, piece.box};
    LK_CHECK(piece.box.ndim == t.shape.ndim && lk_box_is_within(&piece.box, t.shape.dim), LK_ESHAPE,
             "a box that is not within the tensor \"%.128s\", which is %s", t.name,
             lk_shape_text(t.shape).s);
    if (lk_box_count(&piece.box) == 0)
        return LK_OK;
    LK_CHECK(data, LK_EINVAL, "data is NULL");
    LK_TRY(lk_alloc(&chunk, LK__BAND, 1));
    lk_status st = box_read(f->source, &one, &(lk__end){.c = &one, .flow = &flow, .held = &held},
                            chunk);
    lk_free(chunk);
    LK_TRY(st);
    return LK_OK;
}

/* ---- writing ---- */

/* A file that rank 0 writes band by band. */
typedef struct file {
    const char *path;
    const lk_metadata *note;
    int64_t n_notes;
    lk_checkpoint *plan;
    lk__box_held *held;
    lk__sink *sink;
    lk_status written;
    unsigned char *bytes;
    int64_t n;
} file;

static lk_status file_plan(file *f, const lk_state_tensor *tensor, int64_t n)
{
    lk_state state = {.tensor = (lk_state_tensor *)tensor, .n_tensors = n};
    LK_CHECK(f->path && n >= 0 && f->n_notes >= 0, LK_EINVAL,
             "path is NULL, or a number is negative");
    LK_TRY(lk__named_check(NULL, 0, f->note, f->n_notes));
    LK_TRY(lk__plan_make(&state, 0, INT64_MAX, &f->plan));
    LK_TRY(lk_arena_alloc(f->plan->arena, &f->held, n, sizeof *f->held));
    for (int64_t i = 0; i < n; i++)
        f->held[i] = (lk__box_held){tensor[i].data, lk__state_box(&tensor[i])};
    LK_TRY(lk_alloc(&f->bytes, LK__BAND, 1));
    return LK_OK;
}

static lk_status file_begin(void *arg)
{
    file *f = arg;
    const lk_checkpoint *plan = f->plan;
    lk_safetensors_info *info = NULL;
    char *header = NULL;
    int64_t n = 0;
    LK_TRY(lk_alloc(&info, plan->n_tensors, sizeof *info));
    for (int64_t i = 0; i < plan->n_tensors; i++)
        info[i] = (lk_safetensors_info){.name = plan->tensor[i].name,
                                        .dtype = plan->tensor[i].dtype,
                                        .shape = plan->tensor[i].shape,
                                        .bytes = plan->tensor[i].bytes};
    lk_status st = lk__safetensors_header(info, plan->n_tensors, f->note, f->n_notes, &header, &n);
    if (st == LK_OK)
        st = lk__sink_open(f->path, &f->sink);
    if (st == LK_OK)
        st = lk__sink_write(f->sink, header, n);
    lk_free(header);
    lk_free(info);
    LK_TRY(st);
    return LK_OK;
}

static lk_status file_write(void *arg)
{
    file *f = arg;
    return lk__sink_write(f->sink, f->bytes, f->n);
}

static lk_status file_end(void *arg)
{
    file *f = arg;
    lk__sink *sink = f->sink;
    f->sink = NULL;
    return lk__sink_end(sink, f->written);
}

/* All bands; a failure of rank 0 is that of all at once. */
static lk_status file_fill(file *f, lk__exchange *x, const lk__disk *disk)
{
    LK_TRY(lk_agree(x->comm, lk__disk_do(disk, x->rank == 0 ? file_begin : NULL, f)));
    lk__exchange_start(x, NULL, false);
    while (lk__exchange_next(x)) {
        const lk__band *band = lk__exchange_band(x);
        LK_TRY(lk__exchange_round(x, f->bytes));
        f->n = band ? band->bytes : 0;
        LK_TRY(lk_agree(x->comm, lk__disk_do(disk, band ? file_write : NULL, f)));
    }
    return LK_OK;
}

static lk_status file_make(file *f, lk__exchange *x, const lk__disk *disk)
{
    int32_t *place = NULL;
    lk_status st = lk_agree(x->comm, lk_alloc(&place, x->size, sizeof *place));
    for (int i = 0; st == LK_OK && i < x->size; i++)
        place[i] = i == 0 ? 0 : -1;
    x->place = place;
    if (st == LK_OK)
        st = lk__exchange_open(x);
    if (st == LK_OK)
        st = file_fill(f, x, disk);
    f->written = st;
    if (f->sink && (st != LK_OK))
        st = file_end(f); /* it is removed */
    else if (st == LK_OK)
        st = lk_agree(x->comm, lk__disk_do(disk, x->rank == 0 ? file_end : NULL, f));
    lk_free(place);
    LK_TRY(st);
    return LK_OK;
}

lk_status lk_safetensors_write_boxes(lk_comm *comm, const char *path, const lk_state_tensor *tensor,
                                     int64_t n, const lk_metadata *note, int64_t n_notes)
{
    bool several = comm && lk_comm_size(comm) > 1;
    file f = {.path = path, .note = note, .n_notes = n_notes};
    lk__disk disk = {.comm = several ? comm : NULL};
    lk_status st = lk_agree(disk.comm, file_plan(&f, tensor, n));
    lk__exchange x = {.comm = disk.comm,
                      .rank = several ? lk_comm_rank(comm) : 0,
                      .size = several ? lk_comm_size(comm) : 1,
                      .c = f.plan,
                      .files = 1,
                      .saving = true,
                      .held = f.held,
                      .room = LK__BAND};
    if (st == LK_OK)
        st = file_make(&f, &x, &disk);
    lk__exchange_close(&x);
    lk_checkpoint_free(f.plan);
    lk_free(f.bytes);
    LK_TRY(st);
    return LK_OK;
}
