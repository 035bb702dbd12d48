/* IDX files.  Byte 0: bit 0, there are labels; bit 1, the images are packed with gzip.  Bytes 1 and 2:
 * how many bytes the images have. */
#include "data/idx.h"
#include "data/inflate.h"
#include "fuzz_data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3)
        return 0;
    size_t n = (size_t)data[1] | (size_t)data[2] << 8;
    n = n < size - 3 ? n : size - 3;
    lk__table *t = fuzz_table();
    const lk__source *images = fuzz_own(t, data + 3, n), *labels = NULL;
    lk_dataset *ds = NULL;
    lk_status st = LK_OK;
    if (data[0] & 1)
        labels = fuzz_own(t, data + 3 + n, size - 3 - n);
    if (data[0] & 2) {
        void *block;
        int64_t bytes;
        st = lk__gunzip(images, &block, &bytes);
        lk__source *unpacked;
        if (st == LK_OK && lk__source_adopt("unpacked", block, bytes, &unpacked) != LK_OK)
            abort();
        if (st == LK_OK && lk__table_own(t, unpacked) != LK_OK)
            abort();
        images = st == LK_OK ? unpacked : images;
    }
    if (st == LK_OK)
        st = lk__idx_dataset(t, images, labels, data[0] >> 2, &ds);
    fuzz_finish_table(st, t, ds);
    return 0;
}
