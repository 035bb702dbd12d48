/* Small sets of files that a loader keeps in memory, all samples at once, so that steps read no file.  The
 * thread that reads batches loads one before the first; the loader's threads look at the samples there.
 *
 * It is a copy, not a map of the files: these may become shorter, or lie on a file system that goes away,
 * and who looks at a map of them then gets a signal instead of an error.
 *
 * Without it all is as before, only slower.  So whatever goes wrong, a damaged file or no memory, leaves the
 * set where it is: reading the sample then fails, at the batch that has it.
 */
#include "base/fpenv.h"
#include "base/memory/memory.h"
#include "data/dataset.h"
#include "data/loader/loader.h"
#include "data/loader/order.h"

enum { MIB = 1 << 20, SHARE = 8 }; /* of the available memory one part in so many */

/* Whether samples are read or decoded each time they are asked for, in any order, and always the same. */
static bool is_read(const lk_dataset *ds)
{
    const lk_dataset_info *info = lk_dataset_info_of(ds);
    return info->n_fields > 0 && info->count > 0 && !info->in_memory && !lk__dataset_has_base(ds) &&
           lk__dataset_stamp(ds) != 0;
}

int64_t lk__keep_bytes(const lk_dataset *ds, const lk_loader_options *o)
{
    const lk_dataset_info *info = lk_dataset_info_of(ds);
    if (o->keep <= 0 || o->cache || !is_read(ds) || lk__order_size(info, o) > 0 ||
        lk__memory_is_limited())
        return 0;
    int64_t most = o->keep < INT64_MAX / MIB ? o->keep * MIB : INT64_MAX, bytes = 0;
    int64_t share = lk__memory_available() / SHARE / (o->ranks > 0 ? o->ranks : 1);
    most = (most < share ? most : share) / info->count;
    for (int f = 0; f < info->n_fields; f++) {
        int64_t more = lk__field_bytes(&info->field[f]);
        if (more > most - bytes)
            return 0;
        bytes += more;
    }
    return bytes * info->count;
}

int64_t lk__keep_loader_bytes(const lk_loader *l)
{
    for (int f = 0; f < l->info->n_fields; f++)
        if (l->boxed[f]) /* a box of a sample is kept for its sake: there may be no room for more */
            return 0;
    return lk__keep_bytes(l->ds, &l->options);
}

void lk__keep_prepare(lk_loader *l)
{
    LK_FP_GUARD();
    if (l->keep_tried)
        return;
    l->keep_tried = true;
    if (lk__keep_loader_bytes(l) == 0)
        return;
    if (lk__fp_check() != LK_OK || lk__dataset_load(l->ds, &l->kept) != LK_OK)
        lk_error_clear();
}

void lk__keep_drop(lk_loader *l)
{
    l->keep_tried = false;
    if (!l->kept)
        return;
    lk__loader_forget(l);
    lk_dataset_free(l->kept);
    l->kept = NULL;
}

const lk_dataset *lk__keep_set(const lk_loader *l)
{
    return l->kept ? l->kept : l->ds;
}
