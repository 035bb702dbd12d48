/* Raw elements.  Bytes 0 to 7 are the layouts of samples and labels; then as many bytes of samples as
 * byte 8 says in tens. */
#include "data/arrays/raw.h"
#include "fuzz_data.h"

static lk__raw_layout layout(const uint8_t *d)
{
    lk__raw_layout o = {.dtype = d[0] % LK_N_DTYPES, .big = d[0] >> 7, .offset = d[1]};
    o.shape.n = d[2] % 9; /* one more than is possible */
    for (int i = 0; i < o.shape.n; i++)
        o.shape.item[i] = d[3] == 255 ? INT64_C(1) << (d[2] >> 4) * 4 : 1 + (d[3] >> i) % 4;
    return o;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 9)
        return 0;
    lk__raw_layout x = layout(data), y = layout(data + 4);
    size_t n = data[8] * (size_t)10;
    n = n < size - 9 ? n : size - 9;
    lk__table *t = fuzz_table();
    const lk__source *samples = fuzz_own(t, data + 9, n), *labels = NULL;
    if (n < size - 9)
        labels = fuzz_own(t, data + 9 + n, size - 9 - n);
    lk_dataset *ds = NULL;
    fuzz_finish_table(lk__raw_dataset(t, samples, &x, labels, &y, &ds), t, ds);
    return 0;
}
