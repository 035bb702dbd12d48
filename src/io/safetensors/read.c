/* lk_safetensors: opening a file.  It is not trusted: the header is checked as a whole before
 * anything else is done. */
#include "base/memory/grow.h"
#include "base/text/json.h"
#include "data/bytes.h"
#include "io/safetensors/safetensors.h"

#include <lockstep/extra/checked.h>

#include <stdlib.h>
#include <string.h>

enum { LENGTH = 8 /* bytes of the header's length */ };

static const struct {
    const char *name;
    lk_dtype dtype;
} dtypes[] = {{"F32", LK_F32}, {"F64", LK_F64}, {"F16", LK_F16}, {"BF16", LK_BF16},
              {"I32", LK_I32}, {"I64", LK_I64}, {"U8", LK_U8}};

enum { N_DTYPES = sizeof dtypes / sizeof dtypes[0] };

const char *lk__safetensors_dtype(lk_dtype dtype)
{
    for (int i = 0; i < N_DTYPES; i++)
        if (dtypes[i].dtype == dtype)
            return dtypes[i].name;
    return NULL;
}

/* ---- the header ---- */

static lk_status dtype_read(lk__json *j, lk_arena *arena, const char *name, lk_dtype *out)
{
    const char *text;
    LK_TRY(lk__json_text(j, arena, &text));
    for (int i = 0; i < N_DTYPES; i++)
        if (strcmp(dtypes[i].name, text) == 0) {
            *out = dtypes[i].dtype;
            return LK_OK;
        }
    return LK_RAISE(
        LK_ENOTSUP,
        "%s: offset %lld: tensor \"%.64s\" is of dtype \"%.16s\", which is not read; "
        "tensors are of F32, F64, F16, BF16, I32, I64 or U8: convert it and save it again",
        j->name, (long long)(j->base + j->at), name, text);
}

static lk_status shape_read(lk__json *j, lk_shape *out)
{
    bool more = true;
    *out = LK_SCALAR;
    LK_TRY(lk__json_open(j, '['));
    for (;;) {
        LK_TRY(lk__json_more(j, ']', &more));
        if (!more)
            return LK_OK;
        if (out->ndim == LK_MAX_NDIM)
            return lk__json_refuse(j, "a shape of more than 8 axes");
        LK_TRY(lk__json_int(j, &out->dim[out->ndim++]));
    }
}

static lk_status offsets_read(lk__json *j, int64_t *begin, int64_t *end)
{
    bool more = true;
    LK_TRY(lk__json_open(j, '['));
    LK_TRY(lk__json_more(j, ']', &more));
    if (more)
        LK_TRY(lk__json_int(j, begin));
    if (more)
        LK_TRY(lk__json_more(j, ']', &more));
    if (!more)
        return lk__json_refuse(j, "data_offsets must be two numbers");
    LK_TRY(lk__json_int(j, end));
    LK_TRY(lk__json_more(j, ']', &more));
    if (more)
        return lk__json_refuse(j, "data_offsets must be two numbers");
    return LK_OK;
}

/* {"dtype": ..., "shape": [...], "data_offsets": [...]}, each once. */
static lk_status tensor_read(lk__json *j, lk_arena *arena, lk_safetensors_info *t)
{
    enum { DTYPE = 1, SHAPE = 2, OFFSETS = 4 };
    unsigned seen = 0;
    int64_t end = 0, bytes;
    bool more = true;
    LK_TRY(lk__json_open(j, '{'));
    for (;;) {
        const char *key;
        unsigned field;
        LK_TRY(lk__json_more(j, '}', &more));
        if (!more)
            break;
        LK_TRY(lk__json_key(j, arena, &key));
        field = strcmp(key, "dtype") == 0          ? DTYPE
                : strcmp(key, "shape") == 0        ? SHAPE
                : strcmp(key, "data_offsets") == 0 ? OFFSETS
                                                   : 0;
        if (field == 0 || (seen & field))
            return lk__json_refuse(j, "a key that is unknown, or there twice");
        seen |= field;
        if (field == DTYPE)
            LK_TRY(dtype_read(j, arena, t->name, &t->dtype));
        else if (field == SHAPE)
            LK_TRY(shape_read(j, &t->shape));
        else
            LK_TRY(offsets_read(j, &t->offset, &end));
    }
    if (seen != (DTYPE | SHAPE | OFFSETS))
        return lk__json_refuse(j, "dtype, shape or data_offsets is missing");
    t->bytes = end - t->offset;
    lk_status st = lk_shape_count(t->shape, &bytes);
    if (st == LK_OK)
        st = lk_mul_i64(bytes, (int64_t)lk_dtype_size(t->dtype), &bytes);
    if (st != LK_OK || bytes != t->bytes) {
        lk_error_clear();
        return lk__json_refuse(j, "shape and data_offsets disagree about the size");
    }
    return LK_OK;
}

static lk_status metadata_read(lk__json *j, lk_safetensors *f)
{
    bool more = true;
    LK_TRY(lk__json_open(j, '{'));
    for (;;) {
        lk_metadata metadata;
        LK_TRY(lk__json_more(j, '}', &more));
        if (!more)
            return LK_OK;
        LK_TRY(lk__json_key(j, f->arena, &metadata.name));
        LK_TRY(lk__json_text(j, f->arena, &metadata.text));
        LK_TRY(lk__grow(&f->metadata, &f->metadata_room, f->n_metadata + 1, sizeof *f->metadata));
        f->metadata[f->n_metadata++] = metadata;
    }
}

static lk_status header_read(lk__json *j, lk_safetensors *f)
{
    bool more = true, has_metadata = false;
    LK_TRY(lk__json_open(j, '{'));
    for (;;) {
        const char *name;
        LK_TRY(lk__json_more(j, '}', &more));
        if (!more)
            break;
        LK_TRY(lk__json_key(j, f->arena, &name));
        if (strcmp(name, "__metadata__") == 0) {
            if (has_metadata)
                return lk__json_refuse(j, "__metadata__ is there twice");
            has_metadata = true;
            LK_TRY(metadata_read(j, f));
            continue;
        }
        LK_TRY(lk__grow(&f->tensor, &f->room, f->n + 1, sizeof *f->tensor));
        lk_safetensors_info *t = &f->tensor[f->n];
        *t = (lk_safetensors_info){.name = name};
        LK_TRY(tensor_read(j, f->arena, t));
        f->n++;
    }
    return LK_TRACE(lk__json_end(j));
}

/* ---- places and names ---- */

static int by_place(const void *a, const void *b)
{
    const lk_safetensors_info *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Tensors lie one behind the other and fill the file; offsets become those of the file. */
static lk_status places_check(lk_safetensors *f, int64_t data)
{
    int64_t at = 0, size = lk__source_size(f->source) - data;
    if (f->n > 0)
        qsort(f->tensor, (size_t)f->n, sizeof *f->tensor, by_place);
    for (int64_t i = 0; i < f->n; i++) {
        lk_safetensors_info *t = &f->tensor[i];
        if (t->offset != at || t->bytes > size - at)
            return LK_DAMAGED(f->source, data + at, "tensor \"%.64s\" %s", t->name,
                              t->offset > at   ? "leaves a hole before it"
                              : t->offset < at ? "overlaps the one before it"
                                               : "reaches beyond the end of the file");
        at += t->bytes;
        t->offset += data;
    }
    if (at != size)
        return LK_DAMAGED(f->source, data + at, "%lld bytes belong to no tensor",
                          (long long)(size - at));
    return LK_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const lk__by_name *)a)->name, ((const lk__by_name *)b)->name);
}

static int metadata_by_name(const void *a, const void *b)
{
    return strcmp(((const lk_metadata *)a)->name, ((const lk_metadata *)b)->name);
}

/* Sort both lists by name, and refuse a name that is there twice. */
static lk_status names_check(lk_safetensors *f)
{
    LK_TRY(lk_alloc(&f->by_name, f->n, sizeof *f->by_name));
    for (int64_t i = 0; i < f->n; i++)
        f->by_name[i] = (lk__by_name){f->tensor[i].name, i};
    qsort(f->by_name, (size_t)f->n, sizeof *f->by_name, by_name);
    for (int64_t i = 1; i < f->n; i++)
        if (strcmp(f->by_name[i - 1].name, f->by_name[i].name) == 0)
            return LK_DAMAGED(f->source, LENGTH, "tensor \"%.64s\" is there twice",
                              f->by_name[i].name);
    if (f->n_metadata > 0)
        qsort(f->metadata, (size_t)f->n_metadata, sizeof *f->metadata, metadata_by_name);
    for (int64_t i = 1; i < f->n_metadata; i++)
        if (strcmp(f->metadata[i - 1].name, f->metadata[i].name) == 0)
            return LK_DAMAGED(f->source, LENGTH, "\"%.64s\" is there twice in __metadata__",
                              f->metadata[i].name);
    return LK_OK;
}

lk_status lk__safetensors_is(const lk__source *source, bool *out)
{
    char first[LENGTH + 1];
    *out = false;
    if (lk__source_size(source) < (int64_t)sizeof first)
        return LK_OK;
    LK_TRY(lk__source_read(source, 0, first, sizeof first, "the first bytes"));
    *out = first[LENGTH] == '{';
    return LK_OK;
}

static lk_status parse(lk_safetensors *f)
{
    unsigned char length[LENGTH];
    char *header = NULL;
    bool is_one = false;
    LK_TRY(lk_arena_new(&f->arena));
    LK_TRY(lk__safetensors_is(f->source, &is_one));
    if (!is_one)
        return LK_DAMAGED(f->source, 0, "%s",
                          "this is no safetensors file, which begins with a length and {");
    LK_TRY(lk__source_read(f->source, 0, length, LENGTH, "the length of the header"));
    uint64_t n = lk__get_le(length, LENGTH);
    if (n > LK__SAFETENSORS_MAX_HEADER || (int64_t)n > lk__source_size(f->source) - LENGTH)
        return LK_DAMAGED(f->source, 0, "a header of %llu bytes, at most %d and within the file",
                          (unsigned long long)n, LK__SAFETENSORS_MAX_HEADER);
    LK_TRY(lk__source_load(f->source, LENGTH, (int64_t)n, "the header", &header));
    lk__json j = {
        .name = lk__source_name(f->source), .text = header, .n = (int64_t)n, .base = LENGTH};
    lk_status st = header_read(&j, f);
    lk_free(header);
    LK_TRY(st);
    LK_TRY(places_check(f, LENGTH + (int64_t)n));
    return LK_TRACE(names_check(f));
}

lk_status lk__safetensors_parse(lk__source *source, lk_safetensors **out)
{
    lk_safetensors *f = NULL;
    *out = NULL;
    lk_status st = lk_alloc_zero(&f, 1, sizeof *f);
    if (st != LK_OK) {
        lk__source_free(source);
        LK_TRY(st);
    }
    f->source = source;
    st = parse(f);
    if (st != LK_OK) {
        lk_safetensors_close(f);
        LK_TRY(st);
    }
    *out = f;
    return LK_OK;
}

/* ---- the interface ---- */

lk_status lk_safetensors_open(const char *path, lk_safetensors **out)
{
    lk__source *source = NULL;
    *out = NULL;
    LK_CHECK(path, LK_EINVAL, "path is NULL");
    LK_TRY(lk__source_open(path, &source));
    return LK_TRACE(lk__safetensors_parse(source, out));
}

void lk_safetensors_close(lk_safetensors *f)
{
    if (!f)
        return;
    lk__source_free(f->source);
    lk_arena_free(f->arena);
    lk_free(f->tensor);
    lk_free(f->metadata);
    lk_free(f->by_name);
    lk_free(f);
}

int64_t lk_safetensors_count(const lk_safetensors *f)
{
    return f->n;
}

lk_status lk_safetensors_at(const lk_safetensors *f, int64_t i, lk_safetensors_info *out)
{
    LK_CHECK(i >= 0 && i < f->n, LK_EINVAL, "tensor %lld of %lld", (long long)i, (long long)f->n);
    *out = f->tensor[i];
    return LK_OK;
}

int64_t lk_safetensors_find(const lk_safetensors *f, const char *name)
{
    const lk__by_name wanted = {.name = name};
    const lk__by_name *found = bsearch(&wanted, f->by_name, (size_t)f->n, sizeof *f->by_name,
                                       by_name);
    return found ? found->i : -1;
}

int64_t lk_safetensors_metadata_count(const lk_safetensors *f)
{
    return f->n_metadata;
}

lk_status lk_safetensors_metadata_at(const lk_safetensors *f, int64_t i, lk_metadata *out)
{
    LK_CHECK(i >= 0 && i < f->n_metadata, LK_EINVAL, "metadata %lld of %lld", (long long)i,
             (long long)f->n_metadata);
    *out = f->metadata[i];
    return LK_OK;
}

const char *lk_safetensors_metadata(const lk_safetensors *f, const char *name)
{
    const lk_metadata wanted = {.name = name};
    const lk_metadata *found = f->n_metadata > 0
                                   ? bsearch(&wanted, f->metadata, (size_t)f->n_metadata,
                                             sizeof *f->metadata, metadata_by_name)
                                   : NULL;
    return found ? found->text : NULL;
}

lk_status lk_safetensors_read(const lk_safetensors *f, int64_t i, lk_tensor *out)
{
    lk_safetensors_info t;
    void *data = NULL;
    LK_TRY(lk_safetensors_at(f, i, &t));
    LK_CHECK(lk_tensor_dtype(out) == t.dtype, LK_EDTYPE, "%s is %s, the tensor to read into %s",
             t.name, lk_dtype_name(t.dtype), lk_tensor_text(out).s);
    LK_CHECK(lk_shape_is_equal(lk_tensor_shape(out), t.shape) && lk_tensor_is_contiguous(out),
             LK_ESHAPE, "%s is %s, the tensor to read into %s", t.name, lk_shape_text(t.shape).s,
             lk_tensor_text(out).s);
    LK_TRY(lk_tensor_writable_data(out, &data));
    return LK_TRACE(lk__source_read(f->source, t.offset, data, t.bytes, "a tensor"));
}
