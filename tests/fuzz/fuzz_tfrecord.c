/* TFRecord files.  Byte 0 says what the rest is:
 *
 *   bit 0   0: a file as it is, packed or not; 1: the data of records, which are framed with right checksums
 *           at the length that byte 1 says, so that their content is reached
 *   bit 1   damaged records are left out
 *   bit 2   framed records are packed by zlib, in one stored block
 *   bit 3   framed records are damaged then: byte 2 says how often, three bytes each where and how
 *   others  classes
 *
 * Every input is opened as an indexed set and as a stream: both are refused, or have the same samples; where
 * damaged records are left out, all that is left can be read. */
#include "data/bytes.h"
#include "data/dataset.h"
#include "data/records/records.h"
#include "fuzz_data.h"

#include <lockstep/extra/crc32c.h>
#include <lockstep/log.h>

enum { FRAMED = 1, SKIP = 2, PACKED = 4, DAMAGED = 8, MOST = 255, ROOM = 255 * 16 + 16 };

static void put_crc(unsigned char *p, const unsigned char *bytes, size_t n)
{
    uint32_t c = lk_crc32c(0, bytes, n);
    lk__put_le(p, 4, (c >> 15 | c << 17) + 0xa282ead8U);
}

/* Frame records of `length` bytes, at most 255 of them. */
static size_t frame(const uint8_t *data, size_t size, size_t length, unsigned char *out)
{
    size_t at = 0;
    for (int i = 0; i < MOST && size > 0; i++) {
        size_t n = length > 0 && length < size ? length : size;
        lk__put_le(out + at, 8, n);
        put_crc(out + at + 8, out + at, 8);
        memcpy(out + at + 12, data, n);
        put_crc(out + at + 12 + n, data, n);
        at += n + 16;
        data += n;
        size -= n;
    }
    return at;
}

/* One stored block of zlib around the bytes at `out` + 7. */
static size_t wrap(unsigned char *out, size_t n)
{
    uint32_t a = 1, b = 0;
    const unsigned char head[] = {0x78,
                                  1,
                                  1,
                                  (unsigned char)n,
                                  (unsigned char)(n >> 8),
                                  (unsigned char)~n,
                                  (unsigned char)(~n >> 8)};
    memcpy(out, head, sizeof head);
    for (size_t i = 0; i < n; i++) {
        a = (a + out[7 + i]) % 65521;
        b = (b + a) % 65521;
    }
    lk__put_be(out + 7 + n, 4, (uint64_t)b << 16 | a);
    return n + 11;
}

/* The file that an input stands for; `out` has room for it. */
static size_t file_of(const uint8_t *data, size_t size, unsigned char *out)
{
    if (!(data[0] & FRAMED)) {
        memcpy(out, data + 3, size - 3);
        return size - 3;
    }
    size_t flips = data[0] & DAMAGED ? data[2] % 8 : 0, used = 3 + 3 * flips;
    if (used > size)
        flips = 0, used = 3;
    bool packed = (data[0] & PACKED) && size < 32768;
    size_t n = frame(data + used, size - used, data[1], out + (packed ? 7 : 0));
    if (packed)
        n = wrap(out, n);
    for (size_t i = 0; n > 0 && i < flips; i++) {
        const uint8_t *flip = data + 3 + 3 * i;
        out[(size_t)(flip[0] << 8 | flip[1]) % n] ^= flip[2];
    }
    return n;
}

/* All samples through a shuffle buffer. */
static void read_batches(lk_dataset *ds)
{
    lk_loader *l;
    lk_status st = lk_loader_new(ds, "batch=4 shuffle_buffer=6 prefetch=0", 1, &l);
    fuzz_check_status(st);
    for (int64_t i = 0; st == LK_OK && i < lk_loader_batches(l); i++) {
        lk_batch batch;
        st = lk_loader_read_batch(l, 0, i, 0, lk_loader_batch_size(l, i), &batch);
        fuzz_check_status(st);
    }
    lk_loader_free(l);
}

static lk_status open_as(const unsigned char *file, size_t n, const lk__record_options *o,
                         lk_dataset **out)
{
    lk__source *s = fuzz_source(file, n);
    return lk__records_dataset("input", &s, 1, o, out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3)
        return 0;
    lk_log_set_level(LK_LOG_ERROR);
    lk__record_options o = {.image = "image_raw",
                            .label = "label",
                            .height = "height",
                            .width = "width",
                            .depth = "depth",
                            .classes = data[0] >> 4,
                            .damaged = (data[0] & SKIP) != 0};
    unsigned char *file = malloc(size + ROOM);
    size_t n = file_of(data, size, file);
    lk_dataset *ds[2] = {NULL};
    uint64_t hash[2] = {0};
    lk_status st[2];
    for (int i = 0; i < 2; i++) {
        o.stream = i == 1;
        st[i] = open_as(file, n, &o, &ds[i]);
        fuzz_check_status(st[i]);
        if (st[i] == LK_OK) {
            st[i] = lk_dataset_hash(ds[i], &hash[i]);
            fuzz_check_status(st[i]);
            read_batches(ds[i]);
        }
    }
    /* Without an error of one way there is none of the other, though one may be seen sooner; of samples
     * without values no record is read by its boxes. */
    bool compared = !ds[0] || lk__field_bytes(&lk_dataset_info_of(ds[0])->field[0]) > 0;
    FUZZ_CHECK(!compared || ((st[0] == LK_OK) == (st[1] == LK_OK) && hash[0] == hash[1]));
    lk_dataset_free(ds[1]);
    fuzz_finish(LK_OK, ds[0]);
    free(file);
    return 0;
}
