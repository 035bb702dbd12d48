/* lk_multi_node_optimizer: an optimizer around an optimizer; multi_node.h draws its updates.
 *
 * The program makes it and calls it on each rank, on the thread that has the communicator.  In each update
 * the ranks first tell each other what they bring (mean.h), so that they broadcast, add up and step, or
 * fail, together.
 *
 * A communicator learns its links, and makes the memory that the ranks of a node share, in calls that
 * block: so with double buffering the first mean is waited for.
 */
#include "multinode/multi_node_optimizer.h"

#include "base/failure.h"
#include "base/fpenv.h"
#include "coll/agree.h"
#include "coll/coll.h"
#include "comm/progress_thread.h"
#include "optim/optimizer.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/map.h>

#include <string.h>

/* ---- making ---- */

static void parts_free(lk__mn_parts *p)
{
    lk__mean_close(&p->mean);
    lk_slab_free(p->sums);
    lk_slab_free(p->pending);
    lk_free(p->has);
    lk_free(p->pending_has);
    lk_free(p->flags);
    *p = (lk__mn_parts){.actual = NULL};
}

static lk_status parts_fill(lk_multi_node_optimizer *o, lk_optimizer *actual, lk__mn_parts *p)
{
    LK_CHECK(actual, LK_EINVAL, "actual is NULL");
    lk_mean_grad_options how = {.algorithm = o->options.communicator,
                                .wire = (lk_wire)o->options.wire,
                                .zero_fill = o->options.zero_fill};
    p->actual = actual;
    LK_TRY(lk__mean_open(&p->mean, o->comm, actual->params, &how));
    p->mean.by_rank = o->options.mean_of_means;
    LK_TRY(lk_alloc_zero(&p->has, p->mean.slices, sizeof *p->has));
    LK_TRY(lk_alloc_zero(&p->pending_has, p->mean.slices, sizeof *p->pending_has));
    LK_TRY(lk_alloc_zero(&p->flags, 2 * p->mean.slices, sizeof *p->flags));
    if (o->options.accumulate > 1)
        LK_TRY(lk_slab_new_like(actual->params, &p->sums));
    if (o->options.double_buffering)
        LK_TRY(lk_slab_new_like(actual->params, &p->pending));
    return LK_OK;
}

static lk_status parts_make(lk_multi_node_optimizer *o, lk_optimizer *actual, lk__mn_parts *p)
{
    *p = (lk__mn_parts){.actual = NULL};
    lk_status st = lk_agree(o->comm, parts_fill(o, actual, p));
    if (st != LK_OK)
        parts_free(p);
    return LK_TRACE(st);
}

static lk_status optimizer_make(lk_multi_node_optimizer *o, lk_optimizer *actual, lk_comm *comm,
                                const lk__mn_settings *settings)
{
    LK_TRY(lk__mn_options_take(o, comm, settings));
    if (comm)
        LK_TRY(lk_comm_dup(comm, &o->comm));
    LK_TRY(parts_make(o, actual, &o->parts));
    o->helps = o->comm && o->options.double_buffering &&
               lk__progress_thread_for(o->comm, "double_buffering");
    return LK_OK;
}

static lk_status optimizer_new(lk_optimizer *actual, lk_comm *comm, const lk__mn_settings *settings,
                               lk_multi_node_optimizer **out)
{
    lk_multi_node_optimizer *o = NULL;
    *out = NULL;
    LK_TRY(lk__agree_alloc(comm, &o, sizeof *o));
    lk_status st = optimizer_make(o, actual, comm, settings);
    if (st != LK_OK) {
        lk_multi_node_optimizer_free(o);
        LK_TRY(st);
    }
    *out = o;
    return LK_OK;
}

lk_status lk_multi_node_optimizer_new(lk_optimizer *actual, lk_comm *comm, const char *options,
                                      lk_multi_node_optimizer **out)
{
    LK_FP_GUARD();
    return LK_TRACE(optimizer_new(actual, comm, &(lk__mn_settings){.text = options}, out));
}

lk_status lk_multi_node_optimizer_new_options(lk_optimizer *actual, lk_comm *comm,
                                              const lk_multi_node_options *options,
                                              lk_multi_node_optimizer **out)
{
    static const lk_multi_node_options none;
    return LK_TRACE(
        optimizer_new(actual, comm, &(lk__mn_settings){.options = options ? options : &none}, out));
}

/* Wait for the mean that is under way, if one is.  What fails here must become known to all ranks, which then
 * drop it together. */
static lk_status pending_wait(lk_multi_node_optimizer *o)
{
    if (!o->under_way)
        return LK_OK;
    o->under_way = false;
    return LK_TRACE(lk__mean_finish(&o->parts.mean, lk_slab_data(o->parts.pending)));
}

void lk_multi_node_optimizer_free(lk_multi_node_optimizer *o)
{
    lk__failure why;
    if (!o)
        return;
    lk__failure_get(&why);
    if (pending_wait(o) != LK_OK)
        lk__failure_set(&why);
    if (o->helps)
        (void)!lk_comm_set_progress(o->comm, false);
    parts_free(&o->parts);
    lk_comm_close(o->comm);
    lk_arena_free(o->arena);
    lk_free(o);
}

lk_status lk_multi_node_optimizer_set_actual(lk_multi_node_optimizer *o, lk_optimizer *actual)
{
    lk__mn_parts parts;
    LK_TRY(lk_multi_node_optimizer_settle(o));
    LK_TRY(parts_make(o, actual, &parts));
    parts_free(&o->parts);
    o->parts = parts;
    return LK_OK;
}

lk_status lk_multi_node_optimizer_settle(lk_multi_node_optimizer *o)
{
    LK_FP_GUARD();
    if (!o->under_way)
        return LK_OK;
    lk_status st = lk_agree(o->comm, pending_wait(o));
    if (st != LK_OK)
        o->parts.number[LK__MN_PENDING] = 0;
    return LK_TRACE(st);
}

/* ---- updates ---- */

/* What this rank was given, by itself. */
static lk_status input_check(const lk_multi_node_optimizer *o, const lk_multi_node_input *input)
{
    const lk__mean *m = &o->parts.mean;
    LK_CHECK(input && input->grads, LK_EINVAL, "%s is NULL", input ? "grads" : "input");
    LK_CHECK(input->samples >= 0, LK_EINVAL, "%lld samples", (long long)input->samples);
    const lk_slab_layout *layout = lk_slab_layout_of(input->grads);
    LK_CHECK(lk_slab_layout_slices(layout) >= m->slices &&
                 lk__layout_hash(layout, m->slices) == m->hash,
             LK_EINVAL, "the gradients do not begin with the %lld tensors of the parameters",
             (long long)m->slices);
    return LK_TRACE(lk__fp_check());
}

static lk_status broadcast(lk_multi_node_optimizer *o)
{
    lk__mn_parts *p = &o->parts;
    LK_TRY(lk_bcast_data(o->comm, p->actual->params, 0));
    p->number[LK__MN_BROADCAST] = 1;
    p->number[LK__MN_PENDING] = 0;
    return LK_OK;
}

/* Add n g to what was accumulated. */
static lk_status accumulate(lk_multi_node_optimizer *o, const lk_multi_node_input *input)
{
    lk__mn_parts *p = &o->parts;
    const lk__mean *m = &p->mean;
    if (p->number[LK__MN_ACCUMULATED]++ == 0)
        lk_slab_zero(p->sums);
    for (int64_t i = 0; i < m->slices && m->samples > 0; i++) {
        lk_slab_slice slice;
        LK_TRY(lk_slab_layout_slice(m->layout, i, &slice));
        const char *g = (const char *)lk_slab_data(input->grads) + slice.offset;
        char *sum = (char *)lk_slab_data(p->sums) + slice.offset;
        if (!input->has_grad || input->has_grad[i])
            LK_TRY(lk_map2(m->dtype, LK_MAP2_AXPY, (double)m->samples, slice.count, g, sum, sum));
    }
    p->samples = m->samples_so_far;
    return LK_OK;
}

/* All that was accumulated, in the place of the gradients that were given. */
static lk_status accumulated_take(lk_multi_node_optimizer *o, void *data)
{
    lk__mn_parts *p = &o->parts;
    const lk__mean *m = &p->mean;
    memcpy(data, lk_slab_data(p->sums), (size_t)lk_slab_layout_bytes(m->layout));
    if (o->options.mean_of_means && p->samples > 1)
        LK_TRY(lk__reduce_op_finish(LK_REDUCE_AVG, m->dtype, m->elements, p->samples, data));
    return LK_OK;
}

/* A step of the actual optimizer by the mean in `grads` of the tensors that `has` one. */
static lk_status step(lk_multi_node_optimizer *o, const lk_multi_node_input *input, const bool *has,
                      lk_multi_node_report *report)
{
    lk__mn_parts *p = &o->parts;
    bool *frozen = p->flags;
    for (int64_t i = 0; i < p->mean.slices; i++)
        frozen[i] = !has[i] || (input->frozen && input->frozen[i]);
    lk_optimizer_input in = {.grads = input->grads,
                             .at = {.step = p->number[LK__MN_STEPS],
                                    .steps_per_epoch = input->steps_per_epoch,
                                    .epochs = input->epochs},
                             .frozen = frozen};
    LK_TRY(lk_optimizer_step(p->actual, &in, &report->actual));
    p->number[LK__MN_STEPS]++;
    report->act = LK_MULTI_NODE_STEPPED;
    return LK_OK;
}

/* Exchange the contents of two arrays. */
static void swap(char *a, char *b, int64_t bytes)
{
    char block[4096];
    for (int64_t at = 0, n; at < bytes; at += n) {
        n = bytes - at < (int64_t)sizeof block ? bytes - at : (int64_t)sizeof block;
        memcpy(block, a + at, (size_t)n);
        memcpy(a + at, b + at, (size_t)n);
        memcpy(b + at, block, (size_t)n);
    }
}

/* Exchange which tensors the mean that is pending is of with those that the next one will be of. */
static void swap_has(lk__mn_parts *p, bool *has)
{
    for (int64_t i = 0; i < p->mean.slices; i++) {
        bool of = has[i];
        has[i] = p->pending_has[i];
        p->pending_has[i] = of;
    }
}

/* Let the gradients begin to travel, and follow the mean that is pending, if one is.  If they cannot, it stays
 * pending: starting fails on all ranks, or ends the job. */
static lk_status step_late(lk_multi_node_optimizer *o, const lk_multi_node_input *input,
                           lk_multi_node_report *report)
{
    lk__mn_parts *p = &o->parts;
    lk__mean *m = &p->mean;
    bool follows = p->number[LK__MN_PENDING], *has = p->flags + m->slices;
    char *data = lk_slab_data(input->grads), *pending = lk_slab_data(p->pending);
    int64_t bytes = lk_slab_layout_bytes(m->layout);
    memcpy(has, m->has, (size_t)m->slices * sizeof *has);
    swap_has(p, has);
    if (follows)
        swap(data, pending, bytes);
    else
        memcpy(pending, data, (size_t)bytes);
    lk_status st = lk__mean_start(m, pending, !o->joined_once);
    if (st != LK_OK && follows) {
        swap(data, pending, bytes);
        swap_has(p, has);
    }
    LK_TRY(st);
    o->joined_once = o->under_way = true;
    p->number[LK__MN_PENDING] = 1;
    report->act = LK_MULTI_NODE_STARTED;
    if (follows)
        LK_TRY(step(o, input, has, report));
    return LK_OK;
}

/* Add the gradients of all ranks up and follow them, when enough have been accumulated. */
static lk_status follow(lk_multi_node_optimizer *o, const lk_multi_node_input *input,
                        lk_multi_node_report *report)
{
    lk__mn_parts *p = &o->parts;
    lk__mean *m = &p->mean;
    void *data = lk_slab_data(input->grads);
    if (p->sums) {
        LK_TRY(accumulate(o, input));
        report->act = LK_MULTI_NODE_ACCUMULATED;
        if (p->number[LK__MN_ACCUMULATED] < o->options.accumulate)
            return LK_OK;
        LK_TRY(accumulated_take(o, data));
        p->number[LK__MN_ACCUMULATED] = 0;
    }
    LK_TRY(lk__mean_weigh(m, data));
    if (o->options.double_buffering)
        return step_late(o, input, report);
    LK_TRY(lk__mean_start(m, data, true));
    LK_TRY(lk__mean_finish(m, data));
    return step(o, input, m->has, report);
}

/* What is exchanged: of gradients that are added up here, also what was added before. */
static lk__mean_part part_of(lk_multi_node_optimizer *o, const lk_multi_node_input *input)
{
    lk__mn_parts *p = &o->parts;
    bool *has = p->flags;
    int64_t done = p->number[LK__MN_ACCUMULATED];
    for (int64_t i = 0; i < p->mean.slices; i++) {
        has[i] = !input->has_grad || input->has_grad[i] || (done > 0 && p->has[i]);
        p->has[i] = has[i];
    }
    return (lk__mean_part){.samples = input->samples,
                           .before = done > 0 ? p->samples : 0,
                           .has_grad = has,
                           .wants_broadcast = !p->number[LK__MN_BROADCAST],
                           .weighed = p->sums,
                           .stays = done + 1 < o->options.accumulate};
}

static lk_status update(lk_multi_node_optimizer *o, const lk_multi_node_input *input,
                        lk_multi_node_report *report)
{
    lk__mn_parts *p = &o->parts;
    lk__mean_part mine = {.samples = 0};
    lk_status st = input_check(o, input);
    if (st == LK_OK)
        mine = part_of(o, input);
    lk_status late = pending_wait(o);
    mine.lost = late != LK_OK;
    st = lk__mean_exchange(&p->mean, &mine, late != LK_OK ? late : st);
    if (p->mean.lost)
        p->number[LK__MN_PENDING] = 0;
    LK_TRY(st);
    if (p->mean.broadcast) {
        p->number[LK__MN_ACCUMULATED] = 0;
        return broadcast(o);
    }
    return follow(o, input, report);
}

lk_status lk_multi_node_optimizer_update(lk_multi_node_optimizer *o,
                                         const lk_multi_node_input *input,
                                         lk_multi_node_report *report)
{
    LK_FP_GUARD();
    lk_multi_node_report own;
    report = report ? report : &own;
    *report = (lk_multi_node_report){.act = LK_MULTI_NODE_BROADCAST};
    lk_status st = update(o, input, report);
    if (st != LK_OK)
        o->parts.number[LK__MN_ACCUMULATED] = 0;
    LK_TRY(st);
    report->steps = o->parts.number[LK__MN_STEPS];
    return LK_OK;
}

int64_t lk_multi_node_optimizer_steps(const lk_multi_node_optimizer *o)
{
    return o->parts.number[LK__MN_STEPS];
}
