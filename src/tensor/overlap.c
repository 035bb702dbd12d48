/* Do two tensors share a byte?
 *
 * Byte p of element i of a is byte q of element j of b where
 *
 *     sum over axes of a: i_k s_k  +  p  =  d  +  sum over axes of b: j_k t_k  +  q
 *
 * with d the distance of their first elements and s, t strides in bytes.  Terms of equal stride are
 * taken together, which leaves: is d the sum of strides times bounded integers, and a little more?
 *
 *     sum_k  stride_k * u_k  +  r = d,     low_k <= u_k <= high_k,     r = p - q
 *
 * With the strides in descending order, what the smaller terms can reach leaves few candidates for
 * each u_k, and what their common divisor allows often none; a search finds the answer at once for
 * rectangular views of one tensor.  In general the problem is NP-complete, so the search gives up
 * after a fixed number of steps.
 */
#include "tensor/tensor.h"

enum { MAX_TERMS = 2 * LK_MAX_NDIM, MAX_STEPS = 400 };

struct term {
    int64_t stride, low, high;
};

struct sum {
    int n;
    struct term term[MAX_TERMS];
    int64_t low, high;                                 /* of r */
    int64_t least[MAX_TERMS + 1], most[MAX_TERMS + 1]; /* of the terms from k on and r */
    int64_t divisor[MAX_TERMS + 1];                    /* of the strides from k on; 0 for none */
    int steps_left;
};

/* Add an axis; `sign` is 1 for one of a, -1 for one of b. */
static void term_add(struct sum *s, int64_t stride, int64_t dim, int sign)
{
    if (stride == 0 || dim <= 1)
        return;
    int k = 0;
    while (k < s->n && s->term[k].stride > stride)
        k++;
    if (k == s->n || s->term[k].stride != stride) {
        for (int i = s->n++; i > k; i--)
            s->term[i] = s->term[i - 1];
        s->term[k] = (struct term){stride, 0, 0};
    }
    if (sign > 0)
        s->term[k].high += dim - 1;
    else
        s->term[k].low -= dim - 1;
}

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

static void sum_make(struct sum *s, const lk_tensor *a, const lk_tensor *b)
{
    int64_t bytes_a = (int64_t)lk_dtype_size(a->dtype), bytes_b = (int64_t)lk_dtype_size(b->dtype);
    s->n = 0;
    s->steps_left = MAX_STEPS;
    for (int i = 0; i < a->shape.ndim; i++)
        term_add(s, a->stride[i] * bytes_a, a->shape.dim[i], 1);
    for (int i = 0; i < b->shape.ndim; i++)
        term_add(s, b->stride[i] * bytes_b, b->shape.dim[i], -1);
    s->least[s->n] = s->low = -(bytes_b - 1);
    s->most[s->n] = s->high = bytes_a - 1;
    s->divisor[s->n] = 0;
    for (int k = s->n - 1; k >= 0; k--) {
        const struct term *t = &s->term[k];
        s->least[k] = s->least[k + 1] + t->stride * t->low;
        s->most[k] = s->most[k + 1] + t->stride * t->high;
        s->divisor[k] = common_divisor(t->stride, s->divisor[k + 1]);
    }
}

/* Whether some r leaves a multiple of the divisor. */
static bool divisible(const struct sum *s, int k, int64_t d)
{
    int64_t rest = (d - s->low) % s->divisor[k];
    if (rest < 0)
        rest += s->divisor[k];
    return s->low + rest <= s->high;
}

/* Whether the terms from k on and r can sum to d; true also when the steps run out. */
static bool reaches(struct sum *s, int k, int64_t d)
{
    if (d < s->least[k] || d > s->most[k])
        return false;
    if (k == s->n)
        return true;
    if (!divisible(s, k, d))
        return false;
    const struct term *t = &s->term[k];
    /* Division towards zero leaves at most one candidate too many at either end. */
    int64_t low = (d - s->most[k + 1]) / t->stride, high = (d - s->least[k + 1]) / t->stride;
    if (low < t->low)
        low = t->low;
    if (high > t->high)
        high = t->high;
    for (int64_t u = low; u <= high; u++) {
        if (s->steps_left-- <= 0)
            return true;
        if (reaches(s, k + 1, d - t->stride * u))
            return true;
    }
    return false;
}

bool lk_tensor_overlap(const lk_tensor *a, const lk_tensor *b)
{
    if (a->count == 0 || b->count == 0)
        return false;
    struct sum s;
    sum_make(&s, a, b);
    return reaches(&s, 0, (intptr_t)lk__tensor_start(b) - (intptr_t)lk__tensor_start(a));
}
