/* What the machine can do at best, measured: how fast memory is read, copied and added to, and how many
 * operations of f32 a second there are.  `lockstep bench ops` prints it beside what ops reach.
 */
#ifndef LK_CLI_BENCH_LIMITS_H
#define LK_CLI_BENCH_LIMITS_H

#include "bench/stats.h"

/* Arrays in the second-level cache, in the last, about as large as that, and far beyond. */
enum { BENCH_N_SIZES = 4 };
extern const int64_t bench_limit_bytes[BENCH_N_SIZES];

typedef enum bench_loop { BENCH_READ, BENCH_COPY, BENCH_ADD, BENCH_N_LOOPS } bench_loop;

/** "read", "copy" and "add": y = x, by memcpy() or around the caches, whatever is faster, and y = y + x. */
const char *bench_loop_name(bench_loop loop);

typedef struct bench_limits {
    bench_figure gbytes[BENCH_N_SIZES][BENCH_N_LOOPS]; /* GB/s of all threads: add moves 3 arrays */
    bench_figure gflops;                               /* of all threads: a multiply-add is 2 */
} bench_limits;

/**
 * Measure all with `threads` threads, each on arrays of its own that are a share of the size, by the
 * instruction set in use; about `seconds` in all.  One thread is timed by its processor time, more by the
 * clock.
 */
lk_status bench_limits_measure(int threads, double seconds, bench_limits *out) LK_NODISCARD;

/**
 * The seconds that it takes at best to read some GB and write others, of arrays that are together about as
 * large as `footprint` bytes.
 *
 * Both are as fast as on arrays of that size: a byte that is read takes its time of `read`, one that is
 * written what `copy` takes more than that.  So what a processor moves to write, as the line that it reads
 * before, is in it, unless it can do without; an op that copies reaches it as far as it is as fast as the
 * fastest copy.
 */
bench_figure bench_limits_seconds(const bench_limits *l, double footprint, double read,
                                  double written);

#endif /* LK_CLI_BENCH_LIMITS_H */
