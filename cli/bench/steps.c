/* Perceptrons, convnets, a residual network, recurrent networks and U-Nets of the presets' sizes, with the
 * optimizers that they are measured with. */
#include "bench/steps.h"

#include <stdio.h>

#define LINEAR(units) "{type: linear, units: " #units "}, "
#define CONV(filters, rest) "{type: conv, filters: " #filters ", " rest "}, relu, "
#define POOL "{type: maxpool, size: 2}, "
#define DROPOUT(rate) "{type: dropout, rate: " #rate "}, "

#define PERCEPTRON(width) \
    "flatten, " LINEAR(width) "relu, " LINEAR(width) "relu, {type: linear, units: 10}"
#define LENET                                                        \
    CONV(20, "kernel: 5")                                            \
    POOL CONV(50, "kernel: 5") POOL "flatten, " LINEAR(500) "relu, " \
                                                            "{type: linear, units: 10}"
/* `how`: the algorithm of all convolutions but the first, whose three channels Winograd's does not
 * suit. */
#define CIFAR(how)                                                                     \
    CONV(32, "kernel: 3, padding: 1")                                                  \
    CONV(32, "kernel: 3" how)                                                          \
    POOL DROPOUT(0.25) CONV(64, "kernel: 3, padding: 1" how) CONV(64, "kernel: 3" how) \
        POOL DROPOUT(0.25) "flatten, " LINEAR(512) "relu, " DROPOUT(                   \
            0.5) "{type: linear, units: 10}"
#define DIRECT ""
#define WINOGRAD ", algorithm: winograd"

/* ResNet-20, as the model "resnet" has it, which cannot choose the algorithm.  Winograd's suits a stride of
 * 1, and more than three channels. */
#define NORMED(filters, rest) \
    "{type: conv, filters: " #filters ", bias: false, init: he, " rest "}, batch_norm"
#define SAME(filters, how) NORMED(filters, "kernel: 3, padding: 1" how)
#define HALF(filters) NORMED(filters, "kernel: 3, padding: 1, stride: 2")
#define RESIDUAL(layers, more) "{type: residual, layers: [" layers "]" more "}, relu, "
#define BLOCK(filters, how) RESIDUAL(SAME(filters, how) ", relu, " SAME(filters, how), "")
#define BLOCK_DOWN(filters, how)                          \
    RESIDUAL(HALF(filters) ", relu, " SAME(filters, how), \
             ", shortcut: [" NORMED(filters, "kernel: 1, stride: 2") "]")
#define RESNET(how)                                                                            \
    SAME(16, "")                                                                               \
    ", relu, " BLOCK(16, how) BLOCK(16, how) BLOCK(16, how) BLOCK_DOWN(32, how) BLOCK(32, how) \
        BLOCK(32, how) BLOCK_DOWN(64, how) BLOCK(64, how)                                      \
            BLOCK(64, how) "global_avgpool, {type: linear, units: 10}"

/* 64 times of 32 features. */
#define RECURRENT(type) \
    "{type: reshape, shape: [64, 32]}, {type: " type ", units: 128}, {type: linear, units: 10}"
#define SEQUENCES GLYPHS("[64, 32, 1]", 32, 8)

/* Shards that share the batch evenly. */
#define GLYPHS(shape, batch, shards) \
    "type: glyphs, count: 3200, shape: " shape ", batch: " #batch ", shards: " #shards
#define DIGITS(batch, shards) GLYPHS("[28, 28, 1]", batch, shards)
#define PHOTOS(batch, shards) GLYPHS("[32, 32, 3]", batch, shards)
#define SLICES "type: fractal, count: 16, shape: [128, 128, 1], batch: 4, shards: 4"
#define VOLUMES "type: fractal, count: 8, shape: [32, 32, 32, 1], batch: 2, shards: 2"

#define LIST(layers) "[" layers "]"
#define UNET(width) "{type: unet, depth: 2, width: " #width "}"

#define SGD "{type: sgd, rate: 1e-3}"
#define MOMENTUM "{type: sgd, rate: 1e-3, momentum: 0.9}"
#define ADAM "{type: adam, rate: 1e-4}"
#define RMSPROP "{type: rmsprop, rate: 1e-4}"

const bench_steps bench_step_cases[] = {
    {"mlp-100 b100 sgd", "mlp100 100 sgd", DIGITS(100, 4), LIST(PERCEPTRON(100)), SGD, 0},
    {"mlp-100 b100 adam", "mlp100 100 adam", DIGITS(100, 4), LIST(PERCEPTRON(100)), ADAM, 0},
    {"mlp-1000 b100 sgd", "mlp1000 100 sgd", DIGITS(100, 4), LIST(PERCEPTRON(1000)), SGD, 0},
    {"mlp-1000 b100 adam", "mlp1000 100 adam", DIGITS(100, 4), LIST(PERCEPTRON(1000)), ADAM, 0},
    {"mlp-4096 b128 sgd", NULL, DIGITS(128, 4), LIST(PERCEPTRON(4096)), SGD, 0},
    {"lenet b64 momentum", "lenet 64 momentum", DIGITS(64, 8), LIST(LENET), MOMENTUM, 0},
    {"cifar b32 rmsprop", "cifar 32 rmsprop", PHOTOS(32, 8), LIST(CIFAR(DIRECT)), RMSPROP, 0},
    {"cifar b32 winograd", "cifar 32 rmsprop", PHOTOS(32, 8), LIST(CIFAR(WINOGRAD)), RMSPROP, 0},
    {"cifar b128 rmsprop", "cifar 128 rmsprop", PHOTOS(128, 8), LIST(CIFAR(DIRECT)), RMSPROP, 0},
    {"cifar b128 winograd", "cifar 128 rmsprop", PHOTOS(128, 8), LIST(CIFAR(WINOGRAD)), RMSPROP, 0},
    {"resnet-20 b128 momentum", "resnet20 128 momentum", PHOTOS(128, 8), LIST(RESNET(DIRECT)),
     MOMENTUM, 0},
    {"resnet-20 b128 winograd", "resnet20 128 momentum", PHOTOS(128, 8), LIST(RESNET(WINOGRAD)),
     MOMENTUM, 0},
    {"lstm 64x128 b32 adam", "lstm 32 adam", SEQUENCES, LIST(RECURRENT("lstm")), ADAM, 0},
    {"gru 64x128 b32 adam", "gru 32 adam", SEQUENCES, LIST(RECURRENT("gru")), ADAM, 0},
    {"unet b4 adam", "unet 4 adam", SLICES, UNET(16), ADAM, 2},
    {"unet3d b2 adam", "unet3d 2 adam", VOLUMES, UNET(8), ADAM, 3},
    {NULL, NULL, NULL, NULL, NULL, 0},
};

/* The grid of ranks of a case: 2 along as many axes as there are ranks for; "1" where that is not even. */
static const char *grid_of(const bench_steps *c, int ranks)
{
    static const char *const grids[][4] = {
        {"1"}, {"1", "2", NULL, NULL}, {"1", "2x1", "2x2", NULL}, {"1", "2x1x1", "2x2x1", "2x2x2"}};
    for (int i = 0; i <= c->axes; i++)
        if (ranks == 1 << i)
            return grids[c->axes][i];
    return "1";
}

lk_status bench_steps_open(const bench_steps *c, int ranks, const char *const *assignment, int n,
                           lk_experiment **out)
{
    static const char *const tiles[] = {"1", "2", "2x2", "2x2x2"};
    char text[8192];
    int length = snprintf(text, sizeof text,
                          "data: {test_count: 0, %s}\n"
                          "model: %s\n"
                          "loss: softmax_cross_entropy\n"
                          "optimizer: %s\n"
                          "pieces: {tiles: %s}\n"
                          "parallel: {spatial: %s}\n"
                          "train: {epochs: 1000000}\n",
                          c->data, c->model, c->optimizer, tiles[c->axes], grid_of(c, ranks));
    LK_CHECK(length > 0 && length < (int)sizeof text, LK_EOVERFLOW,
             "%s: the experiment has %d characters, at most %zu", c->name, length, sizeof text - 1);
    return LK_TRACE(lk_experiment_parse(c->name, text, assignment, n, out));
}
