/* Memory of zlib, from lk_alloc() as all other: for the files that include <zlib.h>. */
#ifndef LK_DATA_ZLIB_MEMORY_H
#define LK_DATA_ZLIB_MEMORY_H

#include <lockstep/extra/alloc.h>

static inline void *lk__zlib_alloc(void *context, unsigned items, unsigned bytes)
{
    (void)context;
    void *block;
    if (lk_alloc(&block, (int64_t)items, bytes) != LK_OK)
        return NULL;
    return block;
}

static inline void lk__zlib_free(void *context, void *block)
{
    (void)context;
    lk_free(block);
}

#endif /* LK_DATA_ZLIB_MEMORY_H */
