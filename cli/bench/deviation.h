/* How far the results of a peer are from ours. */
#ifndef LK_CLI_BENCH_DEVIATION_H
#define LK_CLI_BENCH_DEVIATION_H

#include <lockstep/tensor.h>

/** The largest difference of `n` elements of f32 or f64 as a fraction of the largest of `ours`; infinite
 * where one of either is not finite. */
double bench_deviation(lk_dtype dtype, const void *ours, const void *theirs, int64_t n);

#endif /* LK_CLI_BENCH_DEVIATION_H */
