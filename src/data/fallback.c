/* Finding the files of known datasets: see fallback.h. */
#include "data/fallback.h"

#include "base/env.h"
#include "base/log.h"
#include "data/source.h"

#include <inttypes.h>

bool lk__datasets_find(const char *name, char *buf)
{
    const char *folder = lk__env("LK_DATASETS");
    int n = snprintf(buf, LK_PATH_SIZE, "%s/%s",
                     folder && folder[0] ? folder : "/usr/share/datasets", name);
    return n < LK_PATH_SIZE && lk__path_is_folder(buf);
}

lk_status lk__glyphs_instead(const char *name, const char *shape, int64_t count, int64_t test_count,
                             lk_split split, lk_dataset **out)
{
    *out = NULL;
    if (split == LK_TRAIN && lk__log_leads())
        lk_log_write(LK_LOG_WARN,
                     "%s: no path is given and the set is not installed: generated glyphs take its "
                     "place",
                     name);
    char text[128];
    snprintf(text, sizeof text, "shape=%s count=%" PRId64 " test_count=%" PRId64, shape, count,
             test_count);
    return LK_TRACE(lk_dataset_open("glyphs", text, split, out));
}
