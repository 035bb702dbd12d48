/* Backend and set of a neon recipe. */
#include "neon/neon.h"

#include <string.h>

static void backend_read(neon_recipe *r, const lk_recipe_node *node)
{
    const char *name = neon_class(r, node);
    r->backend = node;
    r->is_double = strcmp(name, "Numpy64") == 0;
    if (!r->is_double && strcmp(name, "Numpy") != 0) {
        neon_issue(r, node->line, node->column,
                   "class %s is not known as a backend; Numpy and Numpy64 are",
                   node->class_name ? node->class_name : "(none)");
        return;
    }
    neon_keys(r, node, "the backend", "rng_seed seterr_handling");
    r->has_seed = neon_whole(r, node, "rng_seed", 0, &r->seed);
    if (lk_recipe_find(node, "seterr_handling"))
        neon_note(r, "seterr_handling is NumPy's and is left out; values that are not finite end a "
                     "training with an error.");
}

void neon_take_backend(neon_recipe *r, const lk_recipe_node *map)
{
    const lk_recipe_entry *e = lk_recipe_find(map, "backend");
    const lk_recipe_node *node = neon_map(r, map, "backend");
    if (node && !r->backend)
        backend_read(r, node);
    else if (node && node != r->backend)
        neon_issue(r, e->line, e->column,
                   "a second backend, besides the one in line %lld: an experiment has one",
                   (long long)r->backend->line);
}

/* ---- the set ---- */

static const struct set_class {
    const char *name, *keys;
    neon_set set;
    neon_shape image;
    int64_t classes;
} set_classes[] = {
    {"MNIST",
     "dist_flag dist_mode backend repo_path sample_pct serialized_path batch_size num_test_sample",
     NEON_MNIST,
     {28, 28, 1},
     10},
    {"CIFAR10",
     "dist_flag dist_mode backend repo_path sample_pct serialized_path batch_size num_test_sample",
     NEON_CIFAR10,
     {32, 32, 3},
     10},
    {"ToyImages",
     "dist_flag backend repo_path sample_pct serialized_path batch_size",
     NEON_TOY,
     {32, 32, 3},
     2}};

/* Before November 2014 there was dist_flag alone, and it meant tiles. */
static void mode_read(neon_recipe *r, const lk_recipe_node *set)
{
    static const char *const names[] = {"halopar", "vecpar", "datapar", "1"};
    static const neon_mode modes[] = {NEON_HALOPAR, NEON_VECPAR, NEON_DATAPAR, NEON_VECPAR};
    const lk_recipe_entry *e = lk_recipe_find(set, "dist_mode");
    const char *text;
    bool flag = false;
    (void)neon_flag(r, set, "dist_flag", &flag);
    neon_mode mode = NEON_HALOPAR;
    if (neon_text(r, set, "dist_mode", &text)) {
        size_t i = 0;
        while (i < 4 && strcmp(text, names[i]) != 0)
            i++;
        if (i == 4)
            neon_issue(r, e->line, e->column,
                       "value \"%.100s\" of key \"dist_mode\" is not known; halopar, vecpar and "
                       "datapar are",
                       text);
        else
            mode = modes[i];
    }
    r->mode = flag ? mode : NEON_NO_MODE;
}

static void sample_read(neon_recipe *r, const lk_recipe_node *set)
{
    double percent;
    if (!neon_real(r, set, "sample_pct", 0, &percent))
        return;
    const lk_recipe_entry *e = lk_recipe_find(set, "sample_pct");
    if (percent > 1 && percent <= 100)
        r->share = percent < 100 ? percent / 100 : 0;
    else
        neon_issue(r, e->line, e->column,
                   "value %g of key \"sample_pct\": only from above 1 to 100 it is certain that it "
                   "is per cent",
                   percent);
}

/* The path with .cache for .pkl at its end, so that none of neon's files is in the way. */
static const char *cache_path(neon_recipe *r, const char *path)
{
    static const char pickle[] = ".pkl", cache[] = ".cache";
    size_t n = strlen(path), tail = sizeof pickle - 1;
    char *out;
    if (n < tail || strcmp(path + n - tail, pickle) != 0)
        return path;
    lk_status st = lk_arena_alloc(r->arena, &out, (int64_t)(n + sizeof cache), 1);
    if (st != LK_OK) {
        r->status = st;
        return path;
    }
    memcpy(out, path, n - tail);
    memcpy(out + n - tail, cache, sizeof cache);
    return out;
}

static void cache_read(neon_recipe *r, const lk_recipe_node *set)
{
    const char *path;
    if (!neon_text(r, set, "serialized_path", &path))
        return;
    bool by_rank = strstr(path, "{rank}") && strstr(path, "{size}");
    if (r->mode == NEON_HALOPAR && by_rank) {
        r->cache = cache_path(r, path);
        neon_note(r, "serialized_path is data.cache: {rank} becomes the number of the tile, and "
                     "{size} the grid, such as 2x2, 1 on one rank. The folder must be there; "
                     "neon's own files are not read.");
    } else {
        neon_note(r,
                  "serialized_path %s is left out: it is not by {rank} and {size} of tiles. "
                  "data.cache=FILE makes a cache.",
                  path);
    }
}

static void files_read(neon_recipe *r, const lk_recipe_node *set, const struct set_class *c)
{
    if (c->set == NEON_TOY) {
        neon_note(r, "ToyImages are `shapes` here: circles and ellipses too, 128 to train on and "
                     "128 to test with, but not the same images.");
        return;
    }
    neon_need(r, set, c->name, "repo_path");
    if (!neon_text(r, set, "repo_path", &r->folder))
        return;
    neon_note(r, "data.path is the folder that holds %s; neon's may be below repo_path.",
              c->set == NEON_MNIST ? "train-images-idx3-ubyte and so on, plain or .gz"
                                   : "data_batch_1.bin and so on, the binary form of CIFAR-10");
    if (r->folder[0] == '~')
        neon_note(r, "~ is not replaced: write the whole path.");
}

static void set_read(neon_recipe *r, const lk_recipe_node *set)
{
    const char *name = neon_class(r, set);
    const struct set_class *c = NULL;
    for (size_t i = 0; i < sizeof set_classes / sizeof *set_classes; i++)
        if (strcmp(set_classes[i].name, name) == 0)
            c = &set_classes[i];
    if (!c) {
        neon_issue(r, set->line, set->column,
                   "class %s is not known as a set; MNIST, CIFAR10 and ToyImages are",
                   set->class_name ? set->class_name : "(none)");
        return;
    }
    r->set = c->set;
    r->image = c->image;
    r->classes = c->classes;
    neon_keys(r, set, c->name, c->keys);
    neon_take_backend(r, set);
    mode_read(r, set);
    sample_read(r, set);
    files_read(r, set, c);
    cache_read(r, set);
    (void)neon_whole(r, set, "batch_size", 1, &r->set_batch);
    int64_t tested;
    if (neon_whole(r, set, "num_test_sample", 1, &tested))
        neon_note(r,
                  "num_test_sample %lld is left out: all samples of the test set are evaluated, "
                  "they need not fill batches.",
                  (long long)tested);
}

void neon_take_data(neon_recipe *r, const lk_recipe_node *experiment)
{
    const lk_recipe_entry *list = lk_recipe_find(experiment, "datasets");
    const lk_recipe_entry *one = lk_recipe_find(experiment, "dataset");
    if (list && list->value->type == LK_RECIPE_LIST && list->value->n > 0) {
        for (const lk_recipe_entry *e = list->value->first->next; e; e = e->next)
            neon_issue(r, e->line, e->column, "a second set: an experiment has one");
        one = list->value->first;
    } else if (list || !one) {
        neon_issue(r, list ? list->line : experiment->line,
                   list ? list->column : experiment->column,
                   "key \"datasets\" must be a list of one set");
        return;
    }
    if (one->value->type == LK_RECIPE_MAP)
        set_read(r, one->value);
    else
        neon_issue(r, one->line, one->column, "a set must be !obj:MODULE.CLASS with a map");
}
