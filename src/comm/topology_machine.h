/* The machine that this process runs on: which package and which cache each processor belongs to. */
#ifndef LK_COMM_TOPOLOGY_MACHINE_H
#define LK_COMM_TOPOLOGY_MACHINE_H

enum { LK_MAX_PROCESSORS = 4096 };

typedef struct lk__processor {
    int package, cache, core; /* numbers on this machine; -1: not known */
} lk__processor;

/**
 * Fill `out` [LK_MAX_PROCESSORS], by the system's numbers.  Returns "hwloc", or why nothing is
 * known, and `out` is -1 throughout.
 */
const char *lk__machine_read(lk__processor *out);

#endif /* LK_COMM_TOPOLOGY_MACHINE_H */
