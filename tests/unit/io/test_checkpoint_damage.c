/* Checkpoints that were cut, changed or mixed up: each is noticed and named, and the older one is
 * loaded in its place. */
#include "checkpoints.h"
#include "data_files.h"
#include "io/checkpoint/checkpoint.h"

#include <lockstep/extra/crc32c.h>

#include <errno.h>
#include <fcntl.h>

enum { FILES = 4 };

static const char *const files[FILES] = {"MANIFEST", "part-00000.safetensors",
                                         "part-00001.safetensors", "part-00002.safetensors"};
static char folder[256];
static lk_checkpoint_dir *open_folder; /* holds steps 1 and 2 */

static char *path_of(int step, const char *file)
{
    static char path[2][512];
    static int next;
    next = !next;
    snprintf(path[next], sizeof path[next], "%s/step-%012d/%s", folder, step, file);
    return path[next];
}

static void folder_new(const char *name)
{
    test_state s;
    lk_checkpoint_dir_options o = test_options(0);
    lk__storage_sync_skip(true);
    snprintf(folder, sizeof folder, "%s", test_path(name));
    ASSERT_OK(lk_checkpoint_dir_open(NULL, folder, &o, &open_folder));
    ASSERT_OK(lk_checkpoint_dir_save(open_folder, test_state_at(&s, 1)));
    ASSERT_OK(lk_checkpoint_dir_save(open_folder, test_state_at(&s, 2)));
}

/* The newest that loads is step 1, and the messages name this file of step 2, and the rest. */
static void expect_older(const char *file, const char *text)
{
    test_state s;
    bool found;
    test_state_at(&s, 999);
    ASSERT_OK(lk_checkpoint_dir_load(open_folder, &s.state, &found));
    ASSERT_TRUE(found);
    test_state_expect(&s, 1);
    const char *messages = lk_checkpoint_dir_messages(open_folder);
    if (!strstr(messages, "step-000000000002 cannot be used and is left out: ") ||
        !strstr(messages, "step-000000000001, which is older, is used instead\n") ||
        !strstr(messages, file) || !strstr(messages, text))
        TEST_FAIL("\"%s\" does not name %s and \"%s\"", messages, file, text);
}

static void expect_newest(void)
{
    test_state s;
    bool found;
    ASSERT_OK(lk_checkpoint_dir_load(open_folder, test_state_at(&s, 999), &found));
    test_state_expect(&s, 2);
    ASSERT_EQ(lk_checkpoint_dir_messages(open_folder)[0], '\0');
}

static void put(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "r+b");
    if (!f || fwrite(bytes, 1, n, f) != n || fflush(f) != 0 ||
        ftruncate(fileno(f), (off_t)n) != 0 || fclose(f) != 0)
        TEST_FAIL("%s cannot be written", path);
}

TEST(files_that_end_too_early_or_late_are_refused)
{
    folder_new("cut");
    for (int i = 0; i < FILES; i++) {
        size_t n;
        unsigned char *bytes = test_read(path_of(2, files[i]), &n);
        for (size_t cut = 0; cut < n; cut += cut % 512 == 0    ? 1
                                             : cut % 512 > 480 ? 512 - cut % 512
                                                               : 31) {
            ASSERT_EQ(truncate(path_of(2, files[i]), (off_t)cut), 0);
            expect_older(files[i], "offset ");
            put(path_of(2, files[i]), bytes, n);
        }
        ASSERT_EQ(truncate(path_of(2, files[i]), (off_t)n + 1), 0);
        expect_older(files[i], "offset ");
        put(path_of(2, files[i]), bytes, n);
        expect_newest();
        ASSERT_EQ(rename(path_of(2, files[i]), test_path("cut/away")), 0);
        expect_older(files[i], strerror(ENOENT));
        ASSERT_EQ(mkdir(path_of(2, files[i]), 0700), 0);
        expect_older(files[i], "is not a file");
        ASSERT_EQ(rmdir(path_of(2, files[i])), 0);
        ASSERT_EQ(rename(test_path("cut/away"), path_of(2, files[i])), 0);
        free(bytes);
    }
    expect_newest();
    lk_checkpoint_dir_close(open_folder);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

/* Of a MANIFEST, read from memory. */
TEST(every_changed_bit_of_a_manifest_is_found)
{
    size_t n;
    lk_checkpoint *c;
    folder_new("memory");
    unsigned char *bytes = test_read(path_of(2, files[0]), &n);
    ASSERT_TRUE(8 * n > 8000);
    for (size_t bit = 0; bit < 8 * n; bit++) {
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        ASSERT_FAILS(lk__manifest_parse("x", (char *)bytes, (int64_t)n, &c), LK_EIO,
                     "x/MANIFEST: offset ");
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    ASSERT_OK(lk__manifest_parse("x", (char *)bytes, (int64_t)n, &c));
    lk_checkpoint_free(c);
    free(bytes);
    lk_checkpoint_dir_close(open_folder);
}

/* Of all files, in their places. */
TEST(changed_bits_are_found)
{
    int flips = 0;
    folder_new("bits");
    for (int i = 0; i < FILES; i++) {
        size_t n;
        unsigned char *bytes = test_read(path_of(2, files[i]), &n);
        int fd = open(path_of(2, files[i]), O_WRONLY);
        ASSERT_TRUE(fd >= 0);
        for (size_t bit = 0; bit < 8 * n; bit += i == 0 ? 97 : 11, flips++) {
            unsigned char bad = (unsigned char)(bytes[bit / 8] ^ 1 << bit % 8);
            ASSERT_EQ(pwrite(fd, &bad, 1, (off_t)(bit / 8)), 1);
            bool in_weight = i == 1 && bit / 8 >= n - sizeof(float[7][11]);
            expect_older(files[i], in_weight ? "tensor \"fc1.weight\"" : "offset ");
            ASSERT_EQ(pwrite(fd, &bytes[bit / 8], 1, (off_t)(bit / 8)), 1);
        }
        close(fd);
        free(bytes);
    }
    ASSERT_TRUE(flips > 600);
    expect_newest();
    lk_checkpoint_dir_close(open_folder);
}

static void copy(const char *from, const char *to)
{
    size_t n;
    unsigned char *bytes = test_read(from, &n);
    put(to, bytes, n);
    free(bytes);
}

/* Whoever looks at a checkpoint refuses the MANIFEST of another step, by whatever path. */
static void expect_step_refused(void)
{
    static const char *const tail[] = {"", "/", "//"};
    char path[600], before[600];
    lk_checkpoint *k;
    lk_tensors *t;
    for (size_t i = 0; i < sizeof tail / sizeof tail[0]; i++) {
        snprintf(path, sizeof path, "%s/step-000000000002%s", folder, tail[i]);
        ASSERT_FAILS(lk_checkpoint_read(path, &k), LK_EIO, "its MANIFEST is that of step 1");
        ASSERT_FAILS(lk_tensors_load(path, &t), LK_EIO, "its MANIFEST is that of step 1");
    }
    ASSERT_OK(lk_checkpoint_read(folder, &k));
    ASSERT_EQ(k->step, 1);
    ASSERT_TRUE(strstr(k->messages, "step-000000000002: its MANIFEST is that of step 1"));
    lk_checkpoint_free(k);
    snprintf(path, sizeof path, "%s/step-000000000002", folder);
    snprintf(before, sizeof before, "%s/before-000000000002", folder);
    ASSERT_EQ(rename(path, before), 0);
    ASSERT_FAILS(lk_checkpoint_read(before, &k), LK_EIO, "its MANIFEST is that of step 1");
    ASSERT_EQ(rename(before, path), 0);
}

TEST(files_of_another_checkpoint_are_refused)
{
    folder_new("mixed");
    for (int i = 0; i < FILES; i++) {
        copy(path_of(2, files[i]), test_write("mixed/kept", "", 0));
        copy(path_of(1, files[i]), path_of(2, files[i]));
        expect_older(i == 0 ? "step-000000000002: its MANIFEST is that of step 1" : files[i],
                     i == 0 ? "" : "checksum");
        if (i == 0)
            expect_step_refused();
        copy(test_path("mixed/kept"), path_of(2, files[i]));
        expect_newest();
    }
    lk_checkpoint_dir_close(open_folder);
}

TEST(when_none_verifies_nothing_is_loaded)
{
    test_state s;
    bool found;
    lk_checkpoint *k;
    folder_new("none");
    ASSERT_EQ(truncate(path_of(1, files[1]), 100), 0);
    ASSERT_EQ(truncate(path_of(2, files[0]), 100), 0);
    test_state_at(&s, 999);
    ASSERT_FAILS(lk_checkpoint_dir_load(open_folder, &s.state, &found), LK_EIO,
                 "none of its 2 checkpoints can be used; the newest:");
    ASSERT_TRUE(!found);
    test_state_expect(&s, 999);
    ASSERT_TRUE(strstr(lk_checkpoint_dir_messages(open_folder), "offset 100: ends here"));
    ASSERT_FAILS(lk_checkpoint_read(folder, &k), LK_EIO, "none of its 2 checkpoints verifies");
    /* LATEST decides nothing. */
    test_write("none/LATEST", "step-000000000001\n", 18);
    ASSERT_OK(lk_checkpoint_dir_save(open_folder, test_state_at(&s, 3)));
    test_write("none/LATEST", "nonsense", 8);
    ASSERT_OK(lk_checkpoint_dir_load(open_folder, &s.state, &found));
    test_state_expect(&s, 3);
    lk_checkpoint_dir_close(open_folder);
}

/* A manifest of these members, with a right checksum. */
static lk_status parse(const char *text)
{
    char all[4096];
    lk_checkpoint *c;
    int n = snprintf(all, sizeof all, "%s,\n", text);
    snprintf(all + n, sizeof all - (size_t)n, "\"check\":\"%08x\"}\n",
             (unsigned)lk_crc32c(0, all, (size_t)n));
    lk_status st = lk__manifest_parse("x", all, (int64_t)strlen(all), &c);
    lk_checkpoint_free(c);
    return st;
}

#define HEAD "{\"format\":\"lockstep checkpoint 1\",\"step\":2,\"identity\":\"0123456789abcdef\","
#define STATE HEAD "\"state\":\"0000000000000000\","
#define PARTS                                                                                      \
    "\"parts\":[{\"file\":\"part-00000.safetensors\",\"bytes\":16,\"xxh64\":\"0000000000000000\"}" \
    "],"
#define TENSOR(name, shape, part, offset, bytes)                                  \
    "{\"name\":\"" name "\",\"dtype\":\"F32\",\"shape\":" shape ",\"part\":" part \
    ",\"offset\":" offset ",\"bytes\":" bytes ",\"crc32c\":\"00000000\"}"
#define REST ",\"numbers\":[],\"facts\":[]"

TEST(manifests_that_lie_are_refused)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"[]", "'{' is missing"},
        {"{\"step\":2", "not in its place"},
        {HEAD "\"state\":\"012345678\"", "hex digits"},
        {HEAD "\"state\":\"0123456789ABCDEF\"", "hex digits"},
        {STATE "\"parts\":[{\"file\":\"../../etc/passwd\"}]", "not named by its number"},
        {STATE "\"parts\":[{\"file\":\"part-00001.safetensors\"}]", "not named by its number"},
        {STATE PARTS "\"tensors\":[]" REST, "parts that tensors do not fill"},
        {STATE "\"parts\":[],\"tensors\":[" TENSOR("a", "[1]", "0", "0", "4") "]" REST,
         "parts that tensors do not fill"},
        {STATE PARTS "\"tensors\":[" TENSOR("a", "[2]", "0", "8", "4") "]" REST,
         "shape and bytes disagree"},
        {STATE PARTS "\"tensors\":[" TENSOR("a", "[4294967296,4294967296]", "0", "8", "0") "]" REST,
         "shape and bytes disagree"},
        {STATE PARTS "\"tensors\":[" TENSOR("a", "[2]", "0", "16", "8") "]" REST,
         "not at its place"},
        {STATE PARTS "\"tensors\":[" TENSOR("a", "[1]", "0", "8", "4") "]" REST,
         "parts that tensors do not fill"},
        {STATE PARTS "\"tensors\":[" TENSOR("a", "[1]", "1", "12", "4") "]" REST,
         "parts that tensors do not fill"},
        {STATE PARTS "\"tensors\":[" TENSOR("a", "[1]", "0", "8",
                                            "4") "," TENSOR("b", "[1]", "0", "8", "4") "]" REST,
         "not at its place"},
        {STATE PARTS "\"tensors\":[" TENSOR("a", "[1,1,1,1,1,1,1,1,1]", "0", "12", "4") "]" REST,
         "more than 8 axes"},
        {STATE "\"parts\":[],\"tensors\":[],\"numbers\":[{\"name\":\"a\",\"type\":\"U8\","
               "\"bits\":\"0000000000000000\",\"value\":\"\"}],\"facts\":[]",
         "neither I64 nor F64"},
        {STATE "\"parts\":[],\"tensors\":[]" REST ",\"more\":1", "not in its place"},
        {STATE "\"hash\":\"2\"", "not a whole number"},
        {STATE "\"hash\":2,\"hash\":2", "not in its place"},
        {STATE "\"hash\":2,\"tensors\":[]" REST, "not in its place"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        ASSERT_FAILS(parse(cases[i].text), LK_EIO, cases[i].message);
    ASSERT_FAILS(parse("{\"format\":\"lockstep checkpoint 2\",\"step\":2"), LK_ENOTSUP,
                 "the format is \"lockstep checkpoint 2\"");
    static const char *const formats[] = {"0", "1", "3", "8589934594"};
    for (int i = 0; i < 4; i++) {
        char text[256], message[128];
        snprintf(text, sizeof text, "%s\"hash\":%s", STATE, formats[i]);
        snprintf(message, sizeof message,
                 "the hash of its state has format %s, this program knows format 2; read it with",
                 formats[i]);
        ASSERT_FAILS(parse(text), LK_ENOTSUP, message);
    }
    ASSERT_OK(parse(STATE "\"hash\":2," PARTS
                          "\"tensors\":[" TENSOR("a", "[1]", "0", "12", "4") "]" REST));
    ASSERT_OK(parse(STATE PARTS "\"tensors\":[" TENSOR("a", "[1]", "0", "12", "4") "]" REST));
    ASSERT_OK(parse(STATE PARTS "\"tensors\":[" TENSOR("a", "[1]", "0", "8", "4") "," TENSOR(
        "b", "[1]", "0", "12", "4") "]" REST));
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}
