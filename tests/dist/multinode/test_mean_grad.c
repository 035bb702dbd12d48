/* bcast_data, multi_node_mean_grad and persistent values, with the numbers of ChainerMN's tests and some that
 * a plain average of ranks would miss. */
#include "coll/collectives.h"
#include "multi_nodes.h"

#include <math.h>

/* ---- bcast_data ---- */

RANKS_TEST(all_get_what_a_root_has)
{
    int rank = lk_comm_rank(comm), last = lk_comm_size(comm) - 1;
    for (int root = 0; root <= last; root += last > 0 ? last : 1) {
        lk_slab *slab = model_of(LK_F32);
        model_fill(slab, rank);
        ASSERT_OK(lk_bcast_data(comm, slab, root));
        model_expect(slab, root, "bcast_data");
        lk_slab_free(slab);
    }
}

/* A slab of tensors of several dtypes, filled with bytes. */
static lk_slab *mixed_of(int fill)
{
    static const lk_dtype dtype[] = {LK_F32, LK_I64, LK_U8, LK_F16, LK_BF16, LK_F64, LK_I32};
    static const char *const name[] = {"f32", "i64", "u8", "f16", "bf16", "f64", "i32"};
    lk_slab_layout *layout;
    lk_slab *slab;
    ASSERT_OK(lk_slab_layout_new(&layout));
    for (int i = 0; i < 7; i++)
        ASSERT_OK(lk_slab_layout_add(layout, name[i], dtype[i], LK_SHAPE(3 + i)));
    ASSERT_OK(lk_slab_new(layout, &slab));
    memset(lk_slab_data(slab), fill, (size_t)lk_slab_layout_bytes(layout));
    lk_slab_layout_free(layout);
    return slab;
}

RANKS_TEST(any_dtypes_are_sent)
{
    lk_slab *slab = mixed_of(17 + lk_comm_rank(comm)), *want = mixed_of(17);
    ASSERT_OK(lk_bcast_data(comm, slab, 0));
    ASSERT_SAME_BITS(lk_slab_data(slab), lk_slab_data(want),
                     lk_slab_layout_bytes(lk_slab_layout_of(slab)));
    lk_slab_free(slab);
    lk_slab_free(want);
}

RANKS_TEST(other_tensors_are_named)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    lk_slab *slab = model_of(rank == size - 1 ? LK_F64 : LK_F32);
    if (size > 1)
        ASSERT_FAILS(lk_bcast_data(comm, slab, 0), LK_ESTATE,
                     "tensor 0, a.W f64[3,2], is another one on rank 0");
    ASSERT_FAILS(lk_bcast_data(comm, slab, rank == 0 ? size : 0), LK_EINVAL, "root ");
    if (size > 1)
        ASSERT_FAILS(lk_multi_node_mean_grad(comm, slab, NULL, NULL), LK_ESTATE,
                     "has other tensors than rank 0: names, dtypes and shapes must be the same");
    ASSERT_OK(lk_barrier(comm, "usable"));
    lk_slab_free(slab);
}

/* ---- means ---- */

/* Gradients rank, rank + 1, rank + 2: the means are base, base + 1, base + 2. */
RANKS_TEST(means_are_those_of_all_ranks)
{
    static const char *const names[] = {NULL,           "naive",           "flat",
                                        "hierarchical", "two_dimensional", "non_cuda_aware",
                                        "single_node",  "pure_nccl"};
    double base = (lk_comm_size(comm) - 1) / 2.0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (int wire = LK_WIRE_DTYPE; wire <= LK_WIRE_BF16; wire++) {
            lk_mean_grad_options how = {.algorithm = names[i], .wire = (lk_wire)wire};
            bool whole = !names[i] || strcmp(names[i], "flat") == 0 ||
                         strcmp(names[i], "two_dimensional") == 0 ||
                         strcmp(names[i], "pure_nccl") == 0;
            if (wire != LK_WIRE_DTYPE && !whole) /* those whose sums would be rounded on the way */
                continue;
            if (names[i] && strcmp(names[i], "single_node") == 0 && lk_comm_nodes(comm) > 1)
                continue;
            lk_slab *grads = model_of(LK_F32);
            for (int twice = 0; twice < 2; twice++) {
                model_fill(grads, lk_comm_rank(comm));
                ASSERT_OK(lk_multi_node_mean_grad(comm, grads, NULL, &how));
                model_expect(grads, base, names[i] ? names[i] : "by cost");
            }
            lk_slab_free(grads);
        }
    lk_slab *grads = model_of(LK_F64);
    model_fill(grads, lk_comm_rank(comm));
    ASSERT_OK(lk_multi_node_mean_grad(comm, grads, NULL, NULL));
    model_expect(grads, base, "f64");
    lk_slab_free(grads);
}

RANKS_TEST(what_nobody_has_is_left_out)
{
    double base = (lk_comm_size(comm) - 1) / 2.0;
    for (int zero_fill = 0; zero_fill < 2; zero_fill++) {
        lk_slab *grads = model_of(LK_F32);
        bool has[TENSORS] = {true, false, true};
        model_fill(grads, lk_comm_rank(comm));
        tensor_fill(grads, 1, (double)NAN); /* it has none: whatever lies there */
        ASSERT_OK(lk_multi_node_mean_grad(comm, grads, has,
                                          &(lk_mean_grad_options){.zero_fill = zero_fill}));
        tensor_expect(grads, 0, base, "the first");
        tensor_expect(grads, 2, base + 2, "the last");
        ASSERT_TRUE(has[0] && has[2] && has[1] == zero_fill);
        if (zero_fill)
            tensor_expect(grads, 1, 0, "what nobody has");
        lk_slab_free(grads);
    }
}

/* Odd ranks have no gradient of the last tensor: the mean is the sum of even ones over all ranks. */
RANKS_TEST(half_of_the_ranks_have_one)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    double sum = 0, base = (size - 1) / 2.0;
    for (int i = 0; i < size; i += 2)
        sum += i + 2;
    lk_slab *grads = model_of(LK_F32);
    bool has[TENSORS] = {true, true, rank % 2 == 0};
    model_fill(grads, rank);
    ASSERT_OK(
        lk_multi_node_mean_grad(comm, grads, has, &(lk_mean_grad_options){.zero_fill = true}));
    tensor_expect(grads, 0, base, "a.W");
    tensor_expect(grads, 2, (double)((float)sum / (float)size), "zero_fill");
    ASSERT_TRUE(has[2]);
    has[2] = rank % 2 == 0;
    if (size > 1)
        ASSERT_FAILS(lk_multi_node_mean_grad(comm, grads, has, NULL), LK_ESTATE,
                     "rank 0 has a gradient of c.b and rank 1 has none: give zero_fill");
    ASSERT_OK(lk_barrier(comm, "usable"));
    lk_slab_free(grads);
}

/* Rank r has r + 1 samples, and a gradient of r: the mean of means is another number. */
RANKS_TEST(samples_count_not_ranks)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    double sum = 0, samples = 0;
    for (int r = 0; r < size; r++) {
        sum += (double)r * (r + 1);
        samples += r + 1;
    }
    lk_slab *grads = model_of(LK_F32);
    for (int64_t i = 0; i < TENSORS; i++)
        tensor_fill(grads, i, rank);
    ASSERT_OK(
        lk_multi_node_mean_grad(comm, grads, NULL, &(lk_mean_grad_options){.samples = rank + 1}));
    for (int64_t i = 0; i < TENSORS; i++)
        tensor_expect(grads, i, (double)((float)sum / (float)samples), "weighted");
    ASSERT_TRUE(size == 1 || sum / samples != (size - 1) / 2.0);
    /* the last rank has no samples, and what it has is no number */
    bool none = rank == size - 1 && size > 1;
    model_fill(grads, none ? (double)NAN : rank);
    ASSERT_OK(lk_multi_node_mean_grad(comm, grads, NULL,
                                      &(lk_mean_grad_options){.samples = none ? 0 : 10}));
    if (size > 1)
        model_expect(grads, (size - 2) / 2.0, "a rank without samples");
    ASSERT_FAILS(lk_multi_node_mean_grad(comm, grads, NULL,
                                         &(lk_mean_grad_options){.samples = none ? -1 : -2}),
                 LK_EINVAL, " samples");
    lk_slab_free(grads);
}

/* All but the samples must be given alike. */
RANKS_TEST(other_options_are_named)
{
    int size = lk_comm_size(comm);
    bool last = lk_comm_rank(comm) == size - 1;
    lk_slab *grads = model_of(LK_F32);
    lk_mean_grad_options how[] = {{.zero_fill = !last},
                                  {.wire = last ? LK_WIRE_BF16 : LK_WIRE_DTYPE},
                                  {.algorithm = last ? "flat" : NULL},
                                  {.samples = INT64_MAX}};
    static const char *const words[] = {"zero_fill is 1 on rank 0 and 0 on rank",
                                        "wire is dtype on rank 0 and bf16 on rank",
                                        "has another algorithm than rank 0", NULL};
    for (int i = 0; i < 3 && size > 1; i++)
        ASSERT_FAILS(lk_multi_node_mean_grad(comm, grads, NULL, &how[i]), LK_ESTATE, words[i]);
    if (size > 1)
        ASSERT_FAILS(lk_multi_node_mean_grad(comm, grads, NULL, &how[3]), LK_EOVERFLOW,
                     "rank 1 has 9223372036854775807 samples");
    how[0].algorithm = last ? "bogus" : NULL;
    ASSERT_FAILS(lk_multi_node_mean_grad(comm, grads, NULL, &how[0]), LK_EINVAL,
                 "no allreduce algorithm named \"bogus\"");
    lk_slab_free(grads);
}

RANKS_TEST(what_has_diverged_is_named)
{
    lk_slab *grads = model_of(LK_F32);
    char words[80];
    int last = lk_comm_size(comm) - 1;
    if (last == 0) { /* nothing travels */
        lk_slab_free(grads);
        return;
    }
    model_fill(grads, lk_comm_rank(comm));
    if (lk_comm_rank(comm) == last)
        tensor_fill(grads, 1, (double)NAN);
    ASSERT_OK(lk_comm_set_finite_check(comm, true));
    snprintf(words, sizeof words, "rank %d gives nan at index 16 of allreduce(\"gradients\"", last);
    for (int wire = LK_WIRE_DTYPE; wire <= LK_WIRE_BF16; wire++)
        ASSERT_FAILS(lk_multi_node_mean_grad(comm, grads, NULL,
                                             &(lk_mean_grad_options){.wire = (lk_wire)wire}),
                     LK_ENAN, words);
    ASSERT_OK(lk_comm_set_finite_check(comm, false));
    lk_slab_free(grads);
}

/* ---- persistent values ---- */

/* What batch norm keeps, rank * k, and a counter. */
RANKS_TEST(persistent_values_are_averaged)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    lk_slab_layout *layout;
    lk_slab *slab;
    ASSERT_OK(lk_slab_layout_new(&layout));
    ASSERT_OK(lk_slab_layout_add(layout, "avg_mean", LK_F32, LK_SHAPE(7)));
    ASSERT_OK(lk_slab_layout_add(layout, "avg_var", LK_F32, LK_SHAPE(7)));
    ASSERT_OK(lk_slab_layout_add(layout, "N", LK_I64, LK_SHAPE(1)));
    ASSERT_OK(lk_slab_layout_add(layout, "wide", LK_F64, LK_SHAPE(2)));
    ASSERT_OK(lk_slab_new(layout, &slab));
    lk_slab_layout_free(layout);
    for (int k = 0; k < 4; k++)
        tensor_fill(slab, k, (double)rank * (k + 1));
    ASSERT_OK(lk_allreduce_persistent(comm, slab));
    tensor_expect(slab, 0, (size - 1) / 2.0, "avg_mean");
    tensor_expect(slab, 1, (size - 1) / 2.0 * 2, "avg_var");
    tensor_expect(slab, 3, (size - 1) / 2.0 * 4, "wide");
    lk_tensor *n;
    double got;
    ASSERT_OK(lk_slab_find(slab, "N", &n));
    ASSERT_OK(lk_tensor_get_f64(n, LK_AT(0), &got));
    ASSERT_TRUE(got == (double)rank * 3); /* integers stay */
    lk_tensor_free(n);
    lk_slab_free(slab);
}
