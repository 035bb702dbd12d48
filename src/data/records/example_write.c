/* Writing tf.train.Example into memory: for formats/tfrecord.c. */
#include "data/records/example.h"

#include <string.h>

enum { BYTES = 2 }; /* the wire type of everything that has a length */

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
    *p++ = (unsigned char)(number << 3 | BYTES);
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
        if (bytes > 0)
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
        p = put_head(p, (int)f->kind, field_size(values)); /* the list's number, too */
        p = put_head(p, 1, values);
        p = put_values(p, f);
    }
}
