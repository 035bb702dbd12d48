/* A U-Net of volumes, with a loss at each position, for tests of blocks and of tiles: 8 shards; an epoch is two
 * whole batches and one of 5 samples. */
#ifndef LK_TEST_UNET_NET_H
#define LK_TEST_UNET_NET_H

static const char volumes[] =
    "data: {type: fractal, count: 21, test_count: 6, shape: [8, 4, 8, 1], batch: 8, shards: 8}\n"
    "model:\n"
    "  - {type: conv, filters: 3, kernel: 3, padding: 1}\n"
    "  - relu\n"
    "  - type: residual\n"
    "    join: concat\n"
    "    layers:\n"
    "      - {type: maxpool, size: 2}\n"
    "      - {type: conv, filters: 4, kernel: 3, padding: 1}\n"
    "      - batch_norm\n"
    "      - relu\n"
    "      - type: residual\n"
    "        join: concat\n"
    "        layers:\n"
    "          - {type: avgpool, size: 2}\n"
    "          - {type: conv, filters: 5, kernel: 1}\n"
    "          - {type: dropout, rate: 0.1}\n"
    "          - {type: conv_transpose, filters: 4, kernel: 2, stride: 2}\n"
    "      - {type: conv, filters: 4, kernel: 3, padding: 1}\n"
    "      - relu\n"
    "      - {type: conv_transpose, filters: 3, kernel: 2, stride: 2}\n"
    "  - {type: conv, filters: 2, kernel: 3, padding: 1}\n"
    "loss: softmax_cross_entropy\n"
    "metrics: [accuracy]\n"
    "optimizer: {type: adam, rate: 0.01}\n"
    "train: {epochs: 3}\n";

#endif /* LK_TEST_UNET_NET_H */
