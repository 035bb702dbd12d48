/* Sets whose every sample follows from its number, with fields of all dtypes, and which can fail to be
 * read. */
#ifndef LK_TEST_KNOWN_SETS_H
#define LK_TEST_KNOWN_SETS_H

#include "harness.h"

#include <lockstep/data.h>

enum { KNOWN_FIELDS = 8 };

/* One is shared by all that read the set. */
typedef struct known_set {
    int64_t fails_at; /* the sample that cannot be read; -1: all can */
    int64_t rows;     /* that were read; on one thread */
} known_set;

static const lk_field known_field[KNOWN_FIELDS] = {
    {"x", LK_F32, LK_DIMS(3)},      {"y", LK_I64, {0, {0}}},        {"bytes", LK_U8, LK_DIMS(5)},
    {"double", LK_F64, LK_DIMS(2)}, {"int", LK_I32, {0, {0}}},      {"half", LK_F16, LK_DIMS(1, 3)},
    {"bf16", LK_BF16, LK_DIMS(1)},  {"none", LK_F32, LK_DIMS(2, 0)}};

/* Bytes of a sample of all of them. */
enum { KNOWN_BYTES = 12 + 8 + 5 + 16 + 4 + 6 + 2 };

static inline int64_t known_bytes(int f)
{
    int64_t n;
    ASSERT_OK(lk_shape_count(known_field[f].shape, &n));
    return n * (int64_t)lk_dtype_size(known_field[f].dtype);
}

/* Field f of a sample: x is sample + i / 8, y the sample modulo 10, the others any bytes. */
static inline void known_write(int64_t sample, int f, void *out)
{
    float *x = out;
    unsigned char *byte = out;
    if (f == 0)
        for (int i = 0; i < 3; i++)
            x[i] = (float)sample + (float)i / 8;
    else if (f == 1)
        *(int64_t *)out = sample % 10;
    else
        for (int64_t i = 0; i < known_bytes(f); i++)
            byte[i] = (unsigned char)((sample + 3) * (41 * f + 17 * i + 1) % 253);
}

static inline lk_status known_row(void *context, int64_t index, void *const *row)
{
    known_set *k = context;
    k->rows++;
    LK_CHECK(index != k->fails_at, LK_EIO, "planted at sample %lld", (long long)index);
    for (int f = 0; f < KNOWN_FIELDS; f++)
        if (row[f])
            known_write(index, f, row[f]);
    return LK_OK;
}

static inline lk_dataset *known_new(known_set *k, int64_t count, int64_t classes)
{
    lk_dataset_info info = {
        .name = "known", .count = count, .classes = classes, .n_fields = KNOWN_FIELDS};
    lk_dataset *ds;
    memcpy(info.field, known_field, sizeof known_field);
    k->rows = 0;
    ASSERT_OK(lk_dataset_new(&info, known_row, NULL, k, &ds));
    return ds;
}

/* Row `i` of a tensor [n, shape of the field...] is that of a sample. */
static inline void known_expect_row(const lk_tensor *t, int64_t i, int64_t sample, int f)
{
    char want[64];
    ASSERT_TRUE(lk_tensor_dtype(t) == known_field[f].dtype);
    known_write(sample, f, want);
    if (memcmp((const char *)lk_tensor_data(t) + i * known_bytes(f), want, (size_t)known_bytes(f)))
        TEST_FAIL("field \"%s\" of row %lld is not that of sample %lld", known_field[f].name,
                  (long long)i, (long long)sample);
}

/* Sample `i` of a set is that of another number, in all fields. */
static inline void known_expect_sample(const lk_dataset *ds, int64_t i, int64_t sample)
{
    for (int f = 0; f < KNOWN_FIELDS; f++) {
        lk_tensor *tensor[LK_MAX_FIELDS] = {NULL};
        lk_shape shape = {.ndim = known_field[f].shape.ndim + 1, .dim = {1}};
        memcpy(shape.dim + 1, known_field[f].shape.dim,
               (size_t)known_field[f].shape.ndim * sizeof shape.dim[0]);
        ASSERT_OK(lk_tensor_new(known_field[f].dtype, shape, &tensor[f]));
        ASSERT_OK(lk_dataset_read(ds, &i, 1, tensor));
        known_expect_row(tensor[f], 0, sample, f);
        lk_tensor_free(tensor[f]);
    }
}

#endif /* LK_TEST_KNOWN_SETS_H */
