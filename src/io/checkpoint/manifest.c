/* The text of a MANIFEST: JSON, its members in a fixed order, a line for each thing.
 *
 * Its last line is "check":"XXXXXXXX"}, with the CRC-32C of all bytes before that line.
 */
#include "base/fpenv.h"
#include "base/text/number.h"
#include "io/checkpoint/checkpoint.h"
#include "io/safetensors/safetensors.h"

#include <lockstep/extra/crc32c.h>

#include <inttypes.h>
#include <math.h>
#include <string.h>

static void put_hash(lk__out *o, const char *key, uint64_t value)
{
    char text[LK_HASH_TEXT];
    lk__out_format(o, "\"%s\":\"%s\"", key, lk_hash_text(value, text));
}

static void put_tensor(lk__out *o, const lk_checkpoint_tensor *t)
{
    lk__out_put(o, "{\"name\":");
    lk__out_json(o, t->name);
    lk__out_format(o, ",\"dtype\":\"%s\",\"shape\":", lk__safetensors_dtype(t->dtype));
    lk__out_put(o, lk_shape_text(t->shape).s);
    lk__out_format(o,
                   ",\"part\":%" PRId64 ",\"offset\":%" PRId64 ",\"bytes\":%" PRId64
                   ",\"crc32c\":\"%08" PRIx32 "\"}",
                   t->part, t->offset, t->bytes, t->crc);
}

/* The bits are the number; the value is for people. */
static void put_number(lk__out *o, const lk_state_number *number)
{
    char text[LK_NUMBER_TEXT];
    uint64_t bits = (uint64_t)number->i64;
    lk__out_put(o, "{\"name\":");
    lk__out_json(o, number->name);
    if (number->dtype == LK_F64)
        memcpy(&bits, &number->f64, sizeof bits);
    lk__out_format(o, ",\"type\":\"%s\",", lk__safetensors_dtype(number->dtype));
    put_hash(o, "bits", bits);
    if (number->dtype == LK_I64)
        lk__out_format(o, ",\"value\":\"%" PRId64 "\"}", number->i64);
    else
        lk__out_format(o, ",\"value\":\"%s\"}",
                       isfinite(number->f64) ? lk__number_show(number->f64, text)
                       : isnan(number->f64)  ? "nan"
                                             : "inf");
}

void lk__manifest_put(lk__out *o, const lk_checkpoint *c)
{
    LK_FP_GUARD();
    lk__out_format(o, "{\"format\":\"lockstep checkpoint 1\",\n\"step\":%" PRId64 ",\n", c->step);
    put_hash(o, "identity", c->identity);
    lk__out_put(o, ",\n");
    put_hash(o, "state", c->hash);
    if (c->hash_format > 1) /* one that was read without it is written without it */
        lk__out_format(o, ",\n\"hash\":%d", c->hash_format);
    lk__out_put(o, ",\n\"parts\":[");
    for (int64_t i = 0; i < c->n_parts; i++) {
        lk__out_format(o, "%s\n{\"file\":\"%s\",\"bytes\":%" PRId64 ",", i ? "," : "",
                       c->part[i].file, c->part[i].bytes);
        put_hash(o, "xxh64", c->part[i].hash);
        lk__out_put(o, "}");
    }
    lk__out_put(o, "],\n\"tensors\":[");
    for (int64_t i = 0; i < c->n_tensors; i++) {
        lk__out_put(o, i ? ",\n" : "\n");
        put_tensor(o, &c->tensor[i]);
    }
    lk__out_put(o, "],\n\"numbers\":[");
    for (int64_t i = 0; i < c->n_numbers; i++) {
        lk__out_put(o, i ? ",\n" : "\n");
        put_number(o, &c->number[i]);
    }
    lk__out_put(o, "],\n\"facts\":[");
    for (int64_t i = 0; i < c->n_metadata; i++) {
        lk__out_put(o, i ? ",\n{\"name\":" : "\n{\"name\":");
        lk__out_json(o, c->metadata[i].name);
        lk__out_put(o, ",\"text\":");
        lk__out_json(o, c->metadata[i].text);
        lk__out_put(o, "}");
    }
    lk__out_put(o, "],\n");
    if (o->st == LK_OK)
        lk__out_format(o, "\"check\":\"%08" PRIx32 "\"}\n", lk_crc32c(0, o->text, (size_t)o->n));
}
