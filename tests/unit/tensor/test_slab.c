/* Layouts and slabs: offsets, names, twins, hashes, the host's memory, and failures. */
#include "faults.h"
#include "tensors.h"

#include <lockstep/slab.h>

static lk_slab_layout *small_layout(void)
{
    lk_slab_layout *layout;
    ASSERT_OK(lk_slab_layout_new(&layout));
    ASSERT_OK(lk_slab_layout_add(layout, "fc1.bias", LK_F32, LK_SHAPE(5)));
    ASSERT_OK(lk_slab_layout_add(layout, "fc1.weight", LK_F32, LK_SHAPE(7, 5)));
    ASSERT_OK(lk_slab_layout_add(layout, "nothing", LK_F32, LK_SHAPE(0, 3)));
    ASSERT_OK(lk_slab_layout_add(layout, "scale", LK_F32, LK_SCALAR));
    return layout;
}

TEST(slices_are_aligned_and_in_order)
{
    lk_slab_layout *layout = small_layout();
    static const int64_t offsets[] = {0, 64, 256, 256}, bytes[] = {20, 140, 0, 4};
    ASSERT_EQ(lk_slab_layout_slices(layout), 4);
    ASSERT_EQ(lk_slab_layout_bytes(layout), 320);
    for (int64_t i = 0; i < 4; i++) {
        lk_slab_slice s;
        int64_t found;
        ASSERT_OK(lk_slab_layout_slice(layout, i, &s));
        ASSERT_EQ(s.offset, offsets[i]);
        ASSERT_EQ(s.bytes, bytes[i]);
        ASSERT_EQ(s.count, bytes[i] / 4);
        ASSERT_OK(lk_slab_layout_find(layout, s.name, &found));
        ASSERT_EQ(found, i);
    }
    lk_slab_layout_free(layout);
}

TEST(an_offset_belongs_to_a_slice_or_to_a_gap)
{
    lk_slab_layout *layout = small_layout();
    static const int64_t cases[][2] = {{0, 0},   {19, 0},  {20, -1},  {63, -1},
                                       {64, 1},  {203, 1}, {204, -1}, {255, -1},
                                       {256, 3}, {259, 3}, {260, -1}, {319, -1}};
    int64_t i;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        ASSERT_OK(lk_slab_layout_find_offset(layout, cases[k][0], &i));
        ASSERT_EQ(i, cases[k][1]);
    }
    ASSERT_FAILS(lk_slab_layout_find_offset(layout, 320, &i), LK_EINVAL, "offset 320 in 320 bytes");
    ASSERT_FAILS(lk_slab_layout_find_offset(layout, -1, &i), LK_EINVAL, "offset -1");
    lk_slab_layout_free(layout);
}

/* Columns 2-4 of a weight [4][8], nothing of a bias, and units 1-2 of the three gates of [2][12]. */
static lk_slab_layout *held_layout(void)
{
    lk_slab_layout *layout;
    ASSERT_OK(lk_slab_layout_new(&layout));
    ASSERT_OK(lk_slab_layout_add(layout, "whole", LK_F32, LK_SHAPE(3)));
    ASSERT_OK(lk_slab_layout_add_box(layout, "columns", LK_F32, LK_SHAPE(4, 8), LK_SHAPE(4, 8),
                                     &(lk_box){2, {0, 2}, {4, 3}}));
    ASSERT_OK(lk_slab_layout_add_box(layout, "nothing", LK_F32, LK_SHAPE(8), LK_SHAPE(8),
                                     &(lk_box){1, {0}, {0}}));
    ASSERT_OK(lk_slab_layout_add_box(layout, "gates", LK_F32, LK_SHAPE(2, 12), LK_SHAPE(2, 3, 4),
                                     &(lk_box){3, {0, 0, 1}, {2, 3, 2}}));
    return layout;
}

TEST(a_slice_holds_a_box_of_its_tensor)
{
    lk_slab_layout *layout = held_layout();
    lk_slab *slab = NULL;
    lk_tensor *t = NULL;
    lk_slab_slice s;
    ASSERT_EQ(lk_slab_layout_bytes(layout), 64 + 64 + 64);
    ASSERT_OK(lk_slab_layout_slice(layout, 1, &s));
    ASSERT_TRUE(lk_shape_is_equal(s.shape, LK_SHAPE(4, 8)));
    ASSERT_EQ(s.count, 12);
    ASSERT_EQ(s.bytes, 48);
    ASSERT_TRUE(strcmp(lk_slab_slice_text(&s).s, "f32[4,2:5]") == 0);
    ASSERT_EQ(lk_slab_slice_place(&s, 0), 2);
    ASSERT_EQ(lk_slab_slice_place(&s, 11), 3 * 8 + 4);
    ASSERT_EQ(lk_slab_slice_place(&s, 12), -1);
    ASSERT_OK(lk_slab_new(layout, &slab));
    ASSERT_OK(lk_slab_tensor(slab, 1, &t));
    ASSERT_TRUE(lk_shape_is_equal(lk_tensor_shape(t), LK_SHAPE(4, 3)));
    lk_tensor_free(t);
    ASSERT_OK(lk_slab_find(slab, "nothing", &t));
    ASSERT_EQ(lk_tensor_count(t), 0);
    lk_tensor_free(t);
    ASSERT_OK(lk_slab_find(slab, "gates", &t));
    ASSERT_TRUE(lk_shape_is_equal(lk_tensor_shape(t), LK_SHAPE(2, 3, 2)));
    lk_tensor_free(t);
    ASSERT_OK(lk_slab_layout_slice(layout, 3, &s));
    ASSERT_EQ(lk_slab_slice_place(&s, 2), 4 + 1);
    ASSERT_EQ(lk_slab_slice_place(&s, 11), 12 + 8 + 2);
    lk_slab_free(slab);
    lk_slab_layout_free(layout);
}

static uint64_t box_hash(int64_t first, int64_t n, bool by_box)
{
    lk_slab_layout *layout = NULL;
    lk_slab *slab = NULL;
    lk_hash h = lk_hash_start();
    ASSERT_OK(lk_slab_layout_new(&layout));
    if (by_box)
        ASSERT_OK(lk_slab_layout_add_box(layout, "w", LK_F32, LK_SHAPE(8), LK_SHAPE(8),
                                         &(lk_box){1, {first}, {n}}));
    else
        ASSERT_OK(lk_slab_layout_add(layout, "w", LK_F32, LK_SHAPE(8)));
    ASSERT_OK(lk_slab_new(layout, &slab));
    lk_slab_hash(slab, &h);
    lk_slab_free(slab);
    lk_slab_layout_free(layout);
    return lk_hash_value(&h);
}

/* The units of each gate that a slice holds are hashed where they lie in the whole tensor. */
TEST(the_hash_of_gates_is_of_their_places)
{
    lk_slab_layout *layout = NULL;
    lk_slab *slab = NULL;
    lk_slab_slice s;
    lk_hash h = lk_hash_start(), want = lk_hash_start();
    uint64_t sum = 0;
    ASSERT_OK(lk_slab_layout_new(&layout));
    ASSERT_OK(lk_slab_layout_add_box(layout, "gates", LK_F32, LK_SHAPE(2, 12), LK_SHAPE(2, 3, 4),
                                     &(lk_box){3, {0, 0, 1}, {2, 3, 2}}));
    ASSERT_OK(lk_slab_new(layout, &slab));
    ASSERT_OK(lk_slab_layout_slice(layout, 0, &s));
    float *data = lk_slab_data(slab);
    for (int i = 0; i < 12; i++) {
        data[i] = (float)(i + 1);
        sum += lk_hash_sum(LK_F32, 1, &data[i], lk_slab_slice_place(&s, i));
    }
    lk_slab_hash(slab, &h);
    lk_hash_add_tensor(&want, "gates", LK_F32, 2, s.shape.dim, sum);
    ASSERT_TRUE(lk_hash_value(&h) == lk_hash_value(&want));
    lk_slab_free(slab);
    lk_slab_layout_free(layout);
}

TEST(a_part_is_never_taken_for_the_whole)
{
    lk_slab_layout *whole = small_layout(), *held = held_layout();
    lk_slab_slice s;
    ASSERT_TRUE(lk_slab_layout_is_whole(whole, &s));
    ASSERT_TRUE(!lk_slab_layout_is_whole(held, &s));
    ASSERT_TRUE(strcmp(s.name, "columns") == 0);
    ASSERT_TRUE(!lk_slab_layout_is_whole(held, NULL));
    ASSERT_TRUE(box_hash(0, 8, true) == box_hash(0, 8, false));
    ASSERT_TRUE(box_hash(0, 4, true) != box_hash(4, 4, true));
    lk_slab_layout_free(whole);
    lk_slab_layout_free(held);
}

TEST(a_box_outside_its_tensor_is_refused)
{
    lk_slab_layout *layout = small_layout();
    ASSERT_FAILS(lk_slab_layout_add_box(layout, "x", LK_F32, LK_SHAPE(4, 8), LK_SHAPE(4, 8),
                                        &(lk_box){2, {0, 6}, {4, 3}}),
                 LK_EINVAL, "the box of slice \"x\" does not lie in [4,8]");
    ASSERT_FAILS(lk_slab_layout_add_box(layout, "x", LK_F32, LK_SHAPE(4, 8), LK_SHAPE(4, 8),
                                        &(lk_box){1, {0}, {4}}),
                 LK_EINVAL, "does not lie in [4,8]");
    ASSERT_FAILS(lk_slab_layout_add_box(layout, "x", LK_F32, LK_SHAPE(4, 8), LK_SHAPE(4, 2, 3),
                                        &(lk_box){3, {0}, {4, 2, 3}}),
                 LK_EINVAL, "other elements than [4,2,3]");
    ASSERT_FAILS(lk_slab_layout_add_box(layout, "x", LK_F32, LK_SHAPE(4), LK_SHAPE(4), NULL),
                 LK_EINVAL, "box is NULL");
    ASSERT_EQ(lk_slab_layout_slices(layout), 4);
    lk_slab_layout_free(layout);
}

TEST(bad_slices_are_refused_and_leave_the_layout_as_it_was)
{
    lk_slab_layout *layout = small_layout();
    const int64_t big = INT64_C(1) << 61;
    int64_t i;
    lk_slab_slice s;
    ASSERT_FAILS(lk_slab_layout_add(layout, "fc1.bias", LK_F32, LK_SHAPE(1)), LK_EINVAL,
                 "slice \"fc1.bias\" is already in the layout");
    ASSERT_FAILS(lk_slab_layout_add(layout, "", LK_F32, LK_SHAPE(1)), LK_EINVAL, "has no name");
    ASSERT_FAILS(lk_slab_layout_add(layout, NULL, LK_F32, LK_SHAPE(1)), LK_EINVAL, "has no name");
    ASSERT_FAILS(lk_slab_layout_add(layout, "x", LK_N_DTYPES, LK_SHAPE(1)), LK_EDTYPE,
                 "slice \"x\"");
    ASSERT_FAILS(lk_slab_layout_add(layout, "x", LK_F32, LK_SHAPE(1, -1)), LK_EINVAL, "[1,-1]");
    ASSERT_FAILS(lk_slab_layout_add(layout, "x", LK_F32, LK_SHAPE(big)), LK_EOVERFLOW,
                 "slice \"x\", f32[2305843009213693952]");
    ASSERT_FAILS(lk_slab_layout_add(layout, "x", LK_U8, LK_SHAPE(INT64_MAX)), LK_EOVERFLOW,
                 "slice \"x\"");
    ASSERT_FAILS(lk_slab_layout_add(layout, "x", LK_U8, LK_SHAPE(INT64_MAX - 320)), LK_EOVERFLOW,
                 "\"x\"");
    ASSERT_FAILS(lk_slab_layout_add(NULL, "x", LK_U8, LK_SHAPE(1)), LK_EINVAL, "layout is NULL");
    ASSERT_FAILS(lk_slab_layout_find(layout, "x", &i), LK_EINVAL, "no slice named \"x\"");
    ASSERT_FAILS(lk_slab_layout_slice(layout, 4, &s), LK_EINVAL, "slice 4 of a layout of 4");
    ASSERT_FAILS(lk_slab_layout_slice(layout, -1, &s), LK_EINVAL, "slice -1");
    ASSERT_EQ(lk_slab_layout_slices(layout), 4);
    ASSERT_EQ(lk_slab_layout_bytes(layout), 320);
    lk_slab_layout_free(layout);
    lk_slab_layout_free(NULL);
}

TEST(many_names_are_found)
{
    enum { N = 20000 };
    lk_slab_layout *layout;
    char name[48];
    ASSERT_OK(lk_slab_layout_new(&layout));
    for (int64_t i = 0; i < N; i++) {
        snprintf(name, sizeof name, "layer%lld.weight", (long long)i);
        ASSERT_OK(lk_slab_layout_add(layout, name, LK_BF16, LK_SHAPE(i % 50)));
    }
    for (int64_t i = 0; i < N; i++) {
        int64_t found;
        lk_slab_slice s;
        snprintf(name, sizeof name, "layer%lld.weight", (long long)i);
        ASSERT_OK(lk_slab_layout_find(layout, name, &found));
        ASSERT_EQ(found, i);
        ASSERT_OK(lk_slab_layout_slice(layout, i, &s));
        ASSERT_TRUE(strcmp(s.name, name) == 0);
        if (s.bytes > 0) {
            ASSERT_OK(lk_slab_layout_find_offset(layout, s.offset + s.bytes - 1, &found));
            ASSERT_EQ(found, i);
        }
    }
    lk_slab_layout_free(layout);
}

TEST(slices_are_tensors_on_one_buffer)
{
    lk_slab_layout *layout = small_layout();
    lk_slab *slab;
    lk_tensor *bias, *weight, *scale, *flat;
    ASSERT_OK(lk_slab_new(layout, &slab));
    ASSERT_TRUE(lk_slab_layout_of(slab) == layout);
    lk_slab_layout_free(layout); /* the slab holds it */
    ASSERT_EQ((uintptr_t)lk_slab_data(slab) % LK_ALIGN, 0);
    ASSERT_OK(lk_slab_tensor(slab, 0, &bias));
    ASSERT_OK(lk_slab_find(slab, "fc1.weight", &weight));
    ASSERT_OK(lk_slab_find(slab, "scale", &scale));
    ASSERT_OK(lk_slab_flat(slab, &flat));
    test_expect_text(weight, "f32[7,5]");
    test_expect_text(scale, "f32[]");
    test_expect_text(flat, "f32[80]");
    ASSERT_TRUE(lk_tensor_data(weight) == (char *)lk_slab_data(slab) + 64);
    ASSERT_OK(lk_tensor_fill_f64(flat, 2));
    ASSERT_OK(lk_tensor_fill_f64(weight, 3));
    TEST_EXPECT(bias, 2, 2, 2, 2, 2);
    TEST_EXPECT(scale, 2);
    lk_slab_zero(slab);
    TEST_EXPECT(bias, 0, 0, 0, 0, 0);
    ASSERT_TRUE(!lk_tensor_overlap(bias, weight) && lk_tensor_overlap(flat, scale));
    lk_slab_free(slab);
    TEST_EXPECT(scale, 0); /* tensors outlive their slab */
    lk_tensor_free(flat);
    lk_tensor_free(scale);
    lk_tensor_free(weight);
    lk_tensor_free(bias);
}

static uint64_t hash_of(const lk_slab *slab)
{
    lk_hash h = lk_hash_start();
    lk_slab_hash(slab, &h);
    return lk_hash_value(&h);
}

TEST(the_hash_sees_names_shapes_and_bits_but_no_gaps)
{
    lk_slab_layout *layout = small_layout(), *other;
    lk_slab *a, *b;
    lk_tensor *t;
    ASSERT_OK(lk_slab_new(layout, &a));
    ASSERT_OK(lk_slab_new(layout, &b));
    ASSERT_TRUE(hash_of(a) == hash_of(b));
    ((char *)lk_slab_data(b))[20] = 1; /* in the gap behind the first slice */
    ASSERT_TRUE(hash_of(a) == hash_of(b));
    ((char *)lk_slab_data(b))[19] = 1;
    ASSERT_TRUE(hash_of(a) != hash_of(b));
    lk_hash h = lk_hash_start();
    for (int64_t i = 0; i < 4; i++) {
        lk_slab_slice s;
        ASSERT_OK(lk_slab_layout_slice(layout, i, &s));
        ASSERT_OK(lk_slab_tensor(b, i, &t));
        lk_tensor_hash(t, s.name, &h);
        lk_tensor_free(t);
    }
    ASSERT_TRUE(hash_of(b) == lk_hash_value(&h));
    lk_slab_free(b);
    ASSERT_OK(lk_slab_layout_new(&other));
    ASSERT_OK(lk_slab_layout_add(other, "fc1.bias", LK_F32, LK_SHAPE(5)));
    ASSERT_OK(lk_slab_layout_add(other, "fc1.weight", LK_F32, LK_SHAPE(5, 7)));
    ASSERT_OK(lk_slab_layout_add(other, "nothing", LK_F32, LK_SHAPE(0, 3)));
    ASSERT_OK(lk_slab_layout_add(other, "scale", LK_F32, LK_SCALAR));
    ASSERT_OK(lk_slab_new(other, &b));
    ASSERT_TRUE(hash_of(a) != hash_of(b));
    lk_slab_free(a);
    lk_slab_free(b);
    lk_slab_layout_free(layout);
    lk_slab_layout_free(other);
}

TEST(a_slab_fixes_its_layout)
{
    lk_slab_layout *layout = small_layout();
    lk_slab *slab;
    ASSERT_OK(lk_slab_new(layout, &slab));
    ASSERT_FAILS(lk_slab_layout_add(layout, "late", LK_F32, LK_SHAPE(1)), LK_EINVAL,
                 "slice \"late\" comes too late");
    lk_slab_free(slab);
    lk_slab_layout_free(layout);
}

TEST(mixed_and_empty_slabs_have_no_flat_view)
{
    lk_slab_layout *layout;
    lk_slab *slab;
    lk_tensor *t;
    ASSERT_OK(lk_slab_layout_new(&layout));
    ASSERT_OK(lk_slab_new(layout, &slab));
    ASSERT_FAILS(lk_slab_flat(slab, &t), LK_EINVAL, "no slice");
    lk_slab_zero(slab);
    lk_slab_free(slab);
    lk_slab_layout_free(layout);
    ASSERT_OK(lk_slab_layout_new(&layout));
    ASSERT_OK(lk_slab_layout_add(layout, "w", LK_F32, LK_SHAPE(3)));
    ASSERT_OK(lk_slab_layout_add(layout, "step", LK_I64, LK_SCALAR));
    ASSERT_OK(lk_slab_new(layout, &slab));
    ASSERT_FAILS(lk_slab_flat(slab, &t), LK_EDTYPE, "slice \"w\" is f32, slice \"step\" is i64");
    ASSERT_FAILS(lk_slab_find(slab, "v", &t), LK_EINVAL, "no slice named \"v\"");
    ASSERT_FAILS(lk_slab_tensor(slab, 2, &t), LK_EINVAL, "slice 2 of a layout of 2");
    lk_slab_free(slab);
    ASSERT_FAILS(lk_slab_new(NULL, &slab), LK_EINVAL, "layout is NULL");
    ASSERT_TRUE(!slab);
    lk_slab_layout_free(layout);
}

static void note_release(void *context)
{
    ++*(int *)context;
}

TEST(the_hosts_memory_keeps_its_contents_and_is_released)
{
    static _Alignas(64) float memory[80] = {1, 2, 3, 4, 5};
    lk_slab_layout *layout = small_layout();
    lk_slab *slab;
    lk_tensor *bias;
    int released = 0;
    ASSERT_FAILS(lk_slab_wrap(layout, memory, 319, note_release, &released, &slab), LK_EINVAL,
                 "memory has 319 bytes, the layout needs 320");
    ASSERT_FAILS(lk_slab_wrap(layout, NULL, 320, note_release, &released, &slab), LK_EINVAL,
                 "memory is NULL");
    ASSERT_FAILS(lk_slab_wrap(layout, memory + 1, 1000, note_release, &released, &slab), LK_EINVAL,
                 "not aligned to 64");
    ASSERT_OK(lk_slab_wrap(layout, memory, 320, note_release, &released, &slab));
    ASSERT_TRUE(lk_slab_data(slab) == memory);
    ASSERT_OK(lk_slab_tensor(slab, 0, &bias));
    TEST_EXPECT(bias, 1, 2, 3, 4, 5);
    lk_slab_free(slab);
    ASSERT_EQ(released, 0);
    lk_tensor_free(bias);
    ASSERT_EQ(released, 1);
    lk_slab_layout_free(layout);
}

static lk_status builds_twins(void)
{
    static _Alignas(64) char memory[4096];
    lk_status st;
    lk_slab_layout *layout = NULL;
    lk_slab *slab[2] = {NULL, NULL};
    lk_tensor *t = NULL;
    int released = 0;
    LK_TRY_TO(done, lk_slab_layout_new(&layout));
    for (int i = 0; i < 40; i++) {
        char name[16];
        snprintf(name, sizeof name, "w%d", i);
        LK_TRY_TO(done, lk_slab_layout_add(layout, name, LK_F32, LK_SHAPE(i % 10)));
    }
    LK_TRY_TO(done, lk_slab_new(layout, &slab[0]));
    LK_TRY_TO(done, lk_slab_wrap(layout, memory, sizeof memory, note_release, &released, &slab[1]));
    LK_TRY_TO(done, lk_slab_find(slab[1], "w17", &t));
done:
    lk_tensor_free(t);
    int expect = slab[1] != NULL;
    lk_slab_free(slab[0]);
    lk_slab_free(slab[1]);
    lk_slab_layout_free(layout);
    ASSERT_EQ(released, expect);
    return st;
}

TEST(every_failed_allocation_leaves_nothing_behind)
{
    ASSERT_TRUE(test_every_allocation_fails(builds_twins) >= 47);
}

static lk_status makes_a_pair(void)
{
    lk_status st;
    lk_slab *a = NULL, *b = NULL;
    LK_TRY_TO(done, lk_slab_new_tensor("w", LK_F32, LK_SHAPE(3, 2), &a));
    LK_TRY_TO(done, lk_slab_new_like(a, &b));
done:
    lk_slab_free(a);
    lk_slab_free(b);
    return st;
}

TEST(one_tensor_needs_no_layout_of_its_own)
{
    lk_slab *a = NULL, *b = NULL;
    lk_slab_slice slice;
    static const float zeros[6];
    ASSERT_OK(lk_slab_new_tensor("w", LK_F32, LK_SHAPE(3, 2), &a));
    ASSERT_OK(lk_slab_new_like(a, &b));
    lk_slab_layout *layout = lk_slab_layout_of(b);
    ASSERT_TRUE(layout == lk_slab_layout_of(a) && lk_slab_layout_slices(layout) == 1);
    ASSERT_OK(lk_slab_layout_slice(layout, 0, &slice));
    ASSERT_TRUE(strcmp(slice.name, "w") == 0 && slice.dtype == LK_F32 && slice.count == 6);
    ASSERT_SAME_BITS(lk_slab_data(a), zeros, sizeof zeros);
    ((float *)lk_slab_data(a))[0] = 1;
    lk_slab_free(a); /* the other goes on alone */
    ASSERT_SAME_BITS(lk_slab_data(b), zeros, sizeof zeros);
    ASSERT_EQ(lk_slab_layout_slices(lk_slab_layout_of(b)), 1);
    lk_slab_free(b);

    ASSERT_FAILS(lk_slab_new_tensor("", LK_F32, LK_SHAPE(3), &a), LK_EINVAL, "name");
    ASSERT_FAILS(lk_slab_new_tensor("w", LK_F32, LK_SHAPE(-3), &a), LK_EINVAL, "-3");
    ASSERT_FAILS(lk_slab_new_like(NULL, &b), LK_EINVAL, "slab is NULL");
    ASSERT_TRUE(!a && !b);
    ASSERT_TRUE(test_every_allocation_fails(makes_a_pair) >= 6);
}

/* The same layout goes on after a failed addition. */
TEST(a_failed_addition_can_be_repeated)
{
    for (int64_t n = 1; n <= 3; n++) {
        lk_slab_layout *layout;
        ASSERT_OK(lk_slab_layout_new(&layout));
        lk_alloc_fail_at(n);
        ASSERT_EQ(lk_slab_layout_add(layout, "w", LK_F32, LK_SHAPE(3)), LK_ENOMEM);
        ASSERT_EQ(lk_slab_layout_slices(layout), 0);
        ASSERT_OK(lk_slab_layout_add(layout, "w", LK_F32, LK_SHAPE(3)));
        ASSERT_EQ(lk_slab_layout_bytes(layout), 64);
        lk_slab_layout_free(layout);
    }
}
