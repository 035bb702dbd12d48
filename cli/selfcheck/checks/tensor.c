/* Check of tensors: views by slice, select, transpose, reshape and broadcast, then copies, casts,
 * single elements and hashes, against a list of the elements that a view must have. */
#include "selfcheck/check.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/slab.h>
#include <lockstep/tensor.h>

#include <math.h>
#include <stdio.h>

enum { COPIED, BY_ELEMENT, IN_A_SLAB };
enum { OUT_VALUES, OUT_HASH };
enum { MAX_STEPS = 4 };

enum op { NONE, SLICE, SELECT, TRANSPOSE, RESHAPE, BROADCAST };

struct step {
    enum op op;
    int axis;
    int64_t a, b, c; /* slice: start, stop, step; select: index; transpose: a is the other axis */
    lk_shape shape;  /* reshape, broadcast */
};

static const struct {
    const char *label;
    lk_shape shape;
    struct step step[MAX_STEPS];
    lk_dtype to; /* LK_N_DTYPES: as the source */
} cases[] = {
    {"a scalar", {0, {0}}, {{NONE, 0, 0, 0, 0, {0, {0}}}}, LK_N_DTYPES},
    {"slice", LK_DIMS(5, 7, 3), {{SLICE, 1, 1, 6, 2, {0, {0}}}}, LK_N_DTYPES},
    {"slice to nothing", LK_DIMS(5, 7), {{SLICE, 0, 3, 3, 1, {0, {0}}}}, LK_N_DTYPES},
    {"select", LK_DIMS(5, 7, 3), {{SELECT, 1, 4, 0, 0, {0, {0}}}}, LK_N_DTYPES},
    {"transpose", LK_DIMS(31, 17), {{TRANSPOSE, 0, 1, 0, 0, {0, {0}}}}, LK_N_DTYPES},
    {"reshape", LK_DIMS(4, 6, 5), {{RESHAPE, 0, 0, 0, 0, LK_DIMS(8, 15)}}, LK_N_DTYPES},
    {"reshape of a slice",
     LK_DIMS(6, 4, 5),
     {{SLICE, 0, 1, 5, 3, {0, {0}}}, {RESHAPE, 0, 0, 0, 0, LK_DIMS(2, 20)}},
     LK_N_DTYPES},
    {"broadcast", LK_DIMS(3, 1), {{BROADCAST, 0, 0, 0, 0, LK_DIMS(4, 3, 5)}}, LK_N_DTYPES},
    {"slice, transpose, select, transpose",
     LK_DIMS(7, 5, 6, 4),
     {{SLICE, 2, 1, 6, 2, {0, {0}}},
      {TRANSPOSE, 0, 3, 0, 0, {0, {0}}},
      {SELECT, 1, 2, 0, 0, {0, {0}}},
      {TRANSPOSE, 1, 2, 0, 0, {0, {0}}}},
     LK_N_DTYPES},
    {"eight axes",
     LK_DIMS(2, 1, 3, 1, 2, 2, 1, 3),
     {{TRANSPOSE, 2, 7, 0, 0, {0, {0}}}},
     LK_N_DTYPES},
    {"an empty axis", LK_DIMS(3, 0, 2), {{TRANSPOSE, 0, 2, 0, 0, {0, {0}}}}, LK_N_DTYPES},
    {"cast to f32", LK_DIMS(13, 11), {{TRANSPOSE, 0, 1, 0, 0, {0, {0}}}}, LK_F32},
    {"cast to f64", LK_DIMS(13, 11), {{SLICE, 1, 2, 9, 3, {0, {0}}}}, LK_F64},
    {"cast to i32", LK_DIMS(13, 11), {{NONE, 0, 0, 0, 0, {0, {0}}}}, LK_I32},
    {"cast to i64", LK_DIMS(13, 11), {{TRANSPOSE, 0, 1, 0, 0, {0, {0}}}}, LK_I64},
};

static lk_dtype target(const check_case *c)
{
    lk_dtype to = cases[c->index].to;
    return to == LK_N_DTYPES ? c->dtype : to;
}

/* The view as a list: its shape, and for each of its elements in order the one of the source. */
struct list {
    lk_shape shape;
    int64_t n;
    int64_t *element;
};

static int64_t count_of(lk_shape s)
{
    int64_t n = 1;
    for (int d = 0; d < s.ndim; d++)
        n *= s.dim[d];
    return n;
}

/* The place of index `at` in row-major order of `s`. */
static int64_t place(lk_shape s, const int64_t *at)
{
    int64_t p = 0;
    for (int d = 0; d < s.ndim; d++)
        p = p * s.dim[d] + at[d];
    return p;
}

static void index_of(lk_shape s, int64_t p, int64_t *at)
{
    for (int d = s.ndim - 1; d >= 0; d--) {
        at[d] = p % s.dim[d];
        p /= s.dim[d];
    }
}

static lk_shape shape_after(lk_shape s, const struct step *t)
{
    switch (t->op) {
    case SLICE: s.dim[t->axis] = (t->b - t->a + t->c - 1) / t->c; return s;
    case SELECT:
        for (int d = t->axis; d + 1 < s.ndim; d++)
            s.dim[d] = s.dim[d + 1];
        s.ndim--;
        return s;
    case TRANSPOSE: {
        int64_t other = s.dim[t->a];
        s.dim[t->a] = s.dim[t->axis];
        s.dim[t->axis] = other;
        return s;
    }
    case RESHAPE:
    case BROADCAST: return t->shape;
    default: return s;
    }
}

/* The index in the shape before a step of what is at `at` after it. */
static void index_before(lk_shape before, const struct step *t, const int64_t *at, int64_t *from)
{
    int shift = t->op == BROADCAST ? t->shape.ndim - before.ndim : 0;
    for (int d = 0; d < before.ndim; d++)
        from[d] = at[d + shift];
    switch (t->op) {
    case SLICE: from[t->axis] = t->a + at[t->axis] * t->c; break;
    case SELECT:
        for (int d = before.ndim - 1; d > t->axis; d--)
            from[d] = at[d - 1];
        from[t->axis] = t->a;
        break;
    case TRANSPOSE:
        from[t->axis] = at[t->a];
        from[t->a] = at[t->axis];
        break;
    case BROADCAST:
        for (int d = 0; d < before.ndim; d++)
            from[d] = before.dim[d] == 1 ? 0 : from[d];
        break;
    default: break;
    }
}

/* Apply a step: l becomes the list of the view. */
static lk_status list_step(struct list *l, const struct step *t)
{
    struct list next = {.shape = shape_after(l->shape, t)};
    next.n = count_of(next.shape);
    LK_TRY(lk_alloc(&next.element, next.n, sizeof *next.element));
    for (int64_t p = 0; p < next.n; p++) {
        int64_t at[LK_MAX_NDIM + 1] = {0}, from[LK_MAX_NDIM] = {0};
        index_of(next.shape, p, at);
        index_before(l->shape, t, at, from);
        next.element[p] = l->element[t->op == RESHAPE ? p : place(l->shape, from)];
    }
    lk_free(l->element);
    *l = next;
    return LK_OK;
}

/* The list of the case's view; the caller frees `element`. */
static lk_status list_new(const check_case *c, struct list *l)
{
    lk_status st;
    *l = (struct list){.shape = cases[c->index].shape, .n = count_of(cases[c->index].shape)};
    LK_TRY_TO(failed, lk_alloc(&l->element, l->n, sizeof *l->element));
    for (int64_t p = 0; p < l->n; p++)
        l->element[p] = p;
    for (int i = 0; i < MAX_STEPS && cases[c->index].step[i].op != NONE; i++)
        LK_TRY_TO(failed, list_step(l, &cases[c->index].step[i]));
    return LK_OK;
failed:
    lk_free(l->element);
    return st;
}

static lk_status tensor_setup(check_case *c)
{
    struct list l;
    LK_TRY(list_new(c, &l));
    lk_free(l.element);
    snprintf(c->label, sizeof c->label, "%s", cases[c->index].label);
    LK_TRY(check_input(c, c->dtype, count_of(cases[c->index].shape), -100, 100));
    LK_TRY(check_output(c, target(c), l.n, false));
    LK_TRY(check_output(c, LK_I64, 1, false));
    c->ways = 1U << COPIED | 1U << BY_ELEMENT | 1U << IN_A_SLAB;
    return LK_OK;
}

/* The source on the case's memory, or as a slice of a slab. */
static lk_status source_new(const check_case *c, int way, lk_tensor **out)
{
    lk_status st;
    lk_tensor *given = NULL;
    lk_slab_layout *layout = NULL;
    lk_slab *slab = NULL;
    lk_shape shape = cases[c->index].shape;
    *out = NULL;
    LK_TRY_TO(done, lk_tensor_wrap_const(c->dtype, shape, c->in[0].data, NULL, NULL, &given));
    if (way != IN_A_SLAB) {
        *out = lk_tensor_retain(given);
        goto done;
    }
    LK_TRY_TO(done, lk_slab_layout_new(&layout));
    LK_TRY_TO(done, lk_slab_layout_add(layout, "before", LK_U8, LK_SHAPE(3)));
    LK_TRY_TO(done, lk_slab_layout_add(layout, "source", c->dtype, shape));
    LK_TRY_TO(done, lk_slab_new(layout, &slab));
    LK_TRY_TO(done, lk_slab_find(slab, "source", out));
    LK_TRY_TO(done, lk_tensor_copy(given, *out));
done:
    if (st != LK_OK) {
        lk_tensor_free(*out);
        *out = NULL;
    }
    lk_slab_free(slab);
    lk_slab_layout_free(layout);
    lk_tensor_free(given);
    return st;
}

static lk_status view_step(const lk_tensor *t, const struct step *s, lk_tensor **out)
{
    switch (s->op) {
    case SLICE: LK_TRY(lk_tensor_slice(t, s->axis, s->a, s->b, s->c, out)); break;
    case SELECT: LK_TRY(lk_tensor_select(t, s->axis, s->a, out)); break;
    case TRANSPOSE: LK_TRY(lk_tensor_transpose(t, s->axis, (int)s->a, out)); break;
    case RESHAPE: LK_TRY(lk_tensor_reshape(t, s->shape, out)); break;
    default: LK_TRY(lk_tensor_broadcast(t, s->shape, out)); break;
    }
    return LK_OK;
}

/* The case's view; the caller frees it. */
static lk_status view_new(const check_case *c, int way, lk_tensor **out)
{
    lk_tensor *t;
    LK_TRY(source_new(c, way, &t));
    for (int i = 0; i < MAX_STEPS && cases[c->index].step[i].op != NONE; i++) {
        lk_tensor *next;
        lk_status st = view_step(t, &cases[c->index].step[i], &next);
        lk_tensor_free(t);
        LK_TRY(st);
        t = next;
    }
    *out = t;
    return LK_OK;
}

static lk_status copy_elements(const lk_tensor *from, lk_tensor *to)
{
    lk_shape shape = lk_tensor_shape(from);
    bool whole = !lk_dtype_is_real(lk_tensor_dtype(to));
    for (int64_t p = 0; p < lk_tensor_count(from); p++) {
        lk_shape at = {.ndim = shape.ndim};
        double v;
        int64_t w;
        index_of(shape, p, at.dim);
        if (whole) {
            LK_TRY(lk_tensor_get_i64(from, at, &w));
            LK_TRY(lk_tensor_set_i64(to, at, w));
        } else {
            LK_TRY(lk_tensor_get_f64(from, at, &v));
            LK_TRY(lk_tensor_set_f64(to, at, v));
        }
    }
    return LK_OK;
}

static lk_status tensor_run(const check_case *c, int way, void *const *out)
{
    lk_status st;
    lk_tensor *view = NULL, *result = NULL, *copy = NULL;
    lk_hash h = lk_hash_start();
    LK_TRY_TO(done, view_new(c, way, &view));
    LK_TRY_TO(done, lk_tensor_wrap(target(c), lk_tensor_shape(view), out[OUT_VALUES], NULL, NULL,
                                   &result));
    if (way == BY_ELEMENT)
        LK_TRY_TO(done, copy_elements(view, result));
    else
        LK_TRY_TO(done, lk_tensor_copy(view, result));
    LK_TRY_TO(done, lk_tensor_clone(view, target(c), &copy));
    if (!lk_tensor_is_equal(copy, result))
        st = LK_RAISE(LK_EINVAL, "a clone differs from the copy");
    /* Of the view, not of its copy: where the elements lie must not matter. */
    lk_tensor_hash(view, "view", &h);
    *(int64_t *)out[OUT_HASH] = (int64_t)lk_hash_value(&h);
done:
    lk_tensor_free(view);
    lk_tensor_free(result);
    lk_tensor_free(copy);
    return st;
}

static lk_status tensor_expect(const check_case *c, check_truth *truth)
{
    lk_status st;
    struct list l;
    void *dense = NULL;
    lk_hash h = lk_hash_start();
    LK_TRY(list_new(c, &l));
    LK_TRY_TO(done, lk_alloc(&dense, l.n, lk_dtype_size(c->dtype)));
    for (int64_t p = 0; p < l.n; p++) {
        double v = check_get(c->dtype, c->in[0].data, l.element[p]);
        check_set(c->dtype, dense, p, v);
        check_set(target(c), truth->bits[OUT_VALUES], p, v);
    }
    LK_TRY_TO(done, lk_hash_add_array(&h, "view", c->dtype, l.shape.ndim, l.shape.dim, dense));
    *(int64_t *)truth->bits[OUT_HASH] = (int64_t)lk_hash_value(&h);
    truth->has_bits[OUT_VALUES] = truth->has_bits[OUT_HASH] = true;
done:
    lk_free(dense);
    lk_free(l.element);
    return st;
}

const lk__check lk__check_tensor = {
    .name = "tensor",
    .summary = "views, copies, casts, single elements, slabs and hashes of tensors",
    .n_cases = sizeof cases / sizeof cases[0],
    .ways = {"copied", "by element", "in a slab"},
    .setup = tensor_setup,
    .run = tensor_run,
    .expect = tensor_expect,
};
