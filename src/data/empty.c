/* Empty datasets: a number of samples and no fields, so that nothing is ever read.  For ranks that take
 * part in steps over a set whose values are on other ranks (ChainerMN's create_empty_dataset): positions,
 * sizes and order of its batches are those of the set that it stands for.
 */
#include "data/empty.h"

#include "data/dataset.h"

lk_status lk__dataset_new_empty(int64_t samples, lk_dataset **out)
{
    lk_dataset_info info = {.name = "empty", .count = samples, .in_memory = true};
    return LK_TRACE(lk__dataset_new_any(&info, NULL, NULL, NULL, NULL, out));
}

lk_status lk_dataset_new_empty_like(const lk_dataset *like, lk_dataset **out)
{
    *out = NULL;
    LK_CHECK(like, LK_EINVAL, "the dataset to count is NULL");
    return LK_TRACE(lk__dataset_new_empty(lk_dataset_info_of(like)->count, out));
}
