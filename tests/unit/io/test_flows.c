/* Boxes between files and ranks: bands, what of a box lies in them, and who gives what, against one
 * element after the other. */
#include "faults.h"
#include "io/checkpoint/checkpoint.h"
#include "io/exchange.h"

#include <lockstep/rng.h>

enum { TENSORS = 6, RANKS = 5, PARTS = 3, MOST = 4096 };

static uint64_t drawn = 1;

/* A number of [0, n). */
static int64_t draw(int64_t n)
{
    drawn = drawn * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)((drawn >> 33) % (uint64_t)n);
}

/* Tensors of any shapes, in parts, as they would lie in files. */
static lk_checkpoint checkpoint_draw(lk_checkpoint_tensor tensor[TENSORS],
                                     lk_checkpoint_part part[PARTS])
{
    static const lk_dtype dtypes[] = {LK_U8, LK_F32, LK_F64, LK_F16};
    lk_checkpoint c = {.tensor = tensor, .n_tensors = TENSORS, .part = part, .n_parts = PARTS};
    int64_t offset = 0;
    for (int i = 0; i < TENSORS; i++) {
        lk_checkpoint_tensor *t = &tensor[i];
        *t = (lk_checkpoint_tensor){
            .name = "t", .dtype = dtypes[draw(4)], .shape.ndim = (int)draw(5), .part = i / 2};
        int64_t count = 1;
        for (int k = 0; k < t->shape.ndim; k++)
            count *= t->shape.dim[k] = draw(12) == 0 ? 0 : 1 + draw(5);
        offset = i % 2 ? offset : 8;
        t->offset = offset;
        t->bytes = count * (int64_t)lk_dtype_size(t->dtype);
        offset += t->bytes;
        part[i / 2].bytes = offset;
    }
    return c;
}

static lk_box box_draw(const lk_shape *shape)
{
    lk_box box = {.ndim = shape->ndim};
    for (int k = 0; k < shape->ndim; k++) {
        box.first[k] = shape->dim[k] > 0 ? draw(shape->dim[k]) : 0;
        box.n[k] = shape->dim[k] > 0 ? 1 + draw(shape->dim[k] - box.first[k]) : 0;
    }
    return box;
}

static bool box_has(const lk_box *box, const int64_t *dim, int64_t place)
{
    for (int k = box->ndim; k-- > 0; place /= dim[k])
        if (place % dim[k] < box->first[k] || place % dim[k] >= box->first[k] + box->n[k])
            return false;
    return lk_box_count(box) > 0;
}

TEST(bands_go_through_all_parts_in_order)
{
    lk_checkpoint_tensor tensor[TENSORS];
    lk_checkpoint_part part[PARTS];
    for (int round = 0; round < 500; round++) {
        lk_checkpoint c = checkpoint_draw(tensor, part);
        int64_t step = 1 + draw(3), place = draw(step), room = 8 + draw(100);
        lk__bands b = lk__bands_start(&c, place, step, room);
        lk__band band = {.bytes = -1};
        bool more = lk__bands_next(&b, &band);
        for (int64_t i = place; i < PARTS; i += step)
            for (int64_t at = 8; at < part[i].bytes;) {
                ASSERT_TRUE(more && band.part == i && band.offset == at);
                ASSERT_TRUE(band.bytes > 0 && band.bytes <= room);
                at += band.bytes;
                /* Only what has no room for another element is less than full. */
                bool rest = band.first > 0 && band.end == band.tensor + 1 &&
                            band.last == lk__tensor_count(&c, band.tensor);
                ASSERT_TRUE(at == part[i].bytes || band.bytes > room - 8 || rest);
                ASSERT_TRUE(band.first == 0 || band.end == band.tensor + 1);
                more = lk__bands_next(&b, &band);
            }
        ASSERT_TRUE(!more);
        b = lk__bands_start(&c, -1, step, room);
        ASSERT_TRUE(!lk__bands_next(&b, &band));
    }
}

/* A piece of each tensor, out of the box that a rank holds: from files to boxes, and back. */
TEST(what_goes_there_comes_back)
{
    static unsigned char file[MOST * 8], back[MOST * 8], data[TENSORS][MOST * 8], message[MOST * 8];
    lk_checkpoint_tensor tensor[TENSORS];
    lk_checkpoint_part part[PARTS];
    for (int round = 0; round < 500; round++) {
        lk_checkpoint c = checkpoint_draw(tensor, part);
        lk__box_held held[TENSORS];
        lk__flow flow = {0};
        for (int i = 0; i < TENSORS; i++) {
            held[i] = (lk__box_held){data[i], box_draw(&tensor[i].shape), tensor[i].shape};
            lk_box other = box_draw(&tensor[i].shape);
            lk_box piece = lk_box_intersect(&other, &held[i].box);
            if (lk_box_count(&piece) > 0)
                ASSERT_OK(lk__flow_add(&flow, i, &piece));
        }
        memset(data, 0, sizeof data);
        lk__bands bands = lk__bands_start(&c, 0, 1, 8 + draw(64));
        for (lk__band band; lk__bands_next(&bands, &band);) {
            int64_t bytes = lk__flow_bytes(&c, &flow, &band), count = 0;
            for (int64_t k = 0; k < band.bytes; k++)
                file[k] = (unsigned char)(1 + draw(255));
            for (int64_t p = 0; p < flow.n; p++) {
                const lk_checkpoint_tensor *t = &tensor[flow.piece[p].tensor];
                int64_t size = (int64_t)lk_dtype_size(t->dtype);
                if (t->part == band.part)
                    for (int64_t k = 0; k < t->bytes / size; k++) {
                        int64_t at = t->offset + k * size - band.offset;
                        count += at >= 0 && at < band.bytes &&
                                         box_has(&flow.piece[p].box, t->shape.dim, k)
                                     ? size
                                     : 0;
                    }
            }
            ASSERT_EQ(bytes, count);
            lk__endpoint in_file = {.c = &c, .flow = &flow, .band = &band, .base = file};
            lk__endpoint in_box = {.c = &c, .flow = &flow, .band = &band, .held = held};
            lk__endpoint_pack(&in_file, message);
            lk__endpoint_unpack(&in_box, message);
            memset(message, 0, sizeof message);
            lk__endpoint_pack(&in_box, message);
            unsigned char *direct = bytes > 0 ? lk__endpoint_direct(&in_box, bytes) : NULL;
            if (direct)
                ASSERT_SAME_BITS(direct, message, bytes);
            memset(back, 0, sizeof back);
            in_file.base = back;
            lk__endpoint_unpack(&in_file, message);
            for (int64_t p = 0; p < flow.n; p++) {
                const lk_checkpoint_tensor *t = &tensor[flow.piece[p].tensor];
                int64_t size = (int64_t)lk_dtype_size(t->dtype);
                for (int64_t k = 0; t->part == band.part && k < t->bytes / size; k++) {
                    int64_t at = t->offset + k * size - band.offset;
                    if (at >= 0 && at < band.bytes &&
                        box_has(&flow.piece[p].box, t->shape.dim, k)) {
                        ASSERT_SAME_BITS(back + at, file + at, size);
                        count -= size;
                    }
                }
            }
            ASSERT_EQ(count, 0);
        }
        lk_free(flow.piece);
    }
}

/* The rank that gives an element: one that has the box of the lowest that holds it. */
static void expect_given_once(const lk_checkpoint *c, const lk_box *box, int self,
                              const lk__flow *flow)
{
    const lk_shape *shape = &c->tensor[0].shape;
    for (int64_t k = 0; k < lk__tensor_count(c, 0); k++) {
        int lowest = 0, givers = 0;
        while (!box_has(&box[lowest], shape->dim, k))
            lowest++;
        for (int r = 0; r < RANKS; r++)
            for (int64_t p = 0; p < flow[r].n; p++) {
                if (!box_has(&flow[r].piece[p].box, shape->dim, k))
                    continue;
                givers++;
                ASSERT_TRUE(lk_box_is_equal(&box[r], &box[lowest]));
                ASSERT_TRUE(r == self || !lk_box_is_equal(&box[self], &box[lowest]));
            }
        ASSERT_EQ(givers, 1);
    }
}

TEST(each_element_is_given_once_or_named)
{
    lk_checkpoint_tensor tensor[TENSORS];
    lk_checkpoint_part part[PARTS];
    int covered = 0, missing = 0;
    for (int round = 0; round < 3000; round++) {
        lk_checkpoint c = checkpoint_draw(tensor, part);
        lk_box box[RANKS];
        lk__flow flow[RANKS] = {{0}};
        const lk_shape *shape = &tensor[0].shape;
        for (int r = 0; r < RANKS; r++)
            box[r] = draw(6) == 0            ? lk_box_whole(shape->ndim, shape->dim)
                     : r > 0 && draw(3) == 0 ? box[r - 1]
                                             : box_draw(shape);
        int64_t first = 0, count = lk__tensor_count(&c, 0);
        for (; first < count; first++) {
            int r = 0;
            while (r < RANKS && !box_has(&box[r], shape->dim, first))
                r++;
            if (r == RANKS)
                break;
        }
        int self = (int)draw(RANKS);
        lk_status st = lk__givers_find(&c, 0, box, RANKS, self, flow);
        if (first == count) {
            ASSERT_OK(st);
            expect_given_once(&c, box, self, flow);
            covered++;
        } else {
            lk_shape at = {.ndim = shape->ndim};
            for (int k = shape->ndim; k-- > 0; first /= shape->dim[k])
                at.dim[k] = first % shape->dim[k];
            ASSERT_FAILS(st, LK_EINVAL, lk_shape_text(at).s);
            missing++;
        }
        for (int r = 0; r < RANKS; r++)
            lk_free(flow[r].piece);
    }
    ASSERT_TRUE(covered > 500 && missing > 500);
}

/* Of ranks with equal boxes another one gives each tensor. */
TEST(the_work_of_replicas_is_spread)
{
    lk_checkpoint_tensor tensor[RANKS - 1];
    lk_checkpoint c = {.tensor = tensor, .n_tensors = RANKS - 1};
    lk_box box[RANKS];
    lk__flow flow[RANKS] = {{0}};
    for (int i = 0; i < RANKS - 1; i++) {
        tensor[i] = (lk_checkpoint_tensor){
            .name = "t", .dtype = LK_F32, .shape = LK_SHAPE(4, 4), .bytes = 64};
        for (int r = 0; r < RANKS; r++)
            box[r] = lk_box_whole(2, tensor[i].shape.dim);
        box[RANKS - 1].n[0] = 0; /* the writer holds nothing */
        ASSERT_OK(lk__givers_find(&c, i, box, RANKS, RANKS - 1, flow));
    }
    for (int r = 0; r < RANKS; r++) {
        ASSERT_EQ(flow[r].n, r < RANKS - 1 ? 1 : 0);
        lk_free(flow[r].piece);
    }
}

static lk_status scenario(void)
{
    lk_checkpoint_tensor tensor = {
        .name = "t", .dtype = LK_F32, .shape = LK_SHAPE(40, 40), .bytes = 6400};
    lk_checkpoint c = {.tensor = &tensor, .n_tensors = 1};
    lk_box box[40];
    lk__flow flow[40] = {{0}};
    for (int r = 0; r < 40; r++)
        box[r] = (lk_box){2, {0, 7 * r % 40}, {40, 1}};
    lk_status st = lk__givers_find(&c, 0, box, 40, 0, flow);
    for (int r = 0; r < 40; r++)
        lk_free(flow[r].piece);
    return st;
}

TEST(every_allocation_may_fail)
{
    ASSERT_TRUE(test_every_allocation_fails(scenario) >= 40);
}
