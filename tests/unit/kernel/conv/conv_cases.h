/* Shapes for the tests of convolution. */
#ifndef LK_TEST_CONV_CASES_H
#define LK_TEST_CONV_CASES_H

#include "kernel/reference/reference.h"
#include "real.h"

typedef struct conv_case {
    const char *name;
    lk_conv_shape s; /* dtype is set by the test */
} conv_case;

/* clang-format off */
static const conv_case conv_cases[] = {
    {"3x3 pad 1", {.window.ndim = 2, .batch = 3, .in_channels = 5, .out_channels = 19, .in = {9, 8}, .out = {9, 8}, .window.kernel = {3, 3}, .window.pad_lo = {1, 1}}},
    {"3x3 pad 1, whole blocks", {.window.ndim = 2, .batch = 2, .in_channels = 16, .out_channels = 32, .in = {6, 7}, .out = {6, 7}, .window.kernel = {3, 3}, .window.pad_lo = {1, 1}}},
    {"1x1", {.window.ndim = 2, .batch = 2, .in_channels = 17, .out_channels = 40, .in = {5, 7}, .out = {5, 7}, .window.kernel = {1, 1}}},
    {"1x1 stride 2", {.window.ndim = 2, .batch = 2, .in_channels = 8, .out_channels = 9, .in = {7, 6}, .out = {4, 3}, .window.kernel = {1, 1}, .window.stride = {2, 2}}},
    {"3x3 stride 2", {.window.ndim = 2, .batch = 2, .in_channels = 7, .out_channels = 11, .in = {11, 10}, .out = {6, 5}, .window.kernel = {3, 3}, .window.stride = {2, 2}, .window.pad_lo = {1, 1}}},
    {"stride 4 above kernel 3", {.window.ndim = 2, .batch = 2, .in_channels = 3, .out_channels = 5, .in = {13, 14}, .out = {4, 4}, .window.kernel = {3, 3}, .window.stride = {4, 4}, .window.pad_lo = {1, 1}}},
    {"stride 5 above kernel 2", {.window.ndim = 2, .batch = 1, .in_channels = 2, .out_channels = 3, .in = {12, 11}, .out = {3, 2}, .window.kernel = {2, 2}, .window.stride = {5, 5}}},
    {"even kernel 4x2", {.window.ndim = 2, .batch = 2, .in_channels = 6, .out_channels = 7, .in = {9, 8}, .out = {8, 8}, .window.kernel = {4, 2}, .window.pad_lo = {1, 1}}},
    {"kernel 4 stride 2", {.window.ndim = 2, .batch = 2, .in_channels = 4, .out_channels = 6, .in = {12, 12}, .out = {6, 6}, .window.kernel = {4, 4}, .window.stride = {2, 2}, .window.pad_lo = {1, 1}}},
    {"dilation 2", {.window.ndim = 2, .batch = 2, .in_channels = 5, .out_channels = 8, .in = {11, 9}, .out = {11, 9}, .window.kernel = {3, 3}, .window.dilation = {2, 2}, .window.pad_lo = {2, 2}}},
    {"dilation 3 stride 2", {.window.ndim = 2, .batch = 1, .in_channels = 3, .out_channels = 4, .in = {15, 13}, .out = {6, 5}, .window.kernel = {3, 3}, .window.stride = {2, 2}, .window.dilation = {3, 3}, .window.pad_lo = {2, 1}}},
    {"dilation 4 stride 6", {.window.ndim = 1, .batch = 2, .in_channels = 3, .out_channels = 4, .in = {41}, .out = {6}, .window.kernel = {5}, .window.stride = {6}, .window.dilation = {4}, .window.pad_lo = {3}}},
    {"groups 3", {.window.ndim = 2, .batch = 2, .in_channels = 6, .out_channels = 12, .groups = 3, .in = {7, 7}, .out = {7, 7}, .window.kernel = {3, 3}, .window.pad_lo = {1, 1}}},
    {"groups 2, wide", {.window.ndim = 2, .batch = 1, .in_channels = 10, .out_channels = 66, .groups = 2, .in = {5, 6}, .out = {3, 3}, .window.kernel = {3, 3}, .window.stride = {2, 2}, .window.pad_lo = {1, 1}}},
    {"depthwise 3x3", {.window.ndim = 2, .batch = 2, .in_channels = 21, .out_channels = 21, .groups = 21, .in = {8, 9}, .out = {8, 9}, .window.kernel = {3, 3}, .window.pad_lo = {1, 1}}},
    {"depthwise 5x5 stride 2", {.window.ndim = 2, .batch = 3, .in_channels = 16, .out_channels = 16, .groups = 16, .in = {11, 10}, .out = {6, 5}, .window.kernel = {5, 5}, .window.stride = {2, 2}, .window.pad_lo = {2, 2}}},
    {"depthwise stride 3 above kernel 2, dilation 2", {.window.ndim = 2, .batch = 1, .in_channels = 33, .out_channels = 33, .groups = 33, .in = {10, 13}, .out = {3, 4}, .window.kernel = {2, 2}, .window.stride = {3, 3}, .window.dilation = {2, 2}}},
    {"depthwise 3-D", {.window.ndim = 3, .batch = 2, .in_channels = 5, .out_channels = 5, .groups = 5, .in = {4, 5, 6}, .out = {4, 5, 6}, .window.kernel = {3, 3, 3}, .window.pad_lo = {1, 1, 1}}},
    {"depthwise with multiplier 2", {.window.ndim = 2, .batch = 2, .in_channels = 6, .out_channels = 12, .groups = 6, .in = {6, 6}, .out = {6, 6}, .window.kernel = {3, 3}, .window.pad_lo = {1, 1}}},
    {"1-D", {.window.ndim = 1, .batch = 3, .in_channels = 7, .out_channels = 13, .in = {29}, .out = {29}, .window.kernel = {5}, .window.pad_lo = {2}}},
    {"1-D, long taps", {.window.ndim = 1, .batch = 1, .in_channels = 1, .out_channels = 3, .in = {300}, .out = {140}, .window.kernel = {161}, .window.dilation = {1}}},
    {"1-D, many segments", {.window.ndim = 1, .batch = 1, .in_channels = 2, .out_channels = 3, .in = {420}, .out = {20}, .window.kernel = {201}, .window.dilation = {2}}},
    {"3-D", {.window.ndim = 3, .batch = 2, .in_channels = 3, .out_channels = 5, .in = {5, 6, 7}, .out = {5, 6, 7}, .window.kernel = {3, 3, 3}, .window.pad_lo = {1, 1, 1}}},
    {"3-D, axes differ", {.window.ndim = 3, .batch = 1, .in_channels = 4, .out_channels = 17, .in = {6, 5, 9}, .out = {3, 5, 4}, .window.kernel = {2, 1, 3}, .window.stride = {2, 1, 2}, .window.pad_lo = {0, 0, 0}}},
    {"more samples than a chunk", {.window.ndim = 2, .batch = 37, .in_channels = 2, .out_channels = 3, .in = {6, 6}, .out = {6, 6}, .window.kernel = {3, 3}, .window.pad_lo = {1, 1}}},
    {"depthwise, more samples than a chunk", {.window.ndim = 2, .batch = 37, .in_channels = 3, .out_channels = 3, .groups = 3, .in = {6, 6}, .out = {6, 6}, .window.kernel = {3, 3}, .window.pad_lo = {1, 1}}},
    {"depthwise, many taps", {.window.ndim = 1, .batch = 1, .in_channels = 3, .out_channels = 3, .groups = 3, .in = {150}, .out = {9}, .window.kernel = {141}, .window.pad_lo = {-1}}},
    {"rows 4096 bytes apart", {.window.ndim = 1, .batch = 1, .in_channels = 1024, .out_channels = 3, .in = {13}, .out = {13}, .window.kernel = {1}}},
    {"all ones", {.window.ndim = 2, .batch = 1, .in_channels = 1, .out_channels = 1, .in = {1, 1}, .out = {1, 1}, .window.kernel = {1, 1}}},
    {"kernel as large as the image", {.window.ndim = 2, .batch = 5, .in_channels = 3, .out_channels = 10, .in = {4, 5}, .out = {1, 1}, .window.kernel = {4, 5}}},
    {"image narrower than the kernel", {.window.ndim = 2, .batch = 2, .in_channels = 3, .out_channels = 4, .in = {5, 2}, .out = {5, 2}, .window.kernel = {3, 3}, .window.pad_lo = {1, 1}}},
    {"primes", {.window.ndim = 2, .batch = 7, .in_channels = 3, .out_channels = 37, .in = {13, 11}, .out = {5, 5}, .window.kernel = {5, 3}, .window.stride = {3, 2}, .window.pad_lo = {2, 0}}},
    {"pad larger than the kernel", {.window.ndim = 2, .batch = 2, .in_channels = 3, .out_channels = 4, .in = {3, 4}, .out = {11, 12}, .window.kernel = {3, 3}, .window.pad_lo = {5, 5}}},
    {"negative pad", {.window.ndim = 2, .batch = 2, .in_channels = 3, .out_channels = 18, .in = {9, 10}, .out = {4, 4}, .window.kernel = {3, 3}, .window.pad_lo = {-2, -3}}},
    {"outputs behind the image", {.window.ndim = 2, .batch = 1, .in_channels = 2, .out_channels = 3, .in = {4, 4}, .out = {9, 3}, .window.kernel = {2, 2}, .window.pad_lo = {0, -9}}},
    {"windows", {.window.ndim = 2, .batch = 3, .in_channels = 6, .out_channels = 9, .in = {7, 5}, .out = {7, 5}, .window.kernel = {3, 3}, .window.pad_lo = {1, 1}, .x_step = {50, 8}, .y_step = {71, 12}, .x_sample = 400, .y_sample = 600}},
    {"windows, stride 2, groups", {.window.ndim = 2, .batch = 2, .in_channels = 4, .out_channels = 8, .groups = 2, .in = {8, 9}, .out = {4, 5}, .window.kernel = {3, 3}, .window.stride = {2, 2}, .window.pad_lo = {1, 1}, .x_step = {0, 7}, .y_step = {50, 0}}},
    {"windows, depthwise", {.window.ndim = 2, .batch = 2, .in_channels = 9, .out_channels = 9, .groups = 9, .in = {6, 7}, .out = {3, 4}, .window.kernel = {3, 3}, .window.stride = {2, 2}, .window.pad_lo = {1, 1}, .x_step = {90, 11}, .y_step = {0, 13}}},
    {"empty batch", {.window.ndim = 2, .batch = 0, .in_channels = 3, .out_channels = 4, .in = {5, 5}, .out = {5, 5}, .window.kernel = {3, 3}, .window.pad_lo = {1, 1}}},
    {"empty image", {.window.ndim = 2, .batch = 2, .in_channels = 3, .out_channels = 4, .in = {0, 5}, .out = {2, 5}, .window.kernel = {3, 3}, .window.pad_lo = {2, 1}}},
    {"empty output", {.window.ndim = 2, .batch = 2, .in_channels = 3, .out_channels = 4, .in = {2, 5}, .out = {0, 3}, .window.kernel = {3, 3}}},
    {"no input channels", {.window.ndim = 2, .batch = 2, .in_channels = 0, .out_channels = 4, .in = {5, 5}, .out = {5, 5}, .window.kernel = {3, 3}, .window.pad_lo = {1, 1}}},
    {"no output channels", {.window.ndim = 2, .batch = 2, .in_channels = 3, .out_channels = 0, .in = {5, 5}, .out = {5, 5}, .window.kernel = {3, 3}, .window.pad_lo = {1, 1}}},
};
/* clang-format on */

enum { N_CONV_CASES = (int)(sizeof conv_cases / sizeof conv_cases[0]) };

#endif /* LK_TEST_CONV_CASES_H */
