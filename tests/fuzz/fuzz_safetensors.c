/* Safetensors.  Byte 0 is even: the rest is a file.  Odd: the rest is a header, a zero byte and data,
 * before which the length is put, so that the header is reached.  What opens has tensors that fill
 * the file one behind the other, can be found and can be read. */
#include "data/bytes.h"
#include "fuzz.h"
#include "io/safetensors/safetensors.h"

static void check_tensor(const lk_safetensors *f, int64_t i, int64_t *at)
{
    lk_safetensors_info info;
    lk_tensor *t;
    int64_t count;
    FUZZ_CHECK(lk_safetensors_at(f, i, &info) == LK_OK);
    FUZZ_CHECK(*at < 0 || info.offset == *at);
    FUZZ_CHECK(lk_shape_count(info.shape, &count) == LK_OK);
    FUZZ_CHECK(info.bytes == count * (int64_t)lk_dtype_size(info.dtype));
    FUZZ_CHECK(lk_safetensors_find(f, info.name) == i);
    FUZZ_CHECK(lk_tensor_new(info.dtype, info.shape, &t) == LK_OK);
    FUZZ_CHECK(lk_safetensors_read(f, i, t) == LK_OK);
    lk_tensor_free(t);
    *at = info.offset + info.bytes;
}

static void read_file(const void *bytes, size_t n)
{
    lk__source *source;
    lk_safetensors *f;
    int64_t at = -1;
    if (lk__source_memory("input", bytes, (int64_t)n, &source) != LK_OK)
        abort();
    fuzz_check_status(lk__safetensors_parse(source, &f));
    for (int64_t i = 0; f && i < lk_safetensors_count(f); i++)
        check_tensor(f, i, &at);
    FUZZ_CHECK(at < 0 || at == (int64_t)n);
    for (int64_t i = 0; f && i < lk_safetensors_metadata_count(f); i++) {
        lk_metadata note;
        FUZZ_CHECK(lk_safetensors_metadata_at(f, i, &note) == LK_OK);
        FUZZ_CHECK(lk_safetensors_metadata(f, note.name) == note.text);
    }
    lk_safetensors_close(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 0 && data[0] % 2 == 0) {
        read_file(data + 1, size - 1);
    } else if (size > 0) {
        const uint8_t *end = memchr(data + 1, 0, size - 1);
        size_t length = end ? (size_t)(end - data - 1) : size - 1;
        size_t rest = end ? size - length - 2 : 0;
        unsigned char *file = malloc(8 + length + rest);
        lk__put_le(file, 8, length);
        memcpy(file + 8, data + 1, length);
        if (rest > 0)
            memcpy(file + 8 + length, end + 1, rest);
        read_file(file, 8 + length + rest);
        free(file);
    }
    fuzz_check_memory();
    FUZZ_CHECK(lk_alloc_stats_now().peak_bytes < 4 << 20);
    return 0;
}
