/* Networks of chain lists: which components each rank has, the chain of one rank, and the same network in
 * one process, whose components are run one after the other on one tape and know nothing of ranks. */
#ifndef LK_TEST_CHAINS_H
#define LK_TEST_CHAINS_H

#include "nodes/oracles.h"

/* A value is 9216 bytes, more than any transport buffers. */
enum { SAMPLES = 24, WIDTH = 96, MOST_RANKS = 8, MOST_PARTS = 8, MOST_LINKS = 16, END = -1 };
enum { MOST_VALUES = 8 };

struct part {
    const char *name;
    lk_component_fn *fn; /* NULL: a layer */
    int in[MOST_LINKS], out[MOST_LINKS], n_in, n_out;
};

struct network {
    int ranks, n[MOST_RANKS];
    bool whole; /* in one process, too, a component says one sum of each value that it was given */
    struct part part[MOST_RANKS][MOST_PARTS];
};

#define RANKS(...) ((const int[]){__VA_ARGS__, END})
#define NONE ((const int[]){END})

static inline void part_add(struct network *net, int rank, const char *name, lk_component_fn *fn,
                            const int *in, const int *out)
{
    ASSERT_TRUE(rank < MOST_RANKS && net->n[rank] < MOST_PARTS);
    struct part *p = &net->part[rank][net->n[rank]++];
    *p = (struct part){.name = name, .fn = fn};
    for (; *in != END; in++)
        p->in[p->n_in++] = *in;
    for (; *out != END; out++)
        p->out[p->n_out++] = *out;
    ASSERT_TRUE(p->n_in < MOST_LINKS && p->n_out < MOST_LINKS);
}

/* ---- components ---- */

static inline lk_model *layer_new(int rank, int part)
{
    lk_model *m;
    ASSERT_OK(lk_model_new(&m));
    ASSERT_OK(lk_model_add(m, "linear", "units=96"));
    ASSERT_OK(lk_model_add(m, "tanh", NULL));
    ASSERT_OK(lk_model_build(m, &(lk_model_spec){.in = {LK_F32, LK_SHAPE(WIDTH)},
                                                 .seed = 1 + rank * MOST_PARTS + part}));
    ASSERT_OK(lk_model_hold(m, NULL));
    return m;
}

/* tanh(in0 + in1 / 2 + in2 / 3 + ...), over all values of all arguments. */
static inline lk_status blend(const lk_pass *pass, void *arg, const lk_list *in, int n_in,
                              lk_list *out)
{
    lk_var sum = LK_NO_VAR, more;
    int n = 0;
    (void)pass;
    (void)arg;
    for (int i = 0; i < n_in; i++)
        for (int k = 0; k < in[i].n; k++) {
            LK_TRY(lk_affine(in[i].at[k], 1.0 / ++n, 0, &more));
            if (lk_is_var(sum))
                LK_TRY(lk_add(sum, more, &more));
            sum = more;
        }
    LK_TRY(lk_tanh(sum, &out->at[0]));
    out->n = 1;
    return LK_OK;
}

/* One more value than came: a blend of them, and each of them anew. */
static inline lk_status more(const lk_pass *pass, void *arg, const lk_list *in, int n_in,
                             lk_list *out)
{
    ASSERT_EQ(n_in, 1);
    LK_TRY(blend(pass, arg, in, n_in, out));
    for (int k = 0; k < in[0].n; k++)
        LK_TRY(lk_affine(in[0].at[k], 0.75, 0.125, &out->at[out->n++]));
    return LK_OK;
}

/* Each value anew. */
static inline lk_status anew(const lk_pass *pass, void *arg, const lk_list *in, int n_in,
                             lk_list *out)
{
    (void)pass;
    (void)arg;
    ASSERT_EQ(n_in, 1);
    for (int k = 0; k < in[0].n; k++)
        LK_TRY(lk_tanh(in[0].at[k], &out->at[out->n++]));
    return LK_OK;
}

/* Everything that a run has: in one process all components, as a rank its own. */
struct parts {
    lk_tape *tape;
    lk_model *model[MOST_RANKS][MOST_PARTS];
    lk_accumulator *accumulator[MOST_RANKS][MOST_PARTS]; /* in one process */
    struct leaf x[MOST_RANKS];
    lk_tensor *out[MOST_RANKS];
};

static inline lk_tensor *input_new(int rank)
{
    lk_tensor *x, *t = random_new(LK_SHAPE(SAMPLES, WIDTH), "input", rank);
    ASSERT_OK(lk_tensor_clone(t, LK_F32, &x));
    lk_tensor_free(t);
    return x;
}

static inline void parts_free(struct parts *p)
{
    lk_tape_free(p->tape);
    for (int r = 0; r < MOST_RANKS; r++) {
        for (int k = 0; k < MOST_PARTS; k++) {
            lk_accumulator_free(p->accumulator[r][k]);
            lk_model_free(p->model[r][k]);
        }
        leaf_free(&p->x[r]);
        lk_tensor_free(p->out[r]);
    }
}

/* Keep the first value of an output, and give the loss: the sum of its squares. */
static inline lk_var output_take(lk_var y, lk_tensor **out)
{
    lk_var loss;
    const lk_tensor *t;
    ASSERT_OK(lk_value(y, &t));
    lk_tensor_free(*out);
    ASSERT_OK(lk_tensor_clone(t, lk_tensor_dtype(t), out));
    ASSERT_OK(lk_square(y, &loss));
    ASSERT_OK(lk_sum(loss, NULL, &loss));
    return loss;
}

/* ---- in one process ---- */

struct alone {
    const struct network *net;
    struct parts *parts;
    lk_list in[MOST_RANKS][MOST_PARTS][MOST_LINKS];
    lk_var given[MOST_RANKS][MOST_PARTS][MOST_LINKS][MOST_VALUES];
    int arrived[MOST_RANKS][MOST_PARTS];
    int ready[MOST_RANKS * MOST_PARTS][2], n_ready;
    lk_seed seed[MOST_RANKS];
    int n_seeds;
};

/* How many messages from `a` to `b` (own ones too) leave before output o of part k; `in`: arrive. */
static inline int messages_before(const struct network *net, int a, int b, int k, int o, bool in)
{
    int n = 0, at = in ? b : a, other = in ? a : b;
    for (int i = 0; i <= k; i++) {
        const struct part *p = &net->part[at][i];
        for (int j = 0; j < (i < k ? (in ? p->n_in : p->n_out) : o); j++)
            n += (in ? p->in[j] : p->out[j]) == other;
    }
    return n;
}

/* The values of y, each by a node of its own. */
static inline void alone_give(const struct alone *a, const lk_list *y, lk_var *at, lk_list *out)
{
    lk_var empty;
    ASSERT_OK(lk_full(a->parts->tape, LK_F32, LK_SHAPE(0), 0, &empty));
    *out = (lk_list){.at = at, .n = y->n};
    for (int i = 0; i < y->n; i++)
        ASSERT_OK(lk_join(y->at[i], &empty, 1, &at[i]));
}

/* Hand output o of part k of rank r to whoever takes it. */
static inline void alone_deliver(struct alone *a, int r, int k, int o, const lk_list *y)
{
    int to = a->net->part[r][k].out[o], n = messages_before(a->net, r, to, k, o, false);
    for (int l = 0; l < a->net->n[to]; l++)
        for (int i = 0; i < a->net->part[to][l].n_in; i++)
            if (a->net->part[to][l].in[i] == r && messages_before(a->net, r, to, l, i, true) == n) {
                a->in[to][l][i] = *y;
                if (a->net->whole)
                    alone_give(a, y, a->given[to][l][i], &a->in[to][l][i]);
                if (++a->arrived[to][l] == a->net->part[to][l].n_in) {
                    a->ready[a->n_ready][0] = to;
                    a->ready[a->n_ready++][1] = l;
                }
                return;
            }
    TEST_FAIL("nobody takes output %d of part %d of rank %d", o, k, r);
}

static inline void alone_run(struct alone *a, int r, int k, lk_var *y)
{
    const struct part *p = &a->net->part[r][k];
    lk_pass pass = {.tape = a->parts->tape, .accumulator = a->parts->accumulator[r][k]};
    lk_list x = {.at = &a->parts->x[r].var, .n = 1}, out = {.at = y, .room = MOST_VALUES};
    const lk_list *in = p->n_in > 0 ? a->in[r][k] : &x;
    if (p->fn) {
        ASSERT_OK(p->fn(&pass, NULL, in, p->n_in > 0 ? p->n_in : 1, &out));
    } else {
        ASSERT_OK(lk_model_forward(a->parts->model[r][k], &pass, in[0].at[0], y));
        out.n = 1;
    }
    for (int o = 0; o < p->n_out; o++)
        alone_deliver(a, r, k, o, &out);
    if (p->n_out == 0)
        a->seed[a->n_seeds++].of = output_take(y[0], &a->parts->out[r]);
}

static inline void run_alone(const struct network *net, struct parts *p)
{
    static _Thread_local struct alone a;
    static _Thread_local lk_var y[MOST_RANKS][MOST_PARTS][MOST_VALUES];
    memset(&a, 0, sizeof a);
    a.net = net;
    a.parts = p;
    ASSERT_OK(lk_tape_new(&p->tape));
    for (int r = 0; r < net->ranks; r++) {
        p->x[r] = leaf_of(p->tape, input_new(r));
        for (int k = 0; k < net->n[r]; k++) {
            if (!net->part[r][k].fn) {
                p->model[r][k] = layer_new(r, k);
                ASSERT_OK(lk_accumulator_new(p->model[r][k], &p->accumulator[r][k]));
            }
            if (net->part[r][k].n_in == 0) {
                a.ready[a.n_ready][0] = r;
                a.ready[a.n_ready++][1] = k;
            }
        }
    }
    for (int i = 0; i < a.n_ready; i++)
        alone_run(&a, a.ready[i][0], a.ready[i][1], y[a.ready[i][0]][a.ready[i][1]]);
    ASSERT_OK(lk_backward(p->tape, a.seed, a.n_seeds, 0));
}

/* ---- as a rank ---- */

static inline lk_chain *chain_of(lk_comm *comm, const struct network *net, struct parts *own)
{
    lk_chain *chain;
    int r = lk_comm_rank(comm);
    ASSERT_OK(lk_chain_new(comm, &chain));
    for (int k = 0; k < net->n[r]; k++) {
        const struct part *p = &net->part[r][k];
        if (!p->fn)
            own->model[r][k] = layer_new(r, k);
        ASSERT_OK(lk_chain_add(
            chain, &(lk_component){.name = p->name, .model = own->model[r][k], .fn = p->fn}, p->in,
            p->n_in, p->out, p->n_out));
    }
    return chain;
}

static inline void expect_equal(const lk_tensor *got, const lk_tensor *want, const char *shape,
                                int ranks, const char *what)
{
    if (!got != !want || (got && !lk_tensor_is_equal(got, want)))
        TEST_FAIL("%s on %d ranks: %s has other bits than in one process", shape, ranks, what);
}

/* One pass, forward and backward, against what one process has. */
static inline void chain_pass(lk_comm *comm, lk_chain *chain, const struct network *net,
                              const char *shape, struct parts *own, const struct parts *want)
{
    int r = lk_comm_rank(comm);
    lk_var x, y[MOST_VALUES], loss = LK_NO_VAR;
    lk_list out = {.at = y, .room = MOST_VALUES};
    lk_tape_reset(own->tape);
    lk_chain_clear(chain);
    ASSERT_OK(lk_tensor_fill_f64(own->x[r].grad, 0));
    ASSERT_OK(lk_leaf(own->tape, own->x[r].value, own->x[r].grad, &x));
    ASSERT_OK(lk_chain_forward(chain, &(lk_pass){.tape = own->tape}, &x, 1, &out));
    if (out.n > 0)
        loss = output_take(y[0], &own->out[r]);
    backward(own->tape, loss);
    expect_equal(own->out[r], want->out[r], shape, net->ranks, "the output");
    expect_equal(own->x[r].grad, want->x[r].grad, shape, net->ranks, "the gradient of x");
    for (int k = 0; k < net->n[r]; k++) {
        const lk_accumulator *accumulator = lk_chain_accumulator(chain, k);
        ASSERT_EQ(!accumulator, !want->accumulator[r][k]);
        if (accumulator && memcmp(lk_slab_data(lk_accumulator_slab(accumulator)),
                                  lk_slab_data(lk_accumulator_slab(want->accumulator[r][k])),
                                  (size_t)lk_accumulator_bytes(own->model[r][k])) != 0)
            TEST_FAIL("%s on %d ranks: the gradients of %s of rank %d have other bits than in one "
                      "process",
                      shape, net->ranks, net->part[r][k].name, r);
    }
}

/* Run a chain that is built, and free it. */
static inline void chain_compare(lk_comm *comm, lk_chain *chain, const struct network *net,
                                 const char *shape, int passes, struct parts *own)
{
    struct parts want = {.tape = NULL};
    int r = lk_comm_rank(comm);
    run_alone(net, &want);
    ASSERT_OK(lk_tape_new(&own->tape));
    own->x[r] = leaf_of(own->tape, input_new(r));
    for (int i = 0; i < passes; i++)
        chain_pass(comm, chain, net, shape, own, &want);
    lk_tape_reset(own->tape);
    lk_chain_free(chain);
    parts_free(own);
    parts_free(&want);
}

static inline void check_network(lk_comm *comm, const struct network *net, const char *shape,
                                 int passes)
{
    struct parts own = {.tape = NULL};
    lk_chain *chain = chain_of(comm, net, &own);
    ASSERT_OK(lk_chain_build(chain, NULL, 0));
    chain_compare(comm, chain, net, shape, passes, &own);
}

#endif /* LK_TEST_CHAINS_H */
