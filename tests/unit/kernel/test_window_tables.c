/* What neon's tiles read of their neighbours, as its distributed arrays computed it: worked tables of its
 * example networks, and its arithmetic, against lk_window_needs() with its bounds of tiles.
 *
 *     MNIST CNN   28 conv 5, pool 2/2, conv 5, pool 2/2, on 2x2 and 4x4 processes
 *     MNIST GB    28 local filters 4, L2 pool 3, LCN 3, and twice local filters 3, L2 pool 3, LCN 3
 *     CIFAR GB    the same from 32
 *
 * Axes are alike, so one is enough.  An LCN is padded and keeps its size.
 */
#include "harness.h"

#include <lockstep/window.h>

enum { MOST_TILES = 4, MOST_LAYERS = 9 };

/* Of one tile: rows, halos below and above, rows of the output. */
typedef struct tile {
    int64_t w, west, east, o;
} tile;

typedef struct filter {
    int64_t size, stride;
    bool padded;
} filter;

struct net {
    const char *name;
    int64_t n;
    filter layer[MOST_LAYERS];
};

#define GB_LAYERS                                                                               \
    {                                                                                           \
        {4, 1, false}, {3, 1, false}, {3, 1, true}, {3, 1, false}, {3, 1, false}, {3, 1, true}, \
            {3, 1, false}, {3, 1, false}, {3, 1, true},                                         \
    }

static const struct net mnist_cnn = {
    "MNIST CNN", 28, {{5, 1, false}, {2, 2, false}, {5, 1, false}, {2, 2, false}}};
static const struct net mnist_gb = {"MNIST GB", 28, GB_LAYERS};
static const struct net cifar_gb = {"CIFAR GB", 32, GB_LAYERS};

static int64_t outputs_of(const filter *f, int64_t n)
{
    return f->padded ? n : (n - f->size) / f->stride + 1;
}

/* Block j of `tiles` of an axis of n. */
static int64_t share(int64_t n, int tiles, int j)
{
    return n / tiles + (n % tiles > j);
}

/* Neon's arithmetic, from tile to tile.  What it computes for the last tile of a padded layer on the
 * outer side is not used there: 0. */
static void neon_tiles(const filter *f, int64_t n, int tiles, tile *out)
{
    int64_t carry = 0, all = f->size - 1, left = all - all / 2;
    for (int j = 0; j < tiles; j++) {
        tile *t = &out[j];
        t->w = share(n, tiles, j);
        t->o = share(outputs_of(f, n), tiles, j);
        t->west = carry;
        if (f->padded)
            t->east = all - (j == 0 ? left : carry);
        else
            t->east = (t->o - 1) * f->stride + f->size - t->w - t->west;
        carry = f->padded || f->stride == 1 ? all - t->east : 0;
    }
    if (f->padded)
        out[tiles - 1].east = 0;
}

static void assert_tile(const struct net *net, int layer, int j, tile got, tile want)
{
    if (got.w != want.w || got.west != want.west || got.east != want.east || got.o != want.o)
        TEST_FAIL("%s, layer %d, tile %d: [%d,%d,%d,%d], not [%d,%d,%d,%d]", net->name, layer, j,
                  (int)got.w, (int)got.west, (int)got.east, (int)got.o, (int)want.w, (int)want.west,
                  (int)want.east, (int)want.o);
}

/* What lk_window_needs() says of tiles with these bounds. */
static void needed_tiles(const filter *f, int64_t n, int tiles, const tile *bounds, tile *out)
{
    const int64_t all = f->size - 1, right = f->padded ? all / 2 : 0;
    const lk_window window = {.ndim = 1,
                              .kernel = {f->size},
                              .stride = {f->stride},
                              .pad_lo = {f->padded ? all - right : 0},
                              .pad_hi = {right}};
    int64_t first = 0, first_out = 0;
    for (int j = 0; j < tiles; j++) {
        lk_range r = lk_window_needs(&window, 0, (lk_range){first_out, bounds[j].o}, n);
        out[j] = (tile){bounds[j].w, first - r.first, r.first + r.n - first - bounds[j].w,
                        bounds[j].o};
        first += bounds[j].w;
        first_out += bounds[j].o;
    }
    ASSERT_EQ(first, n);
}

/* ---- as they are written down ---- */

struct table {
    const struct net *net;
    int tiles, layer;
    tile tile[MOST_TILES];
};

static const struct table tables[] = {
    {&mnist_cnn, 2, 0, {{14, 0, 2, 12}, {14, 2, 0, 12}}},
    {&mnist_cnn, 2, 1, {{12, 0, 0, 6}, {12, 0, 0, 6}}},
    {&mnist_cnn, 2, 2, {{6, 0, 2, 4}, {6, 2, 0, 4}}},
    {&mnist_cnn, 2, 3, {{4, 0, 0, 2}, {4, 0, 0, 2}}},
    {&mnist_cnn, 4, 0, {{7, 0, 3, 6}, {7, 1, 2, 6}, {7, 2, 1, 6}, {7, 3, 0, 6}}},
    {&mnist_cnn, 4, 1, {{6, 0, 0, 3}, {6, 0, 0, 3}, {6, 0, 0, 3}, {6, 0, 0, 3}}},
    {&mnist_cnn, 4, 2, {{3, 0, 3, 2}, {3, 1, 2, 2}, {3, 2, 1, 2}, {3, 3, 0, 2}}},
    {&mnist_cnn, 4, 3, {{2, 0, 0, 1}, {2, 0, 0, 1}, {2, 0, 0, 1}, {2, 0, 0, 1}}},
    {&mnist_gb, 2, 0, {{14, 0, 2, 13}, {14, 1, 0, 12}}},
    {&mnist_gb, 2, 1, {{13, 0, 1, 12}, {12, 1, 0, 11}}},
    {&mnist_gb, 2, 2, {{12, 0, 1, 12}, {11, 1, 0, 11}}},
    {&mnist_gb, 2, 3, {{12, 0, 1, 11}, {11, 1, 0, 10}}},
    {&mnist_gb, 2, 4, {{11, 0, 1, 10}, {10, 1, 0, 9}}},
    {&mnist_gb, 2, 5, {{10, 0, 1, 10}, {9, 1, 0, 9}}},
    {&mnist_gb, 2, 6, {{10, 0, 1, 9}, {9, 1, 0, 8}}},
    {&mnist_gb, 2, 7, {{9, 0, 1, 8}, {8, 1, 0, 7}}},
    {&mnist_gb, 2, 8, {{8, 0, 1, 8}, {7, 1, 0, 7}}},
    {&mnist_gb, 4, 0, {{7, 0, 3, 7}, {7, 0, 2, 6}, {7, 1, 1, 6}, {7, 2, 0, 6}}},
    {&mnist_gb, 4, 1, {{7, 0, 1, 6}, {6, 1, 1, 6}, {6, 1, 1, 6}, {6, 1, 0, 5}}},
    {&mnist_gb, 4, 3, {{6, 0, 2, 6}, {6, 0, 1, 5}, {6, 1, 0, 5}, {5, 2, 0, 5}}}};

TEST(worked_tables_are_what_windows_need)
{
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        const struct table *t = &tables[i];
        tile got[MOST_TILES];
        int64_t n = t->net->n;
        for (int k = 0; k < t->layer; k++)
            n = outputs_of(&t->net->layer[k], n);
        needed_tiles(&t->net->layer[t->layer], n, t->tiles, t->tile, got);
        for (int j = 0; j < t->tiles; j++)
            assert_tile(t->net, t->layer, j, got[j], t->tile[j]);
    }
}

/* ---- all layers, by the arithmetic ---- */

TEST(neons_arithmetic_is_what_windows_need)
{
    const struct net *const nets[] = {&mnist_cnn, &mnist_gb, &cifar_gb};
    const int64_t last[] = {4, 15, 19}; /* rows at the end */
    for (int i = 0; i < 3; i++)
        for (int tiles = 1; tiles <= MOST_TILES; tiles *= 2) {
            int64_t n = nets[i]->n;
            for (int k = 0; k < MOST_LAYERS && nets[i]->layer[k].size > 0; k++) {
                tile got[MOST_TILES], want[MOST_TILES];
                neon_tiles(&nets[i]->layer[k], n, tiles, want);
                needed_tiles(&nets[i]->layer[k], n, tiles, want, got);
                for (int j = 0; j < tiles; j++)
                    assert_tile(nets[i], k, j, got[j], want[j]);
                n = outputs_of(&nets[i]->layer[k], n);
            }
            ASSERT_EQ(n, last[i]);
        }
}
