/* lk_summary: sums, counts and metrics by name, as one rank adds them up.  A program or its evaluator has
 * one; summary_join.c joins those of all ranks.
 */
#include "multinode/summary.h"

#include "base/fpenv.h"
#include "base/memory/grow.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/checked.h>

#include <string.h>

lk_status lk_summary_new(lk_summary **out)
{
    return LK_TRACE(lk_alloc_zero(out, 1, sizeof **out));
}

static void entry_free(lk__summary_entry *e)
{
    lk_free(e->number);
    lk_arena_free(e->arena);
}

void lk_summary_clear(lk_summary *s)
{
    for (int64_t i = 0; i < s->n; i++)
        entry_free(&s->entry[i]);
    s->n = 0;
    s->joined = false;
}

void lk_summary_free(lk_summary *s)
{
    if (!s)
        return;
    lk_summary_clear(s);
    lk_free(s->entry);
    lk_free(s);
}

/* ---- entries ---- */

lk__summary_entry *lk__summary_find(const lk_summary *s, const char *name)
{
    for (int64_t i = 0; i < s->n; i++)
        if (strcmp(s->entry[i].name, name) == 0)
            return &s->entry[i];
    return NULL;
}

lk_status lk__summary_insert(lk_summary *s, const char *name, lk__summary_entry **out)
{
    LK_CHECK(name[0] && strlen(name) < LK_SUMMARY_NAME, LK_EINVAL,
             "a name of %zu bytes: there must be 1 to %d", strlen(name), LK_SUMMARY_NAME - 1);
    LK_TRY(lk__grow(&s->entry, &s->room, s->n + 1, sizeof *s->entry));
    int64_t at = s->n;
    while (at > 0 && strcmp(s->entry[at - 1].name, name) > 0)
        at--;
    lk__summary_entry *e = &s->entry[at];
    memmove(e + 1, e, (size_t)(s->n - at) * sizeof *e);
    memset(e, 0, sizeof *e);
    memcpy(e->name, name, strlen(name));
    s->n++;
    *out = e;
    return LK_OK;
}

void lk__summary_remove(lk_summary *s, lk__summary_entry *e)
{
    entry_free(e);
    s->n--;
    memmove(e, e + 1, (size_t)(s->entry + s->n - e) * sizeof *e);
}

static lk_status open_check(const lk_summary *s)
{
    LK_CHECK(!s->joined, LK_ESTATE,
             "the summary is joined: nothing can be added before lk_summary_clear()");
    return LK_OK;
}

lk_status lk_summary_add(lk_summary *s, const char *name, double sum, int64_t count)
{
    LK_TRY(open_check(s));
    LK_CHECK(name, LK_EINVAL, "name is NULL");
    LK_CHECK(count >= 0, LK_EINVAL, "%s: a sum over %lld samples", name, (long long)count);
    lk__summary_entry *e = lk__summary_find(s, name);
    if (!e)
        LK_TRY(lk__summary_insert(s, name, &e));
    LK_CHECK(e->n_numbers == 0, LK_EINVAL, "%s is a metric: give the sum another name", name);
    LK_TRY(lk_add_i64(e->count, count, &e->count));
    lk__exact_add(&e->sum, sum);
    return LK_OK;
}

/* ---- metrics ---- */

/* What one of the rows of a tensor is. */
static lk_status row_type(const char *what, const lk_tensor *t, lk_tensor_type *out)
{
    lk_shape shape = lk_tensor_shape(t);
    LK_CHECK(shape.ndim >= 1 && lk_tensor_is_contiguous(t), LK_EINVAL,
             "%s is %s%s: it must be contiguous, and have an axis of samples", what,
             lk_tensor_text(t).s, lk_tensor_is_contiguous(t) ? "" : ", not contiguous");
    *out = (lk_tensor_type){.dtype = lk_tensor_dtype(t), .shape = {.ndim = shape.ndim - 1}};
    memcpy(out->shape.dim, shape.dim + 1, (size_t)out->shape.ndim * sizeof shape.dim[0]);
    return LK_OK;
}

static bool is_same_type(const lk_tensor_type *a, const lk_tensor_type *b)
{
    return a->dtype == b->dtype && lk_shape_is_equal(a->shape, b->shape);
}

/* Begin a metric with the first samples that are added to it. */
static lk_status metric_begin(lk__summary_entry *e)
{
    e->metric = (const lk_metric *)(const void *)e->config.descriptor;
    LK_TRY(e->metric->check(e->config.options, e->out, e->target));
    e->n_numbers = e->metric->numbers(e->config.options, e->out);
    return LK_TRACE(lk_alloc_zero(&e->number, e->n_numbers, sizeof *e->number));
}

/* Add samples to the metric of an entry, which is new or has such already. */
static lk_status metric_add(lk__summary_entry *e, const lk_tensor *y, const lk_tensor *target)
{
    lk_tensor_type out, want;
    LK_TRY(row_type("y", y, &out));
    LK_TRY(row_type("target", target, &want));
    LK_CHECK(lk_tensor_shape(y).dim[0] == lk_tensor_shape(target).dim[0], LK_ESHAPE,
             "%s: y is %s, target %s", e->name, lk_tensor_text(y).s, lk_tensor_text(target).s);
    if (!e->metric) {
        e->out = out;
        e->target = want;
        LK_TRY(metric_begin(e));
    }
    LK_CHECK(is_same_type(&out, &e->out) && is_same_type(&want, &e->target), LK_ESHAPE,
             "%s: samples %s and targets %s, before %s%s and %s%s", e->name, lk_tensor_text(y).s,
             lk_tensor_text(target).s, lk_dtype_name(e->out.dtype), lk_shape_text(e->out.shape).s,
             lk_dtype_name(e->target.dtype), lk_shape_text(e->target.shape).s);
    return LK_TRACE(e->metric->add(e->config.options, y, target, e->number));
}

/* The config of a new entry: one of the registry, or a copy of the program's. */
static lk_status config_take(lk__summary_entry *e, const char *metric, const char *options,
                             const lk_config *config)
{
    LK_TRY(lk_arena_new(&e->arena));
    if (config) {
        return LK_TRACE(lk_config_with_defaults(config, e->arena, &e->config));
    }
    LK_TRY(lk_config_parse(&lk_registry_metric, metric, options, e->arena, &e->config));
    if (options)
        LK_TRY(lk_arena_text(e->arena, options, strlen(options), &e->options));
    return LK_OK;
}

static bool is_same_metric(const lk__summary_entry *e, const char *metric, const char *options,
                           const lk_config *config)
{
    if (!e->metric)
        return false;
    if (config)
        return e->config.descriptor == config->descriptor &&
               (!config->options || e->config.options == config->options);
    return strcmp(e->metric->descriptor.name, metric) == 0 &&
           strcmp(e->options ? e->options : "", options ? options : "") == 0;
}

/* By name and options, or by config. */
static lk_status metric_put(lk_summary *s, const char *name, const char *metric,
                            const char *options, const lk_config *config, const lk_tensor *y,
                            const lk_tensor *target)
{
    LK_TRY(open_check(s));
    LK_CHECK(metric && y && target, LK_EINVAL, "%s is NULL",
             !metric ? "metric"
             : !y    ? "y"
                     : "target");
    name = name ? name : metric;
    lk__summary_entry *e = lk__summary_find(s, name);
    if (e) {
        LK_CHECK(is_same_metric(e, metric, options, config), LK_EINVAL,
                 "%s is there already, and is not %s with these options: give it another name",
                 name, metric);
        return LK_TRACE(metric_add(e, y, target));
    }
    LK_TRY(lk__summary_insert(s, name, &e));
    lk_status st = LK_OK;
    LK_TRY_TO(fail, config_take(e, metric, options, config));
    LK_TRY_TO(fail, metric_add(e, y, target));
    return LK_OK;
fail:
    lk__summary_remove(s, e);
    return st;
}

lk_status lk_summary_add_metric(lk_summary *s, const char *name, const char *metric,
                                const char *options, const lk_tensor *y, const lk_tensor *target)
{
    LK_FP_GUARD();
    return LK_TRACE(metric_put(s, name, metric, options, NULL, y, target));
}

lk_status lk_summary_add_metric_config(lk_summary *s, const char *name, const lk_config *metric,
                                       const lk_tensor *y, const lk_tensor *target)
{
    LK_FP_GUARD();
    LK_CHECK(metric && metric->descriptor, LK_EINVAL, "metric is NULL");
    return LK_TRACE(metric_put(s, name, metric->descriptor->name, NULL, metric, y, target));
}

/* ---- what it says ---- */

int64_t lk_summary_size(const lk_summary *s)
{
    return s->n;
}

const char *lk_summary_name(const lk_summary *s, int64_t i)
{
    return i >= 0 && i < s->n ? s->entry[i].name : NULL;
}

/* The entry of a name that is to be known. */
static lk_status look_up(const lk_summary *s, const char *name, const lk__summary_entry **out)
{
    char known[256] = "";
    LK_CHECK(s->joined, LK_ESTATE, "%s has no value before lk_summary_join()", name);
    *out = lk__summary_find(s, name);
    for (int64_t i = 0; !*out && i < s->n; i++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i > 0 ? ", " : "", s->entry[i].name);
    }
    LK_CHECK(*out, LK_EINVAL, "there is no \"%s\"; the names are %s", name,
             s->n > 0 ? known : "none");
    return LK_OK;
}

lk_status lk_summary_value(const lk_summary *s, const char *name, double *out)
{
    const lk__summary_entry *e;
    LK_TRY(look_up(s, name, &e));
    *out = e->value;
    return LK_OK;
}

lk_status lk_summary_count(const lk_summary *s, const char *name, int64_t *out)
{
    const lk__summary_entry *e;
    LK_TRY(look_up(s, name, &e));
    *out = e->count;
    return LK_OK;
}

lk_status lk_summary_numbers(const lk_summary *s, const char *name, const double **numbers,
                             int64_t *n)
{
    const lk__summary_entry *e;
    LK_TRY(look_up(s, name, &e));
    *numbers = e->number;
    *n = e->n_numbers;
    return LK_OK;
}
