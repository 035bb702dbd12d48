/* Segments: computed twice, so that their intermediate values need not be kept.
 *
 * The first run records nothing, but notes which values from outside it uses: they are the inputs
 * of the one node that stands for the segment.  Backward through that node runs the segment again,
 * recorded, behind the end of the tape, runs backward through this part, which adds the gradients
 * straight to the values outside, and cuts the part off.
 *
 * What the first run learnt from outside, such as which message a receive took, is kept with the node
 * (base/journal.h), and the second run learns the same.
 */
#include "autograd/tape.h"
#include "base/journal.h"
#include "base/memory/rehearsal.h"

typedef struct segment {
    lk_segment_fn *run;
    void *arg;
    lk__journal *journal;      /* of its first run, in the tape's arena */
    bool checked;              /* its second run must give what the first gave */
    uint64_t hash[LK_MAX_OUT]; /* of that */
} segment;

static lk_status segment_backward(lk_call *call, const lk_var *dout, lk_var *din);

/* The op of a segment with n outputs; lk_recompute() does what infer and forward would.  One that
 * communicates does so again in backward, whether or not this rank uses its outputs. */
#define SEGMENT(n, how)                                                                   \
    {                                                                                     \
        .name = "recompute", .n_out = (n), .attr_size = sizeof(segment), .saves_in = ~0u, \
        .flags = (how), .backward = segment_backward                                      \
    }
#define SEGMENTS(how)                                                      \
    {                                                                      \
        SEGMENT(1, how), SEGMENT(2, how), SEGMENT(3, how), SEGMENT(4, how) \
    }
static const lk_op segment_ops[2][LK_MAX_OUT] = {SEGMENTS(0), SEGMENTS(LK_OP_COLLECTIVE)};

/* Run the segment in a scope; afterwards only its outputs are left, owned by who is outside. */
static lk_status run_scoped(lk_tape *t, segment s, int n_out, lk_var *out)
{
    lk_status st;
    lk__scope scope;
    uint64_t serial = t->serial;
    lk_var made[LK_MAX_OUT] = {LK_NO_VAR, LK_NO_VAR, LK_NO_VAR, LK_NO_VAR};
    lk__scope_open(t, &scope);
    LK_TRY_TO(done, s.run(t, s.arg, made));
    memcpy(out, made, (size_t)n_out * sizeof *out); /* only now: it may be what `arg` points to */
    for (int j = 0; j < n_out && st == LK_OK; j++) {
        lk__value *v = NULL;
        LK_TRY_TO(done, lk__find(out[j], false, &v));
        if (out[j].tape != t || v->serial <= serial || v->outside)
            st = LK_RAISE(LK_EINVAL, "output %d of a segment is not a value that it computed", j);
        for (int k = 0; k < j; k++)
            if (out[j].serial == out[k].serial)
                st = LK_RAISE(LK_EINVAL, "outputs %d and %d of a segment are the same value", k, j);
    }
    for (int j = 0; j < n_out && st == LK_OK; j++)
        lk__value_hold(t, out[j].index);
done:
    lk__scope_close(t);
    for (int j = 0; st != LK_OK && j < n_out; j++)
        out[j] = LK_NO_VAR;
    for (int j = 0; st == LK_OK && j < n_out; j++)
        lk__scope_take(t, out[j].index);
    return st;
}

/* A copy of the notes since `begin` that lives as long as the node. */
static lk_status journal_keep(lk_tape *t, int64_t begin, lk__journal **out)
{
    lk__journal all = lk__journal_since(begin);
    LK_TRY(lk__node_arena_take(&t->node_arena, (int64_t)sizeof **out, out));
    **out = all;
    if (all.n == 0)
        return LK_OK;
    LK_TRY(lk__node_arena_take(&t->node_arena, all.n * (int64_t)sizeof *all.entry, &(*out)->entry));
    memcpy((*out)->entry, all.entry, (size_t)all.n * sizeof *all.entry);
    return LK_OK;
}

static uint64_t hash_of(const lk_tensor *t)
{
    lk_hash h = lk_hash_start();
    lk_tensor_hash(t, "", &h);
    return lk_hash_value(&h);
}

/* One node for the whole segment, whose inputs are what it used. */
static lk_status record(lk_tape *t, segment s, int n_out, const lk_var *out)
{
    bool needs_grad[LK_MAX_OUT];
    int64_t index[LK_MAX_OUT];
    LK_CHECK(t->capture.n <= INT32_MAX, LK_EOVERFLOW, "a segment with %lld inputs",
             (long long)t->capture.n);
    for (int j = 0; j < n_out; j++) {
        index[j] = out[j].index;
        if (s.checked)
            s.hash[j] = hash_of(&lk__value_at(t, index[j])->tensor);
        needs_grad[j] = lk__value_at(t, index[j])->needs_grad;
    }
    lk_call call = {.op = &segment_ops[t->capture.collective][n_out - 1],
                    .attr = &s,
                    .n_in = (int)t->capture.n,
                    .n_out = n_out};
    LK_TRY(lk__record(t, &call, t->capture.value, index));
    for (int j = 0; j < n_out; j++)
        lk__value_at(t, index[j])->needs_grad = needs_grad[j];
    return LK_OK;
}

static lk_status recompute(lk_tape *t, lk_segment_fn *run, void *arg, bool checked, int n_out,
                           lk_var *out)
{
    lk_status st;
    segment s;
    memset(&s, 0, sizeof s);
    s.run = run;
    s.arg = arg;
    s.checked = checked && !lk__rehearses();
    LK_CHECK(t && run && out, LK_EINVAL, "%s is NULL", !t ? "tape" : !run ? "segment" : "out");
    LK_CHECK(n_out >= 1 && n_out <= LK_MAX_OUT, LK_EINVAL, "%d outputs of a segment, 1 to %d",
             n_out, LK_MAX_OUT);
    if (!t->records || t->silent) {
        return LK_TRACE(run_scoped(t, s, n_out, out));
    }
    t->capture.n = 0;
    t->capture.needs_grad = t->capture.collective = false;
    t->capture.first_serial = t->serial + 1;
    t->capture.stamp = ++t->stamp;
    t->silent = true;
    int64_t begin = lk__journal_begin(), comm_calls = lk__journal_comm_count();
    st = run_scoped(t, s, n_out, out);
    t->silent = false;
    if (lk__journal_comm_count() != comm_calls)
        t->capture.needs_grad = t->capture.collective = true;
    LK_TRY_TO(done, st);
    LK_TRY_TO(done, lk__reset_check(t));
    if (t->capture.needs_grad) {
        LK_TRY_TO(done, journal_keep(t, begin, &s.journal));
        LK_TRY_TO(done, record(t, s, n_out, out));
    }
done:
    if (st == LK_ENOMEM && t->capture.collective)
        lk__failed_alone(t, st);
    lk__journal_end();
    return st;
}

lk_status lk_recompute(lk_tape *t, lk_segment_fn *run, void *arg, int n_out, lk_var *out)
{
    return LK_TRACE(recompute(t, run, arg, true, n_out, out));
}

lk_status lk__recompute_unchecked(lk_tape *t, lk_segment_fn *run, void *arg, int n_out, lk_var *out)
{
    return LK_TRACE(recompute(t, run, arg, false, n_out, out));
}

static lk_status replay(lk_tape *t, const segment *s, lk_var *out)
{
    bool records = t->records, replays = t->replays;
    t->records = t->replays = true;
    lk__journal_read(s->journal);
    lk_status st = s->run(t, s->arg, out);
    lk__journal_shut(s->journal);
    t->records = records;
    t->replays = replays;
    return LK_TRACE(st);
}

/* The second run gives the outputs again: their elements need not wait for it. */
static void outputs_drop(const lk_call *call)
{
    lk_tape *t = call->tape;
    for (int j = 0; j < call->n_out; j++) {
        lk__value *v = lk__value_at(t, call->out[j].index);
        if (!t->pass.retain && !v->keep && v->holds == 1) /* it may serve as a gradient */
            lk__value_drop(t, v);
    }
}

/* The second run must have given what the first gave; then its outputs get the gradients. */
static lk_status hand_over(const lk_call *call, const lk_var *out, const lk_var *dout)
{
    lk_tape *t = call->tape;
    const segment *s = call->attr;
    for (int j = 0; j < call->n_out; j++) {
        lk__value *new = NULL;
        const lk__value *old = lk__value_at(t, call->out[j].index);
        LK_TRY(lk__find(out[j], false, &new));
        LK_CHECK(!s->checked || hash_of(&new->tensor) == s->hash[j], LK_ESTATE,
                 "output %d of a segment, %s, is not what it was when backward runs the segment "
                 "again: it must do the same both times, and what its argument points to must live "
                 "that long",
                 j, lk_tensor_text(&old->tensor).s);
        if (!lk_is_var(dout[j]) || !lk__is_wanted(t, new))
            continue;
        new->reached = t->pass.stamp;
        LK_TRY(lk__grad_add(t, out[j].index, dout[j].index));
    }
    return LK_OK;
}

static lk_status segment_backward(lk_call *call, const lk_var *dout, lk_var *din)
{
    lk_status st;
    lk_var out[LK_MAX_OUT] = {{NULL, 0, 0}};
    lk_tape *t = call->tape;
    int64_t first = t->n_nodes;
    lk__node_arena_mark mark = lk__node_arena_here(&t->node_arena);
    (void)din; /* the gradients go straight to the values that the second run uses */
    outputs_drop(call);
    LK_TRY_TO(done, replay(t, call->attr, out));
    int64_t last = t->n_nodes;
    if (!t->pass.deposit)
        lk__pass_mark_useful(t, first);
    LK_TRY_TO(done, hand_over(call, out, dout));
    LK_TRY_TO(done, lk__pass_mark(t, first, last));
    LK_TRY_TO(done, lk__pass_run(t, first, last));
done:
    if (!t->pass.record)
        lk__nodes_cut(t, first, mark);
    return st;
}
