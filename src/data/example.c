/* Reading and writing tf.train.Example. */
#include "data/example.h"

#include "data/bytes.h"

#include <string.h>

/* ---- reading ---- */

/* A message: bytes at .. end of the record. */
struct message {
    const lk__source *source;
    int64_t base; /* the record's offset in the source */
    const unsigned char *record;
    int64_t at, end;
};

struct field {
    uint64_t number;
    int type;              /* 0 varint, 1 64 bits, 2 bytes, 5 32 bits */
    uint64_t varint;       /* type 0 */
    struct message inside; /* types 1, 2, 5 */
};

static lk_status damaged(const struct message *m, const char *what)
{
    return LK_DAMAGED(m->source, m->base + m->at, "tf.train.Example: %s", what);
}

static lk_status read_varint(struct message *m, uint64_t *out)
{
    uint64_t v = 0;
    for (int shift = 0; shift < 70; shift += 7) {
        if (m->at == m->end)
            return damaged(m, "a number is cut off");
        unsigned char byte = m->record[m->at];
        if (shift == 63 && byte > 1)
            return damaged(m, "a number of more than 64 bits");
        v |= (uint64_t)(byte & 0x7f) << shift;
        m->at++;
        if (byte < 0x80) {
            *out = v;
            return LK_OK;
        }
    }
    return damaged(m, "a number of more than 10 bytes");
}

/* The next field of `m`, which is not at its end. */
static lk_status next_field(struct message *m, struct field *f)
{
    uint64_t tag, n = 0;
    LK_TRY(read_varint(m, &tag));
    f->number = tag >> 3;
    f->type = (int)(tag & 7);
    if (f->number == 0 || f->number >= UINT64_C(1) << 29)
        return damaged(m, "a field with an impossible number");
    switch (f->type) {
    case 0: return read_varint(m, &f->varint);
    case 1: n = 8; break;
    case 2: LK_TRY(read_varint(m, &n)); break;
    case 5: n = 4; break;
    default: return damaged(m, "a field of an unknown type");
    }
    if (n > (uint64_t)(m->end - m->at))
        return damaged(m, "a field that goes beyond its message");
    f->inside = *m;
    f->inside.end = m->at + (int64_t)n;
    m->at += (int64_t)n;
    return LK_OK;
}

static lk_status read_bytes(struct message list, lk__feature *out)
{
    struct field f;
    while (list.at < list.end) {
        LK_TRY(next_field(&list, &f));
        if (f.number != 1)
            continue;
        if (f.type != 2)
            return damaged(&list, "a value of bytes that is none");
        if (out->kind == LK_FEATURE_BYTES)
            return damaged(&list, "more than one value of bytes in a feature");
        out->kind = LK_FEATURE_BYTES;
        out->at = f.inside.at;
        out->n = f.inside.end - f.inside.at;
    }
    return LK_OK;
}

static lk_status read_floats(struct message list, lk__feature *out)
{
    struct field f;
    while (list.at < list.end) {
        LK_TRY(next_field(&list, &f));
        if (f.number != 1)
            continue;
        int64_t bytes = f.type == 0 ? 1 : f.inside.end - f.inside.at;
        if ((f.type != 2 && f.type != 5) || bytes % 4 != 0)
            return damaged(&list, "floats that are none");
        if (out->n > 0 && bytes > 0)
            return damaged(&list, "floats that are not packed");
        if (bytes > 0)
            *out = (lk__feature){
                .name = out->name, .kind = LK_FEATURE_FLOATS, .n = bytes / 4, .at = f.inside.at};
    }
    return LK_OK;
}

static void keep_int(lk__feature *out, uint64_t v)
{
    out->kind = LK_FEATURE_INTS;
    if (out->n < LK_FEATURE_INTS_KEPT)
        out->value[out->n] = (int64_t)v;
    out->n++;
}

static lk_status read_ints(struct message list, lk__feature *out)
{
    struct field f;
    while (list.at < list.end) {
        LK_TRY(next_field(&list, &f));
        if (f.number != 1)
            continue;
        if (f.type == 0) {
            out->scattered = true;
            keep_int(out, f.varint);
            continue;
        }
        if (f.type != 2)
            return damaged(&list, "integers that are none");
        out->scattered = out->scattered || out->n > 0;
        out->at = f.inside.at;
        while (f.inside.at < f.inside.end) {
            uint64_t v;
            LK_TRY(read_varint(&f.inside, &v));
            keep_int(out, v);
        }
    }
    return LK_OK;
}

static lk_status read_feature(struct message m, lk__feature *out)
{
    struct field f;
    *out = (lk__feature){.name = out->name};
    while (m.at < m.end) {
        LK_TRY(next_field(&m, &f));
        if (f.number > 3)
            continue;
        if (f.type != 2)
            return damaged(&m, "a list that is none");
        *out = (lk__feature){.name = out->name};
        if (f.number == LK_FEATURE_BYTES)
            LK_TRY(read_bytes(f.inside, out));
        else if (f.number == LK_FEATURE_FLOATS)
            LK_TRY(read_floats(f.inside, out));
        else
            LK_TRY(read_ints(f.inside, out));
    }
    return LK_OK;
}

/* An entry of the map: the feature it names, if it is wanted. */
static lk_status read_entry(struct message m, lk__feature *feature, int n_features)
{
    struct field f;
    struct message key = {.at = 0, .end = 0}, value = {.at = 0, .end = 0};
    while (m.at < m.end) {
        LK_TRY(next_field(&m, &f));
        if (f.number > 2)
            continue;
        if (f.type != 2)
            return damaged(&m, "an entry of the map that is none");
        *(f.number == 1 ? &key : &value) = f.inside;
    }
    size_t n = (size_t)(key.end - key.at);
    for (int i = 0; i < n_features; i++)
        if (value.record && feature[i].name && strlen(feature[i].name) == n &&
            (n == 0 || memcmp(feature[i].name, key.record + key.at, n) == 0))
            LK_TRY(read_feature(value, &feature[i]));
    return LK_OK;
}

lk_status lk__example_read(const lk__source *s, int64_t offset, const unsigned char *record,
                           int64_t n, lk__feature *feature, int n_features)
{
    struct message example = {s, offset, record, 0, n}, features;
    struct field f;
    for (int i = 0; i < n_features; i++)
        feature[i] = (lk__feature){.name = feature[i].name};
    while (example.at < example.end) {
        LK_TRY(next_field(&example, &f));
        if (f.number != 1)
            continue;
        if (f.type != 2)
            return damaged(&example, "features that are none");
        features = f.inside;
        while (features.at < features.end) {
            LK_TRY(next_field(&features, &f));
            if (f.number != 1)
                continue;
            if (f.type != 2)
                return damaged(&features, "a map that is none");
            LK_TRY(read_entry(f.inside, feature, n_features));
        }
    }
    return LK_OK;
}

lk_status lk__example_ints(const lk__source *s, int64_t offset, int64_t n, int64_t *out)
{
    enum { MOST = 10, CHUNK = 4096 }; /* bytes of a number, and of what is read at once */
    unsigned char chunk[CHUNK];
    for (int64_t i = 0; i < n;) {
        int64_t left = lk__source_size(s) - offset, bytes = left < CHUNK ? left : CHUNK;
        LK_TRY(lk__source_read(s, offset, chunk, bytes, "a sample"));
        struct message m = {s, offset, chunk, 0, bytes};
        while (i < n && (m.end - m.at >= MOST || bytes == left)) {
            uint64_t v;
            LK_TRY(read_varint(&m, &v));
            out[i++] = (int64_t)v;
        }
        offset += m.at;
    }
    return LK_OK;
}

/* ---- writing ---- */

static int64_t varint_size(uint64_t v)
{
    int64_t n = 1;
    for (; v >= 0x80; v >>= 7)
        n++;
    return n;
}

static unsigned char *put_varint(unsigned char *p, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        *p++ = (unsigned char)(v | 0x80);
    *p++ = (unsigned char)v;
    return p;
}

/* Bytes of a field of `n` bytes whose number is below 16. */
static int64_t field_size(int64_t n)
{
    return 1 + varint_size((uint64_t)n) + n;
}

static unsigned char *put_head(unsigned char *p, int number, int64_t n)
{
    *p++ = (unsigned char)(number << 3 | 2);
    return put_varint(p, (uint64_t)n);
}

static int64_t values_size(const lk__feature_out *f)
{
    if (f->kind == LK_FEATURE_BYTES)
        return f->n;
    if (f->kind == LK_FEATURE_FLOATS)
        return 4 * f->n;
    int64_t bytes = 0;
    for (int64_t i = 0; i < f->n; i++)
        bytes += varint_size((uint64_t)((const int64_t *)f->data)[i]);
    return bytes;
}

/* Bytes of the map's entry, without its own head. */
static int64_t entry_size(const lk__feature_out *f)
{
    int64_t list = field_size(values_size(f));
    return field_size((int64_t)strlen(f->name)) + field_size(field_size(list));
}

static int64_t map_size(const lk__feature_out *feature, int n_features)
{
    int64_t bytes = 0;
    for (int i = 0; i < n_features; i++)
        bytes += field_size(entry_size(&feature[i]));
    return bytes;
}

int64_t lk__example_size(const lk__feature_out *feature, int n_features)
{
    return field_size(map_size(feature, n_features));
}

static unsigned char *put_values(unsigned char *p, const lk__feature_out *f)
{
    if (f->kind != LK_FEATURE_INTS) { /* machines are little-endian, as the format is */
        size_t bytes = (size_t)values_size(f);
        memcpy(p, f->data, bytes);
        return p + bytes;
    }
    for (int64_t i = 0; i < f->n; i++)
        p = put_varint(p, (uint64_t)((const int64_t *)f->data)[i]);
    return p;
}

void lk__example_write(const lk__feature_out *feature, int n_features, unsigned char *out)
{
    unsigned char *p = put_head(out, 1, map_size(feature, n_features));
    for (int i = 0; i < n_features; i++) {
        const lk__feature_out *f = &feature[i];
        size_t name = strlen(f->name);
        int64_t values = values_size(f);
        p = put_head(p, 1, entry_size(f));
        p = put_head(p, 1, (int64_t)name);
        memcpy(p, f->name, name);
        p = put_head(p + name, 2, field_size(field_size(values)));
        p = put_head(p, (int)f->kind, field_size(values));
        p = put_head(p, 1, values);
        p = put_values(p, f);
    }
}
