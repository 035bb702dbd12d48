/* PyTorch as a peer: a Python process that is asked for one sample at a time. */
#ifndef LK_CLI_BENCH_TORCH_H
#define LK_CLI_BENCH_TORCH_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

typedef struct bench_torch {
    pid_t pid;
    FILE *to, *from;
    char about[512]; /* its version; if it did not start, why not */
} bench_torch;

/** Start bench/peer_torch.py with the interpreter `python`; false with the reason in `about`. */
bool torch_start(bench_torch *t, const char *python);

/** The processor time of one sample, and the first element of the gradient; false if it failed. */
bool torch_sample(bench_torch *t, const char *chain, int repeats, double *seconds, double *grad);

/** End the process. */
void torch_stop(bench_torch *t);

#endif /* LK_CLI_BENCH_TORCH_H */
