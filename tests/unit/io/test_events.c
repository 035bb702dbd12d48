/* Event files: the bytes of the published format, records that others can read at any moment. */
#include "data/records/tfrecord.h"
#include "data_files.h"
#include "faults.h"
#include "io/tfevents.h"

#include <time.h>

/* Both made by a program that knows the formats alone; the first 12 bytes of the first are those of
 * every event file that TensorFlow writes. */
static const unsigned char version[40] = {
    0x18, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xa3, 0x7f, 0x4b, 0x22, 0x09, 0x00,
    0x00, 0x20, 0x40, 0xfc, 0x54, 0xd9, 0x41, 0x1a, 0x0d, 0x62, 0x72, 0x61, 0x69, 0x6e,
    0x2e, 0x45, 0x76, 0x65, 0x6e, 0x74, 0x3a, 0x32, 0x2b, 0x35, 0x31, 0x10};
static const unsigned char scalars[60] = {
    0x2c, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xf4, 0xae, 0xcc, 0x45, 0x09, 0x00, 0x00,
    0x20, 0x40, 0xfc, 0x54, 0xd9, 0x41, 0x10, 0xac, 0x02, 0x2a, 0x1e, 0x0a, 0x11, 0x0a, 0x0a,
    0x74, 0x72, 0x61, 0x69, 0x6e, 0x2f, 0x6c, 0x6f, 0x73, 0x73, 0x15, 0x00, 0x00, 0x00, 0x3f,
    0x0a, 0x09, 0x0a, 0x02, 0x6c, 0x72, 0x15, 0x00, 0x00, 0xc0, 0x7f, 0x0f, 0x7b, 0x10, 0x13};
static const lk_scalar given[] = {{"train/loss", 0.5}, {"lr", (double)NAN}};

static void expect_record(const lk__out *message, const unsigned char *want, int64_t n)
{
    unsigned char head[LK_TFRECORD_HEAD], tail[LK_TFRECORD_TAIL];
    ASSERT_OK(message->st);
    ASSERT_EQ(message->n, n - 16);
    lk__tfrecord_frame(message->text, message->n, head, tail);
    ASSERT_SAME_BITS(head, want, 12);
    ASSERT_SAME_BITS(message->text, want + 12, message->n);
    ASSERT_SAME_BITS(tail, want + n - 4, 4);
}

TEST(records_have_the_bytes_of_the_published_format)
{
    lk__out o = {0};
    lk__tfevents_version(&o, 1700000000.5);
    expect_record(&o, version, sizeof version);
    lk__out_clear(&o);
    lk__tfevents_scalars(&o, 1700000000.5, 300, given, 2);
    expect_record(&o, scalars, sizeof scalars);
    lk__out_clear(&o);
    lk__tfevents_scalars(&o, 1700000000.5, 0, given, 0); /* no step, an empty summary */
    ASSERT_EQ(o.n, 11);
    ASSERT_SAME_BITS(o.text + 9, "\x2a\x00", 2);
    lk_free(o.text);
}

/* Record `i` of a file: its data in `buf`; returns the length, -1 behind the last. */
static int64_t record_at(const char *path, int i, unsigned char *buf, size_t size)
{
    lk__source *s;
    int64_t at = 0, n = 0, next = 0, result = -1;
    ASSERT_OK(lk__source_open(path, &s));
    for (int k = 0; k <= i && next < lk__source_size(s); k++) {
        ASSERT_OK(lk__tfrecord_find(s, 0, next, &at, &n, &next));
        if (k == i) {
            ASSERT_TRUE(n <= (int64_t)size);
            ASSERT_OK(lk__tfrecord_check(s, 0, at, n, buf, (int64_t)size));
            result = n;
        }
    }
    lk__source_free(s);
    return result;
}

/* All but the time is as in `want`, which is a record; the time is now. */
static void expect_event(const char *path, int i, const unsigned char *want, int64_t n)
{
    unsigned char buf[256];
    double when;
    ASSERT_EQ(record_at(path, i, buf, sizeof buf), n - 16);
    memcpy(&when, buf + 1, sizeof when);
    ASSERT_TRUE(fabs(when - (double)time(NULL)) < 60 * TEST_SLOWNESS);
    ASSERT_EQ(buf[0], want[12]);
    ASSERT_SAME_BITS(buf + 9, want + 21, n - 16 - 9);
}

TEST(every_event_is_in_the_file_when_the_call_returns)
{
    const char *path = test_path("events.out.tfevents.1");
    unsigned char buf[256];
    lk_tfevents *e;
    ASSERT_OK(lk_tfevents_open(path, false, &e));
    expect_event(path, 0, version, sizeof version);
    ASSERT_EQ(record_at(path, 1, buf, sizeof buf), -1);
    ASSERT_OK(lk_tfevents_add(e, 300, given, 2));
    expect_event(path, 1, scalars, sizeof scalars);
    int64_t calls = lk_alloc_stats_now().calls;
    ASSERT_OK(lk_tfevents_add(e, 300, given, 2));
    ASSERT_EQ(lk_alloc_stats_now().calls, calls);
    expect_event(path, 2, scalars, sizeof scalars);
    ASSERT_OK(lk_tfevents_close(e));
    ASSERT_OK(lk_tfevents_close(NULL));
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

TEST(a_file_goes_on_behind_its_last_whole_record)
{
    const char *path = test_path("cut");
    size_t n, again;
    lk_tfevents *e;
    ASSERT_OK(lk_tfevents_open(path, true, &e)); /* there is none yet */
    ASSERT_OK(lk_tfevents_add(e, 300, given, 2));
    ASSERT_OK(lk_tfevents_close(e));
    unsigned char *whole = test_read(path, &n);
    ASSERT_EQ(n, sizeof version + sizeof scalars);
    for (size_t cut = 0; cut <= n; cut++) {
        test_write("cut", whole, cut);
        ASSERT_OK(lk_tfevents_open(path, true, &e));
        ASSERT_OK(lk_tfevents_add(e, 300, given, 2));
        ASSERT_OK(lk_tfevents_close(e));
        unsigned char *got = test_read(path, &again);
        ASSERT_EQ(again, sizeof version + sizeof scalars + (cut == n ? sizeof scalars : 0));
        free(got);
        expect_event(path, 0, version, sizeof version);
        expect_event(path, 1, scalars, sizeof scalars);
    }
    ASSERT_OK(lk_tfevents_open(path, false, &e)); /* begins anew */
    ASSERT_OK(lk_tfevents_close(e));
    free(whole);
    whole = test_read(path, &n);
    ASSERT_EQ(n, sizeof version);
    free(whole);
    char other[100];
    memset(other, 'x', sizeof other);
    test_write("cut", other, sizeof other);
    ASSERT_FAILS(lk_tfevents_open(path, true, &e), LK_EIO, "no event file begins like this");
    test_expect_file(path, other, sizeof other);
}

TEST(misuse_is_refused)
{
    const char *path = test_path("misuse");
    size_t before, after;
    lk_tfevents *e;
    ASSERT_FAILS(lk_tfevents_open(NULL, false, &e), LK_EINVAL, "path is NULL");
    ASSERT_FAILS(lk_tfevents_open("/nowhere/e", false, &e), LK_EIO,
                 "/nowhere/e: cannot be written");
    ASSERT_OK(lk_tfevents_open(path, false, &e));
    free(test_read(path, &before));
    ASSERT_FAILS(lk_tfevents_add(e, -1, given, 1), LK_EINVAL, "step -1");
    ASSERT_FAILS(lk_tfevents_add(e, 1, &(lk_scalar){"\xff", 1}, 1), LK_EINVAL, "not UTF-8");
    ASSERT_FAILS(lk_tfevents_add(e, 1, &(lk_scalar){NULL, 1}, 1), LK_EINVAL, "NULL");
    free(test_read(path, &after));
    ASSERT_EQ(before, after);
    ASSERT_OK(lk_tfevents_close(e));
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

static lk_status write_events(void)
{
    lk_tfevents *e = NULL;
    LK_TRY(lk_tfevents_open(test_path("faults"), true, &e));
    lk_status st = lk_tfevents_add(e, 1, given, 2);
    lk_status closed = lk_tfevents_close(e);
    return st != LK_OK ? st : closed;
}

TEST(every_allocation_may_fail)
{
    ASSERT_TRUE(test_every_allocation_fails(write_events) > 3);
}

/* The compiler of Protocol Buffers decodes an event by the published messages. */
TEST(protoc_reads_an_event)
{
    static const char schema[] =
        "syntax = \"proto3\";\n"
        "message Value { string tag = 1; oneof value { float simple_value = 2; } }\n"
        "message Summary { repeated Value value = 1; }\n"
        "message Event { double wall_time = 1; int64 step = 2;\n"
        "  oneof what { string file_version = 3; Summary summary = 5; } }\n";
    static const char want[] = "wall_time: 1.5\nstep: 7\nsummary {\n  value {\n    tag: "
                               "\"train/loss\"\n    simple_value: 0.5\n  }\n  value {\n    tag: "
                               "\"zero\"\n    simple_value: 0\n  }\n}\n";
    const lk_scalar two[] = {{"train/loss", 0.5}, {"zero", 0}};
    char command[600];
    lk__out o = {0};
    if (system("protoc --version >/dev/null 2>&1") != 0) {
        printf("there is no protoc\n");
        return;
    }
    lk__tfevents_scalars(&o, 1.5, 7, two, 2);
    ASSERT_OK(o.st);
    test_write("event.proto", schema, strlen(schema));
    test_write("event", o.text, (size_t)o.n);
    snprintf(command, sizeof command, "cd '%s' && protoc --decode=Event event.proto <event >text",
             test_folder());
    ASSERT_EQ(system(command), 0);
    test_expect_file(test_path("text"), want, strlen(want));
    lk_free(o.text);
}
