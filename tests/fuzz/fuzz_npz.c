/* .npz archives: every member, then x and y as a dataset.  Checksums are made right first, so that
 * what they cover is reached: byte 0 says whether. */
#include "data/arrays/arrays.h"
#include "data/arrays/npz.h"
#include "data/bytes.h"
#include "data/packed/crc32.h"
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

/* The bytes of a member as they go by; each is looked at. */
static lk_status look(void *arg, const void *bytes, int64_t n, bool *enough)
{
    uint32_t *crc = arg;
    (void)enough;
    *crc = lk__crc32(*crc, bytes, (size_t)n);
    return LK_OK;
}

static void stream_all(const lk__source *s)
{
    lk__zip z;
    uint32_t crc = 0;
    lk_status st = lk__zip_open(s, &z);
    for (int64_t i = 0; st == LK_OK && i < z.n && i < 16; i++)
        fuzz_check_status(lk__zip_stream(&z, &z.member[i], look, &crc));
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
    stream_all(s);
    fuzz_finish_table(lk__arrays_npz(t, s, "x", "y", &none, &ds), t, ds);
    free(file);
    return 0;
}
