/* .npy files: as a tensor, and as a dataset.  What could be read has a header that is read back as
 * the same. */
#include "data/arrays/arrays.h"
#include "fuzz_data.h"

static void check_header(const lk__npy *a)
{
    char head[LK_NPY_HEADER_ROOM];
    int64_t n, bytes;
    lk__npy again;
    FUZZ_CHECK(lk__npy_header(a->dtype, a->shape, head, &n) == LK_OK);
    FUZZ_CHECK(n % 64 == 0 && lk_shape_count(a->shape, &bytes) == LK_OK);
    if (bytes > 0)
        return; /* the elements are missing */
    lk__source *s = fuzz_source(head, (size_t)n);
    FUZZ_CHECK(lk__npy_read(s, NULL, 0, n, &again) == LK_OK);
    FUZZ_CHECK(again.dtype == a->dtype && lk_shape_is_equal(again.shape, a->shape));
    lk__source_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    lk__table *t = fuzz_table();
    const lk__source *s = fuzz_own(t, data, size);
    static const lk_option_ints none;
    lk_dataset *ds = NULL;
    lk__npy a;
    lk_status st = lk__npy_read(s, NULL, 0, (int64_t)size, &a);
    t->info.name = "input";
    if (st == LK_OK) {
        check_header(&a);
        st = lk__arrays_x(t, s, &a, &none);
    }
    if (st == LK_OK)
        st = lk__arrays_y(t, s, &a);
    if (st == LK_OK)
        st = lk__table_finish(t, &ds);
    fuzz_finish_table(st, t, ds);
    return 0;
}
