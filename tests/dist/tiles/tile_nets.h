/* Networks that can be cut into tiles, and grids for them: each kind of layer, batches whose last is short,
 * and sizes that tiles and strides do not divide. */
#ifndef LK_TEST_TILE_NETS_H
#define LK_TEST_TILE_NETS_H

#include "unet_net.h"

#include <stddef.h>

/* Images, then whole samples: 8 shards; an epoch is two whole batches and one of 5 samples. */
static const char images[] =
    "data: {type: fractal, count: 21, test_count: 6, shape: [4, 9, 7, 1], batch: 8, shards: 8}\n"
    "model:\n"
    "  - {type: reshape, shape: [12, 21, 1]}\n"
    "  - {type: conv, filters: 3, kernel: 5, padding: 2}\n"
    "  - relu\n"
    "  - {type: maxpool, size: 3, stride: 2}\n"
    "  - {type: conv, filters: 4, kernel: 3, padding: 1, stride: 2}\n"
    "  - batch_norm\n"
    "  - {type: residual, layers: [relu, {type: conv, filters: 4, kernel: 3, padding: 1}]}\n"
    "  - {type: dropout, rate: 0.2}\n"
    "  - flatten\n"
    "  - {type: linear, units: 252}\n"
    "  - {type: reshape, shape: [4, 9, 7, 1]}\n"
    "  - {type: linear, units: 2}\n"
    "loss: softmax_cross_entropy\n"
    "metrics: [accuracy]\n"
    "optimizer: {type: adam, rate: 0.01}\n"
    "train: {epochs: 3}\n";

static const char classes[] =
    "data: {type: shapes, count: 21, test_count: 6, shape: [13, 11, 2], batch: 8,\n"
    "       shards: 8}\n"
    "model:\n"
    "  - {type: conv, filters: 3, kernel: 5, padding: 2}\n"
    "  - relu\n"
    "  - {type: maxpool, size: 3, stride: 2}\n"
    "  - {type: conv, filters: 4, kernel: 3, padding: 1, stride: 2}\n"
    "  - batch_norm\n"
    "  - {type: residual, layers: [relu, {type: conv, filters: 4, kernel: 3, padding: 1}]}\n"
    "  - {type: dropout, rate: 0.2}\n"
    "  - {type: avgpool, size: 2, stride: 1}\n"
    "  - global_avgpool\n"
    "  - {type: linear, units: 5}\n"
    "  - tanh\n"
    "  - {type: dropout, rate: 0.1}\n"
    "  - {type: linear, units: 2}\n"
    "loss: softmax_cross_entropy\n"
    "metrics: [accuracy]\n"
    "optimizer: {type: adam, rate: 0.01}\n"
    "train: {epochs: 3}\n";

/* Tiles, then times: a layer that uses its parameters more than once. */
static const char series[] =
    "data: {type: shapes, count: 21, test_count: 6, shape: [13, 11, 2], batch: 8, shards: 8}\n"
    "model:\n"
    "  - {type: conv, filters: 3, kernel: 5, padding: 2}\n"
    "  - batch_norm\n"
    "  - {type: residual, layers: [relu, {type: conv, filters: 3, kernel: 3, padding: 1}]}\n"
    "  - {type: maxpool, size: 3, stride: 2}\n"
    "  - flatten\n"
    "  - {type: reshape, shape: [30, 3]}\n"
    "  - {type: gru, units: 3}\n"
    "  - flatten\n"
    "  - {type: linear, units: 2}\n"
    "loss: softmax_cross_entropy\n"
    "metrics: [accuracy]\n"
    "optimizer: {type: adam, rate: 0.01}\n"
    "train: {epochs: 3}\n";

/* Weights of positions, of which two are one: those of neighbours are fetched, too. */
static const char filters[] =
    "data: {type: shapes, count: 21, test_count: 6, shape: [13, 11, 2], batch: 8, shards: 8}\n"
    "model:\n"
    "  - {type: local_conv, filters: 3, kernel: 4, stride: 2, name: code}\n"
    "  - tanh\n"
    "  - {type: local_conv_transpose, filters: 2, kernel: 4, stride: 2, size: [13, 11], tie: "
    "code.weight}\n"
    "  - {type: local_conv, filters: 2, kernel: 3, padding: 1}\n"
    "  - flatten\n"
    "  - {type: linear, units: 2}\n"
    "loss: softmax_cross_entropy\n"
    "optimizer: {type: adam, rate: 0.01}\n"
    "train: {epochs: 3}\n";

/* Grids that as many ranks can be, "" if none. */
struct grid {
    int ranks;
    const char *spatial;
};

static const struct grid planes[] = {{1, "1x1"}, {2, "2x1"}, {2, "1x2"}, {3, "3x1"}, {3, "1x3"},
                                     {4, "2x2"}, {4, "4x1"}, {6, "3x2"}, {9, "3x3"}, {0, NULL}};

static const struct grid cubes[] = {{2, "2x1x1"}, {2, "1x1x2"}, {3, "3x1x1"}, {4, "2x1x2"},
                                    {4, "2x2x1"}, {8, "2x2x2"}, {0, NULL}};

static const struct grid few[] = {{2, "2x1"}, {4, "2x2"}, {3, "1x3"}, {0, NULL}};

#endif /* LK_TEST_TILE_NETS_H */
