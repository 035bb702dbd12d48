/* Generated datasets: kept in memory if they are small, made sample by sample if not.  Those that are made
 * box by box are kept only when whole samples are read: who reads boxes has no room for them.
 */
#include "data/generate.h"

#include "data/dataset.h"

#include <lockstep/extra/alloc.h>

#include <pthread.h>

enum { KEEP = 256 << 20 };

struct generated {
    lk__generator g;
    bool keeps;
    pthread_mutex_t lock;
    lk_dataset *kept; /* all samples, once they are made; of the lock */
};

static lk_status generator_row(void *context, int64_t index, void *const *row)
{
    const lk__generator *g = context;
    return LK_TRACE(g->sample(g, index, row));
}

static lk_status generator_load(lk__generator *g, lk_dataset **out)
{
    lk_dataset *made;
    *out = NULL;
    LK_TRY(lk_dataset_new(&g->info, generator_row, NULL, g, &made));
    lk_status st = lk__dataset_load(made, out);
    lk_dataset_free(made);
    return LK_TRACE(st);
}

static lk_status generated_row(void *context, int64_t index, void *const *row)
{
    struct generated *s = context;
    lk_status st = LK_OK;
    if (s->keeps) {
        pthread_mutex_lock(&s->lock);
        if (!s->kept)
            st = generator_load(&s->g, &s->kept);
        const lk_dataset *kept = s->kept;
        pthread_mutex_unlock(&s->lock);
        LK_TRY(st);
        return LK_TRACE(lk__dataset_row(kept, index, row));
    }
    return LK_TRACE(s->g.sample(&s->g, index, row));
}

static lk_status generated_box(void *context, int64_t index, int field, const lk_box *box,
                               void *out)
{
    struct generated *s = context;
    pthread_mutex_lock(&s->lock);
    const lk_dataset *kept = s->kept;
    pthread_mutex_unlock(&s->lock);
    if (kept)
        LK_TRY(lk__dataset_box(kept, index, field, box, out));
    else
        LK_TRY(s->g.box(&s->g, index, field, box, out));
    return LK_OK;
}

static void generated_free(void *context)
{
    struct generated *s = context;
    lk_dataset_free(s->kept);
    pthread_mutex_destroy(&s->lock);
    lk_free(s);
}

lk_status lk__generate(const lk__generator *g, const struct lk__generated *options, lk_split split,
                       lk_dataset **out)
{
    *out = NULL;
    lk__generator own = *g;
    own.info.count = split == LK_TRAIN ? options->count : options->test_count;
    own.noise = options->noise;
    own.rng = lk_rng_start(options->seed, g->info.name, lk_split_name(split));
    if (split == LK_VALIDATION || own.info.count == 0)
        return LK_OK;
    int64_t bytes = 0;
    for (int f = 0; f < g->info.n_fields; f++)
        bytes += lk__field_bytes(&g->info.field[f]);
    bool keeps = bytes <= KEEP / own.info.count;
    if (keeps && !g->box) {
        LK_TRY(generator_load(&own, out));
        lk__dataset_set_generated(*out);
        return LK_OK;
    }
    struct generated *s;
    LK_TRY(lk_alloc_zero(&s, 1, sizeof *s));
    s->g = own;
    s->g.info.in_memory = s->keeps = keeps;
    pthread_mutex_init(&s->lock, NULL);
    lk_status st = lk_dataset_new_boxes(&s->g.info, generated_row, g->box ? generated_box : NULL,
                                        generated_free, s, out);
    if (st != LK_OK)
        generated_free(s);
    else
        lk__dataset_set_generated(*out);
    return st;
}
