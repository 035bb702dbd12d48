/* Gradients that travel as f16 or bf16: the bits of the formula, the bound of docs/reference/numerics.md, and what
 * the trainer makes of it. */
#include "parallel/wire.h"
#include "ranks.h"
#include "trainers.h"

#include <lockstep/extra/half.h>

#include <math.h>

/* Tensors of very different magnitudes, one that is 0 everywhere, and one on rank 0 alone. */
enum { TENSORS = 6 };
static const struct {
    const char *name;
    int64_t count;
    double magnitude;
} tensors[TENSORS] = {{"plain", 1021, 1},      {"huge", 37, 1e30}, {"tiny", 1500, 1e-30},
                      {"denormal", 17, 1e-43}, {"zeros", 100, 0},  {"lonely", 33, 70000}};

static float value_of(int rank, int tensor, int64_t i)
{
    uint32_t x = (uint32_t)(rank * 7919 + tensor * 104729 + i) * 2654435761U;
    x ^= x >> 15;
    if (tensor == TENSORS - 1 && rank > 0)
        return 0;
    return (float)(((double)x / 4294967296.0 - 0.5) * 2 * tensors[tensor].magnitude);
}

static lk_slab *gradients_of(int rank)
{
    lk_slab_layout *layout;
    lk_slab *slab;
    ASSERT_OK(lk_slab_layout_new(&layout));
    for (int t = 0; t < TENSORS; t++)
        ASSERT_OK(lk_slab_layout_add(layout, tensors[t].name, LK_F32, LK_SHAPE(tensors[t].count)));
    ASSERT_OK(lk_slab_new(layout, &slab));
    lk_slab_layout_free(layout);
    for (int t = 0; t < TENSORS; t++) {
        lk_slab_slice slice;
        ASSERT_OK(lk_slab_layout_slice(lk_slab_layout_of(slab), t, &slice));
        float *x = (float *)(void *)((char *)lk_slab_data(slab) + slice.offset);
        for (int64_t i = 0; i < slice.count; i++)
            x[i] = value_of(rank, t, i);
    }
    return slab;
}

/* The sum over all ranks by way of the wire. */
static void wire_sum(lk_comm *comm, lk_wire choice, lk_slab *slab)
{
    lk__wire *wire;
    float *x = lk_slab_data(slab);
    ASSERT_OK(lk__wire_new(lk_slab_layout_of(slab), TENSORS, choice, comm, &wire));
    ASSERT_OK(lk__wire_scale(wire, x));
    int64_t half = lk__wire_elements(wire) / 2, rest = lk__wire_elements(wire) - half;
    void *y = lk__wire_narrow(wire, x, 0, half); /* a border within a tensor */
    ASSERT_OK(lk_allreduce(comm, NULL, y, half, lk__wire_dtype(wire), LK_REDUCE_SUM, "first"));
    y = lk__wire_narrow(wire, x, half, rest);
    ASSERT_OK(lk_allreduce(comm, NULL, y, rest, lk__wire_dtype(wire), LK_REDUCE_SUM, "rest"));
    lk__wire_widen(wire, x, half, rest);
    lk__wire_widen(wire, x, 0, half);
    lk__wire_free(wire);
}

/* The exponent s of the formula: all magnitudes, times the ranks, below 2^15. */
static int scale_of(lk_wire choice, int tensor, int ranks)
{
    double most = 0;
    int e;
    for (int r = 0; r < ranks; r++)
        for (int64_t i = 0; i < tensors[tensor].count; i++)
            most = fmax(most, fabs((double)value_of(r, tensor, i)));
    if (choice != LK_WIRE_F16 || most == 0)
        return 0;
    (void)frexp(most, &e); /* below 2^e */
    return 15 - (int)ceil(log2(ranks)) - e;
}

static float rounded(lk_wire choice, double x)
{
    return choice == LK_WIRE_F16 ? lk_f16_decode(lk_f16_encode((float)x))
                                 : lk_bf16_decode(lk_bf16_encode((float)x));
}

/* The tree over ranks [first, first + n) of what they send. */
static float sent_sum(lk_wire choice, int tensor, int64_t i, int scale, lk_range ranks)
{
    int64_t lower = ranks.n > 1 ? lk_tree_half(ranks.n) : 0;
    if (ranks.n == 1)
        return rounded(choice, ldexp((double)value_of((int)ranks.first, tensor, i), scale));
    return sent_sum(choice, tensor, i, scale, (lk_range){ranks.first, lower}) +
           sent_sum(choice, tensor, i, scale, (lk_range){ranks.first + lower, ranks.n - lower});
}

/* Of one element: the bits of the formula, and how far it is from the sum in f64. */
static void check_element(lk_wire choice, int tensor, int64_t i, int ranks, float got)
{
    int scale = scale_of(choice, tensor, ranks);
    float sum = sent_sum(choice, tensor, i, scale, (lk_range){0, ranks});
    float want = (float)ldexp((double)rounded(choice, (double)sum), -scale);
    if (memcmp(&got, &want, sizeof got) != 0)
        TEST_FAIL("%s %s[%lld] on %d ranks: %a, and the formula says %a", lk_wire_name(choice),
                  tensors[tensor].name, (long long)i, ranks, (double)got, (double)want);
    double exact = 0, magnitudes = 0, largest = 0, u = choice == LK_WIRE_F16 ? 0x1p-11 : 0x1p-8;
    for (int r = 0; r < ranks; r++) {
        exact += (double)value_of(r, tensor, i);
        magnitudes += fabs((double)value_of(r, tensor, i));
    }
    for (int r = 0; r < ranks; r++)
        for (int64_t k = 0; k < tensors[tensor].count; k++)
            largest = fmax(largest, fabs((double)value_of(r, tensor, k)));
    double bound = (2 * u + u * u + 0x1p-23 * (1 + log2(ranks))) * magnitudes + 0x1p-149;
    bound += (ranks + 1) *
             (choice == LK_WIRE_F16 ? exp2(ceil(log2(ranks))) * 0x1p-39 * largest : 0x1p-134);
    if (!(fabs((double)got - exact) <= bound))
        TEST_FAIL("%s %s[%lld] on %d ranks: %g, exactly %g, off by more than %g",
                  lk_wire_name(choice), tensors[tensor].name, (long long)i, ranks, (double)got,
                  exact, bound);
}

RANKS_TEST(sums_are_those_of_the_formula_and_within_the_bound)
{
    int ranks = lk_comm_size(comm);
    for (int choice = LK_WIRE_F16; choice <= LK_WIRE_BF16; choice++) {
        lk_slab *slab = gradients_of(lk_comm_rank(comm));
        wire_sum(comm, (lk_wire)choice, slab);
        for (int t = 0; t < TENSORS; t++) {
            lk_slab_slice slice;
            ASSERT_OK(lk_slab_layout_slice(lk_slab_layout_of(slab), t, &slice));
            const float *x = (float *)(void *)((char *)lk_slab_data(slab) + slice.offset);
            for (int64_t i = 0; i < slice.count; i += 13)
                check_element((lk_wire)choice, t, i, ranks, x[i]);
        }
        lk_slab_free(slab);
    }
}

RANKS_TEST(what_is_not_finite_stays_so)
{
    int last = lk_comm_size(comm) - 1;
    for (int choice = LK_WIRE_F16; choice <= LK_WIRE_BF16; choice++) {
        lk_slab *slab = gradients_of(lk_comm_rank(comm));
        float *x = lk_slab_data(slab);
        if (lk_comm_rank(comm) == last) {
            x[3] = INFINITY;
            x[5] = NAN;
        }
        wire_sum(comm, (lk_wire)choice, slab);
        double sum = 0;
        for (int r = 0; r <= last; r++)
            sum += (double)value_of(r, 0, 4);
        ASSERT_TRUE(isinf(x[3]) && isnan(x[5]) && fabs((double)x[4] - sum) < 0.02 * (last + 1));
        lk_slab_free(slab);
    }
}

RANKS_TEST(only_f32_can_be_narrowed)
{
    lk_slab *slab;
    lk__wire *wire;
    ASSERT_OK(lk_slab_new_tensor("w", LK_F64, LK_SHAPE(3), &slab));
    ASSERT_FAILS(lk__wire_new(lk_slab_layout_of(slab), 1, LK_WIRE_F16, comm, &wire), LK_EDTYPE,
                 "w is f64: only f32 can travel as f16");
    lk_slab_free(slab);
}

/* ---- the trainer ---- */

static const char network[] =
    "data: {type: glyphs, count: 112, test_count: 8, shape: [12, 12, 1], batch: 56, shards: 8}\n"
    "model: [{type: conv, filters: 4, kernel: 3}, batch_norm, relu, flatten,\n"
    "        {type: linear, units: 10}]\n"
    "loss: softmax_cross_entropy\n"
    "metrics: [accuracy]\n"
    "optimizer: {type: sgd, rate: 1}\n"
    "parallel: {mode: fast}\n";

/* The parameters after a step of rate 1; the caller frees them. */
static float *stepped(lk_comm *comm, const char *const *settings, int64_t *n, uint64_t *state)
{
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    float *out;
    ASSERT_OK(job_of(network, comm, settings, &e, &job));
    ASSERT_OK(lk_trainer_step(lk_job_trainer(job), NULL));
    *state = state_of(lk_job_trainer(job));
    const lk_slab *params = lk_model_params(lk_trainer_model(lk_job_trainer(job)));
    int64_t bytes = lk_slab_layout_bytes(lk_slab_layout_of(params));
    *n = bytes / 4;
    ASSERT_OK(lk_alloc(&out, *n, sizeof *out));
    memcpy(out, lk_slab_data(params), (size_t)bytes);
    job_end(job, e);
    return out;
}

/* The gradient is another one, by less than the bound allows of what ranks with one sign have. */
RANKS_TEST(a_step_rounds_gradients_and_says_so)
{
    static const char *const wires[] = {"parallel.wire=f16", "parallel.wire=bf16"};
    int64_t n;
    uint64_t exact_state, state, travelled;
    if (lk_comm_size(comm) == 1) /* nothing travels */
        return;
    float *exact = stepped(comm, (const char *[MAX_SETTINGS]){NULL}, &n, &exact_state);
    for (int w = 0; w < 2; w++) {
        double u = w == 0 ? 0x1p-11 : 0x1p-8, moved = 0, off = 0;
        float *x = stepped(comm, (const char *[MAX_SETTINGS]){wires[w]}, &n, &state),
              *y = stepped(comm,
                           (const char *[MAX_SETTINGS]){wires[w], "parallel.overlap=yes",
                                                        "parallel.bucket_mib=0.0005",
                                                        "parallel.update=each"},
                           &n, &travelled);
        for (int64_t i = 0; i < n; i++) {
            off = fmax(off, fabs((double)x[i] - (double)exact[i]));
            moved = fmax(moved, fabs((double)exact[i]));
        }
        ASSERT_TRUE(off > 0 && off < 4 * u * moved * lk_comm_size(comm));
        ASSERT_SAME_BITS(x, y, n * 4); /* those that travelled in parts too */
        ASSERT_TRUE(state != exact_state && state == travelled);
        lk_free(x);
        lk_free(y);
    }
    lk_free(exact);
}

RANKS_TEST(what_cannot_travel_so_is_refused)
{
    lk_experiment *e = NULL;
    lk_job *job;
    ASSERT_FAILS(
        job_of(network, comm,
               (const char *[MAX_SETTINGS]){"parallel.wire=bf16", "parallel.mode=canonical"}, &e,
               &job),
        LK_EINVAL,
        "parallel.wire=bf16 rounds what each rank has added up, so that bits depend on "
        "the number of ranks: give parallel.mode=fast as well");
    lk_experiment_free(e);
    ASSERT_FAILS(job_of(network, comm,
                        (const char *[MAX_SETTINGS]){"parallel.wire=f16", "dtype=f64"}, &e, &job),
                 LK_EDTYPE, "parallel.wire=f16: gradients are f64, and only f32 can travel so");
    lk_experiment_free(e);
}
