/* A pass in segments: values within one are not kept for backward, which computes them again.
 *
 * lk_model_forward() runs the model's list so when lk_pass.recompute says it, and lk_pass_layers() the lists
 * within a layer, on the thread of the tape.  A list is cut where the values of its layers would be more than
 * a segment's share.  A layer that makes more than that alone and joins what its lists give, such as a level
 * of a U-Net, is in no segment: its lists are cut in turn, and its join is the beginning of the segment
 * behind it, so that not even what it gives is kept.
 *
 *     conv norm relu  conv norm relu  residual[ pool conv norm relu  conv norm relu  up ] conv norm relu
 *     |------ 1 ----| |------ 2 ----|           |-------- 3 -------| |------ 4 --------| |------ 5 -----|
 *                                                                                    the join and these
 *
 * Each layer is run twice at most: within a segment there is no other.  Where lists are cut depends on the
 * model alone, so that ranks meet in the second run as in the first, and a plan can say what that sends: then
 * nothing is run, and it is noted which layers would be run again.
 */
#include "autograd/tape_access.h"
#include "nn/model.h"

#include <string.h>

/* Layers of a list, and what they start from.  Lies in the tape's memory until its reset. */
typedef struct segment {
    lk_pass pass;
    struct lk__pass_run run;
    const lk__list *list;
    lk_range layers;
    double size;                    /* of their values */
    const lk_layer_instance *joins; /* the layer whose lists gave x; NULL: x is one value */
    lk_var x[LK_MAX_LISTS];
} segment;

/* ---- sizes ---- */

static double list_size(const lk__net *net, const lk__list *list);

/* Elements of a sample that a layer gives. */
static double value_size(const lk_layer_instance *instance)
{
    int64_t count = 0;
    return lk_shape_count(instance->out.shape, &count) == LK_OK ? (double)count : 0;
}

/* The same, and those of its lists. */
static double layer_size(const lk__net *net, const lk_layer_instance *instance)
{
    double size = value_size(instance);
    for (int k = 0; k < instance->n_lists; k++)
        size += list_size(net, &net->list[instance->list[k]]);
    return size;
}

static double list_size(const lk__net *net, const lk__list *list)
{
    double size = 0;
    for (int64_t i = 0; i < list->n; i++) {
        const lk_layer_instance *instance = &net->instance[list->instance[i]];
        size += layer_size(net, instance);
        if (list->fusion[i] != LK__APART) /* what is between is never written */
            size -= value_size(instance);
    }
    return size;
}

double lk__segments_size(const lk__net *net, int64_t n)
{
    return list_size(net, &net->list[0]) / (double)n;
}

/* ---- one segment ---- */

static lk_status segment_run(lk_tape *tape, void *arg, lk_var *out)
{
    segment *s = arg;
    lk_var x = s->x[0];
    (void)tape;
    s->pass.run = &s->run;
    if (s->joins)
        LK_TRY(lk__layer_join(&s->pass, s->joins, s->x, &x));
    LK_TRY(lk__list_run(&s->pass, s->list, s->layers, x, out));
    if (out->serial == s->x[0].serial) /* the layers have left it as it was */
        LK_TRY(lk_reshape(*out, lk_shape_of(*out), out));
    return LK_OK;
}

/* Run the segment to be run again.  Of a value by tiles a layer with windows fetches the margin where it lies,
 * for all who read it.  So the second run may find a margin filled that was not yet when the first passed it
 * on: no layer reads that part of what it gives, and it is not compared. */
static lk_status segment_keep(const lk_pass *pass, segment *s, lk_var *x)
{
    if (pass->parts)
        LK_TRY(lk__recompute_unchecked(pass->tape, segment_run, s, 1, x));
    else
        LK_TRY(lk_recompute(pass->tape, segment_run, s, 1, x));
    return LK_OK;
}

/* Note which layers of the segment are run again. */
static void segment_note(const segment *s, const lk__net *net, lk__again *again)
{
    for (int64_t i = s->layers.first; i < s->layers.first + s->layers.n; i++)
        again[s->list->instance[i]] = LK__RUN_AGAIN;
    if (s->joins)
        again[s->joins - net->instance] = LK__JOINED_AGAIN;
}

/* The segment is complete: run it.  *x becomes what it gives.  The last one's values are needed at once,
 * nothing is saved by a second run. */
static lk_status segment_end(const lk_pass *pass, segment *s, bool last, lk_var *x)
{
    segment *kept = NULL;
    bool once = last || s->layers.n == 0;
    if (s->layers.n == 0 && !s->joins)
        return LK_OK;
    if (pass->run->again) {
        if (!once)
            segment_note(s, pass->run->model->net, pass->run->again);
        return LK_OK;
    }
    s->pass = *pass;
    s->run = *pass->run;
    s->run.most = 0;
    lk_status st = lk__tape_room(pass->tape, (int64_t)sizeof *kept, &kept);
    if (st == LK_OK) {
        *kept = *s;
        st = once ? segment_run(pass->tape, kept, x) : segment_keep(pass, kept, x);
        pass->run->named |= kept->run.named;
    }
    return LK_TRACE(st);
}

/* ---- a list ---- */

/* Whether a layer is more than a segment, and its lists can be cut. */
static bool is_opened(const lk_pass *pass, const lk_layer_instance *instance)
{
    return instance->n_lists > 0 && instance->layer->join &&
           layer_size(pass->run->model->net, instance) > pass->run->most;
}

/* Whether to leave a layer with the one before it: it gives as much as it gets, and is soon computed. */
static bool follows(const lk_layer_instance *instance)
{
    return instance->n_lists == 0 &&
           (instance->reach == LK_REACH_ELEMENT || instance->reach == LK_REACH_BATCH);
}

/* How many layers from `i` on, and before `last`, stay together, and the size of their values. */
static int64_t unit_at(const lk_pass *pass, const lk__list *list, int64_t i, int64_t last,
                       double *size)
{
    const lk__net *net = pass->run->model->net;
    int64_t end = i;
    *size = 0;
    while (end < last) {
        const lk_layer_instance *instance;
        lk_act act;
        int64_t n = lk__layers_at_once(pass, list, end, last, &instance, &act);
        double more = 0;
        for (int64_t k = end; k < end + n; k++)
            more += layer_size(net, &net->instance[list->instance[k]]);
        if (n > 1)
            more -= value_size(&net->instance[list->instance[end]]);
        if (end > i && (!follows(instance) || *size + more / 2 > pass->run->most))
            break;
        *size += more;
        end += n;
    }
    return end - i;
}

/* A segment of no layers yet that begins at number `i` with x. */
static segment begin_at(const lk__list *list, int64_t i, lk_var x)
{
    return (segment){.list = list, .layers = {i, 0}, .x = {x}};
}

static lk_status lists_note(const lk_pass *pass, const lk_layer_instance *instance, lk_var x)
{
    const lk__net *net = pass->run->model->net;
    for (int k = 0; k < instance->n_lists; k++) {
        const lk__list *list = &net->list[instance->list[k]];
        LK_TRY(lk__segments_run(pass, list, (lk_range){0, list->n}, x, &x));
    }
    return LK_OK;
}

/* Run the lists of a layer, *s becomes the segment that begins with its join. */
static lk_status open_at(const lk_pass *pass, const lk_layer_instance *instance, int64_t i,
                         lk_var x, segment *s)
{
    int64_t count;
    *s = begin_at(s->list, i + 1, x);
    s->joins = instance;
    LK_TRY(lk_shape_count(instance->out.shape, &count));
    s->size = (double)count;
    if (pass->run->again) {
        return LK_TRACE(lists_note(pass, instance, x));
    }
    return LK_TRACE(lk__layer_run_lists(pass, instance, x, s->x));
}

lk_status lk__segments_run(const lk_pass *pass, const lk__list *list, lk_range layers, lk_var x,
                           lk_var *out)
{
    const lk__net *net = pass->run->model->net;
    const int64_t end = layers.first + layers.n;
    bool inner = list != &net->list[0];
    segment s = begin_at(list, layers.first, x);
    for (int64_t i = layers.first, n; i < end; i += n) {
        const lk_layer_instance *instance = &net->instance[list->instance[i]];
        bool opened = is_opened(pass, instance);
        double size;
        n = opened ? 1 : unit_at(pass, list, i, end, &size);
        if (opened || (s.layers.n > 0 && s.size + size / 2 > pass->run->most)) {
            LK_TRY(segment_end(pass, &s, false, &x));
            s = begin_at(list, i, x);
        }
        if (opened) {
            LK_TRY(open_at(pass, instance, i, x, &s));
        } else {
            s.layers.n += n;
            s.size += size;
        }
    }
    LK_TRY(segment_end(pass, &s, !inner, &x));
    *out = x;
    return LK_OK;
}

lk_status lk__segments_note(const lk_model *model, int64_t n, const lk_layer_part *part,
                            lk_range layers, lk__again *again)
{
    struct lk__pass_run run = {
        .model = (lk_model *)model, .most = lk__segments_size(model->net, n), .again = again};
    lk_pass_parts parts = {.layer = part};
    lk_pass pass = {.parts = part ? &parts : NULL, .run = &run};
    lk_var none = LK_NO_VAR;
    return LK_TRACE(lk__segments_run(&pass, &model->net->list[0], layers, none, &none));
}
