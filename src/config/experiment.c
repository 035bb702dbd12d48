/* lk_experiment: the keys of a file go to their sections, and what tables cannot say is checked.  Made
 * by lk_experiment_read() for jobs and for the command; any thread.
 */
#include "config/bind.h"
#include "config/sections.h"
#include "data/period.h"

#include <lockstep/extra/pipeline.h>
#include <lockstep/extra/suggest.h>
#include <lockstep/metric.h>
#include <lockstep/models.h>
#include <lockstep/nn.h>
#include <lockstep/optim.h>
#include <lockstep/version.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The keys of an experiment that are no options of its table. */
static const char *const section_keys[] = {"data",   "model",  "train",
                                           "phases", "pieces", "parallel"};
enum { MAX_TILES = 4096 }; /* along an axis */
enum { DATA, MODEL, TRAIN, PHASES, PIECES, PARALLEL, N_SECTIONS };

static lk_status unknown_key(const lk__yaml_node *node)
{
    lk_suggestion s = {.wanted = node->key};
    for (int i = 0; i < N_SECTIONS; i++)
        lk_suggest_consider(&s, section_keys[i]);
    for (const lk_option *o = lk__section_experiment.options; o->name; o++)
        lk_suggest_consider(&s, o->name);
    bool near = lk_suggest_found(&s);
    return LK_RAISE_AT(&node->key_place, "unknown key \"%s\" of experiment%s%s%s", node->key,
                       near ? "; did you mean \"" : "", near ? s.best : "", near ? "\"?" : "");
}

/* Move the nodes of sections out of the root, whose table then has the rest. */
static lk_status take_sections(const lk__yaml_node *root, lk__yaml_node *rest,
                               const lk__yaml_node **section, lk_arena *arena)
{
    *rest = *root;
    rest->first = rest->last = NULL;
    rest->n = 0;
    for (const lk__yaml_node *child = root->first; child; child = child->next) {
        int i = 0;
        while (i < N_SECTIONS && strcmp(child->key, section_keys[i]) != 0)
            i++;
        if (i < N_SECTIONS) {
            section[i] = child;
            continue;
        }
        const lk_option *o = lk_option_find(lk__section_experiment.options, child->key);
        if (!o || strcmp(o->name, child->key) != 0)
            return unknown_key(child);
        lk__yaml_node *copy;
        LK_TRY(lk_arena_alloc(arena, &copy, 1, sizeof *copy));
        *copy = *child;
        lk__node_append(rest, copy);
    }
    return LK_OK;
}

/* The place of a key of a map, which may be missing. */
static const lk__yaml_pos *place_in(const lk__yaml_node *map, const char *key,
                                    const lk__yaml_pos *otherwise)
{
    const lk__yaml_node *node = map && map->type == LK__YAML_MAP ? lk__node_find(map, key) : NULL;
    return node ? &node->place : otherwise;
}

static lk_status bind_data(lk_experiment *e, const lk__yaml_node *node)
{
    lk__binding loader = {&lk_loader_descriptor, &e->loader, NULL};
    LK_TRY(lk__bind_config(node, &lk_registry_format, &loader, e->arena, &e->data));
    e->loader.dtype = e->dtype;
    const lk__yaml_node *shards = node->type == LK__YAML_MAP ? lk__node_find(node, "shards") : NULL;
    LK_CHECK_AT(
        !shards || e->loader.shards <= e->loader.batch, &shards->place,
        "shards of format %s must be at most its batch, but %lld are more than %lld samples",
        e->data.descriptor->name, (long long)e->loader.shards, (long long)e->loader.batch);
    return LK_OK;
}

/* A named model, a list of layers, or `chain`: a program brings a chain list, and there are no layers. */
static lk_status bind_model(lk_experiment *e, const lk__yaml_node *node)
{
    const lk__yaml_node *type = node->type == LK__YAML_MAP && node->n == 1 ? node->first : node;
    if (type->type == LK__YAML_SCALAR && strcmp(type->text, "chain") == 0 &&
        (type == node || strcmp(type->key, "type") == 0))
        return LK_OK;
    if (node->type != LK__YAML_LIST) {
        lk_config named;
        LK_TRY(lk__bind_config(node, &lk_registry_model, NULL, e->arena, &named));
        return LK_TRACE(lk_model_expand(&named, e->arena, &e->model));
    }
    LK_CHECK_AT(node->n > 0, &node->place, "model has no layers");
    return lk__bind_configs(node, &lk_registry_layer, e->arena, &e->model);
}

static lk_status read_period(const lk__yaml_node *map, const char *key, const char *what,
                             const lk__yaml_pos *at, const char *text, lk_period *out)
{
    LK_CHECK_AT(lk__period_read(text, out), place_in(map, key, at),
                "%s of %s: \"%s\" is no period, such as \"1 epoch\", \"500 steps\" or \"never\"",
                key, what, text);
    return LK_OK;
}

/* The metric that early stopping looks at is there. */
static lk_status check_early_stop(const lk_experiment *e, const lk__yaml_pos *at)
{
    const char *name = e->train.early_stop.metric;
    bool known = strcmp(name, "loss") == 0;
    for (int64_t i = 0; i < e->metrics.n && !known; i++) {
        const lk_metric *m = (const lk_metric *)(const void *)e->metrics.item[i].descriptor;
        known = strcmp(m->descriptor.name, name) == 0;
        LK_CHECK_AT(!known || m->value, at,
                    "metric of train.early_stop: \"%s\" is a table, without a number to improve",
                    name);
    }
    LK_CHECK_AT(known, at, "metric of train.early_stop: \"%s\" is neither loss nor in metrics",
                name);
    return LK_OK;
}

static lk_status bind_train(lk_experiment *e, const lk__yaml_node *node, const lk__yaml_pos *at)
{
    lk_train_options *t = &e->train;
    char text[LK_WHERE];
    const lk__binding parts[] = {{&lk__section_train, t, NULL},
                                 {&lk__section_checkpoint, &t->checkpoint, "checkpoint"},
                                 {&lk__section_early_stop, &t->early_stop, "early_stop"}};
    LK_CHECK_AT(!node || node->type == LK__YAML_MAP, &node->place, "train must be a map, not %s",
                lk__node_text(node, text));
    LK_TRY(lk__bind_map(node, at, "train", false, parts, 3, e->arena));
    const lk__yaml_node *checkpoint = node ? lk__node_find(node, "checkpoint") : NULL;
    const lk__yaml_node *stop = node ? lk__node_find(node, "early_stop") : NULL;
    LK_TRY(read_period(node, "evaluate", "train", at, t->evaluate_text, &t->evaluate));
    LK_TRY(read_period(node, "log", "train", at, t->log_text, &t->log));
    LK_TRY(read_period(checkpoint, "every", "train.checkpoint", at, t->checkpoint.every_text,
                       &t->checkpoint.every));
    return check_early_stop(e, place_in(stop, "metric", at));
}

static lk_status bind_pieces(lk_experiment *e, const lk__yaml_node *node, const lk__yaml_pos *at)
{
    lk_pieces_options *p = &e->pieces;
    lk_option_ints tiles;
    char text[LK_WHERE];
    const lk__binding part = {&lk__section_pieces, p, NULL};
    LK_CHECK_AT(!node || node->type == LK__YAML_MAP, &node->place, "pieces must be a map, not %s",
                lk__node_text(node, text));
    LK_TRY(lk__bind_map(node, at, "pieces", false, &part, 1, e->arena));
    bool is_grid = lk__grid_read(p->tiles_text, &tiles);
    for (int i = 0; i < 3 && is_grid; i++) {
        p->cut.tile[i] = i < tiles.n ? tiles.item[i] : 1;
        is_grid = p->cut.tile[i] <= MAX_TILES;
    }
    LK_CHECK_AT(is_grid, place_in(node, "tiles", at),
                "tiles of pieces: \"%s\" is no grid, such as \"2x2\", of up to three axes and %d "
                "tiles along each",
                p->tiles_text, MAX_TILES);
    p->cut.shards = e->loader.shards;
    return LK_OK;
}

/* Words of earlier versions. */
static lk_status check_words(const lk__yaml_node *parallel)
{
    static const char *const word[][2] = {
        {"feature", "features"}, {"pipeline", "stages"}, {"bucket", "bucket_mib"}};
    for (int i = 0; i < 3; i++) {
        const lk__yaml_node *old = lk__node_find(parallel, word[i][0]);
        LK_CHECK_AT(!old, &old->key_place, "key \"%s\" of parallel is called \"%s\"", word[i][0],
                    word[i][1]);
    }
    return LK_OK;
}

/* "auto", "full" or a number. */
static bool lag_read(const char *text, int64_t *out)
{
    char *end = NULL;
    *out = strcmp(text, "auto") == 0 ? -1 : LK_LAG_FULL;
    if (*out < 0 || strcmp(text, "full") == 0)
        return true;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && !*end && errno == 0;
}

static lk_status bind_parallel(lk_experiment *e, const lk__yaml_node *node, const lk__yaml_pos *at)
{
    lk_parallel_options *p = &e->parallel;
    char text[LK_WHERE];
    const lk__binding part = {&lk__section_parallel, p, NULL};
    LK_CHECK_AT(!node || node->type != LK__YAML_SCALAR || strcmp(node->text, "auto") != 0,
                &node->place,
                "parallel: auto is not there yet, because times cannot be predicted: say how many "
                "parts there are, such as `parallel: {data: 2}`");
    LK_CHECK_AT(!node || node->type == LK__YAML_MAP, &node->place, "parallel must be a map, not %s",
                lk__node_text(node, text));
    if (node)
        LK_TRY(check_words(node));
    LK_TRY(lk__bind_map(node, at, "parallel", false, &part, 1, e->arena));
    LK_CHECK_AT(!p->spatial_text || lk__grid_read(p->spatial_text, &p->spatial),
                place_in(node, "spatial", at),
                "spatial of parallel: \"%s\" is no grid, such as \"2x2\", of up to three axes",
                p->spatial_text);
    LK_CHECK_AT(
        (p->micro_batch & (p->micro_batch - 1)) == 0, place_in(node, "micro_batch", at),
        "micro_batch of parallel: %lld is no power of two: sums over micro-batches would not "
        "be those over shards",
        (long long)p->micro_batch);
    LK_CHECK_AT(lag_read(p->lag_text, &p->lag), place_in(node, "lag", at),
                "lag of parallel: \"%s\" is neither auto nor full nor a number of micro-batches",
                p->lag_text);
    LK_CHECK_AT(p->lag < 0 || p->schedule == LK_PIPELINE_ZB1P, place_in(node, "lag", at),
                "lag of parallel: %s is of schedule zb1p, and the schedule is %s: give schedule: "
                "zb1p, or leave lag out",
                p->lag_text, lk_pipeline_name((lk_pipeline_kind)p->schedule));
    return LK_TRACE(
        lk__layout_check(e, place_in(node, "spatial", at), place_in(node, "features", at)));
}

static lk_status bind_all(lk_experiment *e, const lk__yaml_node *root)
{
    const lk__yaml_pos *at = &root->place;
    const lk__yaml_node *section[N_SECTIONS] = {NULL};
    char text[LK_WHERE];
    lk__yaml_node rest;
    LK_CHECK_AT(root->type == LK__YAML_MAP, at, "an experiment must be a map, not %s",
                lk__node_text(root, text));
    LK_TRY(take_sections(root, &rest, section, e->arena));
    LK_CHECK_AT(section[DATA], at, "experiment needs the key \"data\"");
    LK_CHECK_AT(section[MODEL], at, "experiment needs the key \"model\"");
    lk_arena *arena = e->arena;
    const char *path = e->path, *source = e->text;
    const lk__binding top = {&lk__section_experiment, e, NULL};
    lk_status st = lk__bind_map(&rest, at, "experiment", false, &top, 1, arena);
    e->arena = arena; /* binding has set the fields without a row to zero */
    e->path = path;
    e->text = source;
    LK_TRY(st);
    e->dtype = e->precision == 0 ? LK_F32 : LK_F64;
    LK_TRY(bind_data(e, section[DATA]));
    LK_TRY(bind_model(e, section[MODEL]));
    LK_TRY(bind_train(e, section[TRAIN], at));
    LK_TRY(lk__bind_phases(e, section[PHASES], section[TRAIN]));
    LK_TRY(bind_pieces(e, section[PIECES], at));
    return bind_parallel(e, section[PARALLEL], at);
}

static lk_status experiment_new(const char *path, lk_experiment **out)
{
    lk_arena *arena;
    lk_experiment *e = NULL;
    lk_status st = LK_OK;
    *out = NULL;
    LK_TRY(lk_arena_new(&arena));
    LK_TRY_TO(failed, lk_arena_alloc(arena, &e, 1, sizeof *e));
    LK_TRY_TO(failed, lk_arena_text(arena, path, strlen(path), &e->path));
    e->arena = arena;
    *out = e;
    return LK_OK;
failed:
    lk_arena_free(arena);
    return st;
}

/* `text` NULL: from the file `name`. */
static lk_status experiment_make(const char *name, const char *text, const char *const *assignment,
                                 int n, lk_experiment **out)
{
    lk_experiment *e;
    lk__yaml_node *root;
    lk_status st = LK_OK;
    *out = NULL;
    LK_TRY(experiment_new(name, &e));
    if (text)
        LK_TRY_TO(failed, lk_arena_text(e->arena, text, strlen(text), &e->text));
    if (text)
        LK_TRY_TO(failed, lk__yaml_read(e->path, text, strlen(text), e->arena, &root));
    else
        LK_TRY_TO(failed, lk__yaml_read_file(name, e->arena, &root));
    for (int i = 0; i < n; i++)
        LK_TRY_TO(failed, lk__node_override(root, assignment[i], e->arena));
    LK_TRY_TO(failed, bind_all(e, root));
    *out = e;
    return LK_OK;
failed:
    lk_experiment_free(e);
    return st;
}

lk_status lk_experiment_read(const char *path, const char *const *assignment, int n,
                             lk_experiment **out)
{
    return experiment_make(path, NULL, assignment, n, out);
}

lk_status lk_experiment_parse(const char *name, const char *text, const char *const *assignment,
                              int n, lk_experiment **out)
{
    return experiment_make(name, text, assignment, n, out);
}

void lk_experiment_free(lk_experiment *experiment)
{
    if (experiment)
        lk_arena_free(experiment->arena);
}

bool lk_experiment_uses_end(const lk_experiment *e)
{
    const lk_config *optimizer = &e->optimizer;
    if (e->n_phases > 0 && e->phase[e->n_phases - 1].optimizer.descriptor)
        optimizer = &e->phase[e->n_phases - 1].optimizer;
    const char *at = optimizer->options;
    for (const lk_option *o = optimizer->descriptor->options; o->name; o++)
        if (o->type == LK_OPTION_CONFIG && o->registry == &lk_registry_schedule &&
            lk_schedule_uses_end((const lk_config *)(const void *)(at + o->offset)))
            return true;
    return false;
}

/* Numbers, because a grid can be written in several ways; nothing where nothing is cut. */
static void pieces_hash(const lk_pieces *cut, lk_hash *h)
{
    bool tiles = cut->tile[0] > 1 || cut->tile[1] > 1 || cut->tile[2] > 1;
    if (tiles) {
        lk_hash_add_text(h, "tiles");
        for (int i = 0; i < 3; i++)
            lk_hash_add_i64(h, cut->tile[i]);
        lk_hash_add_i64(h, cut->least_tile);
    }
    if (cut->blocks > 1) {
        lk_hash_add_text(h, "blocks");
        lk_hash_add_i64(h, cut->blocks);
        lk_hash_add_i64(h, cut->least_block);
    }
}

lk_status lk_experiment_identity(const lk_experiment *experiment, uint64_t data, uint64_t *out)
{
    lk_experiment e = *experiment; /* a copy, because choices point to what may change */
    lk_hash h = lk_hash_start();
    lk_hash_add_text(&h, "lockstep run");
    lk_hash_add_i64(&h, lk_numerics_epoch());
    LK_TRY(lk_config_hash(&(lk_config){.descriptor = &lk__section_experiment, .options = &e}, &h));
    LK_TRY(lk_config_hash(&(lk_config){.descriptor = &lk_loader_descriptor, .options = &e.loader},
                          &h));
    lk_hash_add_i64(&h, e.model.n);
    for (int64_t i = 0; i < e.model.n; i++)
        LK_TRY(lk_config_hash(&e.model.item[i], &h));
    LK_TRY(lk_config_hash(&(lk_config){.descriptor = &lk__section_train, .options = &e.train}, &h));
    lk_hash_add_i64(&h, lk_experiment_uses_end(experiment) ? e.train.epochs : -1);
    if (e.train.early_stop.patience > 0) {
        LK_TRY(lk_config_hash(
            &(lk_config){.descriptor = &lk__section_early_stop, .options = &e.train.early_stop},
            &h));
        lk_hash_add_i64(&h, e.train.evaluate.n);
        lk_hash_add_i64(&h, e.train.evaluate.steps);
    }
    LK_TRY(lk__phases_hash(experiment, &h));
    pieces_hash(&e.pieces.cut, &h);
    lk_hash_add_i64(&h, (int64_t)data);
    *out = lk_hash_value(&h);
    return LK_OK;
}
