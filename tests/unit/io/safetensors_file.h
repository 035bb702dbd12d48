/* Safetensors in memory, for tests. */
#ifndef LK_TEST_SAFETENSORS_FILE_H
#define LK_TEST_SAFETENSORS_FILE_H

#include "data/bytes.h"
#include "harness.h"
#include "io/safetensors/safetensors.h"

/* A file of a header and `data` bytes of data, which are 0, 1, 2, ...; on the heap, exactly as long
 * as it is, so that a sanitizer sees what lies beyond. */
static inline unsigned char *file_make(const char *header, size_t data, size_t *n)
{
    size_t length = strlen(header);
    unsigned char *bytes = malloc(8 + length + data);
    *n = 8 + length + data;
    lk__put_le(bytes, 8, length);
    memcpy(bytes + 8, header, length);
    for (size_t i = 0; i < data; i++)
        bytes[8 + length + i] = (unsigned char)i;
    return bytes;
}

static inline lk_status file_parse(const void *bytes, size_t n, lk_safetensors **out)
{
    lk__source *source;
    *out = NULL;
    LK_TRY(lk__source_memory("x", bytes, (int64_t)n, &source));
    return lk__safetensors_parse(source, out);
}

#define ONE "\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}"
#define TWO "\"b\":{\"dtype\":\"U8\",\"shape\":[2,1],\"data_offsets\":[4,6]}"

#endif /* LK_TEST_SAFETENSORS_FILE_H */
