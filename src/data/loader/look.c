/* The getters of an lk_loader: its dataset, batch and shard sizes, and the seed, which can be set.
 * On the loader's thread. */
#include "data/loader/loader.h"

lk_dataset *lk_loader_dataset(const lk_loader *l)
{
    return l->ds;
}

int64_t lk_loader_batches(const lk_loader *l)
{
    return (l->info->count - 1) / l->options.batch + 1;
}

int64_t lk_loader_batch_size(const lk_loader *l, int64_t number)
{
    int64_t left = l->info->count - number * l->options.batch;
    return left < l->options.batch ? left : l->options.batch;
}

int64_t lk_loader_shard_size(const lk_loader *l)
{
    return (l->options.batch - 1) / l->options.shards + 1;
}

int64_t lk_loader_shards(const lk_loader *l)
{
    return lk_loader_options_shards(&l->options);
}

int64_t lk_loader_seed(const lk_loader *l)
{
    return l->seed;
}

void lk_loader_set_seed(lk_loader *l, int64_t seed)
{
    lk__loader_pause(l);
    lk__buffers_drop(l);
    l->seed = seed;
    l->shuffle = lk_rng_start(seed, "data", "shuffle");
    l->crop = lk_rng_start(seed, "data", "crop");
    l->flip = lk_rng_start(seed, "data", "flip");
}
