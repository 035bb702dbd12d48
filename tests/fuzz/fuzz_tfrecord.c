/* TFRecord files.  Byte 0 is even: the rest is a file.  Odd: the rest is cut into records of the
 * length that byte 1 says, whose checksums are right, so that their content is reached. */
#include "data/bytes.h"
#include "data/records.h"
#include "fuzz_data.h"

#include <lockstep/extra/crc32c.h>

static void put_crc(unsigned char *p, const unsigned char *bytes, size_t n)
{
    uint32_t c = lk_crc32c(0, bytes, n);
    lk__put_le(p, 4, (c >> 15 | c << 17) + 0xa282ead8U);
}

/* Frame records of `length` bytes, at most 255 of them. */
static size_t frame(const uint8_t *data, size_t size, size_t length, unsigned char *out)
{
    size_t at = 0;
    for (int i = 0; i < 255 && size > 0; i++) {
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    lk__record_options o = {.image = "image_raw",
                            .label = "label",
                            .height = "height",
                            .width = "width",
                            .depth = "depth",
                            .classes = data[0] >> 1};
    unsigned char *file = malloc(size + 255 * 16);
    lk__source *s = NULL;
    if (data[0] & 1)
        s = fuzz_source(file, frame(data + 2, size - 2, data[1], file));
    else
        s = fuzz_source(data + 1, size - 1);
    lk_dataset *ds;
    lk_status st = lk__records_dataset("input", &s, 1, &o, &ds);
    fuzz_finish(st, ds);
    free(file);
    return 0;
}
