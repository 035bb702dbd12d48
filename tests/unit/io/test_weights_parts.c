/* Models that hold a part of themselves read it out of files of any form, in the memory of the part. */
#include "data/packed/zip.h"
#include "data_files.h"
#include "dist/checkpoints/held_models.h"
#include "faults.h"

#include <sys/wait.h>

enum { SEED = 5 };

static const held_size small = {16, 40};

/* ---- the same weights in files of all forms ---- */

static void put(unsigned char **at, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++, value >>= 8)
        *(*at)++ = (unsigned char)value;
}

/* The fields that the local header and the directory have in common. */
static void put_member(unsigned char **at, const lk__zip_member *m, int64_t packed)
{
    put(at, 20, 2); /* version */
    put(at, 0, 2);
    put(at, 8, 2); /* deflated */
    put(at, 0, 4);
    put(at, m->crc, 4);
    put(at, (uint64_t)packed, 4);
    put(at, (uint64_t)m->size, 4);
    put(at, strlen(m->name), 2);
    put(at, 0, 2);
}

/* Deflate, without a compressor: blocks of up to 65535 bytes as they are. */
static void put_deflated(unsigned char **at, const unsigned char *bytes, int64_t n)
{
    for (int64_t k; n > 0; bytes += k, n -= k) {
        k = n < 65535 ? n : 65535;
        put(at, k == n, 1);
        put(at, (uint64_t)k, 2);
        put(at, ~(uint64_t)k, 2);
        memcpy(*at, bytes, (size_t)k);
        *at += k;
    }
}

/* An archive with its members deflated. */
static void archive_deflate(const char *from, const char *to)
{
    size_t n;
    lk__source *s;
    lk__zip z;
    unsigned char *bytes = test_read(from, &n), *out = malloc(2 * n + 4096), *at = out;
    int64_t place[64], packed[64];
    ASSERT_OK(lk__source_open(from, &s));
    ASSERT_OK(lk__zip_open(s, &z));
    ASSERT_TRUE(z.n <= 64);
    for (int64_t i = 0; i < z.n; i++) {
        const lk__zip_member *m = &z.member[i];
        int64_t offset;
        lk__source *unpacked;
        ASSERT_OK(lk__zip_load(&z, m, &offset, &unpacked));
        place[i] = at - out;
        packed[i] = m->size + 5 * ((m->size + 65534) / 65535);
        put(&at, 0x04034b50, 4);
        put_member(&at, m, packed[i]);
        memcpy(at, m->name, strlen(m->name));
        at += strlen(m->name);
        put_deflated(&at, bytes + offset, m->size);
    }
    int64_t directory = at - out;
    for (int64_t i = 0; i < z.n; i++) {
        put(&at, 0x02014b50, 4);
        put(&at, 20, 2);
        put_member(&at, &z.member[i], packed[i]);
        put(&at, 0, 2); /* comment, disk, attributes */
        put(&at, 0, 8);
        put(&at, (uint64_t)place[i], 4);
        memcpy(at, z.member[i].name, strlen(z.member[i].name));
        at += strlen(z.member[i].name);
    }
    int64_t end = at - out;
    put(&at, 0x06054b50, 4);
    put(&at, 0, 4);
    put(&at, (uint64_t)z.n, 2);
    put(&at, (uint64_t)z.n, 2);
    put(&at, (uint64_t)(end - directory), 4);
    put(&at, (uint64_t)directory, 4);
    put(&at, 0, 2);
    FILE *f = fopen(to, "wb");
    ASSERT_TRUE(f && fwrite(out, 1, (size_t)(at - out), f) == (size_t)(at - out) && fclose(f) == 0);
    lk__zip_close(&z);
    lk__source_free(s);
    free(bytes);
    free(out);
}

static void checkpoint_make(const held_model *h, const char *path)
{
    lk_checkpoint_dir *c;
    lk_state state = {.tensor = h->all->tensor, .n_tensors = h->all->n};
    lk_checkpoint_dir_options o = {.part_bytes = 4096, .keep = 1};
    ASSERT_OK(lk_checkpoint_dir_open(NULL, path, &o, &c));
    ASSERT_OK(lk_checkpoint_dir_save(c, &state));
    lk_checkpoint_dir_close(c);
}

/* Files of one model, in all forms; returns how many. */
static int files_make(held_size size, bool large, char path[5][300])
{
    held_model h = held_make(size, SEED, (lk_range){0, HELD_BLOCKS}, false);
    lk_tensors *t;
    int n = 0;
    snprintf(path[n++], 300, "%s", test_path(large ? "large.safetensors" : "w.safetensors"));
    snprintf(path[n++], 300, "%s", test_path(large ? "large.npz" : "w.npz"));
    snprintf(path[n++], 300, "%s", test_path(large ? "large" : "w"));
    snprintf(path[n++], 300, "%s", test_path(large ? "large64.safetensors" : "w64.safetensors"));
    ASSERT_OK(lk_weights_save(NULL, h.model, path[0], NULL, 0));
    ASSERT_OK(lk_tensors_load(path[0], &t));
    ASSERT_OK(lk_tensors_save(path[1], t->tensor, t->n, NULL, 0));
    checkpoint_make(&h, path[2]);
    for (int64_t i = 0; i < t->n; i++) {
        lk_tensor *wide;
        ASSERT_OK(lk_tensor_clone(t->tensor[i].tensor, LK_F64, &wide));
        lk_tensor_free(t->tensor[i].tensor);
        t->tensor[i].tensor = wide;
    }
    ASSERT_OK(lk_tensors_save(path[3], t->tensor, t->n, NULL, 0));
    lk_tensors_free(t);
    if (lk__inflate_built()) {
        snprintf(path[n++], 300, "%s", test_path(large ? "large_d.npz" : "w_d.npz"));
        archive_deflate(path[1], path[4]);
    }
    held_free(&h);
    return n;
}

static held_model other_make(held_size size, lk_range blocks)
{
    held_model h = held_make(size, SEED + 1, blocks, false);
    lk_slab_zero(lk_model_state(h.model));
    return h;
}

/* An eighth of 10 MiB is read with an eighth more, and a chunk; in another dtype, with its largest tensor.
 * This comes first, and another process makes the files: the peak is that of the process so far. */
TEST(loading_takes_the_memory_of_what_is_held)
{
    enum { MIB = 1 << 20 };
    static const char *const names[] = {"large.safetensors", "large.npz", "large", "large_d.npz",
                                        "large64.safetensors"};
    const held_size large = {256, 8192};
    int status;
    (void)test_folder();
    pid_t child = fork();
    if (child == 0) {
        char path[5][300];
        (void)files_make(large, true, path);
        _exit(0);
    }
    ASSERT_TRUE(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    for (int i = 0; i < 5; i++) {
        const char *path = test_path(names[i]);
        if (i == 3 && !lk__inflate_built())
            continue;
        held_model h = other_make(large, (lk_range){3, 1});
        int64_t held = lk_alloc_stats_now().live_bytes;
        int64_t most = 2 * held + (i == 4 ? 2 * MIB : 0) + MIB + MIB / 4;
        ASSERT_TRUE(held > 5 * MIB / 4);
        ASSERT_OK(lk_weights_load(h.model, path));
        int64_t peak = lk_alloc_stats_now().peak_bytes;
        if (peak > most)
            TEST_FAIL("%s: %lld bytes, not %lld", path, (long long)peak, (long long)most);
        held_expect(&h, large, SEED, (lk_range){3, 1});
        held_free(&h);
    }
}

TEST(any_part_comes_out_of_any_file)
{
    char path[5][300];
    int n = files_make(small, false, path);
    for (int i = 0; i < n; i++)
        for (int size = 1; size <= HELD_BLOCKS; size++)
            for (int rank = 0; rank < size; rank++) {
                lk_range blocks = held_blocks(rank, size);
                held_model h = other_make(small, blocks);
                ASSERT_OK(lk_weights_load(h.model, path[i]));
                held_expect(&h, small, SEED, blocks);
                held_free(&h);
            }
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

/* One byte of an element that this part does not hold is wrong: what has checksums is refused. */
TEST(a_damaged_file_changes_no_part)
{
    char path[5][300];
    int files = files_make(small, false, path);
    for (int i = 1; i < files; i += 3) {
        size_t n;
        unsigned char *bytes = test_read(path[i], &n);
        bytes[n / 2] ^= 1;
        held_model h = other_make(small, (lk_range){6, 1}),
                   same = other_make(small, (lk_range){6, 1});
        ASSERT_FAILS(lk_weights_load(h.model, test_write("damaged.npz", bytes, n)), LK_EIO,
                     "damaged.npz: offset ");
        for (int64_t k = 0; k < h.all->n; k++)
            ASSERT_SAME_BITS(h.all->tensor[k].data, same.all->tensor[k].data,
                             lk_box_count(h.all->tensor[k].box) * 4);
        held_free(&h);
        held_free(&same);
        free(bytes);
    }
}

static const char *the_path;
static held_model the_model;

static lk_status load(void)
{
    return lk_weights_load(the_model.model, the_path);
}

TEST(every_allocation_may_fail)
{
    char path[5][300];
    int n = files_make(small, false, path);
    the_model = other_make(small, (lk_range){2, 3});
    for (int i = 0; i < n; i++) {
        if (i == 2) /* of a folder without memory to list it, it is said that it holds none */
            strcat(path[i], "/step-000000000000");
        the_path = path[i];
        ASSERT_TRUE(test_every_allocation_fails(load) > 20);
    }
    held_free(&the_model);
}
