/* gzip files, and from byte 1 on, if byte 0 is odd, plain deflate of as many bytes as it says. */
#include "data/packed/inflate.h"
#include "fuzz_data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    lk__source *s = fuzz_source(data + 1, size - 1);
    lk__source *unpacked;
    lk_status st = data[0] & 1 ? lk__inflate(s, 0, lk__source_size(s), data[0] >> 1, &unpacked)
                               : lk__unpack(s, data[0] & 2 ? LK_PACKED_ZLIB : LK_PACKED_GZIP, NULL,
                                            &unpacked);
    FUZZ_CHECK((st == LK_OK) == (unpacked != NULL));
    lk__source_free(unpacked);
    lk__source_free(s);
    fuzz_finish(st, NULL);
    return 0;
}
