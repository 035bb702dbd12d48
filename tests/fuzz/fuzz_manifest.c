/* The MANIFEST of a checkpoint.  Byte 0 is even: the rest is one.  Odd: the rest is one without its
 * last line, which is put behind it with the right checksum, so that the members are reached.  What
 * is read has tensors that fill their parts, and says the same when it is written and read again. */
#include "fuzz.h"
#include "io/checkpoint/checkpoint.h"

#include <lockstep/extra/crc32c.h>

static void check_places(const lk_checkpoint *c)
{
    for (int64_t i = 0; i < c->n_tensors; i++) {
        const lk_checkpoint_tensor *t = &c->tensor[i];
        FUZZ_CHECK(t->part >= 0 && t->part < c->n_parts && t->offset >= 0 && t->bytes >= 0);
        FUZZ_CHECK(t->offset + t->bytes <= c->part[t->part].bytes);
        FUZZ_CHECK(!strchr(c->part[t->part].file, '/'));
    }
    for (int64_t i = 0; i < c->n_parts; i++)
        FUZZ_CHECK(lk__part_begin(c, i) < lk__part_begin(c, i + 1));
}

static void read_manifest(const char *bytes, size_t n)
{
    lk_checkpoint *c, *again;
    lk__out first = {0}, second = {0};
    fuzz_check_status(lk__manifest_parse("input", bytes, (int64_t)n, &c));
    if (!c)
        return;
    check_places(c);
    lk__manifest_put(&first, c);
    FUZZ_CHECK(first.st == LK_OK);
    FUZZ_CHECK(lk__manifest_parse("again", first.text, first.n, &again) == LK_OK);
    lk__manifest_put(&second, again);
    FUZZ_CHECK(first.n == second.n && memcmp(first.text, second.text, (size_t)first.n) == 0);
    lk_checkpoint_free(c);
    lk_checkpoint_free(again);
    lk_free(first.text);
    lk_free(second.text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 0 && data[0] % 2 == 0) {
        char *file = malloc(size); /* of its size, so that a sanitizer sees what lies beyond */
        memcpy(file, data + 1, size - 1);
        read_manifest(file, size - 1);
        free(file);
    } else if (size > 0) {
        enum { TAIL = 20 };
        char *file = malloc(size - 1 + TAIL + 1);
        memcpy(file, data + 1, size - 1);
        snprintf(file + size - 1, TAIL + 1, "\"check\":\"%08x\"}\n",
                 (unsigned)lk_crc32c(0, file, size - 1));
        read_manifest(file, size - 1 + TAIL);
        free(file);
    }
    fuzz_check_memory();
    return 0;
}
