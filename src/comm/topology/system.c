/* Packages, cores and NUMA nodes as the files of the system tell, for where there is no hwloc.
 *
 *     cpu/cpuN/topology/physical_package_id      the package, by a number of the firmware's
 *     cpu/cpuN/topology/thread_siblings_list     the processors of its core: the first stands for it
 *     node/nodeM/cpulist                         the processors of a NUMA node
 *
 * hwloc numbers what it finds in the order of the first processors, cores within their package.  So
 * does this, whatever numbers the files have.
 */
#include "comm/topology/machine.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/* The first number of a file; -1 if there is none. */
static int number_read(const char *path)
{
    int number = -1;
    FILE *file = fopen(path, "re");
    if (!file)
        return -1;
    char line[64];
    char *end;
    if (fgets(line, sizeof line, file)) {
        long n = strtol(line, &end, 10);
        if (end != line && n >= 0 && n <= 1 << 30)
            number = (int)n;
    }
    fclose(file);
    return number;
}

/* Mark the processors of "0-3,8" with a NUMA node. */
static void list_mark(FILE *file, int node, lk__processor *out)
{
    int first, last, read;
    while (fscanf(file, "%9d", &first) == 1) {
        last = first;
        int c = fgetc(file);
        if (c == '-') {
            read = fscanf(file, "%9d", &last);
            if (read != 1)
                return;
            c = fgetc(file);
        }
        for (int p = first; p >= 0 && p <= last && p < LK_MAX_PROCESSORS; p++)
            out[p].numa = node;
        if (c != ',')
            return;
    }
}

static void nodes_mark(const char *root, lk__processor *out)
{
    enum { MAX_NODES = 1024 };
    char path[512];
    for (int node = 0; node < MAX_NODES; node++) {
        snprintf(path, sizeof path, "%s/node/node%d/cpulist", root, node);
        FILE *file = fopen(path, "re");
        if (!file)
            continue; /* numbers may have gaps */
        list_mark(file, node, out);
        fclose(file);
    }
}

static int *field_of(lk__processor *p, size_t field)
{
    return (int *)((char *)p + field);
}

/* Number what the files have numbered: 0 for the first processor's, and so on.  Numbers that are new are
 * kept apart from the others by being -2, -3, ... until all are. */
static void renumber(lk__processor *out, size_t field, const int *order, int n)
{
    int next = 0;
    for (int i = 0; i < n; i++) {
        int raw = *field_of(&out[order[i]], field);
        if (raw < 0)
            continue;
        for (int k = i; k < n; k++)
            if (*field_of(&out[order[k]], field) == raw)
                *field_of(&out[order[k]], field) = -2 - next;
        next++;
    }
    for (int i = 0; i < n; i++) {
        int *number = field_of(&out[order[i]], field);
        *number = *number <= -2 ? -2 - *number : -1;
    }
}

/* Packages are numbered; put the processors in their order, the numbers of a package ascending. */
static void sort_by_package(const lk__processor *out, int *order, int n)
{
    for (int i = 1; i < n; i++) {
        int p = order[i], k = i;
        for (; k > 0 && out[order[k - 1]].package > out[p].package; k--)
            order[k] = order[k - 1];
        order[k] = p;
    }
}

void lk__machine_read_system(const char *root, lk__processor *out)
{
    char path[512];
    int order[LK_MAX_PROCESSORS], n = 0;
    for (int p = 0; p < LK_MAX_PROCESSORS; p++)
        out[p] = (lk__processor){-1, -1, -1, -1};
    nodes_mark(root, out);
    for (int p = 0; p < LK_MAX_PROCESSORS; p++) {
        snprintf(path, sizeof path, "%s/cpu/cpu%d/topology/thread_siblings_list", root, p);
        out[p].core = number_read(path);
        snprintf(path, sizeof path, "%s/cpu/cpu%d/topology/physical_package_id", root, p);
        out[p].package = number_read(path);
        if (out[p].core >= 0 || out[p].package >= 0 || out[p].numa >= 0)
            order[n++] = p;
    }
    renumber(out, offsetof(lk__processor, package), order, n);
    renumber(out, offsetof(lk__processor, numa), order, n);
    sort_by_package(out, order, n);
    renumber(out, offsetof(lk__processor, core), order, n);
}
