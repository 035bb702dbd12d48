/* Tables as text.  Byte 0 chooses the options. */
#include "data/arrays/csv.h"
#include "fuzz_data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    static const char *const labels[] = {"last", "none", "0", "y"};
    lk__csv_options o = {.header = data[0] % 3,
                         .separator = ",; \t"[data[0] >> 2 & 3],
                         .label = labels[data[0] >> 4 & 3],
                         .real = data[0] >> 6 & 1,
                         .f64 = data[0] >> 7};
    lk__table *t = fuzz_table();
    const lk__source *s = fuzz_own(t, data + 1, size - 1);
    lk_dataset *ds = NULL;
    fuzz_finish_table(lk__csv_dataset(t, s, &o, &ds), t, ds);
    return 0;
}
