/* Small models for random layouts.
 *
 * Sizes are such that tiles, blocks and shards do not divide them, and the second batch is smaller than the
 * first.  A type of layer, or a kind of node, that none of them has is an error of the command: add it here.
 */
#include "gradcheck/nets.h"

#include <stddef.h>

const gradcheck_net gradcheck_nets[] = {
    /* ways into layers that are cut, and out of them */
    {"images",
     "data: {type: glyphs, count: 17, test_count: 0, shape: [11, 10, 1], batch: 10, shards: 5}\n"
     "model:\n"
     "  - {type: conv, filters: 12, kernel: 3, padding: 1}\n"
     "  - batch_norm\n"
     "  - relu\n"
     "  - {type: dropout, rate: 0.2}\n"
     "  - {type: residual, layers: [{type: conv, filters: 12, kernel: 3, padding: 1}, "
     "leaky_relu]}\n"
     "  - {type: conv, filters: 12, kernel: 1, groups: 3}\n"
     "  - {type: maxpool, size: 3, stride: 2}\n"
     "  - layer_norm\n"
     "  - {type: linear, units: 16}\n"
     "  - elu\n"
     "  - {type: conv, filters: 8, kernel: 3, stride: 2, pad: same}\n"
     "  - sigmoid\n"
     "  - flatten\n"
     "  - {type: linear, units: 24}\n"
     "  - gelu\n"
     "  - {type: linear, units: 20, cut: in}\n"
     "  - {type: linear, units: 16, cut: in}\n"
     "  - tanh\n"
     "  - {type: linear, units: 12}\n"
     "  - {type: linear, units: 10}\n"
     "loss: softmax_cross_entropy\n"
     "pieces: {tiles: 3x2, least_tile: 1, blocks: 4, least_block: 2}\n",
     false},
    /* from tiles to whole samples and back, and a loss at each position */
    {"positions",
     "data: {type: fractal, count: 11, test_count: 0, shape: [9, 8, 1], classes: 3, batch: 8, "
     "shards: 4}\n"
     "model:\n"
     "  - lcn\n"
     "  - {type: conv, filters: 8, kernel: 3, pad: same}\n"
     "  - softplus\n"
     "  - type: residual\n"
     "    join: concat\n"
     "    layers:\n"
     "      - {type: avgpool, size: 2, pad: same}\n"
     "      - {type: conv, filters: 6, kernel: 2, dilation: 2, pad: same}\n"
     "      - {type: conv_transpose, filters: 4, kernel: 2, stride: 2, fit: true}\n"
     "  - {type: l2pool, size: 3, stride: 2, pad: same}\n"
     "  - flatten\n"
     "  - {type: linear, units: 12}\n"
     "  - relu\n"
     "  - {type: linear, units: 20}\n"
     "  - {type: reshape, shape: [5, 4, 1]}\n"
     "  - {type: conv, filters: 6, kernel: 3, pad: same, algorithm: winograd}\n"
     "  - softmax\n"
     "  - {type: repeat, size: 2}\n"
     "  - {type: crop, before: [1, 0], after: [0, 0]}\n"
     "  - {type: layer_norm, axes: 3}\n"
     "  - {type: linear, units: 3}\n"
     "  - log_softmax\n"
     "loss: softmax_cross_entropy\n"
     "pieces: {tiles: 3x2, least_tile: 1, blocks: 3, least_block: 2}\n",
     false},
    {"volumes",
     "data: {type: fractal, count: 7, test_count: 0, shape: [5, 4, 4, 1], batch: 4, shards: 3}\n"
     "model:\n"
     "  - {type: conv, filters: 6, kernel: 3, pad: same}\n"
     "  - batch_norm\n"
     "  - relu\n"
     "  - {type: conv, filters: 4, kernel: 2, pad: same}\n"
     "  - {type: linear, units: 2}\n"
     "loss: softmax_cross_entropy\n"
     "pieces: {tiles: 2x2x2, least_tile: 1, blocks: 2, least_block: 2}\n",
     false},
    /* statistics of the whole batch, which stages cannot have */
    {"statistics",
     "data: {type: shapes, count: 20, test_count: 0, shape: [9, 8, 1], batch: 12, shards: 6}\n"
     "model:\n"
     "  - {type: conv, filters: 8, kernel: 3}\n"
     "  - {type: batch_norm, statistics: batch}\n"
     "  - relu\n"
     "  - {type: conv, filters: 6, kernel: 2}\n"
     "  - {type: batch_norm, statistics: batch}\n"
     "  - global_avgpool\n"
     "  - {type: batch_norm, statistics: batch}\n"
     "  - {type: linear, units: 2}\n"
     "loss: softmax_cross_entropy\n"
     "pieces: {tiles: 2x3, least_tile: 1, blocks: 4, least_block: 2}\n",
     false},
    /* weights that positions have for themselves, and terms beside the loss */
    {"codes",
     "data: {type: glyphs, count: 9, test_count: 0, shape: [9, 8, 1], batch: 6, shards: 3}\n"
     "model:\n"
     "  - type: autoencoder\n"
     "    name: code\n"
     "    weight: 0.5\n"
     "    encode: [{type: local_conv, filters: 3, kernel: 3, stride: 2, pad: same, name: filter, "
     "unit_norm: true}, tanh]\n"
     "    decode: [{type: local_conv_transpose, filters: 1, kernel: 3, stride: 2, pad: same, size: "
     "[9, 8], tie: code.filter.weight}]\n"
     "  - {type: penalty, of: abs, weight: 0.125}\n"
     "  - {type: local_conv_transpose, filters: 4, kernel: 3, stride: 2}\n"
     "  - {type: maxpool, size: 2}\n"
     "  - flatten\n"
     "  - {type: linear, units: 10}\n"
     "loss: softmax_cross_entropy\n"
     "pieces: {tiles: 2x2, least_tile: 1, blocks: 2, least_block: 2}\n",
     false},
    /* times, and rows of a table by their numbers */
    {"words",
     "data: {type: empty, samples: 17, batch: 10, shards: 5}\n"
     "model:\n"
     "  - {type: embedding, rows: 20, units: 12}\n"
     "  - {type: lstm, units: 10, output: all}\n"
     "  - layer_norm\n"
     "  - {type: gru, units: 12, output: all, reverse: true}\n"
     "  - {type: rnn, units: 8}\n"
     "  - {type: linear, units: 6, cut: in}\n"
     "  - {type: linear, units: 3}\n"
     "loss: softmax_cross_entropy\n"
     "pieces: {blocks: 4, least_block: 2}\n",
     true},
    /* one table for what comes in and what comes out */
    {"tied",
     "data: {type: empty, samples: 17, batch: 10, shards: 5}\n"
     "model:\n"
     "  - {type: embedding, rows: 20, units: 6, name: words}\n"
     "  - {type: rnn, units: 8}\n"
     "  - {type: linear, units: 6}\n"
     "  - batch_norm\n"
     "  - {type: linear, units: 20, transpose: true, tie: words.weight}\n"
     "loss: softmax_cross_entropy\n"
     "pieces: {blocks: 4, least_block: 2}\n",
     true},
    {.name = NULL}};

/* ---- words ---- */

enum { SAMPLES = 17, TIMES = 4, WORDS = 20, CLASSES = 3 };

static lk_status words_row(void *context, int64_t index, void *const *row)
{
    int64_t *words = row[0], sum = 0;
    (void)context;
    for (int64_t i = 0; i < TIMES; i++) {
        int64_t word = (7 * index + 5 * i * i + index * i) % WORDS;
        sum += word;
        if (words)
            words[i] = word;
    }
    if (row[1])
        *(int64_t *)row[1] = sum % CLASSES;
    return LK_OK;
}

lk_status gradcheck_words(lk_dataset **out)
{
    lk_dataset_info info = {.name = "words", .count = SAMPLES, .classes = CLASSES, .n_fields = 2};
    info.field[0] = (lk_field){"x", LK_I64, LK_SHAPE(TIMES)};
    info.field[1] = (lk_field){"y", LK_I64, LK_SCALAR};
    return LK_TRACE(lk_dataset_new(&info, words_row, NULL, NULL, out));
}
