/* Reading tf.train.Example: cursor.c finds features with it, and integers, on any thread that reads
 * samples.
 */
#include "data/records/example.h"

#include "data/dataset.h"
#include "data/records/tfrecord.h"

#include <string.h>

/* Wire types, the lower three bits of a field's tag. */
enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

/* A message: the bytes from `at` up to `end` of the source. */
struct message {
    lk__example_window *window;
    int64_t at, end;
};

struct field {
    uint64_t number;
    int type;
    uint64_t varint;        /* its value, of type VARINT */
    struct message payload; /* its bytes, of the others */
};

static lk_status damaged(const struct message *m, const char *what)
{
    return LK_RECORD_WRONG(LK_EIO, m->window->source, m->window->record, m->at,
                           "tf.train.Example: %s", what);
}

static lk_status wrong_type(const struct message *m, const char *what, int type)
{
    return LK_RECORD_WRONG(LK_EIO, m->window->source, m->window->record, m->at,
                           "tf.train.Example: %s has wire type %d", what, type);
}

/* Valid, but nothing that a sample can be made of here. */
static lk_status unsupported(const struct message *m, const char *name, const char *what)
{
    return LK_RECORD_WRONG(LK_ENOTSUP, m->window->source, m->window->record, m->at,
                           "tf.train.Example: feature \"%s\": %s", name, what);
}

/* The byte at `at` of the message, which is there. */
static lk_status byte_at(const struct message *m, int64_t at, unsigned char *out)
{
    lk__example_window *w = m->window;
    if (at < w->at || at >= w->at + w->n) {
        int64_t n = m->end - at;
        n = n < w->room ? n : w->room;
        w->n = 0;
        LK_TRY(lk__source_read(w->source, at, w->bytes, n, "a record"));
        w->at = at;
        w->n = n;
    }
    *out = w->bytes[at - w->at];
    return LK_OK;
}

/* Seven bits in each byte, the lowest first; all but the last have the eighth set. */
static lk_status read_varint(struct message *m, uint64_t *out)
{
    uint64_t v = 0;
    for (int shift = 0;; shift += 7) {
        if (m->at == m->end)
            return damaged(m, "a number is cut off");
        unsigned char byte;
        LK_TRY(byte_at(m, m->at, &byte));
        if (shift == 63 && byte > 1)
            return damaged(m, "a number has more than 64 bits");
        v |= (uint64_t)(byte & 0x7f) << shift;
        m->at++;
        if (byte < 0x80) {
            *out = v;
            return LK_OK;
        }
    }
}

/* The next field of `m`, which is not at its end. */
static lk_status next_field(struct message *m, struct field *f)
{
    uint64_t tag, n = 0;
    LK_TRY(read_varint(m, &tag));
    f->number = tag >> 3;
    f->type = (int)(tag & 7);
    if (f->number == 0 || f->number >= UINT64_C(1) << 29)
        return damaged(m, "a field has an impossible number");
    switch (f->type) {
    case VARINT: return read_varint(m, &f->varint);
    case FIXED64: n = 8; break;
    case BYTES: LK_TRY(read_varint(m, &n)); break;
    case FIXED32: n = 4; break;
    default: return wrong_type(m, "a field", f->type);
    }
    if (n > (uint64_t)(m->end - m->at))
        return damaged(m, "a field goes beyond its message");
    f->payload = *m;
    f->payload.end = m->at + (int64_t)n;
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
        if (f.type != BYTES)
            return wrong_type(&list, "a value of a bytes list", f.type);
        if (out->kind == LK_FEATURE_BYTES)
            return unsupported(&list, out->name, "more than one value of bytes is not supported");
        out->kind = LK_FEATURE_BYTES;
        out->at = f.payload.at;
        out->end = f.payload.end;
        out->n = out->end - out->at;
    }
    return LK_OK;
}

/* Packed, all floats are one field of bytes; else each is a field of 32 bits. */
static lk_status read_floats(struct message list, lk__feature *out)
{
    struct field f;
    while (list.at < list.end) {
        LK_TRY(next_field(&list, &f));
        if (f.number != 1)
            continue;
        if (f.type != BYTES && f.type != FIXED32)
            return wrong_type(&list, "a float list", f.type);
        int64_t bytes = f.payload.end - f.payload.at;
        if (bytes % 4 != 0)
            return damaged(&list, "a float list has part of a float");
        if (out->n > 0 && bytes > 0)
            return unsupported(&list, out->name,
                               "floats that are not packed in one piece are not supported");
        if (bytes > 0) {
            out->kind = LK_FEATURE_FLOATS;
            out->n = bytes / 4;
            out->at = f.payload.at;
            out->end = f.payload.end;
        }
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
        if (f.type == VARINT) {
            out->scattered = true;
            keep_int(out, f.varint);
            continue;
        }
        if (f.type != BYTES)
            return wrong_type(&list, "an integer list", f.type);
        out->scattered = out->scattered || out->n > 0;
        out->at = f.payload.at;
        out->end = f.payload.end;
        while (f.payload.at < f.payload.end) {
            uint64_t v;
            LK_TRY(read_varint(&f.payload, &v));
            keep_int(out, v);
        }
    }
    return LK_OK;
}

/* A Feature holds one of three lists, which are numbered as lk__feature_kind is.  Of different ones the last
 * counts; the same one again goes on where it ended.  *list: the number of the last one; 0: none yet. */
static lk_status read_feature(struct message m, uint64_t *list, lk__feature *out)
{
    struct field f;
    while (m.at < m.end) {
        LK_TRY(next_field(&m, &f));
        if (f.number > LK_FEATURE_INTS)
            continue;
        if (f.type != BYTES)
            return wrong_type(&m, "a list of values", f.type);
        if (f.number != *list)
            *out = (lk__feature){.name = out->name};
        *list = f.number;
        if (f.number == LK_FEATURE_BYTES)
            LK_TRY(read_bytes(f.payload, out));
        else if (f.number == LK_FEATURE_FLOATS)
            LK_TRY(read_floats(f.payload, out));
        else
            LK_TRY(read_ints(f.payload, out));
    }
    return LK_OK;
}

/* The values of an entry of the map: one Feature, which may come in several fields. */
static lk_status read_entry_values(struct message m, lk__feature *out)
{
    struct field f;
    uint64_t list = 0;
    *out = (lk__feature){.name = out->name};
    while (m.at < m.end) {
        LK_TRY(next_field(&m, &f));
        if (f.number == 2)
            LK_TRY(read_feature(f.payload, &list, out));
    }
    return LK_OK;
}

/* Whether the bytes of `key` are `name`. */
static lk_status is_named(const struct message *key, const char *name, bool *out)
{
    size_t n = (size_t)(key->end - key->at);
    *out = name && strlen(name) == n;
    for (size_t i = 0; *out && i < n; i++) {
        unsigned char byte;
        LK_TRY(byte_at(key, key->at + (int64_t)i, &byte));
        *out = byte == (unsigned char)name[i];
    }
    return LK_OK;
}

/* An entry of the map: the features it names, if any are wanted. */
static lk_status read_entry(struct message entry, lk__feature *feature, int n_features)
{
    struct field f;
    struct message m = entry, key = {.window = entry.window};
    while (m.at < m.end) {
        LK_TRY(next_field(&m, &f));
        if (f.number > 2)
            continue;
        if (f.type != BYTES)
            return wrong_type(&m, f.number == 1 ? "the name of a feature" : "a feature", f.type);
        if (f.number == 1)
            key = f.payload;
    }
    for (int i = 0; i < n_features; i++) {
        bool named;
        LK_TRY(is_named(&key, feature[i].name, &named));
        if (named)
            LK_TRY(read_entry_values(entry, &feature[i]));
    }
    return LK_OK;
}

lk_status lk__example_read(lk__example_window *w, int64_t offset, int64_t n, lk__feature *feature,
                           int n_features)
{
    struct message example = {w, offset, offset + n}, features;
    struct field f;
    for (int i = 0; i < n_features; i++)
        feature[i] = (lk__feature){.name = feature[i].name};
    while (example.at < example.end) {
        LK_TRY(next_field(&example, &f));
        if (f.number != 1)
            continue;
        if (f.type != BYTES)
            return wrong_type(&example, "the features", f.type);
        features = f.payload;
        while (features.at < features.end) {
            LK_TRY(next_field(&features, &f));
            if (f.number != 1)
                continue;
            if (f.type != BYTES)
                return wrong_type(&features, "an entry of the features", f.type);
            LK_TRY(read_entry(f.payload, feature, n_features));
        }
    }
    return LK_OK;
}

lk_status lk__example_ints(lk__example_window *w, int64_t end, lk__example_place *from,
                           const lk_shape *shape, const lk_box *box, int64_t *out)
{
    /* No number tells where another begins, so all up to the last of the box are read. */
    struct message m = {w, from->offset, end};
    lk_box_walk walk = lk_box_start(box, shape->dim);
    uint64_t v;
    int64_t i = from->number;
    while (lk_box_next(&walk)) {
        for (; i < walk.place; i++)
            LK_TRY(read_varint(&m, &v));
        for (; i < walk.place + walk.n; i++) {
            LK_TRY(read_varint(&m, &v));
            out[walk.at + i - walk.place] = (int64_t)v;
        }
    }
    *from = (lk__example_place){i, m.at};
    return LK_OK;
}
