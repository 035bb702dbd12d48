/* prod: over axes.
 *
 *   y = the product of x over the axes
 *   dx_i = dy * the product of all x_j but x_i
 *
 * Backward divides by nothing, so zeros among the factors do no harm, in higher derivatives
 * neither.  It multiplies pairs of factors, pairs of these products, and so on up to one, and then
 * goes down again: what comes to a product goes to each of its factors, times the other one.  That
 * takes 3 n products, in some log2 n steps.  Where backward is recorded, or the axes are no neighbours,
 * these are ops themselves; otherwise one op, prod_grad, takes them for a block of outputs at a time.
 */
#include "base/fpenv.h"
#include "kernel/copy.h"
#include "kernel/loops.h"
#include "kernel/runtime/parallel.h"
#include "ops/common/axes/axes.h"
#include "ops/common/ops.h"
#include "tensor/tensor.h"

#include <lockstep/thread.h>

#include <stdatomic.h>

/* *out = the gradient of x [n, ...] from that of the product along its first axis, g [1, ...].
 * Factor i of the lower half makes a pair with factor i of the upper half; of an odd number one is
 * left over. */
static lk_status factors_grad(lk_var x, lk_var g, lk_var *out)
{
    lk_var low, high, rest, up, part[3];
    int64_t n = lk_shape_of(x).dim[0], h = n / 2;
    int n_parts = n % 2 ? 3 : 2;
    if (n == 1) {
        *out = g;
        return LK_OK;
    }
    LK_TRY(lk_slice(x, 0, 0, h, 1, &low));
    LK_TRY(lk_slice(x, 0, h, 2 * h, 1, &high));
    LK_TRY(lk_mul(low, high, &up));
    if (n % 2) {
        LK_TRY(lk_slice(x, 0, 2 * h, n, 1, &rest));
        LK_TRY(lk_concat((lk_var[]){up, rest}, 2, 0, &up));
    }
    LK_TRY(factors_grad(up, g, &up));
    LK_TRY(lk_slice(up, 0, 0, h, 1, &g));
    LK_TRY(lk_mul(g, high, &part[0]));
    LK_TRY(lk_mul(g, low, &part[1]));
    if (n % 2)
        LK_TRY(lk_slice(up, 0, h, h + 1, 1, &part[2]));
    return LK_TRACE(lk_concat(part, n_parts, 0, out));
}

/* ---- prod_grad(dy, x): the same by blocks of outputs, as [n][w] in cache ---- */

enum { BLOCK = 4096 }; /* factors */

typedef struct grad_job {
    lk__loop_fn *const *loops;
    int64_t size;            /* of an element */
    int64_t outer, n, inner; /* x is [outer][n][inner] */
    int64_t rows, cols;      /* outputs of a block, [rows][cols]; rows is 1 unless cols is inner */
    int64_t blocks, tasks;
    int64_t room; /* bytes of a task's scratch */
    const char *x, *g;
    char *dx, *scratch;
    bool first; /* dx = 0 + the gradient */
    _Atomic int failed;
} grad_job;

static void multiply(const grad_job *j, int64_t n, const char *a, const char *b, char *y,
                     bool first)
{
    j->loops[LK__LOOP_MUL](&(lk__operands){.n = n, .x = {a, b}, .y = y, .first = first});
}

static void move(const grad_job *j, int64_t n, const char *x, char *y, bool first)
{
    j->loops[LK__LOOP_COPY](&(lk__operands){.n = n, .x = {x}, .y = y, .first = first});
}

/* out = the gradient of x [n][w] from that of the products g [w], as factors_grad() has it. */
static void block_grad(const grad_job *j, int64_t n, int64_t w, const char *x, const char *g,
                       char *room, char *out, bool first)
{
    const int64_t h = n / 2 * w, up = n - n / 2, high = h * j->size, bytes = up * w * j->size;
    char *above = room, *grad = room + bytes;
    if (n == 1) {
        move(j, w, g, out, first);
        return;
    }
    multiply(j, h, x, x + high, above, false);
    if (n % 2)
        move(j, w, x + 2 * high, above + high, false);
    block_grad(j, up, w, above, g, grad + bytes, grad, false);
    multiply(j, h, grad, x + high, out, first);
    multiply(j, h, grad, x, out + high, first);
    if (n % 2)
        move(j, w, grad + high, out + 2 * high, first);
}

static lk_status block_run(const grad_job *j, int64_t number, char *scratch)
{
    const int64_t across = (j->inner + j->cols - 1) / j->cols;
    const int64_t o = number / across * j->rows, i = number % across * j->cols;
    const int64_t rows = o + j->rows < j->outer ? j->rows : j->outer - o;
    const int64_t cols = i + j->cols < j->inner ? j->cols : j->inner - i, w = rows * cols;
    const int64_t at = (o * j->n * j->inner + i) * j->size, bytes = j->n * w * j->size;
    lk__copy_box in = {.size = j->size,
                       .ndim = 3,
                       .dim = {j->n, rows, cols},
                       .from = {j->inner, j->n * j->inner, 1},
                       .to = {w, cols, 1}},
                 back = in;
    memcpy(back.from, in.to, sizeof back.from);
    memcpy(back.to, in.from, sizeof back.to);
    LK_TRY(lk__copy_run(&in, j->x + at, scratch));
    block_grad(j, j->n, w, scratch, j->g + (o * j->inner + i) * j->size, scratch + 2 * bytes,
               scratch + bytes, j->first);
    return LK_TRACE(lk__copy_run(&back, scratch + bytes, j->dx + at));
}

static void grad_task(void *arg, int64_t first, int64_t last)
{
    grad_job *j = arg;
    for (int64_t t = first; t < last; t++)
        for (int64_t b = j->blocks * t / j->tasks; b < j->blocks * (t + 1) / j->tasks; b++) {
            lk_status st = block_run(j, b, j->scratch + t * j->room);
            if (st != LK_OK)
                j->failed = st;
        }
}

/* The axes as [*first, *last); false if there is another between them. */
static bool neighbours(unsigned axes, int ndim, int *first, int *last)
{
    int n = 0;
    *first = *last = 0;
    for (int d = 0; d < ndim; d++)
        if (axes >> d & 1) {
            *first = n == 0 ? d : *first;
            *last = d + 1;
            n++;
        }
    return n == *last - *first;
}

static lk_status prod_grad_infer(lk_call *c, lk_output_spec *out)
{
    out->dtype = c->x[1]->dtype;
    out->shape = c->x[1]->shape;
    return LK_OK;
}

static lk_status prod_grad_forward(lk_call *c)
{
    const lk_tensor *x = c->x[1];
    const lk__loops_table *loops = NULL;
    int first, last, threads = 1;
    (void)neighbours(lk__axes_bits(c->attr, x->shape.ndim), x->shape.ndim, &first, &last);
    grad_job j = {.size = (int64_t)lk_dtype_size(x->dtype),
                  .outer = lk__axes_count(x->shape, (1u << first) - 1),
                  .n = lk__axes_count(x->shape, (1u << last) - (1u << first)),
                  .inner = lk__axes_count(x->shape, ~0u << last),
                  .x = lk__tensor_start(x),
                  .g = lk__tensor_start(c->x[0]),
                  .dx = lk__tensor_start(c->y[0]),
                  .first = c->overwrite};
    LK_TRY(lk__fp_check());
    LK_TRY(lk__loops_get(&loops));
    LK_TRY(lk_threads_now(&threads));
    j.loops = loops->of[x->dtype];
    const int64_t w = j.n < BLOCK ? BLOCK / j.n : 1;
    j.cols = j.inner < w ? j.inner : w;
    j.rows = j.inner < w ? w / j.inner : 1;
    j.blocks = (j.outer + j.rows - 1) / j.rows * ((j.inner + j.cols - 1) / j.cols);
    j.tasks = j.blocks < threads ? j.blocks : threads;
    /* factors, gradients, and both of every step: half as many each time, rounded up */
    j.room = (4 * j.n + 128) * j.rows * j.cols * j.size;
    LK_TRY(lk_call_scratch(c, j.tasks * j.room, &j.scratch));
    LK_TRY(lk__parallel(lk__tasks_functions(j.tasks, x->count / j.tasks), grad_task, &j));
    LK_CHECK(j.failed == LK_OK, (lk_status)j.failed, "prod_grad of %s", lk_tensor_text(x).s);
    return LK_OK;
}

static const lk_op prod_grad = {
    .name = "prod_grad",
    .summary = "of each factor, g times the product of the others",
    LK_ARITY(2, 1),
    .flags = LK_OP_OVERWRITES,
    .attr_size = sizeof(lk_axes),
    .infer = prod_grad_infer,
    .forward = prod_grad_forward,
};

static lk_status prod_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_shape shape = lk_shape_of(c->in[0]), order = {.ndim = shape.ndim}, flat = {.ndim = 1};
    unsigned axes = lk__axes_bits(c->attr, shape.ndim);
    int forth[LK_MAX_NDIM] = {0}, back[LK_MAX_NDIM] = {0}, n_reduced = 0, at = 0, first, last;
    if (lk__axes_count(shape, ~0u) == 0) {
        return LK_TRACE(lk_zeros_like(c->in[0], &din[0]));
    }
    if (!lk_tape_is_recording(c->tape) && neighbours(axes, shape.ndim, &first, &last)) {
        lk_var in[] = {dout[0], c->in[0]};
        return LK_TRACE(lk_apply_gradient(c, 0, &prod_grad, in, 2, c->attr, &din[0]));
    }
    flat.dim[0] = lk__axes_count(shape, axes);
    for (int d = 0; d < shape.ndim; d++)
        n_reduced += (int)(axes >> d & 1);
    for (int d = 0; d < shape.ndim; d++) { /* reduced axes go to the front */
        bool reduced = axes >> d & 1;
        int to = reduced ? at++ : n_reduced + d - at;
        forth[to] = d;
        back[d] = to;
        order.dim[to] = shape.dim[d];
        if (!reduced)
            flat.dim[flat.ndim++] = shape.dim[d];
    }
    lk_var x, g;
    LK_TRY(lk_permute(c->in[0], forth, &x));
    LK_TRY(lk_reshape(x, flat, &x));
    flat.dim[0] = 1;
    LK_TRY(lk_reshape(dout[0], flat, &g));
    LK_TRY(factors_grad(x, g, &g));
    LK_TRY(lk_reshape(g, order, &g));
    return LK_TRACE(lk_permute(g, back, &din[0]));
}

const lk_op lk__op_prod = {
    .name = "prod",
    .summary = "the product over axes",
    LK_ARITY(1, 1),
    .attr_size = sizeof(lk_axes),
    .saves_in = 1,
    .infer = lk__axes_infer,
    .forward = lk__axes_forward,
    .backward = prod_backward,
    .data = &(const lk_reduce_axis_op){LK_REDUCE_AXIS_PROD},
    .samples =
        (const lk_op_sample[]){
            {.n_in = 1, .in = {LK_IN(2, 3)}, .attr = &lk__all_axes},
            {.n_in = 1,
             .in = {LK_IN_RANGE(0.5, 1.5, 5, 2, 3)},
             .attr = &(lk_axes){.n = 2, .axis = {0, 2}, .keep = true},
             .shard_size = 2},
            {.n_in = 1, .in = {LK_IN(2, 5, 3)}, .attr = &(lk_axes){1, {1}, false}},
            {.n_in = 1, .in = {LK_IN(2, 1)}, .attr = &(lk_axes){1, {1}, false}},
            {0}},
};

lk_status lk_prod(lk_var x, const lk_axes *axes, lk_var *out)
{
    return LK_TRACE(lk_apply(x.tape, &lk__op_prod, &x, 1, axes ? axes : &lk__all_axes, out));
}
