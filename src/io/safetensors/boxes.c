/* Boxes of tensors in safetensors files: one file written by all ranks that hold boxes, and boxes
 * read by any rank. */
#include "data/sink.h"
#include "io/box_read.h"
#include "io/checkpoint/checkpoint.h"
#include "io/safetensors/safetensors.h"

#include <lockstep/coll.h>
#include <lockstep/extra/alloc.h>

/* ---- reading ---- */

lk_status lk_safetensors_read_box(const lk_safetensors *f, int64_t i, const lk_box *box, void *data)
{
    lk_safetensors_info t;
    LK_TRY(lk_safetensors_at(f, i, &t));
    lk__box_held held = {data, box ? *box : lk_box_whole(t.shape.ndim, t.shape.dim), t.shape};
    LK_CHECK(held.box.ndim == t.shape.ndim && lk_box_is_within(&held.box, t.shape.dim), LK_ESHAPE,
             "a box that is not within the tensor \"%.128s\", which is %s", t.name,
             lk_shape_text(t.shape).s);
    LK_CHECK(data || lk_box_count(&held.box) == 0, LK_EINVAL, "data is NULL");
    return LK_TRACE(lk__source_read_held(f->source, t.offset, t.dtype, &held));
}

/* ---- writing ---- */

/* A file that rank 0 writes band by band. */
typedef struct file {
    const char *path;
    const lk_metadata *metadata;
    int64_t n_metadata;
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
    LK_CHECK(f->path && n >= 0 && (tensor || n == 0) && f->n_metadata >= 0, LK_EINVAL,
             "path or tensors are NULL, or a number is negative");
    LK_TRY(lk__named_check(NULL, 0, f->metadata, f->n_metadata));
    LK_TRY(lk__plan_make(&state, 0, INT64_MAX, &f->plan));
    LK_TRY(lk_arena_alloc(f->plan->arena, &f->held, n, sizeof *f->held));
    for (int64_t i = 0; i < n; i++)
        f->held[i] = lk__state_held(&tensor[i]);
    return LK_TRACE(lk_alloc(&f->bytes, LK__BAND, 1));
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
    lk_status st = lk__safetensors_header(info, plan->n_tensors, f->metadata, f->n_metadata,
                                          &header, &n);
    if (st == LK_OK)
        st = lk__sink_open(f->path, &f->sink);
    if (st == LK_OK)
        st = lk__sink_write(f->sink, header, n);
    lk_free(header);
    lk_free(info);
    return LK_TRACE(st);
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
    return LK_TRACE(st);
}

lk_status lk_safetensors_write_boxes(lk_comm *comm, const char *path, const lk_state_tensor *tensor,
                                     int64_t n, const lk_metadata *metadata, int64_t n_metadata)
{
    bool several = comm && lk_comm_size(comm) > 1;
    file f = {.path = path, .metadata = metadata, .n_metadata = n_metadata};
    lk__disk disk = {.comm = several ? comm : NULL};
    lk_status st = lk_agree(disk.comm, file_plan(&f, tensor, n));
    if (st == LK_OK)
        st = lk__plan_agree(disk.comm, lk__plan_digest(f.plan, false));
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
    return LK_TRACE(st);
}
