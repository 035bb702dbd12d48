/* lk_optimizer: made and freed, its state bound, and a step of all parameters or of a range of them.
 *
 * The trainer or the program calls it once for each step, on its thread, behind the reduction of the
 * gradients.  A range is cut into chunks for the pool; each asks for the gradient it needs.
 */
#include "optim/optimizer.h"

#include "base/fpenv.h"
#include "base/stream.h"
#include "kernel/runtime/parallel.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

static bool is_empty(const lk_slab *slab)
{
    return lk_slab_layout_slices(lk_slab_layout_of(slab)) == 0;
}

static lk_status slab_fill(lk_slab *slab, double value)
{
    lk_tensor *flat = NULL;
    if (value == 0 || is_empty(slab))
        return LK_OK;
    LK_TRY(lk_slab_flat(slab, &flat));
    lk_status st = lk_tensor_fill_f64(flat, value);
    lk_tensor_free(flat);
    return LK_TRACE(st);
}

/* What the parameters are; there may be none. */
static lk_status params_measure(lk_optimizer *o)
{
    lk_tensor *flat = NULL;
    if (is_empty(o->params))
        return LK_OK;
    LK_TRY(lk_slab_flat(o->params, &flat));
    o->dtype = lk_tensor_dtype(flat);
    o->count = lk_tensor_count(flat);
    lk_tensor_free(flat);
    LK_CHECK(lk_dtype_is_real(o->dtype), LK_EDTYPE, "parameters of %s: only f32 and f64",
             lk_dtype_name(o->dtype));
    return LK_OK;
}

/* What needs a number over all parameters does not work on a part of a tensor. */
static lk_status whole_check(const lk_optimizer *o)
{
    const lk_slab_layout *layout = lk_slab_layout_of(o->params);
    bool norm = lk__optimizer_clips(o);
    if ((!norm && !o->rule->whole) || lk_slab_layout_is_whole(layout, NULL))
        return LK_OK;
    for (int64_t i = 0; i < lk_slab_layout_slices(layout); i++) {
        lk_slab_slice part;
        int64_t elements;
        LK_TRY(lk_slab_layout_slice(layout, i, &part));
        LK_TRY(lk_shape_count(part.shape, &elements));
        LK_CHECK(part.count == elements || lk__slice_is_elsewhere(&part), LK_ENOTSUP,
                 "%s%s needs all parameters at once, but of %s there is %s here, a part",
                 o->rule->descriptor.name, norm ? " with clip_norm" : "", part.name,
                 lk_slab_slice_text(&part).s);
    }
    return LK_OK;
}

static lk_status optimizer_make(lk_optimizer *o, const lk_config *rule, bool parts)
{
    lk_config filled;
    LK_TRY(lk_config_with_defaults(rule, o->arena, &filled));
    o->rule = (const lk_update_rule *)(const void *)filled.descriptor;
    o->options = filled.options;
    const lk_config *schedule = &((const lk_optimizer_options *)o->options)->schedule;
    const lk_schedule *s = (const lk_schedule *)(const void *)schedule->descriptor;
    if (s && s->check)
        LK_TRY(s->check(schedule->options));
    if (o->rule->check)
        LK_TRY(o->rule->check(o->options));
    LK_TRY(params_measure(o));
    if (!parts)
        LK_TRY(whole_check(o));
    LK_TRY(lk_alloc(&o->sum, lk_slab_layout_slices(lk_slab_layout_of(o->params)), sizeof *o->sum));
    o->state = o->rule->state ? o->rule->state(o->options) : (lk_optimizer_state){.slab = {NULL}};
    for (int i = 0; i < LK_OPTIMIZER_MAX_SLABS && o->state.slab[i]; i++) {
        LK_TRY(lk_slab_new_like(o->params, &o->slab[i]));
        LK_TRY(slab_fill(o->slab[i], o->state.start[i]));
    }
    memcpy(o->number, o->state.number_start, sizeof o->number);
    return LK_OK;
}

/* An optimizer that has no rule yet. */
static lk_status optimizer_begin(lk_slab *params, lk_optimizer **out)
{
    LK_CHECK(params, LK_EINVAL, "params is NULL");
    LK_TRY(lk_alloc_zero(out, 1, sizeof **out));
    (*out)->params = params;
    return LK_TRACE(lk_arena_new(&(*out)->arena));
}

lk_status lk_optimizer_new(lk_slab *params, const char *rule, const char *options,
                           lk_optimizer **out)
{
    LK_FP_GUARD();
    lk_status st;
    lk_config config;
    lk_optimizer *o = NULL;
    *out = NULL;
    LK_TRY_TO(fail, optimizer_begin(params, &o));
    LK_TRY_TO(fail, lk_config_parse(&lk_registry_optimizer, rule, options, o->arena, &config));
    LK_TRY_TO(fail, optimizer_make(o, &config, false));
    *out = o;
    return LK_OK;
fail:
    lk_optimizer_free(o);
    return st;
}

static lk_status optimizer_new(lk_slab *params, const lk_config *rule, bool parts,
                               lk_optimizer **out)
{
    lk_status st;
    lk_optimizer *o = NULL;
    *out = NULL;
    LK_CHECK(rule && rule->descriptor, LK_EINVAL, "rule is NULL");
    LK_TRY_TO(fail, optimizer_begin(params, &o));
    LK_TRY_TO(fail, optimizer_make(o, rule, parts));
    *out = o;
    return LK_OK;
fail:
    lk_optimizer_free(o);
    return st;
}

lk_status lk_optimizer_new_config(lk_slab *params, const lk_config *rule, lk_optimizer **out)
{
    LK_FP_GUARD();
    return LK_TRACE(optimizer_new(params, rule, false, out));
}

lk_status lk__optimizer_new_parts(lk_slab *params, const lk_config *rule, lk_optimizer **out)
{
    LK_FP_GUARD();
    return LK_TRACE(optimizer_new(params, rule, true, out));
}

void lk_optimizer_free(lk_optimizer *o)
{
    if (!o)
        return;
    for (int i = 0; i < LK_OPTIMIZER_MAX_SLABS; i++)
        lk_slab_free(o->slab[i]);
    lk_arena_free(o->arena);
    lk_free(o->sum);
    lk_free(o);
}

lk_slab *lk_optimizer_slab(const lk_optimizer *o, int i, const char **name)
{
    bool there = i >= 0 && i < LK_OPTIMIZER_MAX_SLABS && o->slab[i];
    *name = there ? o->state.slab[i] : NULL;
    return there ? o->slab[i] : NULL;
}

lk_status lk__optimizer_bind_state(lk_optimizer *o, int i, lk_slab *slab)
{
    LK_CHECK(i >= 0 && i < LK_OPTIMIZER_MAX_SLABS && o->slab[i], LK_EINVAL, "there is no state %d",
             i);
    LK_CHECK(slab && lk_slab_layout_of(slab) == lk_slab_layout_of(o->params), LK_EINVAL,
             "the slab is not of the layout of the parameters");
    lk_slab_free(o->slab[i]);
    o->slab[i] = slab;
    return LK_OK;
}

bool lk__optimizer_splits(const lk_optimizer *o)
{
    LK_FP_GUARD();
    const lk_optimizer_options *all = o->options;
    return !o->rule->whole && all->clip_norm <= 0;
}

bool lk__optimizer_clips(const lk_optimizer *o)
{
    return ((const lk_optimizer_options *)o->options)->clip_norm > 0;
}

double *lk_optimizer_number(lk_optimizer *o, int i, const char **name)
{
    bool there = i >= 0 && i < LK_OPTIMIZER_MAX_NUMBERS && o->state.number[i];
    *name = there ? o->state.number[i] : NULL;
    return there ? &o->number[i] : NULL;
}

/* Whether the slices of `params` are the first of `grads`. */
static lk_status layout_check(const lk_slab *params, const lk_slab *grads)
{
    lk_slab_layout *p = lk_slab_layout_of(params), *g = lk_slab_layout_of(grads);
    int64_t n = lk_slab_layout_slices(p);
    lk_slab_slice last, same;
    LK_TRY(lk_slab_layout_slice(p, n - 1, &last));
    LK_CHECK(lk_slab_layout_slices(g) >= n, LK_EINVAL,
             "the gradients have %lld slices, the parameters %lld",
             (long long)lk_slab_layout_slices(g), (long long)n);
    LK_TRY(lk_slab_layout_slice(g, n - 1, &same));
    LK_CHECK(same.offset == last.offset && same.bytes == last.bytes && same.dtype == last.dtype &&
                 strcmp(same.name, last.name) == 0 && lk_box_is_equal(&same.box, &last.box),
             LK_EINVAL,
             "slice %lld of the gradients is \"%s\" %s, that of the parameters \"%s\" %s",
             (long long)n - 1, same.name, lk_slab_slice_text(&same).s, last.name,
             lk_slab_slice_text(&last).s);
    return LK_OK;
}

/* The factor on the gradient that keeps its norm below the limit. */
static lk_status clip_scale(lk_update_call *call, double limit, lk_optimizer_report *report)
{
    double squares;
    if (limit <= 0)
        return LK_OK;
    LK_TRY(lk__tensors_reduce(call, LK_REDUCE_AXIS_SUMSQ, call->g, &squares));
    report->norm = sqrt(squares);
    if (report->norm > limit)
        call->scale = limit / report->norm;
    return LK_OK;
}

/* ---- a step of a range ---- */

enum { CHUNK = 8192 }; /* bytes of the parameters that are updated at a time, in the first cache */

struct range {
    const lk_optimizer *o;
    const lk_optimizer_input *step;
    const lk_update_call *call; /* of all elements */
    atomic_int failed;          /* lk_status; the first one's, if any */
};

/* The elements of a call that move, from `first` on and before `end` of the slab; its w and g begin with
 * `first`, its state with the slab. */
static lk_status moving_update(const lk_optimizer *o, const lk_update_call *call, int64_t first,
                               int64_t end)
{
    int64_t elem = (int64_t)lk_dtype_size(o->dtype), at = first;
    for (lk_range run; lk__run_next(call, &at, end, &run);) {
        lk_update_call own = *call;
        own.n = run.n;
        own.w = (char *)call->w + (run.first - first) * elem;
        own.g = (const char *)call->g + (run.first - first) * elem;
        for (int i = 0; i < LK_OPTIMIZER_MAX_SLABS; i++)
            if (call->state[i])
                own.state[i] = (char *)call->state[i] + run.first * elem;
        LK_TRY(o->rule->update(&own));
    }
    return LK_OK;
}

/* Elements [at, at + n): the parameters are updated in a copy, and stored from there. */
static lk_status chunk_update(const struct range *r, int64_t at, int64_t n)
{
    _Alignas(LK_ALIGN) char g[CHUNK], w[CHUNK];
    int64_t elem = (int64_t)lk_dtype_size(r->o->dtype);
    char *there = (char *)r->call->w + at * elem;
    lk_update_call call = *r->call;
    LK_TRY(r->step->read_gradient(r->step->context, at, n, g));
    memcpy(w, there, (size_t)(n * elem));
    call.w = w;
    call.g = g;
    LK_TRY(moving_update(r->o, &call, at, at + n));
    lk__stream(there, w, n * elem);
    return LK_OK;
}

static void range_work(void *arg, int64_t first, int64_t last)
{
    struct range *r = arg;
    int64_t each = CHUNK / (int64_t)lk_dtype_size(r->o->dtype), end = r->step->first + r->step->n;
    for (int64_t i = first; i < last; i++) {
        int64_t at = r->step->first + i * each;
        lk_status st = chunk_update(r, at, end - at < each ? end - at : each);
        if (st != LK_OK)
            atomic_store(&r->failed, (int)st);
    }
    lk__stream_end();
}

static lk_status range_check(const lk_optimizer *o, const lk_optimizer_input *step)
{
    int64_t elem = (int64_t)lk_dtype_size(o->dtype);
    LK_CHECK(lk__optimizer_splits(o), LK_EINVAL, "%s needs all elements at once",
             o->rule->descriptor.name);
    LK_CHECK(step->first >= 0 && step->n >= 0 && step->first <= o->count - step->n, LK_EINVAL,
             "elements %lld ... of %lld, %lld of them", (long long)step->first, (long long)o->count,
             (long long)step->n);
    LK_CHECK(step->first * elem % LK_ALIGN == 0 && step->n * elem % LK_ALIGN == 0, LK_EINVAL,
             "elements %lld ..., %lld of them: not on borders of %d bytes", (long long)step->first,
             (long long)step->n, LK_ALIGN);
    return LK_OK;
}

static lk_status range_update(const lk_optimizer *o, const lk_optimizer_input *step,
                              const lk_update_call *call)
{
    int64_t each = CHUNK / (int64_t)lk_dtype_size(o->dtype);
    struct range r = {.o = o, .step = step, .call = call};
    LK_TRY(lk__parallel(lk__tasks_bytes((step->n + each - 1) / each, CHUNK), range_work, &r));
    LK_CHECK(atomic_load(&r.failed) == LK_OK, (lk_status)atomic_load(&r.failed),
             "%s could not update", o->rule->descriptor.name);
    return LK_OK;
}

/* ---- a step ---- */

lk_status lk_optimizer_step(lk_optimizer *o, const lk_optimizer_input *step,
                            lk_optimizer_report *report)
{
    LK_FP_GUARD();
    lk_optimizer_report own;
    LK_CHECK(o && step && (step->grads || step->read_gradient), LK_EINVAL,
             "optimizer, step or gradients is NULL");
    report = report ? report : &own;
    const lk_optimizer_options *all = o->options;
    lk_update_call call = {.options = o->options,
                           .dtype = o->dtype,
                           .n = o->count,
                           .layout = lk_slab_layout_of(o->params),
                           .join_sums = step->join_sums,
                           .context = step->context,
                           .positions = step->positions,
                           .blocks = step->blocks,
                           .frozen = step->frozen,
                           .sum = o->sum,
                           .w = lk_slab_data(o->params),
                           .scale = 1,
                           .number = o->number,
                           .rate = all->rate * lk_schedule_factor(&all->schedule, &step->at),
                           .step = step->at.step,
                           .at = step->at};
    for (int i = 0; i < LK_OPTIMIZER_MAX_SLABS; i++)
        call.state[i] = o->slab[i] ? lk_slab_data(o->slab[i]) : NULL;
    *report = (lk_optimizer_report){.rate = call.rate, .norm = -1};
    if (step->read_gradient) {
        LK_TRY(range_check(o, step));
    } else {
        LK_TRY(layout_check(o->params, step->grads));
        call.g = lk_slab_data(step->grads);
        LK_TRY(clip_scale(&call, all->clip_norm, report));
    }
    if (o->rule->begin)
        o->rule->begin(&call, o->number);
    return LK_TRACE(step->read_gradient ? range_update(o, step, &call)
                    : o->rule->whole    ? o->rule->update(&call)
                                        : moving_update(o, &call, 0, o->count));
}

/* ---- for rules ---- */

double lk__power(double base, int64_t n)
{
    double power = 1;
    for (; n > 0; n /= 2) {
        if (n % 2)
            power *= base;
        base *= base;
    }
    return power;
}

lk__update lk__update_of(const lk_update_call *call)
{
    const lk_optimizer_options *all = call->options;
    return (lk__update){.w = call->w,
                        .g = call->g,
                        .m = call->state[0],
                        .v = call->state[1],
                        .scale = call->scale,
                        .limit = all->clip > 0 ? all->clip : HUGE_VAL,
                        .decay = all->decay,
                        .rate = call->rate,
                        .keep = 1};
}

static const lk_descriptor *rule_at(int i)
{
    return lk_update_rules[i] ? &lk_update_rules[i]->descriptor : NULL;
}

const lk_registry lk_registry_optimizer = {.name = "optimizer",
                                           .plural = "optimizers",
                                           .summary = "how parameters follow their gradients",
                                           .at = rule_at};
