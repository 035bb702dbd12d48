/* IDX files.  Byte 0: bit 0, there are labels; the others, the number of classes.  Bytes 1 and 2: how
 * many bytes the images have. */
#include "data/arrays/idx.h"
#include "fuzz_data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3)
        return 0;
    size_t n = (size_t)data[1] | (size_t)data[2] << 8;
    n = n < size - 3 ? n : size - 3;
    lk__table *t = fuzz_table();
    const lk__source *images = fuzz_own(t, data + 3, n), *labels = NULL;
    if (data[0] & 1)
        labels = fuzz_own(t, data + 3 + n, size - 3 - n);
    lk_dataset *ds = NULL;
    fuzz_finish_table(lk__idx_dataset(t, images, labels, data[0] >> 1, &ds), t, ds);
    return 0;
}
