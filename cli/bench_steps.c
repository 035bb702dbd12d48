/* Perceptrons and convnets of the presets' sizes, with the optimizers that they are measured with. */
#include "bench_steps.h"

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

/* Shards that share the batch evenly. */
#define DIGITS(batch, shards) "shape: [28, 28, 1], batch: " #batch ", shards: " #shards
#define PHOTOS(batch, shards) "shape: [32, 32, 3], batch: " #batch ", shards: " #shards

#define SGD "{type: sgd, rate: 1e-3}"
#define MOMENTUM "{type: sgd, rate: 1e-3, momentum: 0.9}"
#define ADAM "{type: adam, rate: 1e-4}"
#define RMSPROP "{type: rmsprop, rate: 1e-4}"

const bench_steps bench_step_cases[] = {
    {"mlp-100 b100 sgd", "mlp100 100 sgd", DIGITS(100, 4), PERCEPTRON(100), SGD},
    {"mlp-100 b100 adam", "mlp100 100 adam", DIGITS(100, 4), PERCEPTRON(100), ADAM},
    {"mlp-1000 b100 sgd", "mlp1000 100 sgd", DIGITS(100, 4), PERCEPTRON(1000), SGD},
    {"mlp-1000 b100 adam", "mlp1000 100 adam", DIGITS(100, 4), PERCEPTRON(1000), ADAM},
    {"lenet b64 momentum", "lenet 64 momentum", DIGITS(64, 8), LENET, MOMENTUM},
    {"cifar b32 rmsprop", "cifar 32 rmsprop", PHOTOS(32, 8), CIFAR(DIRECT), RMSPROP},
    {"cifar b32 winograd", "cifar 32 rmsprop", PHOTOS(32, 8), CIFAR(WINOGRAD), RMSPROP},
    {"cifar b128 rmsprop", "cifar 128 rmsprop", PHOTOS(128, 8), CIFAR(DIRECT), RMSPROP},
    {"cifar b128 winograd", "cifar 128 rmsprop", PHOTOS(128, 8), CIFAR(WINOGRAD), RMSPROP},
    {NULL, NULL, NULL, NULL, NULL},
};

lk_status bench_steps_open(const bench_steps *c, const char *const *assignment, int n,
                           lk_experiment **out)
{
    char text[2048];
    snprintf(text, sizeof text,
             "data: {type: glyphs, count: 3200, test_count: 0, %s}\n"
             "model: [%s]\n"
             "loss: softmax_cross_entropy\n"
             "optimizer: %s\n"
             "train: {epochs: 1000000}\n",
             c->data, c->model, c->optimizer);
    LK_TRY(lk_experiment_parse(c->name, text, assignment, n, out));
    return LK_OK;
}
