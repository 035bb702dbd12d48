/* The machine that this process runs on: which package, cache, core and NUMA node each processor belongs
 * to.  Each call reads it anew; nothing is kept. */
#ifndef LK_COMM_TOPOLOGY_MACHINE_H
#define LK_COMM_TOPOLOGY_MACHINE_H

#include <lockstep/device.h>

typedef struct lk__processor {
    int package, cache, core, numa; /* numbers on this machine; -1: not known */
} lk__processor;

/**
 * Fill `out` [LK_MAX_PROCESSORS], by the system's numbers.  Returns "hwloc", or why nothing is
 * known, and `out` is -1 throughout.
 */
const char *lk__machine_read(lk__processor *out);

/**
 * The same without hwloc, by the system's files in `root`, with hwloc's numbers: packages, cores and
 * NUMA nodes, each -1 where the files do not tell; caches are not looked for.
 */
void lk__machine_read_system(const char *root, lk__processor *out);

#endif /* LK_COMM_TOPOLOGY_MACHINE_H */
