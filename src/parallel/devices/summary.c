/* What a parallel model looks like, for people: print_mgpu_modelsummary of keras_experiments.  The program
 * asks for it, on its thread.
 */
#include "parallel/devices/replicas.h"

#include <stdarg.h>
#include <stdio.h>

lk_range lk_parallel_model_slice(const lk_parallel_model *p, int64_t samples, int64_t shard_size,
                                 int i)
{
    if (i < 0 || i >= p->n || samples <= 0)
        return (lk_range){0, 0};
    int64_t size = shard_size > 0 ? shard_size : samples, shards = (samples - 1) / size + 1;
    lk_range mine = lk_range_split(shards, i, p->n);
    if (p->sync && p->n > 1) {
        lk_subtree_partition(shards, p->n, p->first);
        mine = (lk_range){p->first[i], p->first[i + 1] - p->first[i]};
    }
    int64_t from = mine.first * size, end = from + mine.n * size;
    return (lk_range){from, mine.n > 0 ? (end < samples ? end : samples) - from : 0};
}

/* A text of any length, of which `size` bytes are kept. */
typedef struct page {
    char *buf;
    size_t size;
    int64_t n;
} page;

static void page_add(page *p, const char *format, ...) LK_PRINTF(2, 3);

static void page_add(page *p, const char *format, ...)
{
    va_list args;
    size_t at = (size_t)p->n < p->size ? (size_t)p->n : p->size;
    va_start(args, format);
    int n = vsnprintf(p->size > at ? p->buf + at : NULL, p->size - at, format, args);
    va_end(args);
    p->n += n > 0 ? n : 0;
}

static void device_add(page *out, const lk_parallel_model *p, int64_t samples, int64_t shard_size,
                       int i)
{
    lk_range slice = lk_parallel_model_slice(p, samples, shard_size, i);
    page_add(out, "  %-12s ", p->n_devices > 0 ? p->device[i].name : "here");
    if (slice.n > 0)
        page_add(out, "samples %lld to %lld\n", (long long)slice.first,
                 (long long)(slice.first + slice.n - 1));
    else
        page_add(out, "no samples\n");
}

static void layers_add(page *out, const lk_model *model)
{
    int64_t params = 0;
    page_add(out, "%-24s %-16s %-16s %12s\n", "layer", "type", "output", "parameters");
    for (int64_t i = 0; i < lk_model_layers(model); i++) {
        lk_layer_info info;
        if (lk_model_layer(model, i, &info) != LK_OK) {
            lk_error_clear();
            continue;
        }
        page_add(out, "%*s%-*s %-16s %-16s %12lld\n", 2 * info.depth, "",
                 24 - (info.depth < 12 ? 2 * info.depth : 24), info.name, info.type,
                 lk_shape_text(info.out.shape).s, (long long)info.params);
        params += info.params;
    }
    page_add(out, "%lld parameters in one copy, %lld bytes\n", (long long)params,
             (long long)lk_slab_layout_bytes(lk_model_layout(model)));
}

int64_t lk_parallel_model_summary(const lk_parallel_model *p, int64_t samples, int64_t shard_size,
                                  char *buf, size_t size)
{
    page out = {buf, buf ? size : 0, 0};
    page_add(&out, "%s on %d device%s%s, a batch of %lld:\n", p->model ? "model" : "function",
             p->n_devices, p->n_devices == 1 ? "" : "s", p->crew ? "" : ", serial",
             (long long)samples);
    for (int i = 0; i < p->n; i++)
        device_add(&out, p, samples, shard_size, i);
    if (p->model)
        layers_add(&out, p->model);
    return out.n;
}
