/* Writing safetensors: the header, padded with spaces so that tensors begin at a multiple of 8, and
 * the tensors. */
#include "base/text/json.h"
#include "base/text/text.h"
#include "data/bytes.h"
#include "data/sink.h"
#include "io/safetensors/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is given ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

lk_status lk__names_check(const char *what, const char **name, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        LK_CHECK(*name[i], LK_EINVAL, "a %s has an empty name", what);
        LK_CHECK(lk__utf8_is(name[i]), LK_EINVAL, "the %s \"%s\" has a name that is not UTF-8",
                 what, name[i]);
    }
    if (n > 0)
        qsort(name, (size_t)n, sizeof *name, by_name);
    for (int64_t i = 1; i < n; i++)
        LK_CHECK(strcmp(name[i - 1], name[i]) != 0, LK_EINVAL, "the %s \"%s\" is there twice", what,
                 name[i]);
    return LK_OK;
}

static lk_status tensors_check(const lk_named_tensor *tensor, int64_t n, const char **name)
{
    for (int64_t i = 0; i < n; i++) {
        LK_CHECK(tensor[i].name && tensor[i].tensor, LK_EINVAL, "tensor %lld or its name is NULL",
                 (long long)i);
        LK_CHECK(strcmp(tensor[i].name, "__metadata__") != 0, LK_EINVAL,
                 "a tensor cannot be named __metadata__");
        name[i] = tensor[i].name;
    }
    return lk__names_check("tensor", name, n);
}

static lk_status metadata_check(const lk_metadata *metadata, int64_t n, const char **name)
{
    for (int64_t i = 0; i < n; i++) {
        LK_CHECK(metadata[i].name && metadata[i].text, LK_EINVAL,
                 "metadata %lld or its name is NULL", (long long)i);
        LK_CHECK(lk__utf8_is(metadata[i].text), LK_EINVAL,
                 "the text of metadata \"%s\" is not UTF-8", metadata[i].name);
        name[i] = metadata[i].name;
    }
    return lk__names_check("metadata", name, n);
}

lk_status lk__named_check(const lk_named_tensor *tensor, int64_t n, const lk_metadata *metadata,
                          int64_t n_metadata)
{
    const char **name = NULL;
    LK_TRY(lk_alloc(&name, n > n_metadata ? n : n_metadata, sizeof *name));
    lk_status st = tensors_check(tensor, n, name);
    if (st == LK_OK)
        st = metadata_check(metadata, n_metadata, name);
    lk_free(name);
    return LK_TRACE(st);
}

/* ---- the header ---- */

/* Bytes in memory that is large enough for all that is put there. */
typedef struct header {
    char *text;
    int64_t n, room;
} header;

enum { LENGTH = 8 /* bytes of the header's length */ };

static void put(header *h, const char *text)
{
    int64_t n = (int64_t)strlen(text);
    memcpy(h->text + h->n, text, (size_t)n);
    h->n += n;
}

static void put_quoted(header *h, const char *text)
{
    h->n += (int64_t)lk__json_quote(text, h->text + h->n, (size_t)(h->room - h->n));
}

static void put_tensor(header *h, const lk_safetensors_info *t, int64_t begin)
{
    char text[256];
    int64_t end = begin + t->bytes;
    put_quoted(h, t->name);
    snprintf(text, sizeof text, ":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%lld,%lld]}",
             lk__safetensors_dtype(t->dtype), lk_shape_text(t->shape).s, (long long)begin,
             (long long)end);
    put(h, text);
}

static void put_metadata(header *h, const lk_metadata *metadata, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        put(h, i ? "," : "\"__metadata__\":{");
        put_quoted(h, metadata[i].name);
        put(h, ":");
        put_quoted(h, metadata[i].text);
    }
    put(h, n > 0 ? "}" : "");
}

lk_status lk__safetensors_header(const lk_safetensors_info *tensor, int64_t n,
                                 const lk_metadata *metadata, int64_t n_metadata, char **out,
                                 int64_t *bytes)
{
    header h = {.n = LENGTH, .room = 64};
    int64_t begin = 0;
    *out = NULL;
    for (int64_t i = 0; i < n; i++)
        h.room += 6 * (int64_t)strlen(tensor[i].name) + 320;
    for (int64_t i = 0; i < n_metadata; i++)
        h.room += 6 * (int64_t)(strlen(metadata[i].name) + strlen(metadata[i].text)) + 16;
    LK_TRY(lk_alloc(&h.text, h.room, 1));
    put(&h, "{");
    put_metadata(&h, metadata, n_metadata);
    for (int64_t i = 0; i < n; i++) {
        put(&h, i || n_metadata ? "," : "");
        put_tensor(&h, &tensor[i], begin);
        begin += tensor[i].bytes;
    }
    put(&h, "}");
    while (h.n % 8)
        put(&h, " ");
    lk__put_le((unsigned char *)h.text, LENGTH, (uint64_t)(h.n - LENGTH));
    if (h.n - LENGTH > LK__SAFETENSORS_MAX_HEADER) {
        lk_free(h.text);
        return LK_RAISE(LK_EINVAL, "names and metadata need %lld bytes, a file has room for %d",
                        (long long)(h.n - LENGTH), LK__SAFETENSORS_MAX_HEADER);
    }
    *out = h.text;
    *bytes = h.n;
    return LK_OK;
}

/* ---- the file ---- */

static int64_t bytes_of(const lk_tensor *t)
{
    return lk_tensor_count(t) * (int64_t)lk_dtype_size(lk_tensor_dtype(t));
}

static lk_status header_make(const lk_named_tensor *tensor, int64_t n, const lk_metadata *metadata,
                             int64_t n_metadata, char **out, int64_t *bytes)
{
    lk_safetensors_info *info = NULL;
    LK_TRY(lk_alloc(&info, n, sizeof *info));
    for (int64_t i = 0; i < n; i++)
        info[i] = (lk_safetensors_info){.name = tensor[i].name,
                                        .dtype = lk_tensor_dtype(tensor[i].tensor),
                                        .shape = lk_tensor_shape(tensor[i].tensor),
                                        .bytes = bytes_of(tensor[i].tensor)};
    lk_status st = lk__safetensors_header(info, n, metadata, n_metadata, out, bytes);
    lk_free(info);
    return LK_TRACE(st);
}

static lk_status tensor_write(lk__sink *sink, lk_tensor *t)
{
    lk_tensor *dense = NULL;
    LK_TRY(lk_tensor_contiguous(t, &dense));
    lk_status st = lk__sink_write(sink, lk_tensor_data(dense), bytes_of(dense));
    lk_tensor_free(dense);
    return LK_TRACE(st);
}

lk_status lk_safetensors_write(const char *path, const lk_named_tensor *tensor, int64_t n,
                               const lk_metadata *metadata, int64_t n_metadata)
{
    lk_status st;
    char *head = NULL;
    int64_t bytes = 0;
    lk__sink *sink = NULL;
    LK_CHECK(path && n >= 0 && n_metadata >= 0, LK_EINVAL, "path is NULL, or a number is negative");
    LK_TRY(lk__named_check(tensor, n, metadata, n_metadata));
    LK_TRY_TO(done, header_make(tensor, n, metadata, n_metadata, &head, &bytes));
    LK_TRY_TO(done, lk__sink_open(path, &sink));
    lk_status written = lk__sink_write(sink, head, bytes);
    for (int64_t i = 0; written == LK_OK && i < n; i++)
        written = tensor_write(sink, tensor[i].tensor);
    LK_TRY_TO(done, lk__sink_end(sink, written));
done:
    lk_free(head);
    return st;
}
