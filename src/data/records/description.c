/* The description of a set in records that are written here (fields.h): formats/tfrecord.c writes
 * it, and fields.c reads it in the first record of a set.  It comes from a file and is not trusted.
 */
#include "data/format.h"
#include "data/records/fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

lk_status lk__record_description(const lk_dataset_info *info, char out[LK_RECORD_TEXT])
{
    int at = 0;
    for (int f = 0; f < info->n_fields && at < LK_RECORD_TEXT; f++)
        at += snprintf(out + at, (size_t)(LK_RECORD_TEXT - at), "%s%s %s%s", f > 0 ? ", " : "",
                       info->field[f].name, lk_dtype_name(info->field[f].dtype),
                       lk_shape_text(info->field[f].shape).s);
    if (info->classes > 0 && at < LK_RECORD_TEXT)
        at += snprintf(out + at, (size_t)(LK_RECORD_TEXT - at), ", %lld classes",
                       (long long)info->classes);
    LK_CHECK(at < LK_RECORD_TEXT, LK_ENOTSUP,
             "dataset %s: the names of its fields are too long for a record", info->name);
    return LK_OK;
}

/* Behind `word` at the beginning of an item of the note; NULL: no item has it. */
static const char *find_item(const char *description, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = description; at; at = strstr(at, ", ")) {
        at += at > description ? 2 : 0;
        if (strncmp(at, word, n) == 0)
            return at + n;
    }
    return NULL;
}

static bool read_dtype(const char **at, lk_dtype *out)
{
    for (int t = 0; t < LK_N_DTYPES; t++) {
        const char *name = lk_dtype_name((lk_dtype)t);
        size_t n = strlen(name);
        if (strncmp(*at, name, n) == 0 && (*at)[n] == '[') {
            *at += n;
            *out = (lk_dtype)t;
            return true;
        }
    }
    return false;
}

/* "[4,8]" as a shape of less than LK_MAX_NDIM axes. */
static bool read_shape(const char *at, lk_shape *out)
{
    *out = (lk_shape){.ndim = 0};
    if (at[0] == '[' && at[1] == ']')
        return true;
    do {
        char *end;
        long long dim = at[1] >= '0' && at[1] <= '9' ? strtoll(at + 1, &end, 10) : -1;
        if (dim < 0 || dim == INT64_MAX || out->ndim == LK_MAX_NDIM - 1)
            return false;
        out->dim[out->ndim++] = dim;
        at = end;
    } while (*at == ',');
    return *at == ']';
}

bool lk__record_description_field(const char *description, const char *name, lk_dtype *dtype,
                                  lk_shape *shape)
{
    char word[LK_FIELD_NAME + 1];
    lk_dtype found;
    lk_shape is;
    snprintf(word, sizeof word, "%s ", name);
    const char *at = description ? find_item(description, word) : NULL;
    if (!at || !read_dtype(&at, &found) || !read_shape(at, &is))
        return false;
    *dtype = found;
    *shape = is;
    return true;
}

int64_t lk__record_description_classes(const char *description)
{
    size_t n = description ? strlen(description) : 0, tail = strlen(" classes");
    if (n <= tail || strcmp(description + n - tail, " classes") != 0)
        return 0;
    const char *at = description + n - tail;
    while (at > description && at[-1] >= '0' && at[-1] <= '9')
        at--;
    long long classes = strtoll(at, NULL, 10);
    return classes > 0 && classes <= LK_MAX_CLASSES ? classes : 0;
}
