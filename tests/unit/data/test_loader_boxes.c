/* Boxes of samples: lk_dataset_read_box(), datasets that write boxes, and loaders that give them. */
#include "data_files.h"
#include "faults.h"
#include "tensors.h"

#include <stdatomic.h>

/* Samples out of nothing: field "x" is u8 [5][6][7][3] or [6][7][3], "y" i64 classes of the voxels or
 * pixels, "z" f64 [4], which nothing moves. */
enum { COUNT = 11, CLASSES = 4 };

struct made {
    _Atomic int rows, boxes;
    _Atomic int64_t largest; /* elements that a box had at most */
};

static int64_t value_at(int64_t sample, int field, int64_t place)
{
    uint64_t v = (uint64_t)(sample * 7919 + field * INT64_C(104729) + place * 31 + 17) *
                 2654435761U;
    return (int64_t)(v >> 16 & 255);
}

static void put(int64_t sample, int field, int64_t place, int64_t i, void *out)
{
    int64_t v = value_at(sample, field, place);
    if (field == 0)
        ((unsigned char *)out)[i] = (unsigned char)v;
    else if (field == 1)
        ((int64_t *)out)[i] = v % CLASSES;
    else
        ((double *)out)[i] = (double)v / 7;
}

static lk_dataset_info info_of(bool volume)
{
    lk_dataset_info info = {
        .name = "made",
        .count = COUNT,
        .classes = CLASSES,
        .n_fields = 3,
        .field = {{.name = "x", .dtype = LK_U8, .shape = LK_SHAPE(6, 7, 3)},
                  {.name = "y", .dtype = LK_I64, .shape = LK_SHAPE(6, 7)},
                  {.name = "z", .dtype = LK_F64, .shape = LK_SHAPE(4)}},
    };
    if (volume) {
        info.field[0].shape = LK_SHAPE(5, 6, 7, 3);
        info.field[1].shape = LK_SHAPE(5, 6, 7);
    }
    return info;
}

static struct made made;
static lk_dataset_info made_info;

static lk_status made_row(void *context, int64_t index, void *const *row)
{
    struct made *m = context;
    m->rows++;
    for (int f = 0; f < 3; f++) {
        int64_t n;
        ASSERT_OK(lk_shape_count(made_info.field[f].shape, &n));
        for (int64_t i = 0; row[f] && i < n; i++)
            put(index, f, i, i, row[f]);
    }
    return LK_OK;
}

static lk_status made_box(void *context, int64_t index, int field, const lk_box *box, void *out)
{
    struct made *m = context;
    int64_t n = lk_box_count(box);
    m->boxes++;
    if (n > m->largest)
        m->largest = n;
    ASSERT_TRUE(lk_box_is_within(box, made_info.field[field].shape.dim));
    lk_box_walk walk = lk_box_start(box, made_info.field[field].shape.dim);
    while (lk_box_next(&walk))
        for (int64_t i = 0; i < walk.n; i++)
            put(index, field, walk.place + i, walk.at + i, out);
    return LK_OK;
}

/* The same samples from tensors, rows, boxes, or both. */
typedef enum kind { MEMORY, ROWS, BOXES, BOTH, PART_OF_ROWS, PART_OF_BOXES, N_KINDS } kind;

static lk_dataset *part_of(lk_dataset *whole)
{
    lk_dataset *part;
    ASSERT_OK(lk_dataset_subset(whole, 3, 0, COUNT, &part));
    lk_dataset_free(whole);
    return part;
}

static lk_dataset *in_memory(void)
{
    lk_tensor *tensor[3];
    lk_dataset *ds;
    for (int f = 0; f < 3; f++) {
        lk_shape shape = made_info.field[f].shape, all = {.ndim = shape.ndim + 1, .dim = {COUNT}};
        memcpy(all.dim + 1, shape.dim, (size_t)shape.ndim * sizeof shape.dim[0]);
        ASSERT_OK(lk_tensor_new(made_info.field[f].dtype, all, &tensor[f]));
        int64_t n = lk_tensor_count(tensor[f]) / COUNT;
        void *data;
        ASSERT_OK(lk_tensor_writable_data(tensor[f], &data));
        for (int64_t i = 0; i < COUNT * n; i++)
            put(i / n, f, i % n, i, data);
    }
    ASSERT_OK(lk_dataset_from_tensors(&made_info, tensor, &ds));
    for (int f = 0; f < 3; f++)
        lk_tensor_free(tensor[f]);
    return ds;
}

static lk_dataset *set_of(kind k, bool volume)
{
    lk_dataset *ds;
    made_info = info_of(volume);
    made.rows = made.boxes = 0;
    made.largest = 0;
    if (k == MEMORY)
        return in_memory();
    if (k == PART_OF_ROWS || k == PART_OF_BOXES)
        return part_of(set_of(k == PART_OF_ROWS ? ROWS : BOXES, volume));
    if (k == ROWS)
        ASSERT_OK(lk_dataset_new(&made_info, made_row, NULL, &made, &ds));
    else
        ASSERT_OK(lk_dataset_new_boxes(&made_info, k == BOTH ? made_row : NULL, made_box, NULL,
                                       &made, &ds));
    return ds;
}

static lk_box random_box(const lk_shape *shape)
{
    lk_box box = {.ndim = shape->ndim};
    for (int i = 0; i < shape->ndim; i++) {
        box.first[i] = test_random(shape->dim[i]);
        box.n[i] = 1 + test_random(shape->dim[i] - box.first[i]);
        if (test_random(3) == 0) { /* all of the axis */
            box.first[i] = 0;
            box.n[i] = shape->dim[i];
        }
        if (test_random(25) == 0)
            box.n[i] = 0;
    }
    return box;
}

/* Row i of `part` is the box of row i of `whole`. */
static void expect_box(const lk_tensor *whole, const lk_box *box, const lk_tensor *part)
{
    lk_shape all = lk_tensor_shape(whole), some = lk_tensor_shape(part);
    lk_box rows = lk_box_whole(all.ndim, all.dim); /* an axis of classes stays whole */
    for (int i = 0; i < box->ndim; i++) {
        rows.first[i + 1] = box->first[i];
        rows.n[i + 1] = box->n[i];
    }
    ASSERT_EQ(some.ndim, all.ndim);
    for (int i = 0; i < all.ndim; i++)
        ASSERT_EQ(some.dim[i], rows.n[i]);
    ASSERT_EQ(lk_tensor_dtype(whole), lk_tensor_dtype(part));
    size_t size = lk_dtype_size(lk_tensor_dtype(whole));
    lk_box_walk walk = lk_box_start(&rows, all.dim);
    while (lk_box_next(&walk))
        ASSERT_SAME_BITS((const char *)lk_tensor_data(part) + (size_t)walk.at * size,
                         (const char *)lk_tensor_data(whole) + (size_t)walk.place * size,
                         (size_t)walk.n * size);
}

TEST(a_box_is_cut_from_rows_or_asked_for)
{
    for (int k = 0; k < N_KINDS; k++)
        for (int volume = 0; volume < 2; volume++) {
            lk_dataset *ds = set_of((kind)k, volume);
            int64_t index[3] = {7, 0, 7};
            for (int trial = 0; trial < 60; trial++) {
                int f = (int)test_random(3);
                const lk_field *field = &made_info.field[f];
                lk_box box = random_box(&field->shape);
                lk_shape all = {.ndim = box.ndim + 1, .dim = {3}}, some = all;
                memcpy(all.dim + 1, field->shape.dim, (size_t)box.ndim * sizeof all.dim[0]);
                memcpy(some.dim + 1, box.n, (size_t)box.ndim * sizeof some.dim[0]);
                lk_tensor *whole[3] = {NULL}, *part;
                ASSERT_OK(lk_tensor_new(field->dtype, all, &whole[f]));
                ASSERT_OK(lk_tensor_new(field->dtype, some, &part));
                ASSERT_OK(lk_dataset_read(ds, index, 3, whole));
                ASSERT_OK(lk_dataset_read_box(ds, f, &box, index, 3, part));
                expect_box(whole[f], &box, part);
                lk_tensor_free(whole[f]);
                lk_tensor_free(part);
            }
            lk_dataset_free(ds);
        }
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

static lk_loader *loader_of(lk_dataset *ds, const char *options)
{
    lk_loader *l;
    ASSERT_OK(lk_loader_new(ds, options, 5, &l));
    return l;
}

/* Read the same parts of batches from a loader of whole samples and one of boxes. */
static void compare(lk_loader *plain, lk_loader *l, int reads)
{
    for (int i = 0; i < reads; i++) {
        int64_t epoch = i % 4 ? i / 8 : test_random(3), number = i % 4 ? i % 3 : test_random(3);
        int64_t size = lk_loader_batch_size(l, number), first = i % 2 ? 0 : test_random(size + 1);
        int64_t n = i % 2 ? size : test_random(size - first + 1);
        lk_batch whole, part;
        ASSERT_OK(lk_loader_read_batch(plain, epoch, number, first, n, &whole));
        ASSERT_OK(lk_loader_read_batch(l, epoch, number, first, n, &part));
        for (int f = 0; f < 3; f++) {
            lk_box box = lk_loader_box(l, f);
            expect_box(whole.field[f], &box, part.field[f]);
            lk_shape row = lk_loader_field(l, f).shape, got = lk_tensor_shape(part.field[f]);
            ASSERT_SAME_BITS(row.dim, got.dim + 1, (size_t)row.ndim * sizeof row.dim[0]);
        }
    }
}

TEST(batches_are_boxes_of_the_whole)
{
    static const char *const options[] = {
        "batch=4 prefetch=0",
        "batch=4 crop=2 flip=true prefetch=2",
        "batch=4 crop=9 normalise=standard prefetch=1",
        "batch=4 flip=true one_hot=true shift=0.5",
        "batch=4 crop=3 flip=true shuffle=false normalise=none prefetch=3",
    };
    for (int k = 0; k < N_KINDS; k++)
        for (size_t o = 0; o < sizeof options / sizeof options[0]; o++) {
            lk_dataset *ds = set_of((kind)k, (k + (int)o) % 2);
            lk_loader *plain = loader_of(ds, options[o]), *l = loader_of(ds, options[o]);
            for (int trial = 0; trial < 12; trial++) {
                for (int f = 0; f < 3; f++) {
                    lk_box box = random_box(&made_info.field[f].shape);
                    bool all = test_random(4) == 0;
                    ASSERT_OK(lk_loader_set_box(l, f, all ? NULL : &box));
                }
                compare(plain, l, 8);
            }
            lk_loader_free(plain);
            lk_loader_free(l);
            lk_dataset_free(ds);
        }
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

/* A set that writes boxes is asked for no row, and for no more than a moved box comes from. */
TEST(only_what_a_box_needs_is_read)
{
    lk_dataset *ds = set_of(BOTH, true);
    lk_loader *l = loader_of(ds, "batch=4 crop=2 flip=true");
    lk_box x = {4, {1, 2, 3, 0}, {2, 2, 3, 3}}, y = {3, {1, 2, 3}, {2, 2, 3}}, z = {1, {1}, {2}};
    ASSERT_OK(lk_loader_set_box(l, 0, &x));
    ASSERT_OK(lk_loader_set_box(l, 1, &y));
    ASSERT_OK(lk_loader_set_box(l, 2, &z));
    lk_batch b;
    for (int i = 0; i < 12; i++)
        ASSERT_OK(lk_loader_read_batch(l, i / 3, i % 3, 0, lk_loader_batch_size(l, i % 3), &b));
    ASSERT_EQ(made.rows, 0);
    ASSERT_TRUE(made.boxes > 0);
    ASSERT_EQ(made.largest, 36);
    lk_loader_free(l);
    lk_dataset_free(ds);
}

TEST(a_box_moved_out_of_the_image_is_zeros)
{
    lk_dataset *ds = set_of(BOXES, false);
    lk_loader *l = loader_of(ds, "batch=11 crop=9 shuffle=false normalise=none");
    lk_loader *plain = loader_of(ds, "batch=11 crop=9 shuffle=false normalise=none");
    lk_box corner = {3, {5, 6, 0}, {1, 1, 3}};
    ASSERT_OK(lk_loader_set_box(l, 0, &corner));
    int zeros = 0;
    for (int epoch = 0; epoch < 5; epoch++) {
        lk_batch whole, part;
        ASSERT_OK(lk_loader_read_batch(plain, epoch, 0, 0, 11, &whole));
        ASSERT_OK(lk_loader_read_batch(l, epoch, 0, 0, 11, &part));
        expect_box(whole.x, &corner, part.x);
        for (int i = 0; i < 33; i++)
            zeros += ((const float *)lk_tensor_data(part.x))[i] == 0;
    }
    ASSERT_TRUE(zeros > 60 && zeros < 160); /* of 165 */
    lk_loader_free(l);
    lk_loader_free(plain);
    lk_dataset_free(ds);
}

TEST(the_last_batch_outlives_a_change_of_boxes)
{
    for (int prefetch = 0; prefetch < 3; prefetch++) {
        lk_dataset *ds = set_of(ROWS, false);
        char options[64];
        snprintf(options, sizeof options, "batch=4 crop=1 prefetch=%d", prefetch);
        lk_loader *l = loader_of(ds, options), *plain = loader_of(ds, options);
        lk_batch last, same, next;
        lk_box box = {3, {1, 0, 0}, {2, 7, 3}};
        ASSERT_OK(lk_loader_read_batch(l, 0, 0, 0, 4, &last));
        ASSERT_OK(lk_loader_read_batch(plain, 0, 0, 0, 4, &same));
        ASSERT_OK(lk_loader_set_box(l, 0, &box));
        ASSERT_TRUE(lk_tensor_is_equal(last.x, same.x));
        ASSERT_OK(lk_loader_read_batch(plain, 0, 1, 0, 4, &same));
        ASSERT_OK(lk_loader_read_batch(l, 0, 1, 0, 4, &next));
        expect_box(same.x, &box, next.x);
        ASSERT_OK(lk_loader_set_box(l, 0, NULL));
        ASSERT_OK(lk_loader_read_batch(plain, 0, 2, 0, 3, &same));
        ASSERT_OK(lk_loader_read_batch(l, 0, 2, 0, 3, &next));
        ASSERT_TRUE(lk_tensor_is_equal(next.x, same.x));
        lk_loader_free(l);
        lk_loader_free(plain);
        lk_dataset_free(ds);
    }
}

TEST(nothing_is_allocated_after_the_first_batches)
{
    lk_dataset *ds = set_of(BOTH, true);
    lk_loader *l = loader_of(ds, "batch=5 crop=1 prefetch=2");
    lk_box box = {4, {1, 2, 3, 0}, {2, 2, 3, 2}};
    ASSERT_OK(lk_loader_set_box(l, 0, &box));
    int64_t calls = 0;
    lk_batch b;
    for (int64_t i = 0; i < 15; i++) {
        ASSERT_OK(lk_loader_read_batch(l, i / 3, i % 3, 0, lk_loader_batch_size(l, i % 3), &b));
        if (i == 5)
            calls = lk_alloc_stats_now().calls;
    }
    lk_loader_free(l);
    ASSERT_EQ(lk_alloc_stats_now().calls, calls);
    lk_dataset_free(ds);
}

TEST(fields_say_what_batches_have)
{
    lk_dataset *ds = set_of(ROWS, false);
    lk_loader *l = loader_of(ds, "batch=4 one_hot=true"), *like;
    lk_box box = {2, {1, 0}, {2, 5}};
    ASSERT_OK(lk_loader_set_box(l, 1, &box));
    ASSERT_TRUE(lk_shape_is_equal(lk_loader_field(l, 1).shape, LK_SHAPE(2, 5, CLASSES)));
    ASSERT_TRUE(lk_shape_is_equal(lk_loader_whole_field(l, 1).shape, LK_SHAPE(6, 7, CLASSES)));
    ASSERT_TRUE(lk_shape_is_equal(lk_loader_field(l, 0).shape, LK_SHAPE(6, 7, 3)));
    ASSERT_EQ(lk_loader_field(l, 3).name[0], '\0');
    ASSERT_EQ(lk_loader_whole_field(l, -1).name[0], '\0');
    ASSERT_OK(lk_loader_new_like(l, ds, &like));
    ASSERT_TRUE(lk_shape_is_equal(lk_loader_field(like, 1).shape, LK_SHAPE(6, 7, CLASSES)));
    lk_loader_free(like);
    lk_loader_free(l);
    lk_dataset_free(ds);
}

/* Whole numbers of a box are checked, and named by their place in the sample. */
TEST(indices_are_named_by_their_place)
{
    lk_tensor *t = test_iota(LK_F32, LK_SHAPE(2, 4, 5));
    lk_dataset_info info = {.name = "it", .n_fields = 1, .field = {{.name = "x"}}};
    lk_dataset *ds;
    ASSERT_OK(lk_dataset_from_tensors(&info, &t, &ds));
    lk_loader_options o = {.batch = 2, .shards = 1, .scale = 1, .indices = 13};
    lk_loader *l;
    ASSERT_OK(lk_loader_new_options(ds, &o, 1, &l));
    lk_batch b;
    lk_box box = {2, {1, 1}, {2, 2}};
    ASSERT_OK(lk_loader_set_box(l, 0, &box));
    ASSERT_OK(lk_loader_read_batch(l, 0, 0, 0, 1, &b));
    TEST_EXPECT(b.x, 6, 7, 11, 12);
    box = (lk_box){2, {2, 2}, {2, 2}};
    ASSERT_OK(lk_loader_set_box(l, 0, &box));
    ASSERT_FAILS(lk_loader_read_batch(l, 0, 0, 0, 1, &b), LK_EIO, "value 13 at element 13");
    lk_loader_free(l);
    lk_dataset_free(ds);
    lk_tensor_free(t);
}

TEST(wrong_boxes_are_refused)
{
    lk_dataset *ds = set_of(BOTH, false), *none;
    lk_loader *l = loader_of(ds, "batch=4");
    lk_box flat = {2, {0, 0}, {6, 7}}, far = {3, {0, 5, 0}, {6, 3, 3}},
           negative = {3, {-1, 0, 0}, {2, 7, 3}}, good = {3, {0, 0, 0}, {1, 1, 1}};
    ASSERT_FAILS(lk_loader_set_box(l, 0, &flat), LK_EINVAL, "\"x\" has 3 axes, a box of it 2");
    ASSERT_FAILS(lk_loader_set_box(l, 0, &far), LK_EINVAL,
                 "\"x\" is [6,7,3], the box of [6,3,3] from [0,5,0] on does not lie in it");
    ASSERT_FAILS(lk_loader_set_box(l, 0, &negative), LK_EINVAL, "from [-1,0,0] on");
    ASSERT_FAILS(lk_loader_set_box(l, 3, &good), LK_EINVAL, "a box of field 3, it has 3");
    ASSERT_FAILS(lk_loader_set_box(l, -1, NULL), LK_EINVAL, "a box of field -1");
    lk_box before = lk_loader_box(l, 0);
    ASSERT_EQ(before.n[0], 6);
    lk_tensor *t;
    int64_t index = COUNT;
    ASSERT_OK(lk_tensor_new(LK_U8, LK_SHAPE(1, 1, 1, 1), &t));
    ASSERT_FAILS(lk_dataset_read_box(ds, 0, &good, &index, 1, t), LK_EINVAL, "no sample 11");
    ASSERT_FAILS(lk_dataset_read_box(ds, 0, &far, &index, 1, t), LK_EINVAL, "does not lie in it");
    good.n[1] = 2;
    index = 0;
    ASSERT_FAILS(lk_dataset_read_box(ds, 0, &good, &index, 1, t), LK_ESHAPE, "[1,1,2,1]");
    ASSERT_FAILS(lk_dataset_new_boxes(&made_info, NULL, NULL, NULL, NULL, &none), LK_EINVAL,
                 "no function that writes its samples");
    lk_tensor_free(t);
    lk_loader_free(l);
    lk_dataset_free(ds);
}

static lk_status reads_boxes(void)
{
    lk_dataset *ds = NULL;
    lk_loader *l = NULL;
    lk_batch b;
    lk_box box = {3, {1, 0, 0}, {2, 7, 3}};
    lk_status st;
    made_info = info_of(false);
    LK_TRY_TO(done, lk_dataset_new(&made_info, made_row, NULL, &made, &ds));
    LK_TRY_TO(done, lk_loader_new(ds, "batch=4 crop=1 prefetch=0", 5, &l));
    LK_TRY_TO(done, lk_loader_read_batch(l, 0, 0, 0, 4, &b));
    LK_TRY_TO(done, lk_loader_set_box(l, 0, &box));
    LK_TRY_TO(done, lk_loader_read_batch(l, 0, 1, 0, 4, &b));
done:
    lk_loader_free(l);
    lk_dataset_free(ds);
    return st;
}

TEST(every_allocation_can_fail)
{
    ASSERT_TRUE(test_every_allocation_fails(reads_boxes) > 10);
}
