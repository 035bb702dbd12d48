/* Runs of elements.
 *
 * Inputs that are contiguous and have the output's shape are read where they are, and so are runs that
 * lie side by side in others.  What is left is first gathered into a buffer that stays in cache, by axes
 * of which there are as few as possible: those of size 1 are left out, and neighbours that are one axis
 * for all inputs are one.
 */
#include "kernel/each.h"

#include "kernel/runtime/parallel.h"

#include <string.h>

enum {
    RUN = LK_EACH_RUN, /* elements */
    SHORT = 16 << 10,  /* bytes of a row that ends before the processor has seen where it leads */
    LINE = 64
};

/* Room for a run of any type. */
typedef union run_room {
    _Alignas(64) float f32[RUN];
    double f64[RUN];
    int64_t i64[RUN];
} run_room;

/* What is gathered of an input. */
typedef struct run_buffer {
    run_room room;
    const char *repeated; /* the element of which it has RUN copies, or NULL */
} run_buffer;

/* Whether axis `d` continues axis `a`, which is before it, in every input that is gathered. */
static bool continues(const lk__each_job *j, int a, int d)
{
    for (int i = 0; i < j->n_in; i++)
        if (!j->in[i].direct && j->in[i].stride[a] != j->in[i].stride[d] * j->dim[d])
            return false;
    return true;
}

/* Make the axes as few as possible, but at least one. */
static void merge_axes(lk__each_job *j)
{
    int last = -1;
    for (int d = 0; d < j->ndim; d++) {
        if (j->dim[d] == 1)
            continue;
        int64_t n = j->dim[d];
        if (last >= 0 && continues(j, last, d))
            n *= j->dim[last];
        else
            last++;
        j->dim[last] = n;
        for (int i = 0; i < j->n_in; i++)
            j->in[i].stride[last] = j->in[i].stride[d];
    }
    j->ndim = last + 1;
    if (j->ndim == 0) {
        j->ndim = 1;
        j->dim[0] = 1;
    }
}

/* The place of element `first` of the output's row-major order in input `i`, and its index. */
static int64_t find(const lk__each_job *j, int i, int64_t first, int64_t *index)
{
    int64_t at = 0;
    for (int d = j->ndim - 1; d >= 0; d--) {
        index[d] = first % j->dim[d];
        first /= j->dim[d];
        at += index[d] * j->in[i].stride[d];
    }
    return at;
}

/* ---- gathering: by rows, and element by element where rows are too short for that ---- */

/* A matrix in memory: element (r, c) lies r * row_step + c * step elements after the first. */
typedef struct element_matrix {
    size_t size; /* of an element, in bytes */
    int64_t rows, cols, row_step, step;
} element_matrix;

/* Elements of a row that is worth a call. */
enum { WIDE = 16 };

/* The first `have` bytes until there are n, by copies of twice the length each. */
static void repeat(char *dst, int64_t have, int64_t n)
{
    for (int64_t more; have < n; have += more) {
        more = n - have < have ? n - have : have;
        memcpy(dst + have, dst, (size_t)more);
    }
}

/* `size` is a constant where this is called, so copies of elements are single moves. */
static inline void by_element(const element_matrix *g, size_t size, const char *src, char *dst)
{
    for (int64_t r = 0; r < g->rows; r++) {
        const char *from = src + r * g->row_step * (int64_t)size;
        for (int64_t c = 0; c < g->cols; c++, dst += size)
            memcpy(dst, from + c * g->step * (int64_t)size, size);
    }
}

static void by_row(const element_matrix *g, const char *src, char *dst)
{
    const int64_t size = (int64_t)g->size, bytes = g->cols * size;
    for (int64_t r = 0; r < g->rows; r++, dst += bytes) {
        const char *from = src + r * g->row_step * size;
        if (g->step == 1) {
            memcpy(dst, from, (size_t)bytes);
        } else {
            memcpy(dst, from, g->size);
            repeat(dst, size, bytes);
        }
    }
}

static void gather_rows(const element_matrix *g, const char *src, char *dst)
{
    if ((g->step == 0 || g->step == 1) && g->cols >= WIDE)
        by_row(g, src, dst);
    else if (g->size == 4)
        by_element(g, 4, src, dst);
    else if (g->size == 8)
        by_element(g, 8, src, dst);
    else
        by_element(g, g->size, src, dst);
}

/* dst = the elements of the matrix at `src` in row-major order. */
static void gather_run(const element_matrix *g, const char *src, char *dst)
{
    element_matrix first = *g;
    const int64_t bytes = g->cols * (int64_t)g->size;
    if (g->row_step == 0 && g->rows > 1)
        first.rows = 1;
    gather_rows(&first, src, dst);
    repeat(dst, first.rows * bytes, g->rows * bytes);
}

/* Copy n elements of the output's row-major order from `index` on, as input `i` has them from `at` on:
 * the rest of a row, or as many whole rows as follow each other along one axis. */
static void gather(const lk__each_job *j, int i, int64_t at, int64_t *index, int64_t n, char *to)
{
    const int64_t *stride = j->in[i].stride;
    const int last = j->ndim - 1;
    element_matrix g = {.size = j->in[i].size, .step = stride[last]};
    while (n > 0) {
        g.rows = 1;
        g.cols = j->dim[last] - index[last];
        if (g.cols > n) {
            g.cols = n;
        } else if (last > 0 && index[last] == 0) {
            int64_t left = j->dim[last - 1] - index[last - 1], whole = n / g.cols;
            g.rows = left < whole ? left : whole;
            g.row_step = stride[last - 1];
        }
        gather_run(&g, j->in[i].start + at * (int64_t)g.size, to);
        to += g.rows * g.cols * (int64_t)g.size;
        n -= g.rows * g.cols;
        at -= index[last] * stride[last];
        index[last] = 0;
        int64_t step = g.rows;
        for (int d = last - 1; d >= 0; d--, step = 1) {
            index[d] += step;
            at += step * stride[d];
            if (index[d] < j->dim[d])
                break;
            at -= index[d] * stride[d];
            index[d] = 0;
        }
    }
}

/* Ask for the same n elements of the next row, if there is one and rows are short: where it lies apart,
 * the processor would not. */
static void row_expect(const lk__each_job *j, int i, const int64_t *index, int64_t n,
                       const char *from)
{
    const int last = j->ndim - 1;
    const int64_t size = (int64_t)j->in[i].size;
    if (last == 0 || j->dim[last] * size > SHORT || index[last - 1] + 1 == j->dim[last - 1] ||
        j->in[i].stride[last - 1] == 0)
        return;
    from += j->in[i].stride[last - 1] * size;
    for (int64_t b = 0; b < n * size; b += LINE)
        __builtin_prefetch(from + b);
}

/* Where the n <= RUN elements from `first` on of input `i` lie side by side. */
static const void *input_run(const lk__each_job *j, int i, int64_t first, int64_t n,
                             run_buffer *buffer)
{
    const int last = j->ndim - 1;
    const int64_t step = j->in[i].stride[last];
    int64_t index[LK_MAX_NDIM], at = find(j, i, first, index);
    const char *from = j->in[i].start + at * (int64_t)j->in[i].size;
    bool in_row = n <= j->dim[last] - index[last];
    if (in_row && step == 1) {
        row_expect(j, i, index, n, from);
        return from;
    }
    if (in_row && step == 0 && buffer->repeated != from) {
        element_matrix g = {.size = j->in[i].size, .rows = 1, .cols = RUN};
        gather_run(&g, from, (char *)&buffer->room);
        buffer->repeated = from;
    } else if (!in_row || step != 0) {
        gather(j, i, at, index, n, (char *)&buffer->room);
        buffer->repeated = NULL;
    }
    return &buffer->room;
}

/* Add the results to y, by way of a buffer. */
static void add(lk__loop_fn *const *loops, lk__loop loop, const lk__operands *o)
{
    run_room room;
    lk__operands f = *o;
    f.y = &room;
    loops[loop](&f);
    loops[LK__LOOP_ADD](&(lk__operands){.n = o->n, .x = {o->y, &room}, .y = o->y});
}

static void one(lk__loop_fn *const *loops, lk__loop loop, lk__each_store store, lk__operands *o)
{
    o->first = store == LK_EACH_FIRST;
    if (store == LK_EACH_ADD)
        add(loops, loop, o);
    else
        loops[loop](o);
}

lk_status lk__each_one(lk_dtype dtype, lk__loop loop, lk__each_store store, const lk__operands *o)
{
    const lk__loops_table *t = NULL;
    LK_TRY(lk__loops_get(&t));
    lk__operands all = *o;
    one(t->of[dtype], loop, store, &all);
    return LK_OK;
}

/* Elements [first, first + n), or as many of them as there are. */
static void run(const lk__each_job *j, int64_t first, int64_t n, run_buffer *buffer)
{
    int64_t at = first * (int64_t)lk_dtype_size(j->dtype);
    lk__operands o = {.n = j->n - first < n ? j->n - first : n,
                      .y = (char *)j->y + at,
                      .z = j->z ? (char *)j->z + at : NULL};
    memcpy(o.p, j->p, sizeof o.p);
    for (int i = 0; i < j->n_in; i++) {
        const lk__each_in *in = &j->in[i];
        o.x[i] = in->direct ? in->start + first * (int64_t)in->size
                            : input_run(j, i, first, o.n, &buffer[i]);
    }
    one(j->loops, j->loop, j->store, &o);
}

/* Whether something goes by way of a buffer. */
static bool needs_runs(const lk__each_job *j)
{
    bool needs = j->store == LK_EACH_ADD;
    for (int i = 0; i < j->n_in; i++)
        needs = needs || !j->in[i].direct;
    return needs;
}

static void run_all(void *arg, int64_t first, int64_t last)
{
    const lk__each_job *j = arg;
    const int64_t n = needs_runs(j) ? RUN : (last - first) * RUN;
    run_buffer buffer[LK_LOOP_MAX_IN];
    for (int i = 0; i < LK_LOOP_MAX_IN; i++)
        buffer[i].repeated = NULL;
    for (int64_t at = first * RUN; at < last * RUN; at += n)
        run(j, at, n, buffer);
}

/* Whether a loop takes an elementary function of each element. */
static bool takes_function(lk__loop loop)
{
    switch (loop) {
    case LK__LOOP_EXP:
    case LK__LOOP_LOG:
    case LK__LOOP_SIN:
    case LK__LOOP_COS:
    case LK__LOOP_TANH:
    case LK__LOOP_ERF:
    case LK__LOOP_SIGMOID:
    case LK__LOOP_SOFTPLUS:
    case LK__LOOP_ELU:
    case LK__LOOP_GELU:
    case LK__LOOP_POW:
    case LK__LOOP_ADD_SIGMOID:
    case LK__LOOP_ADD_TANH:
    case LK__LOOP_ELU_GRAD:
    case LK__LOOP_ELU_BEND:
    case LK__LOOP_SOFTPLUS_GRAD:
    case LK__LOOP_ERF_GRAD:
    case LK__LOOP_POW_DX:
    case LK__LOOP_POW_DY:
    case LK__LOOP_LOGISTIC_LOSS:
    case LK__LOOP_LOGISTIC_LOSS_GRAD:
    case LK__LOOP_LOG_SOFTMAX_GRAD:
    case LK__LOOP_POW_SCALAR:
    case LK__LOOP_POW_SCALAR_GRAD:
    case LK__LOOP_GELU_SLOPE: return true;
    default: return false;
    }
}

lk_status lk__each_job_run(lk__each_job *j)
{
    const lk__loops_table *t = NULL;
    LK_TRY(lk__loops_get(&t));
    j->loops = t->of[j->dtype];
    merge_axes(j);
    const int64_t runs = (j->n + RUN - 1) / RUN;
    return LK_TRACE(lk__parallel(
        takes_function(j->loop) ? lk__tasks_functions(runs, RUN)
                                : lk__tasks_bytes(runs, RUN * (int64_t)lk_dtype_size(j->dtype)),
        run_all, j));
}
