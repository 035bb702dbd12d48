/* Damaged records: an error with file, record and offset, or left out, counted, and part of the hash. */
#include "data/packed/inflate.h"
#include "faults.h"
#include "record_sets.h"

#include <lockstep/extra/crc32c.h>
#include <lockstep/log.h>

enum { COUNT = 12, BYTES = 40 };

static lk_status made_row(void *context, int64_t index, void *const *row)
{
    (void)context;
    for (int i = 0; row[0] && i < BYTES; i++)
        ((unsigned char *)row[0])[i] = (unsigned char)(index * 17 + i);
    if (row[1])
        *(int64_t *)row[1] = index;
    return LK_OK;
}

/* The file of all samples; each record of it has `*each` bytes. */
static unsigned char *make(const char *file, int64_t *each, size_t *n)
{
    lk_dataset_info info = {
        .name = "made",
        .count = COUNT,
        .classes = COUNT,
        .n_fields = 2,
        .field = {{"x", LK_U8, LK_DIMS(BYTES)}, {.name = "y", .dtype = LK_I64}}};
    lk_dataset *ds;
    lk_log_set_level(LK_LOG_ERROR); /* what is left out is told */
    ASSERT_OK(lk_dataset_new(&info, made_row, NULL, NULL, &ds));
    ASSERT_OK(lk_dataset_write(ds, "tfrecord", test_path(file)));
    lk_dataset_free(ds);
    unsigned char *bytes = test_read(test_path(file), n);
    *each = (int64_t)*n / COUNT;
    ASSERT_EQ(*each * COUNT, (int64_t)*n);
    return bytes;
}

/* The set has the samples of which `has` says so, in order, each as it was. */
static void expect(lk_dataset *ds, unsigned has, int64_t skipped, int64_t gaps)
{
    const lk_dataset_info *info = lk_dataset_info_of(ds);
    int64_t at = 0;
    ASSERT_EQ(info->skipped, skipped);
    ASSERT_EQ(info->gaps, gaps);
    ASSERT_EQ(info->count, __builtin_popcount(has));
    for (int64_t i = 0; i < COUNT; i++) {
        unsigned char x[BYTES];
        if (!(has >> i & 1))
            continue;
        ASSERT_EQ(test_label(ds, at), i);
        test_sample(ds, "x", at++, x);
        for (int k = 0; k < BYTES; k++)
            ASSERT_EQ(x[k], (unsigned char)(i * 17 + k));
    }
}

static const unsigned all = (1U << COUNT) - 1;

TEST(damaged_data_lose_a_record)
{
    int64_t each;
    size_t n;
    unsigned char *bytes = make("set", &each, &n);
    char text[200];
    bytes[4 * each + 30] ^= 1;
    bytes[7 * each + each - 1] ^= 128; /* its checksum */
    test_write("set", bytes, n);
    lk_dataset *ds = records_open("path=%s damaged=skip", test_path("set"));
    expect(ds, all & ~(1U << 4) & ~(1U << 7), 2, 0);
    lk_dataset_free(ds);
    ds = records_open("path=%s", test_path("set"));
    snprintf(text, sizeof text,
             "set: record 4, offset %lld: the checksum of its %lld bytes is wrong",
             (long long)(4 * each), (long long)each - 16);
    ASSERT_FAILS(test_read_all(ds), LK_EIO, text);
    lk_dataset_free(ds);
    free(bytes);
}

/* A gap goes on to the next place where a whole record stands. */
TEST(damaged_lengths_lose_what_is_there)
{
    int64_t each;
    size_t n;
    unsigned char *bytes = make("set", &each, &n);
    bytes[3 * each + 1] ^= 1;
    test_write("set", bytes, n);
    lk_dataset *ds = records_open("path=%s damaged=skip", test_path("set"));
    expect(ds, all & ~(1U << 3), 0, 1);
    lk_dataset_free(ds);
    lk_dataset *none;
    char options[300], text[200];
    snprintf(options, sizeof options, "path=%s", test_path("set"));
    snprintf(text, sizeof text,
             "set: record 3, offset %lld: the checksum of the record's length is wrong",
             (long long)(3 * each));
    ASSERT_FAILS(lk_dataset_open("tfrecord", options, LK_TRAIN, &none), LK_EIO, text);
    bytes[3 * each + 1] ^= 1;
    /* two in a row are one gap, the first and the last are gaps of their own, and damaged data behind a gap
     * are found by nobody */
    bytes[0] ^= 8;
    bytes[5 * each + 9] ^= 8;
    bytes[6 * each + 9] ^= 8;
    bytes[11 * each + 2] ^= 8;
    test_write("set", bytes, n);
    ds = records_open("path=%s damaged=skip", test_path("set"));
    expect(ds, all & ~(1U | 1U << 5 | 1U << 6 | 1U << 11), 0, 3);
    lk_dataset_free(ds);
    free(bytes);
}

/* A length with a right checksum that no file can have. */
TEST(absurd_lengths_are_gaps)
{
    int64_t each;
    size_t n;
    for (int shift = 0; shift < 64; shift += 7) {
        unsigned char *bytes = make("set", &each, &n), *head = bytes + 2 * each;
        uint64_t length = UINT64_MAX >> shift;
        if (shift == 63) /* no data */
            length = 0;
        for (int i = 0; i < 8; i++)
            head[i] = (unsigned char)(length >> 8 * i);
        uint32_t c = lk_crc32c(0, head, 8), masked = (c >> 15 | c << 17) + 0xa282ead8U;
        for (int i = 0; i < 4; i++)
            head[8 + i] = (unsigned char)(masked >> 8 * i);
        test_write("set", bytes, n);
        int64_t peak = lk_alloc_stats_now().peak_bytes;
        lk_dataset *ds = records_open("path=%s damaged=skip", test_path("set"));
        /* what the length spans is passed over as one record; then the next whole one is looked for */
        bool inside = length <= (uint64_t)(10 * each) - 16;
        int64_t lost = inside ? ((int64_t)length + 16 - 1) / each + 1 : 1;
        bool boundary = inside && ((int64_t)length + 16) % each == 0;
        expect(ds, all & ~(((1U << lost) - 1) << 2), inside, !boundary);
        lk_dataset_free(ds);
        ASSERT_TRUE(lk_alloc_stats_now().peak_bytes - peak < 2 << 20);
        free(bytes);
    }
}

TEST(what_lies_between_and_behind_records_is_a_gap)
{
    int64_t each;
    size_t n;
    unsigned char *bytes = make("set", &each, &n), *more = calloc(1, n + 300000);
    memcpy(more, bytes, (size_t)(6 * each));
    memcpy(more + 6 * each + 200000, bytes + 6 * each, n - (size_t)(6 * each)); /* zeros between */
    memcpy(more + n + 200000, "rubbish", 7);
    test_write("set", more, n + 200007);
    lk_dataset *ds = records_open("path=%s damaged=skip", test_path("set"));
    expect(ds, all, 0, 2);
    lk_dataset_free(ds);
    for (size_t cut = n - 1; cut > n - (size_t)each; cut -= 5) {
        test_write("set", bytes, cut);
        ds = records_open("path=%s damaged=skip", test_path("set"));
        expect(ds, all >> 1, 0, 1);
        lk_dataset_free(ds);
    }
    free(more);
    free(bytes);
    char options[300];
    lk_dataset *none;
    snprintf(options, sizeof options, "path=%s damaged=skip", test_write("set", "rubbish", 7));
    ASSERT_FAILS(lk_dataset_open("tfrecord", options, LK_TRAIN, &none), LK_EIO,
                 "set: there is no whole record in it");
}

/* Every bit is under a checksum: whichever changes, what is read is what was written, or left out. */
TEST(no_bit_changes_a_sample)
{
    int64_t each;
    size_t n;
    unsigned char *bytes = make("set", &each, &n);
    for (size_t bit = 0; bit < 8 * n; bit += 3) {
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        test_write("set", bytes, n);
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        lk_dataset *ds = records_open("path=%s damaged=skip", test_path("set"));
        int64_t record = (int64_t)bit / 8 / each, at = (int64_t)bit / 8 % each;
        expect(ds, all & ~(1U << record), at >= 12, at < 12);
        lk_dataset_free(ds);
    }
    free(bytes);
}

/* The hash tells a set with a hole from one that never had the record, and holes from gaps. */
TEST(what_is_left_out_is_in_the_hash)
{
    int64_t each;
    size_t n;
    unsigned char *bytes = make("set", &each, &n);
    uint64_t whole = records_hash(records_open("path=%s", test_path("set")));
    ASSERT_EQ(records_hash(records_open("path=%s damaged=skip", test_path("set"))), whole);
    test_write("short", bytes, (size_t)(11 * each));
    uint64_t without = records_hash(records_open("path=%s damaged=skip", test_path("short")));
    bytes[11 * each + 20] ^= 1;
    test_write("hole", bytes, n);
    uint64_t hole = records_hash(records_open("path=%s damaged=skip", test_path("hole")));
    bytes[11 * each + 3] ^= 1;
    test_write("gap", bytes, n);
    uint64_t gap = records_hash(records_open("path=%s damaged=skip", test_path("gap")));
    ASSERT_TRUE(whole != without && without != hole && hole != gap && without != gap);
    free(bytes);
}

TEST(damaged_packed_files_end_early)
{
    int64_t each;
    size_t n;
    char command[600];
    if (!lk__inflate_built())
        return;
    unsigned char *bytes = make("set", &each, &n);
    bytes[4 * each + 30] ^= 1;
    test_write("set", bytes, n);
    snprintf(command, sizeof command, "gzip -kf '%s'", test_path("set"));
    ASSERT_EQ(system(command), 0);
    free(bytes);
    lk_dataset *ds = records_open("path=%s damaged=skip", test_path("set.gz"));
    expect(ds, all & ~(1U << 4), 1, 0);
    lk_dataset_free(ds);
    bytes = test_read(test_path("set.gz"), &n);
    for (size_t cut = n - 1; cut > 60; cut -= 7) {
        test_write("cut.gz", bytes, cut);
        char options[300];
        snprintf(options, sizeof options, "path=%s damaged=skip", test_path("cut.gz"));
        if (lk_dataset_open("tfrecord", options, LK_TRAIN, &ds) != LK_OK) {
            ASSERT_TRUE(strstr(lk_error_message(), "no whole record"));
            lk_error_clear();
            continue;
        }
        int64_t count = lk_dataset_info_of(ds)->count, bad = lk_dataset_info_of(ds)->skipped;
        ASSERT_TRUE(bad ? bad == 1 && count >= 4 : count <= 4);
        expect(ds, ((1U << (count + bad)) - 1) & ~(bad ? 1U << 4 : 0), bad, 1);
        lk_dataset_free(ds);
        snprintf(options, sizeof options, "path=%s", test_path("cut.gz"));
        ASSERT_FAILS(lk_dataset_open("tfrecord", options, LK_TRAIN, &ds), LK_EIO, "cut.gz");
    }
    free(bytes);
}

/* Wherever a packed file with a damaged length ends early, it has the samples and the gaps that it has as a
 * stream: damage that goes on to the end is one gap. */
TEST(streams_miss_what_sets_miss)
{
    int64_t each;
    size_t n;
    char command[600], options[300];
    lk_dataset *ds;
    int seen = 0; /* gaps of which there were one, and two */
    if (!lk__inflate_built())
        return;
    unsigned char *bytes = make("set", &each, &n);
    bytes[3 * each + 1] ^= 1;
    test_write("set", bytes, n);
    free(bytes);
    snprintf(command, sizeof command, "gzip -kf '%s'", test_path("set"));
    ASSERT_EQ(system(command), 0);
    bytes = test_read(test_path("set.gz"), &n);
    for (size_t cut = n - 1; cut > 0; cut--) {
        test_write("cut.gz", bytes, cut);
        snprintf(options, sizeof options, "path=%s damaged=skip", test_path("cut.gz"));
        if (records_try(options, &ds) != LK_OK) {
            lk_error_clear();
            break;
        }
        seen |= (int)lk_dataset_info_of(ds)->gaps;
        uint64_t whole = records_hash(ds);
        ASSERT_EQ(records_hash(records_open("%s stream=true", options)), whole);
    }
    ASSERT_EQ(seen, 3);
    free(bytes);
}

static lk_status open_damaged(void)
{
    char options[300];
    lk_dataset *ds;
    snprintf(options, sizeof options, "path=%s damaged=skip", test_path("hole"));
    LK_TRY(lk_dataset_open("tfrecord", options, LK_TRAIN, &ds));
    lk_status st = test_read_all(ds);
    lk_dataset_free(ds);
    return st;
}

TEST(failed_allocations_leave_nothing)
{
    ASSERT_TRUE(test_every_allocation_fails(open_damaged) >= 10);
}
