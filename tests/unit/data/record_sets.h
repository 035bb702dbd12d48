/* Sets of records for the tests of the format: written feature by feature, and opened by options. */
#ifndef LK_TEST_RECORD_SETS_H
#define LK_TEST_RECORD_SETS_H

#include "data/records/example.h"
#include "data/records/tfrecord.h"
#include "data_files.h"

#include <stdarg.h>

/* A record of some features at the end of a file. */
static inline void record_append(lk__sink *s, const lk__feature_out *f, int n)
{
    int64_t size = lk__example_size(f, n);
    unsigned char *bytes = malloc((size_t)size);
    lk__example_write(f, n, bytes);
    ASSERT_OK(lk__tfrecord_write(s, bytes, size));
    free(bytes);
}

enum { RECORDS = 4 };

/* A file of as many records of these features; its path. */
static inline const char *records_write(const char *file, const lk__feature_out *f, int n)
{
    lk__sink *s;
    ASSERT_OK(lk__sink_open(test_path(file), &s));
    for (int i = 0; i < RECORDS; i++)
        record_append(s, f, n);
    ASSERT_OK(lk__sink_close(s));
    return test_path(file);
}

static inline lk_status records_try(const char *options, lk_dataset **out)
{
    return lk_dataset_open("tfrecord", options, LK_TRAIN, out);
}

/* The set that options name. */
LK_PRINTF(1, 2) static inline lk_dataset *records_open(const char *format, ...)
{
    char options[1000];
    lk_dataset *ds;
    va_list args;
    va_start(args, format);
    vsnprintf(options, sizeof options, format, args);
    va_end(args);
    ASSERT_OK(records_try(options, &ds));
    return ds;
}

/* The hash of a set, which is freed. */
static inline uint64_t records_hash(lk_dataset *ds)
{
    uint64_t hash;
    ASSERT_OK(lk_dataset_hash(ds, &hash));
    lk_dataset_free(ds);
    return hash;
}

/* Options for which no set is opened. */
#define RECORDS_REFUSED(status, text, ...)                       \
    do {                                                         \
        char options_[1000];                                     \
        lk_dataset *ds_;                                         \
        snprintf(options_, sizeof options_, __VA_ARGS__);        \
        ASSERT_FAILS(records_try(options_, &ds_), status, text); \
    } while (0)

#endif /* LK_TEST_RECORD_SETS_H */
