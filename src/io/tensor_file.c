/* lk__tensor_file: boxes of tensors in safetensors, .npy, .npz and checkpoints, by one interface:
 * see tensor_file.h. */
#include "io/tensor_file.h"

#include "base/text/text.h"
#include "data/bytes.h"
#include "io/box_read.h"
#include "io/checkpoint/checkpoint.h"
#include "io/safetensors/safetensors.h"

#include <lockstep/extra/alloc.h>

#include <stdlib.h>
#include <string.h>

enum { HEAD = 12 + LK_NPY_MAX_HEADER }; /* bytes before the elements of a .npy array at most */

/* ---- what there is ---- */

static lk_status entries_make(lk__tensor_file *f, int64_t n)
{
    return LK_TRACE(lk_arena_alloc(f->arena, &f->tensor, n, sizeof *f->tensor));
}

static lk_status open_safetensors(lk__tensor_file *f)
{
    LK_TRY(lk_safetensors_open(f->path, &f->safetensors));
    LK_TRY(entries_make(f, lk_safetensors_count(f->safetensors)));
    for (; f->n < lk_safetensors_count(f->safetensors); f->n++) {
        lk_safetensors_info t;
        LK_TRY(lk_safetensors_at(f->safetensors, f->n, &t));
        f->tensor[f->n] = (lk__tensor_entry){t.name, t.dtype, t.shape, .at = f->n};
    }
    return LK_OK;
}

static lk_status open_checkpoint(lk__tensor_file *f)
{
    LK_TRY(lk_checkpoint_read(f->path, &f->checkpoint));
    LK_TRY(entries_make(f, f->checkpoint->n_tensors));
    for (; f->n < f->checkpoint->n_tensors; f->n++) {
        const lk_checkpoint_tensor *t = &f->checkpoint->tensor[f->n];
        f->tensor[f->n] = (lk__tensor_entry){t->name, t->dtype, t->shape, .at = f->n};
    }
    return LK_OK;
}

/* The first bytes of a member. */
typedef struct head {
    unsigned char *bytes;
    int64_t n;
} head;

static lk_status head_take(void *arg, const void *bytes, int64_t n, bool *enough)
{
    head *h = arg;
    int64_t k = n < HEAD - h->n ? n : HEAD - h->n;
    memcpy(h->bytes + h->n, bytes, (size_t)k);
    h->n += k;
    *enough = h->n == HEAD;
    return LK_OK;
}

/* What the array in a member is, from its header. */
static lk_status member_head_read(const lk__tensor_file *f, const lk__zip_member *m,
                                  const char *name, head *h, lk__npy *out)
{
    lk__source *first;
    h->n = 0;
    LK_TRY(lk__zip_stream(&f->zip, m, head_take, h));
    LK_TRY(lk__source_memory(f->path, h->bytes, h->n, &first));
    lk_status st = lk__npy_read(first, name, 0, m->size, out);
    lk__source_free(first);
    return LK_TRACE(st);
}

static lk_status member_heads_read(lk__tensor_file *f, head *h)
{
    LK_TRY(entries_make(f, f->zip.n));
    for (; f->n < f->zip.n; f->n++) {
        const lk__zip_member *m = &f->zip.member[f->n];
        lk__tensor_entry *t = &f->tensor[f->n];
        size_t n = strlen(m->name);
        if (!lk__path_ends(m->name, ".npy"))
            return LK_DAMAGED(f->source, m->header, "\"%s\" is no .npy array", m->name);
        *t = (lk__tensor_entry){.at = f->n};
        LK_TRY(lk_arena_text(f->arena, m->name, n - strlen(".npy"), &t->name));
        LK_TRY(member_head_read(f, m, t->name, h, &t->npy));
        t->dtype = t->npy.dtype;
        t->shape = t->npy.shape;
    }
    return LK_OK;
}

static lk_status open_npz(lk__tensor_file *f)
{
    head h = {0};
    LK_TRY(lk__source_open(f->path, &f->source));
    LK_TRY(lk__zip_open(f->source, &f->zip));
    LK_TRY(lk_alloc(&h.bytes, HEAD, 1));
    lk_status st = member_heads_read(f, &h);
    lk_free(h.bytes);
    return LK_TRACE(st);
}

static lk_status open_npy(lk__tensor_file *f)
{
    const char *slash = strrchr(f->path, '/'), *name = slash ? slash + 1 : f->path;
    LK_TRY(entries_make(f, 1));
    lk__tensor_entry *t = &f->tensor[0];
    *t = (lk__tensor_entry){.at = 0};
    LK_TRY(lk_arena_text(f->arena, name, strlen(name) - strlen(".npy"), &t->name));
    LK_TRY(lk__source_open(f->path, &f->source));
    LK_TRY(lk__npy_read(f->source, NULL, 0, lk__source_size(f->source), &t->npy));
    t->dtype = t->npy.dtype;
    t->shape = t->npy.shape;
    f->n = 1;
    return LK_OK;
}

static int entries_compare(const void *a, const void *b)
{
    return strcmp(((const lk__tensor_entry *)a)->name, ((const lk__tensor_entry *)b)->name);
}

lk_status lk__tensor_file_open(lk__tensor_file *f, const char *path)
{
    *f = (lk__tensor_file){.path = path};
    LK_TRY(lk__form_of(path, &f->form));
    LK_TRY(lk_arena_new(&f->arena));
    if (f->form == LK__CHECKPOINT)
        LK_TRY(open_checkpoint(f));
    else if (f->form == LK__SAFETENSORS)
        LK_TRY(open_safetensors(f));
    else if (f->form == LK__NPZ)
        LK_TRY(open_npz(f));
    else
        LK_TRY(open_npy(f));
    if (f->n > 0)
        qsort(f->tensor, (size_t)f->n, sizeof *f->tensor, entries_compare);
    for (int64_t i = 0; i < f->n; i++) {
        LK_CHECK(lk__utf8_is(f->tensor[i].name), LK_EIO, "%s: the name \"%s\" is not UTF-8", path,
                 f->tensor[i].name);
        LK_CHECK(i == 0 || entries_compare(&f->tensor[i - 1], &f->tensor[i]) != 0, LK_EIO,
                 "%s: \"%s\" is there twice", path, f->tensor[i].name);
    }
    return LK_OK;
}

void lk__tensor_file_close(lk__tensor_file *f)
{
    lk__zip_close(&f->zip);
    lk__source_free(f->source);
    lk_checkpoint_free(f->checkpoint);
    lk_safetensors_close(f->safetensors);
    lk_arena_free(f->arena);
    *f = (lk__tensor_file){.path = NULL};
}

const lk__tensor_entry *lk__tensor_file_find(const lk__tensor_file *f, const char *name)
{
    const lk__tensor_entry wanted = {.name = name};
    return f->n > 0 ? bsearch(&wanted, f->tensor, (size_t)f->n, sizeof wanted, entries_compare)
                    : NULL;
}

/* ---- reading ---- */

/* A member that goes by: its header is left out. */
typedef struct member_fill {
    lk__fill fill;
    int64_t skip;
} member_fill;

static lk_status member_take(void *arg, const void *bytes, int64_t n, bool *enough)
{
    member_fill *m = arg;
    int64_t skip = n < m->skip ? n : m->skip;
    (void)enough; /* all of it, for the checksum */
    m->skip -= skip;
    lk__fill_add(&m->fill, (const unsigned char *)bytes + skip, n - skip);
    return LK_OK;
}

static lk_status member_read(const lk__tensor_file *f, const lk__tensor_entry *t,
                             const lk__box_held *held)
{
    member_fill m = {.skip = t->npy.offset};
    LK_TRY(lk__fill_start(&m.fill, t->dtype, held));
    lk_status st = lk__zip_stream(&f->zip, &f->zip.member[t->at], member_take, &m);
    lk__fill_end(&m.fill);
    return LK_TRACE(st);
}

lk_status lk__tensor_file_read(const lk__tensor_file *f, const lk__tensor_entry *t,
                               const lk__box_held *held)
{
    if (f->form == LK__CHECKPOINT) {
        return LK_TRACE(lk__checkpoint_read_held(f->checkpoint, t->at, held));
    }
    if (f->form == LK__SAFETENSORS) {
        int64_t offset = f->safetensors->tensor[t->at].offset;
        return LK_TRACE(lk__source_read_held(f->safetensors->source, offset, t->dtype, held));
    }
    if (f->form == LK__NPZ)
        LK_TRY(member_read(f, t, held));
    else
        LK_TRY(lk__source_read_held(f->source, t->npy.offset, t->dtype, held));
    if (t->npy.swap)
        lk__swap_bytes(held->data, lk_box_count(&held->box), lk_dtype_size(t->dtype));
    return LK_OK;
}
