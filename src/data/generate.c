/* Generated datasets: kept in memory if they are small, made sample by sample if not. */
#include "data/generate.h"

#include "data/dataset.h"

#include <lockstep/extra/alloc.h>

enum { KEEP = 256 << 20 };

static lk_status generator_row(void *context, int64_t index, void *const *row)
{
    const lk__generator *g = context;
    LK_TRY(g->sample(g, index, row));
    return LK_OK;
}

static void generator_free(void *context)
{
    lk_free(context);
}

lk_status lk__generate(const lk__generator *g, const struct lk__generated *options, lk_split split,
                       lk_dataset **out)
{
    *out = NULL;
    int64_t count = split == LK_TRAIN ? options->count : options->test_count;
    if (split == LK_VALIDATION || count == 0)
        return LK_OK;
    lk__generator *own;
    LK_TRY(lk_alloc(&own, 1, sizeof *own));
    *own = *g;
    own->info.count = count;
    own->noise = options->noise;
    own->rng = lk_rng_start(options->seed, g->info.name, lk_split_name(split));
    lk_status st = lk_dataset_new(&own->info, generator_row, generator_free, own, out);
    if (st != LK_OK) {
        lk_free(own);
        return st;
    }
    int64_t bytes = 0;
    for (int f = 0; f < g->info.n_fields; f++)
        bytes += lk__field_bytes(&g->info.field[f]);
    if (bytes > KEEP / count)
        return LK_OK;
    lk_dataset *kept;
    st = lk__dataset_load(*out, &kept);
    lk_dataset_free(*out);
    *out = kept;
    return st;
}
