/* Shapes for the tests of convolution by Winograd's algorithm. */
#ifndef LK_TEST_WINOGRAD_CASES_H
#define LK_TEST_WINOGRAD_CASES_H

#include "conv_cases.h"

/* clang-format off */
#define WINO .window.ndim = 2, .window.kernel = {3, 3}, .algorithm = LK_CONV_WINOGRAD
static const conv_case wino_cases[] = {
    {"pad 1, primes", {WINO, .batch = 3, .in_channels = 7, .out_channels = 17, .in = {11, 13}, .out = {11, 13}, .window.pad_lo = {1, 1}}},
    {"whole tiles", {WINO, .batch = 2, .in_channels = 16, .out_channels = 32, .in = {8, 12}, .out = {8, 12}, .window.pad_lo = {1, 1}}},
    {"valid", {WINO, .batch = 2, .in_channels = 8, .out_channels = 16, .in = {10, 9}, .out = {8, 7}}},
    {"first layer", {WINO, .batch = 2, .in_channels = 3, .out_channels = 8, .in = {9, 9}, .out = {9, 9}, .window.pad_lo = {1, 1}}},
    {"one channel each", {WINO, .batch = 1, .in_channels = 1, .out_channels = 1, .in = {5, 6}, .out = {5, 6}, .window.pad_lo = {1, 1}}},
    {"one channel to 17", {WINO, .batch = 2, .in_channels = 1, .out_channels = 17, .in = {6, 5}, .out = {6, 5}, .window.pad_lo = {1, 1}}},
    {"50 channels", {WINO, .batch = 2, .in_channels = 17, .out_channels = 50, .in = {7, 6}, .out = {7, 6}, .window.pad_lo = {1, 1}}},
    {"50 to 3", {WINO, .batch = 1, .in_channels = 50, .out_channels = 3, .in = {6, 9}, .out = {6, 9}, .window.pad_lo = {1, 1}}},
    {"100 channels", {WINO, .batch = 1, .in_channels = 33, .out_channels = 100, .in = {5, 5}, .out = {5, 5}, .window.pad_lo = {1, 1}}},
    {"pad 2", {WINO, .batch = 2, .in_channels = 3, .out_channels = 7, .in = {5, 4}, .out = {7, 6}, .window.pad_lo = {2, 2}}},
    {"uneven pads", {WINO, .batch = 2, .in_channels = 8, .out_channels = 3, .in = {6, 7}, .out = {7, 6}, .window.pad_lo = {2, 0}}},
    {"pad behind only", {WINO, .batch = 1, .in_channels = 5, .out_channels = 9, .in = {4, 5}, .out = {4, 5}}},
    {"one position", {WINO, .batch = 5, .in_channels = 3, .out_channels = 10, .in = {1, 1}, .out = {1, 1}, .window.pad_lo = {1, 1}}},
    {"one output", {WINO, .batch = 3, .in_channels = 7, .out_channels = 8, .in = {3, 3}, .out = {1, 1}}},
    {"one row", {WINO, .batch = 2, .in_channels = 7, .out_channels = 8, .in = {1, 19}, .out = {1, 19}, .window.pad_lo = {1, 1}}},
    {"pad larger than the kernel", {WINO, .batch = 2, .in_channels = 3, .out_channels = 4, .in = {3, 4}, .out = {11, 12}, .window.pad_lo = {5, 5}}},
    {"negative pad", {WINO, .batch = 2, .in_channels = 3, .out_channels = 18, .in = {9, 10}, .out = {4, 4}, .window.pad_lo = {-2, -3}}},
    {"outputs behind the image", {WINO, .batch = 1, .in_channels = 2, .out_channels = 3, .in = {4, 4}, .out = {9, 3}, .window.pad_lo = {0, -9}}},
    {"windows", {WINO, .batch = 3, .in_channels = 6, .out_channels = 9, .in = {7, 5}, .out = {7, 5}, .window.pad_lo = {1, 1}, .x_step = {50, 8}, .y_step = {71, 12}, .x_sample = 400, .y_sample = 600}},
    {"many blocks", {WINO, .batch = 37, .in_channels = 3, .out_channels = 5, .in = {9, 6}, .out = {9, 6}, .window.pad_lo = {1, 1}}},
    {"empty batch", {WINO, .batch = 0, .in_channels = 3, .out_channels = 4, .in = {5, 5}, .out = {5, 5}, .window.pad_lo = {1, 1}}},
    {"empty image", {WINO, .batch = 2, .in_channels = 3, .out_channels = 4, .in = {0, 5}, .out = {2, 5}, .window.pad_lo = {2, 1}}},
    {"empty output", {WINO, .batch = 2, .in_channels = 3, .out_channels = 4, .in = {2, 5}, .out = {0, 3}}},
    {"no input channels", {WINO, .batch = 2, .in_channels = 0, .out_channels = 4, .in = {5, 5}, .out = {5, 5}, .window.pad_lo = {1, 1}}},
    {"no output channels", {WINO, .batch = 2, .in_channels = 3, .out_channels = 0, .in = {5, 5}, .out = {5, 5}, .window.pad_lo = {1, 1}}},
};
/* clang-format on */

enum { N_WINO_CASES = (int)(sizeof wino_cases / sizeof wino_cases[0]) };

#endif /* LK_TEST_WINOGRAD_CASES_H */
