/* The slots of a tape's values and nodes: which are free, who owns a value, and where its elements
 * lie.  For the files of this room, on the tape's thread. */
#include "autograd/tape.h"

/* One more page of `bytes` bytes in a list of pages. */
static lk_status page_add(lk__pages *p, size_t bytes)
{
    LK_TRY(lk__grow(&p->page, &p->capacity, p->n + 1, sizeof *p->page));
    LK_TRY(lk_alloc(&p->page[p->n], 1, bytes));
    p->n++;
    return LK_OK;
}

void lk__pages_free(lk__pages *p)
{
    for (int64_t i = 0; i < p->n; i++)
        lk_free(p->page[i]);
    lk_free(p->page);
}

static lk_status slot_take(lk_tape *t, int64_t *out)
{
    if (t->free_value != LK_NO_INDEX) {
        *out = t->free_value;
        t->free_value = lk__value_at(t, *out)->next;
        t->n_free_values--;
        return LK_OK;
    }
    if (t->n_values == t->value_pages.n * LK_PAGE)
        LK_TRY(page_add(&t->value_pages, LK_PAGE * sizeof(lk__value)));
    *out = t->n_values++;
    return LK_OK;
}

lk_status lk__value_new(lk_tape *t, int64_t *out)
{
    LK_TRY(slot_take(t, out));
    lk__value *v = lk__value_at(t, *out);
    v->serial = ++t->serial;
    v->block = NULL;
    v->outside = v->leaf_grad = NULL;
    v->node = v->first_use = v->grad = LK_NO_INDEX;
    v->next = LK_NO_INDEX;
    v->holds = 1;
    v->reached = v->useful = v->captured = 0;
    v->needs_grad = v->keep = v->released = v->wanted = v->unset = v->added = false;
    v->postponed = v->placed = false;
    v->parts = NULL;
    lk__scope_take(t, *out);
    return LK_OK;
}

void lk__value_hold(lk_tape *t, int64_t i)
{
    lk__value_at(t, i)->holds++;
}

const lk_shape *lk__var_shape(lk_var v)
{
    return &lk__value_at(v.tape, v.index)->tensor.shape;
}

void lk__var_hold(lk_var v)
{
    lk__value_hold(v.tape, v.index);
}

void lk__var_release(lk_var v)
{
    lk__value_release(v.tape, v.index);
}

void lk__value_drop(lk_tape *t, lk__value *v)
{
    lk__block_release(&t->memory, v->block);
    v->block = NULL;
    v->released = true;
}

void lk__value_release(lk_tape *t, int64_t i)
{
    lk__value *v = lk__value_at(t, i);
    if (--v->holds > 0)
        return;
    lk__value_drop(t, v);
    v->serial = 0;
    v->next = t->free_value;
    t->free_value = i;
    t->n_free_values++;
}

LK_COLD static lk_status bytes_raise(lk_dtype dtype, lk_shape shape)
{
    return LK_RAISE(LK_EOVERFLOW, "the bytes of a value %s%s", lk_dtype_name(dtype),
                    lk_shape_text(shape).s);
}

lk_status lk__value_make(lk_tape *t, lk__value *v, lk_dtype dtype, lk_shape shape)
{
    int64_t count, bytes, size = (int64_t)lk_dtype_size(dtype);
    LK_TRY(lk_shape_count(shape, &count));
    if (__builtin_mul_overflow(count, size, &bytes))
        return bytes_raise(dtype, shape);
    LK_TRY(lk__block_new(&t->memory, bytes, &v->block));
    struct lk__storage *s = v->block->chunk->storage;
    lk_tensor *x = &v->tensor;
    atomic_init(&x->holders, 1);
    x->dtype = dtype;
    x->writable = true;
    x->shape = shape;
    x->count = count;
    lk__shape_strides(shape, x->stride);
    int log2_size = __builtin_ctz((unsigned)size); /* it is a power of two, and division slow */
    x->offset = ((char *)lk__block_data(v->block) - (char *)s->data) >> log2_size;
    x->storage = s;
    x->version = &s->version;
    return LK_OK;
}

void lk__value_view(lk__value *v, const lk__value *of, const lk_tensor *view)
{
    memcpy(&v->tensor, view, sizeof *view);
    atomic_init(&v->tensor.holders, 1);
    v->block = of->block;
    if (v->block)
        v->block->holds++;
}

void lk__scope_open(lk_tape *t, lk__scope *s)
{
    *s = (lk__scope){t->scope, LK_NO_INDEX, false};
    t->scope = s;
}

void lk__scope_close(lk_tape *t)
{
    int64_t i = t->scope->first;
    bool passes_on = t->scope->passes_on;
    t->scope = t->scope->outer;
    while (i != LK_NO_INDEX) {
        int64_t next = lk__value_at(t, i)->next;
        if (passes_on && lk__value_at(t, i)->keep)
            lk__scope_take(t, i);
        else
            lk__value_release(t, i);
        i = next;
    }
}

lk_status lk__scope_run(lk_tape *t, lk_segment_fn *run, void *arg, lk_var *out, bool *made)
{
    lk_status st;
    lk__scope scope;
    lk__value *v = NULL;
    lk_var given = LK_NO_VAR;
    uint64_t serial = t->serial;
    *made = false;
    lk__scope_open(t, &scope);
    scope.passes_on = true;
    LK_TRY_TO(done, run(t, arg, &given));
    LK_TRY_TO(done, lk__find(given, false, &v));
    *made = given.tape == t && v->serial > serial;
done:;
    bool keep = st == LK_OK && v->keep;
    if (st == LK_OK)
        v->keep = true; /* while the scope is closed */
    lk__scope_close(t);
    if (st == LK_OK)
        v->keep = keep;
    *out = st == LK_OK ? given : LK_NO_VAR;
    return st;
}

void lk__var_drop(lk_var v)
{
    lk__value *x = lk__value_at(v.tape, v.index);
    if (x->serial == v.serial && !x->outside && !x->keep && x->holds == 1)
        lk__value_drop(v.tape, x);
}

lk_status lk__node_new(lk_tape *t, lk__node **out)
{
    if (t->n_nodes == t->node_pages.n * LK_PAGE)
        LK_TRY(page_add(&t->node_pages, LK_PAGE * sizeof(lk__node)));
    *out = lk__node_at(t, t->n_nodes++);
    return LK_OK;
}

void lk__nodes_cut(lk_tape *t, int64_t n, lk__node_arena_mark mark)
{
    t->n_nodes = n;
    lk__node_arena_back(&t->node_arena, mark);
}
