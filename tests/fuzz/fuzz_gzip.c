/* gzip files, and from byte 1 on, if byte 0 is odd, plain deflate of as many bytes as it says. */
#include "data/inflate.h"
#include "fuzz_data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    lk__source *s = fuzz_source(data + 1, size - 1);
    void *block;
    int64_t n;
    lk_status st = data[0] & 1 ? lk__inflate(s, 0, lk__source_size(s), data[0] >> 1, &block)
                               : lk__gunzip(s, &block, &n);
    FUZZ_CHECK((st == LK_OK) == (block != NULL));
    lk_free(block);
    lk__source_free(s);
    fuzz_finish(st, NULL);
    return 0;
}
