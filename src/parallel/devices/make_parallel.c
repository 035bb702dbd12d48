/* lk_parallel_model: made from a model or a function, devices and options; its getters, and its runs.
 *
 * The program makes it, and calls it on one thread; pass.c has the passes.
 */
#include "coll/agree.h"
#include "nn/model.h"
#include "optim/optimizer.h"
#include "parallel/devices/replicas.h"
#include "tensor/tensor.h"

#include <lockstep/log.h>

#include <stdio.h>
#include <unistd.h>

/* ---- options ---- */

static const lk_option options[] = {
    {.name = "ps_device",
     .type = LK_OPTION_TEXT,
     .offset = offsetof(lk_parallel_model_options, ps_device),
     .value = "DEVICE",
     .help = "where outputs and gradients are put together; default: on the calling thread"},
    {.name = "usenccl",
     .type = LK_OPTION_FLAG,
     .offset = offsetof(lk_parallel_model_options, usenccl),
     .def = "false",
     .help = "no effect here: what replicas add up is joined through shared memory"},
    {.name = "initsync",
     .type = LK_OPTION_FLAG,
     .offset = offsetof(lk_parallel_model_options, initsync),
     .def = "true",
     .help = "no effect here: there is one copy of the weights"},
    {.name = "syncopt",
     .type = LK_OPTION_FLAG,
     .offset = offsetof(lk_parallel_model_options, syncopt),
     .def = "false",
     .help = "take only optimizers that can update parameters in parts"},
    {.name = "enqueue",
     .type = LK_OPTION_FLAG,
     .offset = offsetof(lk_parallel_model_options, enqueue),
     .def = "false",
     .help = "no effect here: replicas read their slices of a batch where these lie"},
    {.name = NULL},
};

const lk_descriptor lk_parallel_model_descriptor = {
    .name = "make_parallel",
    .summary = "how replicas of a model share a batch",
    .options = options,
    .options_size = sizeof(lk_parallel_model_options),
};

static const char no_nccl[] =
    "usenccl=true has no effect: what replicas add up is joined by the fixed tree, through memory "
    "that they share";
static const char no_initsync[] =
    "initsync=false has no effect: replicas share one copy of the weights, so none is brought into "
    "step";
static const char no_enqueue[] = "enqueue=true has no effect: replicas read their slices of a "
                                 "batch where these lie, and nothing "
                                 "is staged";
static const char no_syncopt[] =
    "syncopt=true changes no bits: gradients are always complete before an update; only the "
    "optimizer is checked";

/* Say which options have no effect: to the log, and in p->notes. */
static lk_status remarks_make(lk_parallel_model *p)
{
    const lk_parallel_model_options *o = &p->options;
    const char *const note[] = {o->usenccl ? no_nccl : NULL, o->initsync ? NULL : no_initsync,
                                o->syncopt ? no_syncopt : NULL, o->enqueue ? no_enqueue : NULL};
    char all[sizeof no_nccl + sizeof no_initsync + sizeof no_syncopt + sizeof no_enqueue] = "";
    size_t at = 0;
    for (size_t i = 0; i < sizeof note / sizeof note[0]; i++)
        if (note[i]) {
            lk_log_write(LK_LOG_WARN, "make_parallel: %s", note[i]);
            at += (size_t)snprintf(all + at, sizeof all - at, "%s%s", at > 0 ? "\n" : "", note[i]);
        }
    return LK_TRACE(lk_arena_text(p->arena, all, at, &p->notes));
}

/* ---- making ---- */

/* What it is made of. */
typedef struct lk__parallel_spec {
    lk_model *model;
    const lk_parallel_function *fn;
    const lk_device *devices;
    int n;
    const lk_parallel_model_options *options;
} lk__parallel_spec;

static lk_status all_agree_bits(void *arg, int i, lk_comm *comm)
{
    (void)arg;
    (void)i;
    return LK_TRACE(lk__agree_bits(comm));
}

static lk_status options_take(lk_parallel_model *p, const lk_parallel_model_options *given)
{
    if (!given) {
        return LK_TRACE(
            lk_options_set_defaults(&lk_parallel_model_descriptor, &p->options, p->arena));
    }
    p->options = *given;
    if (given->ps_device)
        LK_TRY(lk_arena_text(p->arena, given->ps_device, strlen(given->ps_device),
                             &p->options.ps_device));
    return LK_OK;
}

static lk_status crews_start(lk_parallel_model *p)
{
    if (p->n_devices >= 2)
        LK_TRY(lk__crew_new(p->device, p->n, &p->crew));
    if (p->crew && p->options.ps_device) {
        lk_device ps;
        LK_TRY(lk_device_parse(p->options.ps_device, &ps));
        LK_TRY(lk__crew_new(&ps, 1, &p->ps));
    }
    if (p->crew && p->sync) /* the same bits are promised: no algorithm may be named with others */
        LK_TRY(lk__crew_run(p->crew, all_agree_bits, NULL, true));
    return LK_OK;
}

static lk_status parallel_fill(lk_parallel_model *p, const lk__parallel_spec *s)
{
    LK_TRY(lk_arena_new(&p->arena));
    LK_TRY(options_take(p, s->options));
    p->model = s->model;
    if (s->fn)
        p->fn = *s->fn;
    p->reuse = s->fn ? s->fn->weight_reuse : lk_model_has_weight_reuse(s->model);
    p->sync = s->fn ? s->fn->batch_sync : lk_model_needs_batch_sync(s->model);
    p->n_devices = s->n;
    p->n = s->n > 1 ? s->n : 1;
    LK_TRY(lk_arena_alloc(p->arena, &p->device, p->n, sizeof *p->device));
    LK_TRY(lk_arena_alloc(p->arena, &p->first, p->n + 1, sizeof *p->first));
    for (int i = 0; i < s->n; i++)
        p->device[i] = s->devices[i];
    LK_TRY(remarks_make(p));
    return LK_TRACE(crews_start(p));
}

static lk_status parallel_new(const lk__parallel_spec *s, lk_parallel_model **out)
{
    lk_parallel_model *p = NULL;
    LK_CHECK(out, LK_EINVAL, "out is NULL");
    *out = NULL;
    LK_CHECK(s->model || (s->fn && s->fn->fn), LK_EINVAL, "%s is NULL", s->fn ? "fn" : "serial");
    LK_CHECK(s->n >= 0 && s->n <= LK_MAX_LOCAL && (s->devices || s->n == 0), LK_EINVAL,
             "%d devices: at most %d", s->n, LK_MAX_LOCAL);
    if (s->model)
        LK_TRY(lk__model_check_whole(s->model));
    LK_TRY(lk_alloc_zero(&p, 1, sizeof *p));
    p->process = getpid();
    lk_status st = parallel_fill(p, s);
    if (st != LK_OK) {
        lk_parallel_model_free(p);
        LK_TRY(st);
    }
    *out = p;
    return LK_OK;
}

/* Devices from a list of them, "cpu:0,cpu:1". */
static lk_status devices_parse(const char *text, lk_arena *arena, lk__parallel_spec *s)
{
    lk_device *device = NULL;
    int n = 0;
    if (text && *text)
        n = 1;
    for (const char *c = text; c && *c; c++)
        n += *c == ',';
    LK_TRY(lk_arena_alloc(arena, &device, n, sizeof *device));
    for (int i = 0; i < n; i++, text++) {
        const char *one = NULL;
        size_t length = strcspn(text, ",");
        LK_TRY(lk_arena_text(arena, text, length, &one));
        LK_TRY(lk_device_parse(one, &device[i]));
        text += length;
    }
    s->devices = device;
    s->n = n;
    return LK_OK;
}

static lk_status least_check(int n, int least)
{
    LK_CHECK(
        n >= least, LK_EINVAL,
        "%d devices: a parallel model needs two at least; lk_make_parallel() takes fewer, and runs "
        "the serial model",
        n);
    return LK_OK;
}

/* Of a model or a function, with devices and options as texts. */
static lk_status parallel_parse(lk_model *model, const lk_parallel_function *fn,
                                const char *devices, const char *text, int least,
                                lk_parallel_model **out)
{
    lk_status st;
    lk_arena *arena = NULL;
    lk_parallel_model_options o;
    lk__parallel_spec s = {.model = model, .fn = fn, .options = &o};
    LK_CHECK(out, LK_EINVAL, "out is NULL");
    *out = NULL;
    LK_TRY(lk_arena_new(&arena));
    LK_TRY_TO(done, devices_parse(devices, arena, &s));
    LK_TRY_TO(done, least_check(s.n, least));
    LK_TRY_TO(done, lk_options_parse(&lk_parallel_model_descriptor, text, arena, &o));
    LK_TRY_TO(done, parallel_new(&s, out));
done:
    lk_arena_free(arena);
    return st;
}

lk_status lk_make_parallel(lk_model *serial, const char *devices, const char *text,
                           lk_parallel_model **out)
{
    return LK_TRACE(parallel_parse(serial, NULL, devices, text, 0, out));
}

lk_status lk_make_parallel_options(lk_model *serial, const lk_device *devices, int n,
                                   const lk_parallel_model_options *given, lk_parallel_model **out)
{
    const lk__parallel_spec s = {.model = serial, .devices = devices, .n = n, .options = given};
    return LK_TRACE(parallel_new(&s, out));
}

lk_status lk_parallel_model_new(lk_model *serial, const char *devices, const char *text,
                                lk_parallel_model **out)
{
    return LK_TRACE(parallel_parse(serial, NULL, devices, text, 2, out));
}

lk_status lk_parallel_model_new_options(lk_model *serial, const lk_device *devices, int n,
                                        const lk_parallel_model_options *given,
                                        lk_parallel_model **out)
{
    LK_TRY(least_check(n, 2));
    return LK_TRACE(lk_make_parallel_options(serial, devices, n, given, out));
}

lk_status lk_make_parallel_fn(const lk_parallel_function *fn, const char *devices, const char *text,
                              lk_parallel_model **out)
{
    LK_CHECK(fn, LK_EINVAL, "fn is NULL");
    return LK_TRACE(parallel_parse(NULL, fn, devices, text, 0, out));
}

void lk_parallel_model_free(lk_parallel_model *p)
{
    if (!p)
        return;
    if (p->process == getpid()) { /* otherwise there are none to wait for */
        lk__crew_free(p->crew);
        lk__crew_free(p->ps);
    }
    lk_tape_free(p->tape);
    while (p->runs) {
        lk__parallel_run *next = p->runs->next;
        lk__parallel_run_free(p->runs);
        p->runs = next;
    }
    lk_arena_free(p->arena);
    lk_free(p);
}

/* ---- runs ---- */

void lk__parallel_run_reset(lk__parallel_run *run)
{
    for (int i = 0; i < run->of->n; i++)
        for (int64_t k = 0; k < run->replica[i].max_passages; k++)
            lk_tape_reset(run->replica[i].passage[k].tape);
}

void lk__parallel_run_free(lk__parallel_run *run)
{
    for (int i = 0; run->replica && i < run->of->n; i++)
        lk__replica_free(&run->replica[i], run);
    lk_slab_layout_free(run->layout);
    lk_tensor_free(run->token);
    lk_free(run->replica);
    lk_free(run->first);
    lk_free((void *)run->x);
    lk_free(run->wants);
    lk_free(run);
}

static lk_status run_fill(lk__parallel_run *run)
{
    int values = run->n_x + run->n_shared;
    LK_TRY(lk_tensor_new(LK_U8, LK_SHAPE(1), &run->token));
    LK_TRY(lk_alloc_zero((void *)&run->x, values, sizeof *run->x));
    run->shared = run->x + run->n_x;
    LK_TRY(lk_alloc_zero(&run->wants, values, sizeof *run->wants));
    LK_TRY(lk_alloc_zero(&run->first, run->of->n + 1, sizeof *run->first));
    return LK_TRACE(lk_alloc_zero(&run->replica, run->of->n, sizeof *run->replica));
}

/* A tape that has the node of a run retains its token. */
lk_status lk__parallel_run_take(lk_parallel_model *p, int n_x, int n_shared, lk__parallel_run **out)
{
    for (lk__parallel_run *r = p->runs; r; r = r->next)
        if (r->n_x == n_x && r->n_shared == n_shared && atomic_load(&r->token->holders) == 1) {
            *out = r;
            return LK_OK;
        }
    lk__parallel_run *run = NULL;
    LK_TRY(lk_alloc_zero(&run, 1, sizeof *run));
    run->of = p;
    run->n_x = n_x;
    run->n_shared = n_shared;
    lk_status st = run_fill(run);
    if (st != LK_OK) {
        lk__parallel_run_free(run);
        LK_TRY(st);
    }
    run->next = p->runs;
    p->runs = run;
    *out = run;
    return LK_OK;
}

/* ---- looking ---- */

bool lk_parallel_model_is_serial(const lk_parallel_model *p)
{
    return p->n_devices < 2;
}

lk_model *lk_parallel_model_serial(const lk_parallel_model *p)
{
    return p->model;
}

int lk_parallel_model_devices(const lk_parallel_model *p)
{
    return p->n_devices;
}

const lk_device *lk_parallel_model_device(const lk_parallel_model *p, int i)
{
    return i >= 0 && i < p->n_devices ? &p->device[i] : NULL;
}

const char *lk_parallel_model_notes(const lk_parallel_model *p)
{
    return p->notes;
}

lk_status lk_parallel_model_check_optimizer(const lk_parallel_model *p,
                                            const lk_optimizer *optimizer)
{
    LK_CHECK(p && optimizer, LK_EINVAL, "%s is NULL", p ? "optimizer" : "parallel");
    LK_CHECK(!p->options.syncopt || lk__optimizer_splits(optimizer), LK_EINVAL,
             "syncopt=true: %s%s cannot update the parameters in parts; leave syncopt out",
             optimizer->rule->descriptor.name, optimizer->rule->whole ? "" : " with clip_norm");
    return LK_OK;
}
