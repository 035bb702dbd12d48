/* .npz archives: every array, then x and y as a dataset.  Checksums are made right first, so that
 * what they cover is reached: byte 0 says whether. */
#include "data/arrays.h"
#include "data/bytes.h"
#include "data/crc32.h"
#include "data/npz.h"
#include "fuzz_data.h"

/* Write the CRC of each stored member into its entry of the directory. */
static void mend(unsigned char *file, size_t n)
{
    for (size_t at = 0; n >= 46 && at <= n - 46; at++) {
        if (lk__get_le(file + at, 4) != 0x02014b50)
            continue;
        size_t bytes = (size_t)lk__get_le(file + at + 24, 4);
        size_t local = (size_t)lk__get_le(file + at + 42, 4);
        if (n < 30 || local > n - 30)
            continue;
        size_t start = local + 30 + (size_t)lk__get_le(file + local + 26, 2) +
                       (size_t)lk__get_le(file + local + 28, 2);
        if (start <= n && bytes <= n - start)
            lk__put_le(file + at + 16, 4, lk__crc32(0, file + start, bytes));
    }
}

static void load_all(const lk__source *s)
{
    lk__zip z;
    lk_status st = lk__zip_open(s, &z);
    for (int64_t i = 0; st == LK_OK && i < z.n && i < 16; i++) {
        char name[LK_ZIP_NAME];
        lk_tensor *t;
        size_t n = strlen(z.member[i].name);
        snprintf(name, sizeof name, "%.*s", (int)(n > 4 ? n - 4 : 0), z.member[i].name);
        fuzz_check_status(lk__npz_load(&z, name, &t));
        lk_tensor_free(t);
    }
    fuzz_check_status(st);
    lk__zip_close(&z);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    unsigned char *file = malloc(size);
    memcpy(file, data, size);
    if (data[0] & 1)
        mend(file + 1, size - 1);
    lk__table *t = fuzz_table();
    const lk__source *s = fuzz_own(t, file + 1, size - 1);
    static const lk_option_ints none;
    lk_dataset *ds = NULL;
    load_all(s);
    fuzz_finish_table(lk__arrays_npz(t, s, "x", "y", &none, &ds), t, ds);
    free(file);
    return 0;
}
