/* lk__file_text(): all of a file, for the report of a run, on rank 0.  What cannot be read is left out of the
 * report, and is no failure. */
#include "train/run/text.h"

#include "data/source.h"

#include <lockstep/extra/alloc.h>

#include <string.h>

char *lk__file_text(const char *path)
{
    lk__source *source = NULL;
    char *text = NULL, *terminated = NULL;
    if (!path || lk__source_open(path, &source) != LK_OK) {
        lk_error_clear();
        return NULL;
    }
    int64_t n = lk__source_size(source);
    if (lk__source_load(source, 0, n, "the text", &text) == LK_OK &&
        lk_alloc_zero(&terminated, n + 1, 1) == LK_OK)
        memcpy(terminated, text, (size_t)n);
    else
        lk_error_clear();
    lk_free(text);
    lk__source_free(source);
    return terminated;
}
