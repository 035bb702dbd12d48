/* Models that hold a part of themselves: memory, boxes, and initial values like those of the whole. */
#include "faults.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/nn.h>
#include <lockstep/op.h>

enum { SEED = 11, BLOCKS = 3 };

static lk_model *model_of(const char *type, const char *options, const lk_model_spec *spec)
{
    lk_model *m = NULL;
    ASSERT_OK(lk_model_new(&m));
    ASSERT_OK(lk_model_add(m, type, options));
    ASSERT_OK(lk_model_build(m, spec));
    return m;
}

/* 163840 * 163840 numbers of 4 bytes are 100 GiB. */
static const lk_model_spec large = {.in = {LK_F32, {.ndim = 1, .dim = {163840}}},
                                    .pieces = {.blocks = 10240, .least_block = 16}};

TEST(building_takes_no_memory_for_parameters)
{
    lk_alloc_stats before = lk_alloc_stats_now();
    lk_model *m = model_of("linear", "units=163840", &large);
    lk_alloc_stats after = lk_alloc_stats_now();
    ASSERT_TRUE(lk_slab_layout_bytes(lk_model_layout(m)) > INT64_C(100) << 30);
    ASSERT_TRUE(after.peak_bytes - before.live_bytes < 64 << 10);
    ASSERT_TRUE(!lk_model_params(m) && !lk_model_state(m));
    ASSERT_EQ(lk_accumulator_bytes(m), 0);
    lk_model_free(m);
}

TEST(holding_takes_the_memory_of_what_is_held)
{
    const int64_t bytes = INT64_C(163840) * 16 * 4 + 64;
    lk_model *m = model_of("linear", "units=163840", &large);
    lk_accumulator *sums = NULL;
    lk_alloc_stats before = lk_alloc_stats_now();
    ASSERT_OK(lk_model_hold(m, &(lk_holding){.blocks = &(lk_range){10239, 1}}));
    lk_alloc_stats after = lk_alloc_stats_now();
    ASSERT_EQ(lk_slab_layout_bytes(lk_slab_layout_of(lk_model_params(m))), bytes);
    int64_t taken = after.live_bytes - before.live_bytes;
    ASSERT_TRUE(taken >= bytes && taken < bytes + (16 << 10));
    ASSERT_TRUE(after.peak_bytes - before.live_bytes < bytes + (64 << 10));
    ASSERT_OK(lk_accumulator_new(m, &sums));
    ASSERT_EQ(lk_accumulator_bytes(m), bytes + 64);
    ASSERT_EQ(lk_slab_layout_bytes(lk_slab_layout_of(lk_accumulator_slab(sums))), bytes + 64);
    lk_accumulator_free(sums);
    lk_model_free(m);
}

/* ---- values ---- */

/* Compare what `part` holds with the same elements of `whole`; returns slices that are a part. */
static int compare(const char *what, const lk_slab *part, const lk_slab *whole)
{
    int parts = 0;
    ASSERT_EQ(lk_slab_layout_slices(lk_slab_layout_of(part)),
              lk_slab_layout_slices(lk_slab_layout_of(whole)));
    for (int64_t i = 0; i < lk_slab_layout_slices(lk_slab_layout_of(part)); i++) {
        lk_slab_slice p, w;
        ASSERT_OK(lk_slab_layout_slice(lk_slab_layout_of(part), i, &p));
        ASSERT_OK(lk_slab_layout_slice(lk_slab_layout_of(whole), i, &w));
        ASSERT_TRUE(strcmp(p.name, w.name) == 0 && lk_shape_is_equal(p.shape, w.shape));
        parts += p.count > 0 && p.count < w.count;
        int64_t size = (int64_t)lk_dtype_size(p.dtype);
        const char *have = (const char *)lk_slab_data(part) + p.offset;
        const char *want = (const char *)lk_slab_data(whole) + w.offset;
        lk_box_walk walk = lk_box_start(&p.box, p.box_of.dim);
        while (lk_box_next(&walk))
            if (memcmp(have + walk.at * size, want + walk.place * size, (size_t)(walk.n * size)))
                TEST_FAIL("%s: %s %s has other values than the whole", what, p.name,
                          lk_slab_slice_text(&p).s);
    }
    return parts;
}

/* Elements that the parts of slab slices have in all. */
static int64_t elements(const lk_slab *slab)
{
    int64_t n = 0;
    for (int64_t i = 0; i < lk_slab_layout_slices(lk_slab_layout_of(slab)); i++) {
        lk_slab_slice slice;
        ASSERT_OK(lk_slab_layout_slice(lk_slab_layout_of(slab), i, &slice));
        n += slice.count;
    }
    return n;
}

static int check_blocks(const lk_layer *layer, const lk_layer_sample *s, lk_dtype dtype)
{
    lk_model_spec spec = {.in = {s->below ? LK_I64 : dtype, s->shape},
                          .dtype = dtype,
                          .seed = SEED,
                          .pieces = {.blocks = BLOCKS, .least_block = 1}};
    lk_model *whole = model_of(layer->descriptor.name, s->options, &spec);
    int parts = 0;
    ASSERT_OK(lk_model_hold(whole, NULL));
    for (int64_t first = 0; first < BLOCKS; first++)
        for (int64_t n = 1; n <= BLOCKS - first; n++) {
            lk_model *m = model_of(layer->descriptor.name, s->options, &spec);
            ASSERT_OK(lk_model_hold(m, &(lk_holding){.blocks = &(lk_range){first, n}}));
            parts += compare(layer->descriptor.name, lk_model_params(m), lk_model_params(whole));
            parts += compare(layer->descriptor.name, lk_model_state(m), lk_model_state(whole));
            if (n == BLOCKS)
                ASSERT_EQ(elements(lk_model_params(m)), elements(lk_model_params(whole)));
            lk_model_free(m);
        }
    lk_model_free(whole);
    return parts;
}

TEST(every_layer_holds_blocks_of_what_it_would_hold_whole)
{
    static const char *const cut[] = {"linear", "conv",       "embedding", "rnn",        "lstm",
                                      "gru",    "batch_norm", "residual",  "autoencoder"};
    for (int i = 0; lk_layers[i]; i++) {
        int parts = 0;
        for (const lk_layer_sample *s = lk_layers[i]->samples; s->shape.ndim >= 0; s++)
            parts += check_blocks(lk_layers[i], s, LK_F32) + check_blocks(lk_layers[i], s, LK_F64);
        bool wanted = false;
        for (size_t k = 0; k < sizeof cut / sizeof cut[0]; k++)
            wanted = wanted || strcmp(cut[k], lk_layers[i]->descriptor.name) == 0;
        if (wanted != (parts > 0))
            TEST_FAIL("%s holds %d parts of its tensors", lk_layers[i]->descriptor.name, parts);
    }
}

static lk_model *network(const lk_model_spec *spec)
{
    lk_model *m = NULL;
    ASSERT_OK(lk_model_new(&m));
    ASSERT_OK(lk_model_add(m, "conv", "filters=6 kernel=3 init=he"));
    ASSERT_OK(lk_model_add(m, "batch_norm", NULL));
    ASSERT_OK(lk_model_add(
        m, "residual", "layers=conv(filters=6 kernel=1 init=normal(mean=1)),layer_norm(axes=3)"));
    ASSERT_OK(lk_model_add(m, "reshape", "shape=3,24"));
    ASSERT_OK(lk_model_add(m, "lstm", "units=7"));
    ASSERT_OK(lk_model_add(m, "linear", "units=5 init=uniform bias_init=constant(value=0.5)"));
    ASSERT_OK(lk_model_build(m, spec));
    return m;
}

static const lk_model_spec image = {.in = {LK_F32, {.ndim = 3, .dim = {5, 6, 2}}},
                                    .seed = SEED,
                                    .pieces = {.blocks = 4, .least_block = 1}};

TEST(layers_and_blocks_add_up_to_the_whole)
{
    enum { LAYERS = 6 };
    lk_model *whole = network(&image);
    ASSERT_OK(lk_model_hold(whole, NULL));
    for (int64_t first = 0; first < LAYERS; first++)
        for (int64_t n = 1; n <= LAYERS - first; n++)
            for (int64_t b = 0; b < 4; b++) {
                lk_model *m = network(&image);
                ASSERT_OK(lk_model_hold(m, &(lk_holding){.layers = &(lk_range){first, n},
                                                         .blocks = &(lk_range){b, 4 - b}}));
                compare("network", lk_model_params(m), lk_model_params(whole));
                compare("network", lk_model_state(m), lk_model_state(whole));
                lk_model_free(m);
            }
    int64_t sum = 0;
    for (int64_t i = 0; i < LAYERS; i++) {
        lk_model *m = network(&image);
        ASSERT_OK(lk_model_hold(m, &(lk_holding){.layers = &(lk_range){i, 0}}));
        ASSERT_EQ(elements(lk_model_params(m)), 0);
        lk_model_free(m);
        m = network(&image);
        ASSERT_OK(lk_model_hold(m, &(lk_holding){.layers = &(lk_range){i, 1}}));
        sum += elements(lk_model_params(m));
        lk_model_free(m);
    }
    ASSERT_EQ(sum, elements(lk_model_params(whole)));
    lk_model_free(whole);
}

/* Units 2 and 3 of each of the four gates of a weight [24][4 * 7]. */
TEST(a_gate_has_its_units_in_every_block)
{
    lk_model *m = network(&image);
    int64_t i;
    lk_slab_slice slice;
    ASSERT_OK(lk_model_hold(m, &(lk_holding){.blocks = &(lk_range){1, 1}}));
    lk_slab_layout *layout = lk_slab_layout_of(lk_model_params(m));
    ASSERT_OK(lk_slab_layout_find(layout, "lstm1.weight", &i));
    ASSERT_OK(lk_slab_layout_slice(layout, i, &slice));
    ASSERT_TRUE(lk_shape_is_equal(slice.shape, LK_SHAPE(24, 28)));
    ASSERT_TRUE(strcmp(lk_slab_slice_text(&slice).s, "f32[24,4,2:4]") == 0);
    ASSERT_EQ(slice.count, 24 * 4 * 2);
    lk_model_free(m);
}

/* Filters of a group stay together, and what no block has whole is not cut. */
TEST(groups_are_held_whole)
{
    lk_model_spec spec = {.in = {LK_F32, LK_SHAPE(8, 8)},
                          .pieces = {.blocks = 2, .least_block = 1}};
    static const struct {
        const char *options, *held;
    } cases[] = {{"filters=8 kernel=3 groups=4", "f32[3,2,0:4]"},
                 {"filters=12 kernel=3 groups=4", "f32[3,2,0:6]"},
                 {"filters=8 kernel=3 groups=1", "f32[3,8,0:4]"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lk_slab_slice slice;
        lk_model *m = model_of("conv", cases[i].options, &spec);
        ASSERT_OK(lk_model_hold(m, &(lk_holding){.blocks = &(lk_range){0, 1}}));
        ASSERT_OK(lk_slab_layout_slice(lk_slab_layout_of(lk_model_params(m)), 0, &slice));
        if (strcmp(lk_slab_slice_text(&slice).s, cases[i].held) != 0)
            TEST_FAIL("%s holds %s", cases[i].options, lk_slab_slice_text(&slice).s);
        lk_model_free(m);
    }
    spec.pieces.blocks = 3; /* 3 blocks of 3 filters, in groups of 2 */
    lk_model *m = model_of("conv", "filters=8 kernel=3 groups=4", &spec);
    ASSERT_OK(lk_model_hold(m, &(lk_holding){.blocks = &(lk_range){0, 1}}));
    ASSERT_TRUE(lk_slab_layout_is_whole(lk_slab_layout_of(lk_model_params(m)), NULL));
    lk_model_free(m);
}

TEST(every_initial_value_can_begin_anywhere)
{
    enum { N = 1500 };
    static double whole[N], part[N];
    lk_arena *arena = NULL;
    ASSERT_OK(lk_arena_new(&arena));
    for (int i = 0; lk_inits[i]; i++) {
        lk_config choice;
        ASSERT_OK(
            lk_config_parse(&lk_registry_init, lk_inits[i]->descriptor.name, NULL, arena, &choice));
        lk_init_call call = {.options = choice.options,
                             .stream = lk_rng_start(SEED, "w", "init"),
                             .fan_in = 5,
                             .fan_out = 7,
                             .elements = {0, N},
                             .out = whole};
        ASSERT_OK(lk_inits[i]->fill(&call));
        call.out = part;
        for (int64_t first = 0, n = 1; first < N; first += n, n = 3 * n + 1) {
            call.elements = (lk_range){first, n < N - first ? n : N - first};
            ASSERT_OK(lk_inits[i]->fill(&call));
            if (memcmp(part, whole + first, (size_t)call.elements.n * sizeof *part) != 0)
                TEST_FAIL("%s from element %lld on", lk_inits[i]->descriptor.name,
                          (long long)first);
        }
    }
    lk_arena_free(arena);
}

/* ---- refusals ---- */

TEST(a_pass_needs_the_whole_model)
{
    lk_model *m = network(&image);
    lk_tape *tape = NULL;
    lk_accumulator *sums = NULL;
    lk_var x, y;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_full(tape, LK_F32, LK_SHAPE(2, 5, 6, 2), 1, &x));
    ASSERT_FAILS(lk_model_forward(m, &(lk_pass){.tape = tape}, x, &y), LK_ESTATE,
                 "call lk_model_hold(model, NULL) after lk_model_build()");
    ASSERT_FAILS(lk_accumulator_new(m, &sums), LK_ESTATE, "holds no parameters yet");
    ASSERT_OK(lk_model_hold(m, &(lk_holding){.blocks = &(lk_range){1, 2}}));
    ASSERT_FAILS(lk_model_forward(m, &(lk_pass){.tape = tape}, x, &y), LK_ESTATE,
                 "layer conv1: of conv1.weight f32[3,3,2,6] the model holds f32[3,3,2,2:6] only");
    lk_tape_free(tape);
    lk_model_free(m);
}

/* ---- tiles ---- */

/* A convolution, whose weights all tiles share, and layers whose positions have their own, the last with
 * fewer of them than there are tiles; `winograd`: tiles are cut at multiples of 4. */
static lk_model *local_network(bool winograd)
{
    lk_model *m = NULL;
    lk_model_spec spec = {.in = {LK_F32, LK_SHAPE(9, 7, 2)},
                          .seed = SEED,
                          .pieces = {.tile = {3, 2}, .blocks = 2, .least_block = 1}};
    ASSERT_OK(lk_model_new(&m));
    ASSERT_OK(lk_model_add(m, "conv",
                           winograd ? "filters=2 kernel=3 padding=1 algorithm=winograd"
                                    : "filters=2 kernel=3 padding=1"));
    ASSERT_OK(lk_model_add(m, "local_conv", "filters=3 kernel=3 padding=1"));
    ASSERT_OK(lk_model_add(m, "layer_norm", "axes=3"));
    ASSERT_OK(lk_model_add(m, "local_conv", "filters=2 kernel=2 stride=5,2"));
    ASSERT_OK(lk_model_build(m, &spec));
    return m;
}

/* Compare what each grid of ranks holds with the whole; all together have each element once. */
static void check_tiles(int64_t rows, int64_t columns, bool winograd)
{
    lk_model *whole = local_network(winograd);
    int64_t held = 0;
    ASSERT_OK(lk_model_hold(whole, NULL));
    lk_slab_slice conv;
    ASSERT_OK(lk_slab_layout_slice(lk_model_layout(whole), 0, &conv));
    int64_t shared = conv.count + 2;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++) {
            lk_model *m = local_network(winograd);
            lk_range tiles[3] = {lk_range_split(3, r, rows), lk_range_split(2, c, columns), {0, 1}};
            ASSERT_OK(lk_model_hold(m, &(lk_holding){.tiles = tiles}));
            int parts = compare("tiles", lk_model_params(m), lk_model_params(whole));
            ASSERT_TRUE(rows * columns == 1 || parts > 0);
            held += elements(lk_model_params(m)) - shared;
            lk_model_free(m);
        }
    ASSERT_EQ(held, elements(lk_model_params(whole)) - shared);
    lk_model_free(whole);
}

TEST(tiles_hold_what_belongs_to_their_positions)
{
    for (int64_t rows = 1; rows <= 3; rows++)
        for (int64_t columns = 1; columns <= 2; columns++)
            for (int winograd = 0; winograd < 2; winograd++)
                check_tiles(rows, columns, winograd);
}

/* Positions and blocks are different axes of one tensor. */
TEST(blocks_of_positions_are_held_too)
{
    lk_model *m = local_network(false), *whole = local_network(false);
    lk_range tiles[3] = {{1, 1}, {1, 1}, {0, 1}}, block = {1, 1};
    ASSERT_OK(lk_model_hold(whole, NULL));
    ASSERT_OK(lk_model_hold(m, &(lk_holding){.tiles = tiles, .blocks = &block}));
    ASSERT_TRUE(compare("blocks of tiles", lk_model_params(m), lk_model_params(whole)) > 2);
    lk_model_free(m);
    lk_model_free(whole);
}

TEST(what_is_not_there_cannot_be_held)
{
    lk_model *m = NULL;
    ASSERT_OK(lk_model_new(&m));
    ASSERT_FAILS(lk_model_hold(m, NULL), LK_ESTATE, "not built");
    lk_model_free(m);
    m = network(&image);
    ASSERT_FAILS(lk_model_hold(m, &(lk_holding){.layers = &(lk_range){4, 3}}), LK_EINVAL,
                 "3 layers from number 4 on are to be held, of a model of 6");
    ASSERT_FAILS(lk_model_hold(m, &(lk_holding){.blocks = &(lk_range){4, 1}}), LK_EINVAL,
                 "1 blocks from number 4 on");
    ASSERT_FAILS(lk_model_hold(m, &(lk_holding){.layers = &(lk_range){1, INT64_MAX}}), LK_EINVAL,
                 "from number 1 on");
    ASSERT_FAILS(lk_model_hold(m, &(lk_holding){.blocks = &(lk_range){0, -1}}), LK_EINVAL,
                 "blocks");
    ASSERT_FAILS(lk_model_hold(m, &(lk_holding){.tiles = (lk_range[]){{0, 2}, {0, 1}, {0, 1}}}),
                 LK_EINVAL, "2 tiles from number 0 on");
    ASSERT_TRUE(!lk_model_params(m));
    ASSERT_OK(lk_model_hold(m, NULL));
    ASSERT_FAILS(lk_model_hold(m, NULL), LK_ESTATE, "already holds");
    lk_model_free(m);
}

static lk_status hold_part(void)
{
    lk_status st;
    lk_model *m = NULL;
    lk_accumulator *sums = NULL;
    LK_TRY_TO(done, lk_model_new(&m));
    LK_TRY_TO(done, lk_model_add(m, "conv", "filters=4 kernel=2"));
    LK_TRY_TO(done, lk_model_add(m, "batch_norm", NULL));
    LK_TRY_TO(done, lk_model_build(m, &image));
    LK_TRY_TO(done, lk_model_hold(m, &(lk_holding){.blocks = &(lk_range){1, 1}}));
    LK_TRY_TO(done, lk_accumulator_new(m, &sums));
done:
    lk_accumulator_free(sums);
    lk_model_free(m);
    return st;
}

TEST(every_allocation_may_fail)
{
    ASSERT_TRUE(test_every_allocation_fails(hold_part) > 10);
}
