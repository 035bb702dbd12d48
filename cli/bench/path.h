/* The code that a peer chose for this processor, and whether the processor has more to give.
 *
 * A library that does not know a processor may fall back to code for one that is twenty years older.
 * It is then measured for what it does, but a ratio to it says nothing of the library.
 */
#ifndef LK_CLI_BENCH_PATH_H
#define LK_CLI_BENCH_PATH_H

#include "report.h"

/* For --help of each bench that has such peers. */
#define BENCH_PATH_ABOUT                                                                       \
    "Peers are asked which code path they chose. One that is less than the processor has, as " \
    "OpenBLAS's Prescott for a processor that it does not know, is warned of (peer_warning): " \
    "a ratio to it is no ratio. "

typedef struct bench_path {
    char name[128];    /* the peer's own word for it; "": it does not say */
    char warning[320]; /* "": none */
} bench_path;

/**
 * Describe the path `name` of a peer, words such as "Zen" or "OpenBLAS Prescott, oneDNN avx2".  Where one
 * of them is known for code of an older instruction set than the processor has, there is a warning.
 */
void bench_path_set(bench_path *p, const char *peer, const char *name);

/** The MPI that the process has loaded, such as "Open MPI v4.1.4". */
void bench_path_mpi(bench_path *p);

/** In the head of a table: what a peer is, and its path. */
void bench_path_print(const bench_path *p, const char *peer, const char *about);

/** On stderr: the warning, if there is one. */
void bench_path_warn(const bench_path *p);

/** In JSON: the keys peer_path and peer_warning, two columns that are in no table. */
#define BENCH_PATH_COLUMNS      \
    {"peer_path", NULL, 0},     \
    {                           \
        "peer_warning", NULL, 0 \
    }
report_cell cell_path(const bench_path *p);
report_cell cell_path_warning(const bench_path *p);

#endif /* LK_CLI_BENCH_PATH_H */
