/* Reading and writing .npy arrays: for formats and for lk_tensors_load(). */
#include "data/arrays/npy.h"

#include "data/bytes.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/checked.h>

#include <string.h>

static const char magic[6] = "\x93NUMPY";

static const struct {
    char code[3];
    lk_dtype dtype;
} known[] = {{"f4", LK_F32}, {"f8", LK_F64}, {"f2", LK_F16}, {"i4", LK_I32},
             {"i8", LK_I64}, {"u1", LK_U8},  {"b1", LK_U8}};

enum { N_KNOWN = sizeof known / sizeof known[0] };

/* Where an array that is not read is: the beginning of a message, and what it is made of. */
#define PLACE "%s: %s%s%s"
#define PLACE_OF(source, array)                                                          \
    lk__source_name(source), (array) ? "array \"" : "the array", (array) ? (array) : "", \
        (array) ? "\"" : ""

#define REMEDY                                                                                  \
    "arrays are of bool, uint8, int32, int64, float16, float32 or float64: convert it (astype " \
    "in NumPy) and save it again"

/* ---- the header, a Python dictionary ---- */

struct header {
    const lk__source *source;
    const char *array; /* its name; NULL: the file is the array */
    int64_t offset;    /* of the text in the source */
    const char *text;
    int64_t n, at;
    bool has[3]; /* descr, fortran_order, shape */
};

static lk_status wrong(const struct header *h, const char *what)
{
    return LK_DAMAGED(h->source, h->offset + h->at, ".npy header: %s", what);
}

static void skip_spaces(struct header *h)
{
    while (h->at < h->n && (h->text[h->at] == ' ' || h->text[h->at] == '\n'))
        h->at++;
}

/* Whether the next character is `c`, which is then passed. */
static bool take(struct header *h, char c)
{
    skip_spaces(h);
    if (h->at == h->n || h->text[h->at] != c)
        return false;
    h->at++;
    return true;
}

static bool take_word(struct header *h, const char *word)
{
    int64_t n = (int64_t)strlen(word);
    skip_spaces(h);
    if (h->n - h->at < n || memcmp(h->text + h->at, word, (size_t)n) != 0)
        return false;
    h->at += n;
    return true;
}

/* A text in single or double quotes, of less than 32 bytes. */
static lk_status read_text(struct header *h, char *out)
{
    char quote = take(h, '\'') ? '\'' : '"';
    if (quote == '"' && !take(h, '"'))
        return wrong(h, "a text in quotes is missing");
    int n = 0;
    for (; h->at < h->n && h->text[h->at] != quote; h->at++) {
        if (n == 31 || h->text[h->at] == '\\')
            return wrong(h, "a text that no header has");
        out[n++] = h->text[h->at];
    }
    out[n] = '\0';
    if (!take(h, quote))
        return wrong(h, "a text does not end");
    return LK_OK;
}

static lk_status read_descr(struct header *h, lk__npy *out)
{
    char text[32];
    skip_spaces(h);
    if (h->at < h->n && h->text[h->at] == '[')
        return LK_RAISE(LK_ENOTSUP, PLACE " is of structures, which are not read; " REMEDY,
                        PLACE_OF(h->source, h->array));
    LK_TRY(read_text(h, text));
    int i = 0;
    while (i < N_KNOWN && !(strlen(text) == 3 && strcmp(text + 1, known[i].code) == 0))
        i++;
    bool order = text[0] == '<' || text[0] == '>' || text[0] == '=' || text[0] == '|';
    LK_CHECK(i < N_KNOWN && order, LK_ENOTSUP,
             PLACE " is of dtype \"%s\", which is not read; " REMEDY, PLACE_OF(h->source, h->array),
             text);
    out->dtype = known[i].dtype;
    out->swap = text[0] == '>' && lk_dtype_size(out->dtype) > 1;
    return LK_OK;
}

static lk_status read_size(struct header *h, int64_t *out)
{
    int64_t v = 0, digits = 0;
    skip_spaces(h);
    for (; h->at < h->n && h->text[h->at] >= '0' && h->text[h->at] <= '9'; h->at++, digits++)
        if (__builtin_mul_overflow(v, 10, &v) ||
            __builtin_add_overflow(v, h->text[h->at] - '0', &v))
            return wrong(h, "a size of more than 63 bits");
    if (digits == 0)
        return wrong(h, "a size is missing");
    *out = v;
    return LK_OK;
}

static lk_status read_shape(struct header *h, lk_shape *out)
{
    *out = LK_SCALAR;
    if (!take(h, '('))
        return wrong(h, "the shape is no tuple");
    while (!take(h, ')')) {
        LK_CHECK(out->ndim < LK_MAX_NDIM, LK_ENOTSUP,
                 PLACE " has more than %d axes: save it with fewer (reshape in NumPy)",
                 PLACE_OF(h->source, h->array), LK_MAX_NDIM);
        LK_TRY(read_size(h, &out->dim[out->ndim]));
        out->ndim++;
        if (!take(h, ',')) {
            if (out->ndim == 1 || !take(h, ')'))
                return wrong(h, "the shape is no tuple");
            return LK_OK;
        }
    }
    return LK_OK;
}

static lk_status read_entry(struct header *h, bool *fortran, lk__npy *out)
{
    static const char *const keys[] = {"descr", "fortran_order", "shape"};
    char key[32];
    int which = 0;
    LK_TRY(read_text(h, key));
    while (which < 3 && strcmp(key, keys[which]) != 0)
        which++;
    if (which == 3 || h->has[which])
        return wrong(h, which == 3 ? "a key that no header has" : "a key is there twice");
    h->has[which] = true;
    if (!take(h, ':'))
        return wrong(h, "a key without a value");
    if (which == 0)
        LK_TRY(read_descr(h, out));
    else if (which == 2)
        LK_TRY(read_shape(h, &out->shape));
    else if (!(*fortran = take_word(h, "True")) && !take_word(h, "False"))
        return wrong(h, "fortran_order is neither True nor False");
    return LK_OK;
}

static lk_status read_header(struct header *h, lk__npy *out)
{
    bool fortran = false;
    if (!take(h, '{'))
        return wrong(h, "it is no dictionary");
    while (!take(h, '}')) {
        LK_TRY(read_entry(h, &fortran, out));
        if (!take(h, ',')) {
            if (!take(h, '}'))
                return wrong(h, "the dictionary does not end");
            break;
        }
    }
    skip_spaces(h);
    if (h->at != h->n || !h->has[0] || !h->has[1] || !h->has[2])
        return wrong(h, h->at != h->n ? "something behind the dictionary" : "a key is missing");
    LK_CHECK(!fortran || out->shape.ndim <= 1, LK_ENOTSUP,
             PLACE " is in Fortran order; save it in C order (numpy.ascontiguousarray)",
             PLACE_OF(h->source, h->array));
    return LK_OK;
}

/* ---- the file ---- */

static lk_status read_text_header(const lk__source *s, const char *array, int64_t offset, int64_t n,
                                  lk__npy *out)
{
    char *text;
    LK_TRY(lk__source_load(s, offset, n, "the .npy header", &text));
    struct header h = {.source = s, .array = array, .offset = offset, .text = text, .n = n};
    lk_status st = read_header(&h, out);
    lk_free(text);
    return LK_TRACE(st);
}

lk_status lk__npy_read(const lk__source *s, const char *array, int64_t offset, int64_t size,
                       lk__npy *out)
{
    unsigned char head[12] = {0};
    *out = (lk__npy){.dtype = LK_U8};
    if (size < 10)
        return LK_DAMAGED(s, offset, "%lld bytes are no .npy file", (long long)size);
    LK_TRY(lk__source_read(s, offset, head, size < 12 ? size : 12, "the .npy header"));
    if (memcmp(head, magic, sizeof magic) != 0)
        return LK_DAMAGED(s, offset, "%s", "this is no .npy file: its first bytes are others");
    LK_CHECK(head[6] >= 1 && head[6] <= 3 && head[7] == 0, LK_ENOTSUP,
             PLACE " is of version %d.%d of .npy, which is not known: save it as version 1",
             PLACE_OF(s, array), head[6], head[7]);
    int start = head[6] == 1 ? 10 : 12;
    int64_t n = (int64_t)lk__get_le(head + 8, head[6] == 1 ? 2 : 4);
    if (n > LK_NPY_MAX_HEADER || n > size - start)
        return LK_DAMAGED(s, offset + 8, "a header of %lld bytes", (long long)n);
    LK_TRY(read_text_header(s, array, offset + start, n, out));
    out->offset = offset + start + n;
    int64_t bytes;
    LK_TRY(lk_shape_count(out->shape, &bytes));
    LK_TRY(lk_mul_i64(bytes, (int64_t)lk_dtype_size(out->dtype), &bytes));
    if (bytes != size - start - n)
        return LK_DAMAGED(s, out->offset, "an array %s%s has %lld bytes, but %lld follow",
                          lk_dtype_name(out->dtype), lk_shape_text(out->shape).s, (long long)bytes,
                          (long long)(size - start - n));
    return LK_OK;
}

/* ---- writing ---- */

lk_status lk__npy_header(lk_dtype dtype, lk_shape shape, char *buf, int64_t *n)
{
    int code = 0;
    while (code < N_KNOWN && known[code].dtype != dtype)
        code++;
    LK_CHECK(code < N_KNOWN, LK_ENOTSUP, ".npy has no type for %s", lk_dtype_name(dtype));
    char text[LK_NPY_HEADER_ROOM];
    int at = snprintf(text, sizeof text, "{'descr': '%s%s', 'fortran_order': False, 'shape': (",
                      dtype == LK_U8 ? "|" : "<", known[code].code);
    for (int i = 0; i < shape.ndim; i++)
        at += snprintf(text + at, sizeof text - (size_t)at, "%s%lld", i ? ", " : "",
                       (long long)shape.dim[i]);
    at += snprintf(text + at, sizeof text - (size_t)at, "%s), }", shape.ndim == 1 ? "," : "");
    int64_t total = (INT64_C(10) + at + 1 + 63) / 64 * 64;
    memcpy(buf, magic, sizeof magic);
    buf[6] = 1;
    buf[7] = 0;
    lk__put_le((unsigned char *)buf + 8, 2, (uint64_t)(total - 10));
    memcpy(buf + 10, text, (size_t)at);
    memset(buf + 10 + at, ' ', (size_t)(total - 11 - at));
    buf[total - 1] = '\n';
    *n = total;
    return LK_OK;
}

static lk_status write_tensor(lk__sink *s, const lk_tensor *t)
{
    char head[LK_NPY_HEADER_ROOM];
    int64_t n;
    LK_TRY(lk__npy_header(lk_tensor_dtype(t), lk_tensor_shape(t), head, &n));
    LK_TRY(lk__sink_write(s, head, n));
    return LK_TRACE(lk__sink_write(
        s, lk_tensor_data(t), lk_tensor_count(t) * (int64_t)lk_dtype_size(lk_tensor_dtype(t))));
}

lk_status lk__npy_save(const lk_tensor *t, const char *path)
{
    LK_CHECK(lk_tensor_is_contiguous(t), LK_EINVAL, "%s: the tensor %s is not contiguous", path,
             lk_tensor_text(t).s);
    lk__sink *s;
    LK_TRY(lk__sink_open(path, &s));
    return LK_TRACE(lk__sink_end(s, write_tensor(s, t)));
}
