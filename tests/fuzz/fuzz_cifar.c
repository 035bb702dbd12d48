/* CIFAR's files.  Byte 0: bit 0, one label byte or two; bit 1, which of them; the rest in up to two
 * files, cut where byte 1 says in hundreds. */
#include "data/arrays/cifar.h"
#include "fuzz_data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    lk__cifar_kind kind = {.name = "CIFAR",
                           .label_bytes = 1 + (data[0] & 1),
                           .label = data[0] >> 1 & data[0] & 1,
                           .classes = data[0] & 1 ? 100 : 10};
    size_t n = data[1] * (size_t)100;
    bool two = n > 0 && n < size - 2;
    n = two ? n : size - 2;
    lk__source *source[2] = {fuzz_source(data + 2, n), NULL};
    if (two)
        source[1] = fuzz_source(data + 2 + n, size - 2 - n);
    lk_dataset *ds;
    lk_status st = lk__cifar_dataset(&kind, source, 1 + two, &ds);
    fuzz_finish(st, ds);
    return 0;
}
