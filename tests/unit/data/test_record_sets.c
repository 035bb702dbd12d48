/* Sets of records in many files: which files they are, packed ones, threads that read, records of any size. */
#include "data/packed/inflate.h"
#include "faults.h"
#include "record_sets.h"

#include <pthread.h>
#include <sys/resource.h>

/* Samples [first, end): x is [2][3][1] of bytes that count up, y the number of the sample modulo 5; as
 * others write them, without a note. */
static const char *foreign(const char *file, int64_t first, int64_t end)
{
    const int64_t two = 2, three = 3, one = 1;
    lk__sink *s;
    ASSERT_OK(lk__sink_open(test_path(file), &s));
    for (int64_t i = first; i < end; i++) {
        unsigned char x[6];
        int64_t y = i % 5;
        for (int k = 0; k < 6; k++)
            x[k] = (unsigned char)(i * 6 + k);
        const lk__feature_out f[] = {
            {"depth", LK_FEATURE_INTS, &one, 1},   {"height", LK_FEATURE_INTS, &two, 1},
            {"image_raw", LK_FEATURE_BYTES, x, 6}, {"label", LK_FEATURE_INTS, &y, 1},
            {"name", LK_FEATURE_BYTES, "any", 3},  {"width", LK_FEATURE_INTS, &three, 1}};
        record_append(s, f, 6);
    }
    ASSERT_OK(lk__sink_close(s));
    return test_path(file);
}

TEST(a_folder_a_pattern_and_a_list_are_one_set)
{
    uint64_t want = records_hash(records_open("path=%s", foreign("all", 0, 23)));
    ASSERT_EQ(mkdir(test_path("folder"), 0777), 0);
    foreign("folder/b-10.tfrecord", 7, 7); /* names, not numbers: 10 comes before 2 */
    foreign("folder/b-2.tfrecord", 7, 20);
    foreign("folder/B.tfrecord", 0, 7); /* bytes, not letters */
    foreign("folder/c.tfrecords", 20, 23);
    foreign("folder/c.tfrecord.part", 0, 5);
    foreign("folder/other", 0, 5);
    foreign("folder/.hidden.tfrecord", 0, 5);
    ASSERT_EQ(records_hash(records_open("path=%s", test_path("folder"))), want);
    ASSERT_EQ(records_hash(records_open("path=%s/*.tfrecord*", test_path("folder"))), want);
    ASSERT_EQ(records_hash(records_open("path=%s/[bBc]*.tfrecord*", test_path("folder"))), want);
    ASSERT_EQ(records_hash(records_open("path=%s/[bB]*d,%s", test_path("folder"),
                                        test_path("folder/c.tfrecords"))),
              want);
    /* the names of a folder's files end so */
    foreign("folder/c.tfrecord.bak", 0, 5);
    foreign("folder/c.tfrecordings", 0, 5);
    ASSERT_EQ(records_hash(records_open("path=%s", test_path("folder"))), want);
    /* in a list, files are in the order it has */
    lk_dataset *ds = records_open("path=%s,%s", test_path("folder/c.tfrecords"), test_path("all"));
    ASSERT_EQ(lk_dataset_info_of(ds)->count, 26);
    ASSERT_EQ(test_label(ds, 1), 21 % 5);
    ASSERT_EQ(test_label(ds, 3), 0);
    lk_dataset_free(ds);
    /* a path that exists is meant as it is */
    ASSERT_EQ(records_hash(records_open("path=%s", foreign("a,b*", 0, 23))), want);
    RECORDS_REFUSED(LK_EIO, "none-*: there is no such file or folder; it is a file, a folder",
                    "path=%s/none-*", test_folder());
    RECORDS_REFUSED(LK_EIO, "gone/a-*: there is no such file or folder", "path=%s/a-*",
                    test_path("gone"));
    RECORDS_REFUSED(LK_EIO, "all/a-*: there is no such file or folder", "path=%s/a-*",
                    test_path("all"));
    RECORDS_REFUSED(LK_EIO, "/gone: there is no such file or folder", "path=%s,%s",
                    test_path("all"), test_path("gone"));
    RECORDS_REFUSED(LK_EINVAL, "nothing stands between two commas", "path=%s,", test_path("all"));
    ASSERT_EQ(mkdir(test_path("bare"), 0777), 0);
    RECORDS_REFUSED(LK_EIO, "bare: no file in this folder has a name that ends in .tfrecord",
                    "path=%s", test_path("bare"));
    RECORDS_REFUSED(LK_EIO, "there is no record in it", "path=%s",
                    test_path("folder/b-10.tfrecord"));
}

TEST(numbered_files_are_complete)
{
    ASSERT_EQ(mkdir(test_path("numbered"), 0777), 0);
    foreign("numbered/t-00000-of-00003.tfrecord", 0, 4);
    foreign("numbered/t-00002-of-00003.tfrecord", 8, 12);
    RECORDS_REFUSED(LK_EIO, "t-00001-of-00003.tfrecord is missing: ", "path=%s",
                    test_path("numbered"));
    RECORDS_REFUSED(LK_EIO, "t-00001-of-00003.tfrecord is missing: ", "path=%s/t-*",
                    test_path("numbered"));
    /* who names some has some */
    lk_dataset *ds = records_open("path=%s/t-0000[02]-*", test_path("numbered"));
    ASSERT_EQ(lk_dataset_info_of(ds)->count, 8);
    lk_dataset_free(ds);
    foreign("numbered/t-00001-of-00003.tfrecord", 4, 8);
    lk_dataset_free(records_open("path=%s", test_path("numbered")));
    foreign("numbered/t-00000-of-00001.tfrecord", 0, 4);
    RECORDS_REFUSED(LK_EIO, "they are not of one set", "path=%s/t-*", test_path("numbered"));
    /* as others number them, and what is no number */
    ASSERT_EQ(mkdir(test_path("tfds"), 0777), 0);
    foreign("tfds/m-train.tfrecord-00000-of-00002", 0, 4);
    foreign("tfds/one-of-us.tfrecord", 0, 4);
    RECORDS_REFUSED(LK_EIO, "m-train.tfrecord-00001-of-00002 is missing", "path=%s",
                    test_path("tfds"));
}

/* How many samples a set of a folder has; -1: it has no such set. */
static int64_t samples_of(const char *folder, lk_split split)
{
    char options[1000];
    lk_dataset *ds;
    snprintf(options, sizeof options, "path=%s", test_path(folder));
    ASSERT_OK(lk_dataset_open("tfrecord", options, split, &ds));
    int64_t count = ds ? lk_dataset_info_of(ds)->count : -1;
    lk_dataset_free(ds);
    return count;
}

TEST(names_of_a_folder_tell_its_sets_apart)
{
    ASSERT_EQ(mkdir(test_path("sets"), 0777), 0);
    foreign("sets/train-00000-of-00002.tfrecord", 0, 4);
    foreign("sets/train-00001-of-00002.tfrecord", 4, 8);
    ASSERT_EQ(samples_of("sets", LK_TRAIN), 8); /* of one kind: all of them */
    ASSERT_EQ(samples_of("sets", LK_TEST), -1);
    foreign("sets/test.tfrecord", 8, 11);
    ASSERT_EQ(samples_of("sets", LK_TRAIN), 8);
    ASSERT_EQ(samples_of("sets", LK_VALIDATION), -1);
    ASSERT_EQ(samples_of("sets", LK_TEST), 3);
    foreign("sets/validation.tfrecord.gz", 11, 13); /* plain, which its bytes say */
    ASSERT_EQ(samples_of("sets", LK_TRAIN), 8);
    ASSERT_EQ(samples_of("sets", LK_VALIDATION), 2);
    /* `test` names other files, of a folder with several sets those of its own */
    lk_dataset *ds;
    char options[1000];
    snprintf(options, sizeof options, "path=%s test=%s", foreign("all", 0, 23), test_path("sets"));
    ASSERT_OK(lk_dataset_open("tfrecord", options, LK_TEST, &ds));
    ASSERT_EQ(lk_dataset_info_of(ds)->count, 3);
    lk_dataset_free(ds);
    /* who names a file or a pattern means it */
    ds = records_open("path=%s/t*", test_path("sets"));
    ASSERT_EQ(lk_dataset_info_of(ds)->count, 11);
    lk_dataset_free(ds);
    foreign("sets/more.tfrecord", 0, 5);
    RECORDS_REFUSED(LK_EIO, "test.tfrecord is not for training, and more.tfrecord may be",
                    "path=%s", test_path("sets"));
    /* as others name them, where a word of the set's name begins as one of ours */
    ASSERT_EQ(mkdir(test_path("words"), 0777), 0);
    foreign("words/testbed-Train.tfrecord-00000-of-00001", 0, 7);
    foreign("words/testbed-test.tfrecord-00000-of-00001", 7, 9);
    ASSERT_EQ(samples_of("words", LK_TRAIN), 7);
    ASSERT_EQ(samples_of("words", LK_TEST), 2);
    ASSERT_EQ(mkdir(test_path("no_train"), 0777), 0);
    foreign("no_train/val.tfrecord", 0, 7);
    foreign("no_train/test.tfrecord", 7, 9);
    RECORDS_REFUSED(LK_EIO, "no_train: by their names its files are for other sets, none for train",
                    "path=%s", test_path("no_train"));
    ASSERT_EQ(mkdir(test_path("unlike"), 0777), 0);
    foreign("unlike/latest.tfrecord", 0, 7); /* no word begins so */
    foreign("unlike/train.tfrecord", 7, 9);
    ASSERT_EQ(samples_of("unlike", LK_TRAIN), 9);
}

TEST(files_that_hold_the_same_are_refused)
{
    ASSERT_EQ(mkdir(test_path("twice"), 0777), 0);
    foreign("twice/a.tfrecord", 0, 4);
    foreign("twice/a.tfrecord.gz", 0, 4);
    foreign("twice/b-00000-of-00001.tfrecord", 0, 4);
    const char *const paths[] = {"twice", "twice/a*"};
    for (size_t i = 0; i < 2; i++) {
        RECORDS_REFUSED(LK_EIO, "twice/a.tfrecord and ", "path=%s", test_path(paths[i]));
        RECORDS_REFUSED(LK_EIO, "twice/a.tfrecord.gz: both are", "path=%s", test_path(paths[i]));
        RECORDS_REFUSED(LK_EIO, "twice/a.tfrecord, packed and plain", "path=%s",
                        test_path(paths[i]));
    }
    ASSERT_EQ(remove(test_path("twice/a.tfrecord.gz")), 0);
    ASSERT_EQ(samples_of("twice", LK_TRAIN), 8);
    foreign("twice/b.tfrecord", 0, 4);
    RECORDS_REFUSED(LK_EIO, "twice/b-00000-of-00001.tfrecord and ", "path=%s", test_path("twice"));
    RECORDS_REFUSED(LK_EIO, "twice/b.tfrecord, in several files and in one", "path=%s",
                    test_path("twice"));
}

/* ---- packed files ---- */

/* The bytes of a file as zlib wraps them, without packing them: 78 01, one stored block, Adler-32. */
static const char *wrapped(const char *from, const char *to)
{
    size_t n;
    uint32_t a = 1, b = 0;
    unsigned char *in = test_read(from, &n), *out = malloc(n + 11);
    ASSERT_TRUE(n < 65536);
    const unsigned char head[] = {0x78,
                                  1,
                                  1,
                                  (unsigned char)n,
                                  (unsigned char)(n >> 8),
                                  (unsigned char)~n,
                                  (unsigned char)(~n >> 8)};
    memcpy(out, head, sizeof head);
    memcpy(out + sizeof head, in, n);
    for (size_t i = 0; i < n; i++) {
        a = (a + in[i]) % 65521;
        b = (b + a) % 65521;
    }
    for (int i = 0; i < 4; i++)
        out[n + 7 + (size_t)i] = (unsigned char)((b << 16 | a) >> (24 - 8 * i));
    test_write(to, out, n + 11);
    free(in);
    free(out);
    return test_path(to);
}

TEST(packed_files_are_told_by_their_bytes)
{
    char command[600];
    if (!lk__inflate_built())
        return;
    uint64_t want = records_hash(records_open("path=%s", foreign("plain", 0, 23)));
    snprintf(command, sizeof command, "gzip -c '%s' >'%s'", test_path("plain"),
             test_path("zipped"));
    ASSERT_EQ(system(command), 0);
    ASSERT_EQ(records_hash(records_open("path=%s", test_path("zipped"))), want);
    ASSERT_EQ(records_hash(records_open("path=%s", wrapped(test_path("plain"), "wrapped"))), want);
    /* one that is packed beside one that is not */
    foreign("a.tfrecord", 0, 10);
    foreign("b.tfrecord", 10, 23);
    wrapped(test_path("b.tfrecord"), "c.tfrecord");
    ASSERT_EQ(
        records_hash(records_open("path=%s,%s", test_path("a.tfrecord"), test_path("c.tfrecord"))),
        want);
    /* a record of 40056 bytes begins as zlib does: 78 9c */
    unsigned char *x = calloc(1, 40056);
    lk__feature_out f = {"image_raw", LK_FEATURE_BYTES, x, 40056};
    f.n -= lk__example_size(&f, 1) - 40056;
    ASSERT_EQ(lk__example_size(&f, 1), 40056);
    lk_dataset *ds = records_open("path=%s", records_write("like", &f, 1));
    ASSERT_EQ(lk_dataset_info_of(ds)->count, RECORDS);
    lk_dataset_free(ds);
    free(x);
}

/* With the number of classes known, opening looks at lengths and at the first record. */
TEST(checksums_are_checked_when_records_are_read)
{
    size_t n;
    int64_t value;
    const char *path = foreign("damaged", 0, 9);
    unsigned char *bytes = test_read(path, &n);
    int64_t each = (int64_t)n / 9;
    bytes[5 * each + 40] ^= 4;
    test_write("damaged", bytes, n);
    free(bytes);
    char text[100];
    snprintf(text, sizeof text, "damaged: record 5, offset %lld: the checksum of its %lld bytes",
             (long long)(5 * each), (long long)each - 16);
    RECORDS_REFUSED(LK_EIO, text, "path=%s", path); /* all labels are read */
    lk_dataset *ds = records_open("path=%s classes=5", path);
    lk_tensor *t[2] = {NULL, NULL};
    ASSERT_OK(lk_tensor_wrap(LK_I64, LK_SHAPE(1), &value, NULL, NULL, &t[1]));
    for (int again = 0; again < 2; again++)
        for (int64_t i = 8; i >= 0; i--)
            if (i == 5)
                ASSERT_FAILS(lk_dataset_read(ds, &i, 1, t), LK_EIO, text);
            else
                ASSERT_OK(lk_dataset_read(ds, &i, 1, t));
    lk_tensor_free(t[1]);
    lk_dataset_free(ds);
}

/* ---- reading from several threads, and with few open files ---- */

enum { THREADS = 5, SAMPLES = 60 };

struct readers {
    lk_dataset *ds;
    int number;
};

static void *read_some(void *arg)
{
    const struct readers *r = arg;
    for (int64_t k = 0; k < INT64_C(4) * SAMPLES; k++) {
        int64_t step = 2 * r->number + 1, i = k * step % SAMPLES, y;
        unsigned char x[6];
        test_sample(r->ds, "x", i, x);
        test_sample(r->ds, "y", i, &y);
        for (int b = 0; b < 6; b++)
            ASSERT_EQ(x[b], (unsigned char)(i * 6 + b));
        ASSERT_EQ(y, i % 5);
    }
    return NULL;
}

TEST(threads_read_one_set)
{
    ASSERT_EQ(mkdir(test_path("threads"), 0777), 0);
    for (int i = 0; i < 12; i++) {
        char name[60];
        snprintf(name, sizeof name, "threads/%c.tfrecord", 'a' + i);
        foreign(name, INT64_C(5) * i, INT64_C(5) * i + 5);
    }
    struct rlimit limit, few;
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    for (int scarce = 0; scarce < 2; scarce++) {
        few = limit;
        few.rlim_cur = 16; /* eight are held open, the others are not */
        if (scarce)
            ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
        lk_dataset *ds = records_open("path=%s", test_path("threads"));
        pthread_t thread[THREADS];
        struct readers r[THREADS];
        for (int t = 0; t < THREADS; t++) {
            r[t] = (struct readers){ds, t};
            ASSERT_EQ(pthread_create(&thread[t], NULL, read_some, &r[t]), 0);
        }
        for (int t = 0; t < THREADS; t++)
            ASSERT_EQ(pthread_join(thread[t], NULL), 0);
        if (scarce) { /* what is opened again must be the same */
            foreign("threads/l.tfrecord", 0, 5);
            int64_t last = SAMPLES - 1, y;
            lk_tensor *t[2] = {NULL, NULL};
            ASSERT_OK(lk_tensor_wrap(LK_I64, LK_SHAPE(1), &y, NULL, NULL, &t[1]));
            ASSERT_FAILS(lk_dataset_read(ds, &(int64_t){0}, 1, t) == LK_OK
                             ? lk_dataset_read(ds, &last, 1, t)
                             : LK_OK,
                         LK_EIO, "l.tfrecord: the file was changed since it was opened");
            lk_tensor_free(t[1]);
        }
        lk_dataset_free(ds);
        ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    }
}

/* Records that no cursor can hold are read through for their checksum, then by parts. */
TEST(large_records_are_read_by_parts)
{
    enum { BYTES = 300000 };
    unsigned char *x = malloc(BYTES), *back = malloc(BYTES);
    for (int i = 0; i < BYTES; i++)
        x[i] = (unsigned char)(i * 7 % 253);
    const int64_t label = 3;
    const lk__feature_out f[] = {{"image_raw", LK_FEATURE_BYTES, x, BYTES},
                                 {"label", LK_FEATURE_INTS, &label, 1}};
    const char *path = records_write("large", f, 2);
    lk_dataset *ds = records_open("path=%s shape=300,1000", path);
    for (int64_t i = RECORDS - 1; i >= 0; i--) {
        test_sample(ds, "x", i, back);
        ASSERT_SAME_BITS(back, x, BYTES);
        ASSERT_EQ(test_label(ds, i), 3);
    }
    lk_dataset_free(ds);
    size_t n;
    unsigned char *file = test_read(path, &n);
    file[n - 5] ^= 1;
    test_write("large", file, n);
    free(file);
    ds = records_open("path=%s classes=5", path);
    int64_t last = RECORDS - 1, y;
    lk_tensor *t[2] = {NULL, NULL};
    ASSERT_OK(lk_tensor_wrap(LK_I64, LK_SHAPE(1), &y, NULL, NULL, &t[1]));
    for (int again = 0; again < 2; again++)
        ASSERT_FAILS(lk_dataset_read(ds, &last, 1, t), LK_EIO, "large: record 3, offset ");
    lk_tensor_free(t[1]);
    lk_dataset_free(ds);
    free(x);
    free(back);
}

static lk_status open_and_read(void)
{
    char options[600];
    lk_dataset *ds;
    snprintf(options, sizeof options, "path=%s/[ab].tfrecord,%s", test_path("threads"),
             test_path("all"));
    LK_TRY(records_try(options, &ds));
    lk_status st = test_read_all(ds);
    lk_dataset_free(ds);
    return st;
}

TEST(failed_allocations_leave_nothing)
{
    ASSERT_TRUE(test_every_allocation_fails(open_and_read) >= 12);
}
