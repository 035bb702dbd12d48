/* TensorBoard's event files: TFRecords of messages in the wire format of Protocol Buffers,
 *
 *   Event   { double wall_time = 1; int64 step = 2; string file_version = 3; Summary summary = 5; }
 *   Summary { repeated Value value = 1; }
 *   Value   { string tag = 1; float simple_value = 2; }
 *
 * The first record names the version, "brain.Event:2".  Numbers in a key are a field and how its
 * value is written: as a varint, as 8 or 4 bytes, or as bytes with their length before them. */
#include "io/tfevents.h"

#include "base/bits.h"
#include "base/fpenv.h"
#include "base/text/text.h"
#include "data/bytes.h"
#include "data/records/tfrecord.h"
#include "io/append.h"
#include "io/out.h"

#include <lockstep/extra/alloc.h>

#include <string.h>
#include <time.h>

enum { VARINT = 0, BYTES_8 = 1, LENGTH = 2, BYTES_4 = 5 };

struct lk_tfevents {
    lk__append *file;
    lk__out record;
};

/* ---- the wire format ---- */

static int varint(uint64_t v, unsigned char *out)
{
    int n = 0;
    for (; v >= 0x80; v >>= 7)
        out[n++] = (unsigned char)(v | 0x80);
    out[n++] = (unsigned char)v;
    return n;
}

static void put_varint(lk__out *o, uint64_t v)
{
    unsigned char bytes[10];
    lk__out_bytes(o, bytes, varint(v, bytes));
}

static void put_key(lk__out *o, int field, int wire)
{
    put_varint(o, (uint64_t)(field << 3 | wire));
}

static void put_double(lk__out *o, int field, double v)
{
    unsigned char bytes[8];
    lk__put_le(bytes, 8, lk__f64_bits(v));
    put_key(o, field, BYTES_8);
    lk__out_bytes(o, bytes, 8);
}

static void put_float(lk__out *o, int field, float v)
{
    unsigned char bytes[4];
    lk__put_le(bytes, 4, lk__f32_bits(v));
    put_key(o, field, BYTES_4);
    lk__out_bytes(o, bytes, 4);
}

static void put_text(lk__out *o, int field, const char *text)
{
    put_key(o, field, LENGTH);
    put_varint(o, strlen(text));
    lk__out_put(o, text);
}

/* Bytes that a text, or a message of `n` bytes, takes with key and length. */
static uint64_t length_of(uint64_t n)
{
    unsigned char bytes[10];
    return 1 + (uint64_t)varint(n, bytes) + n;
}

/* ---- messages ---- */

void lk__tfevents_version(lk__out *o, double time)
{
    put_double(o, 1, time);
    put_text(o, 3, "brain.Event:2");
}

static uint64_t value_length(const lk_scalar *s)
{
    return length_of(strlen(s->name)) + 5;
}

void lk__tfevents_scalars(lk__out *o, double time, int64_t step, const lk_scalar *scalar, int64_t n)
{
    uint64_t summary = 0;
    for (int64_t i = 0; i < n; i++)
        summary += length_of(value_length(&scalar[i]));
    put_double(o, 1, time);
    if (step != 0) { /* a zero is what is there without a field */
        put_key(o, 2, VARINT);
        put_varint(o, (uint64_t)step);
    }
    put_key(o, 5, LENGTH);
    put_varint(o, summary);
    for (int64_t i = 0; i < n; i++) {
        put_key(o, 1, LENGTH);
        put_varint(o, value_length(&scalar[i]));
        put_text(o, 1, scalar[i].name);
        put_float(o, 2, (float)scalar[i].value);
    }
}

/* ---- the file ---- */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Put a head before the message that stands behind LK_TFRECORD_HEAD bytes, a tail behind it, and
 * write all at once. */
static lk_status record_write(lk_tfevents *e)
{
    unsigned char tail[LK_TFRECORD_TAIL];
    int64_t n = e->record.n - LK_TFRECORD_HEAD;
    LK_TRY(e->record.st);
    lk__tfrecord_frame(e->record.text + LK_TFRECORD_HEAD, n, (unsigned char *)e->record.text, tail);
    lk__out_bytes(&e->record, tail, sizeof tail);
    LK_TRY(e->record.st);
    return LK_TRACE(lk__append_write(e->file, e->record.text, e->record.n));
}

static void record_begin(lk_tfevents *e)
{
    static const unsigned char head[LK_TFRECORD_HEAD];
    lk__out_clear(&e->record);
    lk__out_bytes(&e->record, head, sizeof head);
}

/* Where the last whole record of the first `most` bytes of a file ends; 0 if there is less than a
 * first one. */
static lk_status whole_records(const char *path, int64_t most, int64_t *end)
{
    enum { FIRST = 40 };
    lk__source *source = NULL;
    int64_t at, n, next;
    *end = 0;
    if (!lk__path_exists(path))
        return LK_OK;
    LK_TRY(lk__source_open(path, &source));
    while (lk__tfrecord_find(source, 0, *end, &at, &n, &next) == LK_OK && next <= most)
        *end = next;
    lk_error_clear();
    int64_t size = lk__source_size(source);
    lk__source_free(source);
    LK_CHECK(*end > 0 || size < FIRST, LK_EIO, "%s: offset 0: no event file begins like this",
             path);
    return LK_OK;
}

static lk_status open_file(lk_tfevents *e, const char *path, int64_t most)
{
    int64_t end = 0;
    if (most > 0)
        LK_TRY(whole_records(path, most, &end));
    LK_TRY(lk__append_open(path, end, &e->file));
    if (end > 0)
        return LK_OK;
    record_begin(e);
    lk__tfevents_version(&e->record, now());
    return LK_TRACE(record_write(e));
}

lk_status lk__tfevents_open_at(const char *path, int64_t bytes, lk_tfevents **out)
{
    LK_FP_GUARD();
    lk_tfevents *e = NULL;
    *out = NULL;
    LK_CHECK(path, LK_EINVAL, "path is NULL");
    LK_TRY(lk_alloc_zero(&e, 1, sizeof *e));
    lk_status st = open_file(e, path, bytes);
    if (st != LK_OK) {
        lk_status ignored = lk_tfevents_close(e);
        (void)ignored; /* the first failure counts */
        LK_TRY(st);
    }
    *out = e;
    return LK_OK;
}

lk_status lk_tfevents_open(const char *path, bool append, lk_tfevents **out)
{
    return LK_TRACE(lk__tfevents_open_at(path, append ? INT64_MAX : 0, out));
}

int64_t lk__tfevents_bytes(const lk_tfevents *e)
{
    return lk__append_bytes(e->file);
}

lk_status lk__tfevents_sync(lk_tfevents *e)
{
    return LK_TRACE(lk__append_sync(e->file));
}

lk_status lk_tfevents_add(lk_tfevents *e, int64_t step, const lk_scalar *scalar, int64_t n)
{
    LK_FP_GUARD();
    LK_CHECK(e && (scalar || n == 0), LK_EINVAL, "events or scalars are NULL");
    LK_CHECK(step >= 0 && n >= 0, LK_EINVAL, "step %lld, %lld scalars", (long long)step,
             (long long)n);
    for (int64_t i = 0; i < n; i++)
        LK_CHECK(scalar[i].name && lk__utf8_is(scalar[i].name), LK_EINVAL,
                 "the name of scalar %lld is NULL or not UTF-8", (long long)i);
    record_begin(e);
    lk__tfevents_scalars(&e->record, now(), step, scalar, n);
    return LK_TRACE(record_write(e));
}

lk_status lk_tfevents_close(lk_tfevents *e)
{
    if (!e)
        return LK_OK;
    lk_status st = lk__append_close(e->file);
    lk_free(e->record.text);
    lk_free(e);
    return st;
}
