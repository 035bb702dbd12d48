/* A pass through a chain list: the components of this rank in order, with messages before and behind each.
 *
 *     y = f(what came from in_ranks);  y to each of out_ranks
 *
 * A recurrent model takes and gives its carry as well, behind the others.
 *
 * All is on one tape, so backward answers the messages in the reverse order.  What a rank keeps for itself
 * passes a node that does nothing, at the place among the messages where it is put into the queue: the
 * gradients of y then add up in the reverse order of out_ranks, also where one is this rank.  Without the node
 * that of the own rank would count where the value is used.
 */
#include "base/failure.h"
#include "coll/agree.h"
#include "dist/common/dist.h"
#include "nn/model.h"
#include "parallel/chain/chain.h"
#include "tensor/tensor.h"

#include <stdio.h>
#include <string.h>

/* ---- keep: y = x, dx = dy ---- */

static lk_status keep_infer(lk_call *c, lk_output_spec *out)
{
    out->dtype = c->x[0]->dtype;
    out->shape = c->x[0]->shape;
    out->is_view = true;
    memcpy(out->stride, c->x[0]->stride, sizeof out->stride);
    return LK_OK;
}

static lk_status keep_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    (void)c;
    din[0] = dout[0];
    return LK_OK;
}

static const lk_op keep = {.name = "keep",
                           .summary = "a value that a rank keeps for itself",
                           .min_in = 1,
                           .max_in = 1,
                           .n_out = 1,
                           .flags = LK_OP_STRIDED,
                           .infer = keep_infer,
                           .backward = keep_backward};

/* ---- a pass ---- */

typedef struct run {
    lk_chain *chain;
    const lk_pass *pass;
    int n_x;
    bool trial, lost; /* lost: there are no values here any more */
    char *bad; /* for the name of the first component that gives what is not finite, or NULL */
    size_t bad_size;
} run;

/* Values from `rank`, of which a trial says first whether there are any. */
static lk_status list_receive(run *r, const lk__component *c, int rank, lk_list *to)
{
    int64_t there = 1;
    if (r->trial)
        LK_TRY(lk_recv(r->chain->comm, &there, 1, LK_I64, rank, 0, c->name, NULL));
    if (!there)
        r->lost = true;
    else
        LK_TRY(lk_dist_recv_list(r->pass->tape, r->chain->comm, rank, 0, c->name, to));
    return LK_OK;
}

static lk_status list_send(run *r, const lk__component *c, const lk_list *y, int rank)
{
    int64_t there = !r->lost;
    if (r->trial)
        LK_TRY(lk_send(r->chain->comm, &there, 1, LK_I64, rank, 0, c->name));
    if (there)
        LK_TRY(lk_dist_send_list(r->chain->comm, y->at, y->n, rank, 0, c->name, NULL));
    return LK_OK;
}

static lk_status list_keep(lk_chain *chain, const lk_list *y)
{
    lk_list *to = &chain->queue[chain->last++];
    to->n = y->n;
    for (int i = 0; i < to->n; i++)
        LK_TRY(lk_apply(y->at[i].tape, &keep, &y->at[i], 1, NULL, &to->at[i]));
    return LK_OK;
}

static lk_status inputs_take(run *r, const lk__component *c)
{
    lk_chain *chain = r->chain;
    for (int i = 0; i < lk__component_takes(c); i++) {
        if (c->in[i] != lk_comm_rank(chain->comm)) {
            LK_TRY(list_receive(r, c, c->in[i], &chain->in[i]));
            continue;
        }
        if (r->lost)
            continue;
        const lk_list *from = &chain->queue[chain->first++];
        chain->in[i].n = from->n;
        memcpy(chain->in[i].at, from->at, (size_t)from->n * sizeof *from->at);
    }
    return LK_OK;
}

static lk_status output_give(run *r, const lk__component *c)
{
    for (int i = 0; i < lk__component_gives(c); i++) {
        const lk_list *y = i < c->n_out ? &r->chain->out : &r->chain->carry;
        if (c->out[i] != lk_comm_rank(r->chain->comm))
            LK_TRY(list_send(r, c, y, c->out[i]));
        else if (!r->lost)
            LK_TRY(list_keep(r->chain, y));
    }
    return LK_OK;
}

/* Build a model for the samples of x, and hold it. */
static lk_status model_open(const lk__component *c, lk_var x)
{
    lk_model_spec spec = c->is.spec;
    lk_shape shape = lk_shape_of(x);
    LK_CHECK(shape.ndim > 0, LK_ESHAPE, "a model takes samples, not %s%s",
             lk_dtype_name(lk_dtype_of(x)), lk_shape_text(shape).s);
    spec.in = (lk_tensor_type){.dtype = lk_dtype_of(x), .shape = {.ndim = shape.ndim - 1}};
    memcpy(spec.in.shape.dim, shape.dim + 1, (size_t)spec.in.shape.ndim * sizeof shape.dim[0]);
    if (!c->is.model->net)
        LK_TRY(lk_model_build(c->is.model, &spec));
    if (!c->is.model->net->params)
        LK_TRY(lk_model_hold(c->is.model, NULL));
    return LK_OK;
}

static lk_status list_is_finite(const lk_list *list, bool *finite)
{
    for (int i = 0; *finite && i < list->n; i++) {
        const lk_tensor *t = NULL;
        lk_tensor *flat = NULL;
        if (!lk_dtype_is_real(lk_dtype_of(list->at[i])))
            continue;
        LK_TRY(lk_value(list->at[i], &t));
        LK_TRY(lk_tensor_clone(t, LK_F64, &flat));
        const uint64_t *bits = lk_tensor_data(flat); /* looked at as such, nothing can trap */
        for (int64_t k = 0; *finite && k < lk_tensor_count(flat); k++)
            *finite = (bits[k] >> 52 & 0x7ff) != 0x7ff;
        lk_tensor_free(flat);
    }
    return LK_OK;
}

/* As lk_model_forward(), noting the layer if it is the first to give what is not finite. */
static lk_status model_run_checked(const run *r, lk_model *model, const lk_pass *pass, lk_var x,
                                   lk_var *y)
{
    char layer[128];
    bool finite = true;
    LK_TRY(lk_model_find_nonfinite(model, pass, x, layer, sizeof layer, y));
    LK_TRY(list_is_finite(&(lk_list){.at = &x, .n = 1}, &finite));
    if (layer[0] && finite)
        snprintf(r->bad, r->bad_size, "layer %s of ", layer);
    return LK_OK;
}

/* Note the component if it gives what is not finite, and got what is. */
static lk_status finite_check(const run *r, const lk_list *in, int n, const lk__component *c)
{
    lk__component_text name = lk__component_name(lk_comm_rank(r->chain->comm),
                                                 c - r->chain->component, c->name);
    bool before = true, finite = true;
    size_t used = r->bad ? strlen(r->bad) : 0;
    if (!r->bad || (used > 0 && r->bad[used - 1] != ' '))
        return LK_OK;
    for (int i = 0; i < n; i++)
        LK_TRY(list_is_finite(&in[i], &before));
    LK_TRY(list_is_finite(&r->chain->out, &finite));
    if (used > 0 || (before && !finite))
        snprintf(r->bad + used, r->bad_size - used, "%s", name.s);
    return LK_OK;
}

/* y = the model of x, with its accumulator and its carry. */
static lk_status model_apply(run *r, const lk__component *c, lk_var x, lk_var *y)
{
    lk_pass pass = *r->pass;
    lk_chain *chain = r->chain;
    if (r->trial)
        LK_TRY(model_open(c, x));
    if (lk_tape_is_recording(pass.tape))
        pass.accumulator = c->accumulator;
    if (c->takes_carry || c->gives_carry)
        LK_TRY(lk_model_forward_carry(
            c->is.model, &pass, x, c->takes_carry ? &chain->in[c->n_in] : NULL, &chain->carry, y));
    else if (r->bad && !r->bad[0])
        LK_TRY(model_run_checked(r, c->is.model, &pass, x, y));
    else
        LK_TRY(lk_model_forward(c->is.model, &pass, x, y));
    return LK_OK;
}

static lk_status component_run(run *r, const lk__component *c)
{
    lk_chain *chain = r->chain;
    const lk_list *in = c->n_in > 0 ? chain->in : chain->x;
    int n = c->n_in > 0 ? c->n_in : r->n_x;
    lk_list *y = &chain->out;
    *y = (lk_list){.at = y->at, .room = LK_COMPONENT_VALUES};
    if (c->is.model) {
        LK_CHECK(n == 1 && in[0].n == 1, LK_EINVAL, "a model takes one value, not %d",
                 n == 1 ? in[0].n : n);
        LK_TRY(model_apply(r, c, in[0].at[0], &y->at[0]));
        y->n = 1;
    } else {
        LK_TRY(c->is.fn(r->pass, c->is.arg, in, n, y));
    }
    LK_CHECK(y->n >= (c->n_out > 0) && y->n <= LK_COMPONENT_VALUES, LK_EINVAL, "gives %d values",
             y->n);
    for (int i = 0; i < y->n; i++)
        LK_CHECK(y->at[i].tape == r->pass->tape, LK_EINVAL,
                 "its value %d is not on the pass's tape", i);
    return LK_TRACE(finite_check(r, in, n, c));
}

static lk_status output_copy(const lk_list *y, lk_list *out)
{
    LK_CHECK(y->n <= out->room, LK_EINVAL, "gives %d values, and `out` has room for %d", y->n,
             out->room);
    memcpy(out->at, y->at, (size_t)y->n * sizeof *y->at);
    out->n = y->n;
    return LK_OK;
}

/* A failure of a rank whose messages others wait for is the end of the job. */
static lk_status ends_job(lk_chain *chain, lk_status st)
{
    if (st != LK_OK && !lk__is_end(st))
        lk__dist_end_job(chain->comm);
    return st;
}

static lk_status components_run(run r, const lk_var *x, lk_list *out)
{
    lk_chain *chain = r.chain;
    lk__failure failure;
    lk_status failed = LK_OK;
    chain->first = chain->last = 0;
    for (int i = 0; i < r.n_x; i++)
        chain->x[i].at[0] = x[i];
    for (int64_t k = 0; k < chain->n; k++) {
        const lk__component *c = &chain->component[k];
        LK_TRY(ends_job(chain, inputs_take(&r, c)));
        lk_status st = r.lost ? LK_OK : component_run(&r, c);
        if (st == LK_OK && lk__component_is_output(c) && out)
            st = output_copy(&chain->out, out);
        if (st != LK_OK && !lk__is_end(st))
            lk__error_prefix("%s: ", lk__component_name(lk_comm_rank(chain->comm), k, c->name).s);
        if (!r.trial || lk__is_end(st))
            LK_TRY(ends_job(chain, st));
        if (st != LK_OK) {
            r.lost = true;
            failed = st;
            lk__failure_get(&failure);
        }
        LK_TRY(ends_job(chain, output_give(&r, c)));
    }
    if (failed != LK_OK)
        lk__failure_set(&failure);
    return LK_TRACE(failed);
}

lk_status lk__chain_run(lk_chain *chain, const lk_pass *pass, const lk_var *x, int n_x, bool trial,
                        lk_list *out)
{
    return LK_TRACE(
        components_run((run){.chain = chain, .pass = pass, .n_x = n_x, .trial = trial}, x, out));
}

lk_status lk__chain_find_nonfinite(lk_chain *chain, const lk_pass *pass, const lk_var *x, int n_x,
                                   char *bad, size_t size)
{
    bad[0] = '\0';
    LK_TRY(ends_job(chain, lk__chain_make_room(chain, n_x)));
    return LK_TRACE(components_run(
        (run){.chain = chain, .pass = pass, .n_x = n_x, .bad = bad, .bad_size = size}, x, NULL));
}

static bool has_output(const lk_chain *chain)
{
    for (int64_t k = 0; k < chain->n; k++)
        if (lk__component_is_output(&chain->component[k]))
            return true;
    return false;
}

lk_status lk_chain_forward(lk_chain *chain, const lk_pass *pass, const lk_var *x, int n_x,
                           lk_list *out)
{
    LK_CHECK(chain && pass && pass->tape, LK_EINVAL, "chain, pass or tape is NULL");
    LK_CHECK(chain->built, LK_ESTATE, "the chain is not built: call lk_chain_build() first");
    LK_CHECK(!pass->accumulator, LK_EINVAL,
             "a chain adds up in lk_chain_accumulator(): pass->accumulator is NULL");
    LK_CHECK(n_x >= 0 && (x || n_x == 0), LK_EINVAL, "%d x", n_x);
    LK_CHECK(out ? out->at || out->room == 0 : !has_output(chain), LK_EINVAL,
             "this rank has an output, and there is no list for it");
    if (out)
        out->n = 0;
    LK_TRY(ends_job(chain, lk__chain_make_room(chain, n_x)));
    return LK_TRACE(lk__chain_run(chain, pass, x, n_x, false, out));
}
