/* PyTorch, or TensorFlow, as a peer: a Python process that is asked for one sample at a time. */
#ifndef LK_CLI_BENCH_TORCH_H
#define LK_CLI_BENCH_TORCH_H

#include "bench/path.h"

#include <lockstep/option.h>

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

typedef struct bench_torch {
    pid_t pid;
    FILE *to, *from;
    char about[512]; /* its version; if it did not start, why not */
    bench_path path; /* the code it chose, if it did */
} bench_torch;

/* The option --python of each bench that has this peer, as a row of its table; `modules` is what the Python
 * must have. */
#define BENCH_PYTHON_OPTION(field, modules)                                           \
    {                                                                                 \
        .name = "python", .type = LK_OPTION_TEXT, .offset = (field), .value = "PATH", \
        .help = "the Python that has " modules "; by default the one that \"make "    \
                "bench-peers\" made, or /usr/bin/python3"                             \
    }

/**
 * Start the script `name` of the peers with `threads` threads, as --against of `lockstep bench BENCH` says:
 * torch, none, or nothing, which takes it if it is found.  `python`: the interpreter; NULL: the usual.
 * `*on`: whether it runs; if not, `about` has the reason.  Returns LK_EXIT_DONE, or another exit status
 * after a message.
 */
int torch_open(bench_torch *t, const char *bench, const lk_option_names *against,
               const char *python, const char *name, int threads, bool *on);

/**
 * Start the script `name` of the peers with the arguments `how` and `n`.  If it does not run, `about` has
 * the reason.  Its threads wait passively, see openmp_wait_passively().
 */
bool torch_start(bench_torch *t, const char *python, const char *name, const char *how, int n);

/**
 * Ask for one sample: `request`, `repeats` times.  Gives the seconds of all and a number that says what
 * was computed; false if it failed.
 */
bool torch_sample(bench_torch *t, const char *request, int repeats, double *seconds, double *value);

/** End the process. */
void torch_stop(bench_torch *t);

#endif /* LK_CLI_BENCH_TORCH_H */
