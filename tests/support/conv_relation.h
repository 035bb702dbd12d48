/* Convolution by its definition, for tests of ops: the products that relate x, w and y.
 *
 * conv, conv_transpose and the gradient of the weights are sums over the same set of triples (an
 * element of x, one of w, one of y); so are those of untied filters, where w has a filter for each
 * output position.  The test adds up the products itself, in any order: its operands are small
 * integers, so that all sums are exact. */
#ifndef LK_TEST_CONV_RELATION_H
#define LK_TEST_CONV_RELATION_H

#include "op_program.h"

struct relation {
    int64_t batch, in[3], out[3], kernel[3], stride[3], dilation[3], pad[3];
    int64_t in_channels, out_channels, groups;
    bool untied;
};

typedef void relation_fn(void *arg, int64_t x, int64_t w, int64_t y);

/* Axes in front of those of the tensors have size 1. */
static inline struct relation relation_of(lk_shape x, lk_shape y, const int64_t *kernel,
                                          const lk_conv_attr *a)
{
    int ndim = x.ndim - 2;
    struct relation r = {.batch = x.dim[0],
                         .in_channels = x.dim[ndim + 1],
                         .out_channels = y.dim[ndim + 1],
                         .groups = a->groups ? a->groups : 1};
    for (int d = 0; d < 3; d++) {
        int own = d - (3 - ndim);
        r.in[d] = own < 0 ? 1 : x.dim[1 + own];
        r.out[d] = own < 0 ? 1 : y.dim[1 + own];
        r.kernel[d] = own < 0 ? 1 : kernel[own];
        r.stride[d] = own < 0 || !a->window.stride[own] ? 1 : a->window.stride[own];
        r.dilation[d] = own < 0 || !a->window.dilation[own] ? 1 : a->window.dilation[own];
        r.pad[d] = own < 0 ? 0 : a->window.pad_lo[own];
    }
    return r;
}

/* The index of the input position that tap `t` of output position `o` reads; -1 for padding. */
static inline int64_t relation_input(const struct relation *r, int64_t o, int64_t t)
{
    int64_t place = 0, at[3];
    for (int d = 2; d >= 0; d--) {
        at[d] = o % r->out[d] * r->stride[d] - r->pad[d] + t % r->kernel[d] * r->dilation[d];
        o /= r->out[d];
        t /= r->kernel[d];
        if (at[d] < 0 || at[d] >= r->in[d])
            return -1;
    }
    for (int d = 0; d < 3; d++)
        place = place * r->in[d] + at[d];
    return place;
}

static inline void relation_each(const struct relation *r, relation_fn *fn, void *arg)
{
    const int64_t n_in = r->in[0] * r->in[1] * r->in[2], n_out = r->out[0] * r->out[1] * r->out[2],
                  taps = r->kernel[0] * r->kernel[1] * r->kernel[2];
    const int64_t group_in = r->in_channels / r->groups, group_out = r->out_channels / r->groups;
    for (int64_t n = 0; n < r->batch; n++)
        for (int64_t o = 0; o < n_out; o++)
            for (int64_t t = 0; t < taps; t++) {
                int64_t i = relation_input(r, o, t), filter = r->untied ? o * taps + t : t;
                for (int64_t e = 0; i >= 0 && e < group_in * r->out_channels; e++) {
                    int64_t ic = e / r->out_channels, oc = e % r->out_channels;
                    fn(arg, (n * n_in + i) * r->in_channels + oc / group_out * group_in + ic,
                       (filter * group_in + ic) * r->out_channels + oc,
                       (n * n_out + o) * r->out_channels + oc);
                }
            }
}

/* Sums of products: of the elements of two operands into the third, as each of them. */
struct relation_sums {
    const lk_tensor *x, *w, *y;
    double *to_x, *to_w, *to_y;
};

static inline void relation_add(void *arg, int64_t x, int64_t w, int64_t y)
{
    const struct relation_sums *s = arg;
    if (s->to_x)
        s->to_x[x] += tensor_at(s->w, w) * tensor_at(s->y, y);
    if (s->to_w)
        s->to_w[w] += tensor_at(s->x, x) * tensor_at(s->y, y);
    if (s->to_y)
        s->to_y[y] += tensor_at(s->x, x) * tensor_at(s->w, w);
}

static inline double *relation_zeros(const lk_tensor *t)
{
    double *sum = calloc((size_t)lk_tensor_count(t) + 1, sizeof *sum);
    ASSERT_TRUE(sum);
    return sum;
}

/* t holds the sums, plus bias[channel] unless that is NULL; frees the sums. */
static inline void relation_expect(const char *what, const lk_tensor *t, double *sum,
                                   const lk_tensor *bias)
{
    for (int64_t i = 0; i < lk_tensor_count(t); i++) {
        double want = sum[i] + (bias ? tensor_at(bias, i % lk_tensor_count(bias)) : 0);
        if (tensor_at(t, i) != want)
            TEST_FAIL("%s %s: element %lld is %g, not %g", what, lk_tensor_text(t).s, (long long)i,
                      tensor_at(t, i), want);
    }
    free(sum);
}

#endif /* LK_TEST_CONV_RELATION_H */
